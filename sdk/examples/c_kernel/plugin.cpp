// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// acme.running_max: an op that a C function computes. The host passes contiguous buffers and calls the
// function once; nothing can be fused with it. For an op that is a formula prefer a lowering: see
// ../fused_activation.
#include <ferrite/plugin.hpp>

#include "kernel.h"

namespace {

using namespace ferrite;

/// The buffers are those that lower() names: first the ones to read, then the ones to write.
int32_t call_running_max(void*, fe_call*, const fe_kernel_call_args* args, fe_none*) {
  const auto& in = element<fe_kernel_buffer>(args->buffers, 0);
  const auto& out = element<fe_kernel_buffer>(args->buffers, 1);
  const auto type = TensorType::from(in.type);
  const int64_t columns = type.dims.back();
  if (type.elements() > 0)
    running_max(static_cast<const float*>(in.data), static_cast<float*>(out.data), type.elements() / columns,
                columns);
  return FE_OK;
}

std::vector<TensorType> infer(const Instance& op) {
  const auto type = op.operand(0);
  if (type.dtype != f32 || type.rank() == 0)
    fail("acme.c_kernel/type", op.op(), " takes f32 of rank 1 or more, not ", to_string(type));
  return {type};
}

void lower(Lowering& l) {
  const BufferRef reads[] = {l.operand(0)}, writes[] = {l.result()};
  l.call(call_running_max, nullptr, reads, writes, "running_max");
}

}  // namespace

FERRITE_PLUGIN("acme.c_kernel", "1.0.0",
               op_def("acme.running_max")
                   .doc("The greatest element so far along the last axis.")
                   .operands("x")
                   .infer(infer)
                   .lower(lower))
