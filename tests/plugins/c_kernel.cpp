// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An op whose kernel is a C function: test.running_sum over the last axis.
#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

int32_t running_sum(void*, fe_call*, const fe_kernel_call_args* args, fe_none*) {
  const auto& in = element<fe_kernel_buffer>(args->buffers, 0);
  const auto& out = element<fe_kernel_buffer>(args->buffers, 1);
  int64_t rows = 1;
  const int64_t columns = in.type.dims[in.type.rank - 1];
  for (uint32_t k = 0; k + 1 < in.type.rank; ++k) rows *= in.type.dims[k];
  const auto* from = static_cast<const float*>(in.data);
  auto* to = static_cast<float*>(out.data);
  for (int64_t row = 0; row < rows; ++row) {
    float sum = 0;
    for (int64_t column = 0; column < columns; ++column)
      to[row * columns + column] = sum += from[row * columns + column];
  }
  return FE_OK;
}

std::vector<TensorType> infer(const Instance& op) {
  auto type = op.operand(0);
  if (type.dtype != f32 || type.rank() == 0)
    fail("test.c_kernel/type", op.op(), " wants f32 of rank 1 or more, not ", to_string(type));
  return {type};
}

void lower(Lowering& l) {
  const BufferRef reads[] = {l.operand(0)}, writes[] = {l.result()};
  l.call(running_sum, nullptr, reads, writes, "running_sum");
}

}  // namespace

FERRITE_PLUGIN("test.c_kernel", "1.0.0", op_def("test.running_sum").operands("x").infer(infer).lower(lower))
