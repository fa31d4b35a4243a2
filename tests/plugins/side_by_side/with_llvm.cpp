// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin that has another version of LLVM than the CPU backend, and asks it something while the backend
// compiles.
#include <ferrite/plugin.hpp>

// Of LLVM's C interface, which has not changed since; its headers are not needed for this.
extern "C" {
struct LLVMOpaqueType;
LLVMOpaqueType* LLVMIntType(unsigned bits);
unsigned LLVMGetIntTypeWidth(LLVMOpaqueType* type);
}

namespace {

using namespace ferrite;

void lower(Lowering& l) {
  const auto bits = static_cast<unsigned>(l.op.attrs.integer("bits"));
  const double width = LLVMGetIntTypeWidth(LLVMIntType(bits));
  l.pointwise([&](const std::vector<Val>& x) { return x[0] + width; });
}

}  // namespace

FERRITE_PLUGIN("test.with_llvm", "1.0.0",
               op_def("test.plus_width")
                   .operands("x")
                   .attr(attr("bits", 32))
                   .flags(FE_OP_POINTWISE)
                   .shape(same_as(0))
                   .lower(lower))
