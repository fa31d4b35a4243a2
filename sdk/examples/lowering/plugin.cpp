// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gelu by its tanh approximation, for f32 on the CPU. If it declines, the next lowering is tried, finally the
// op's own.
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), Hendrycks and Gimpel, 2016.
void lower_gelu(Lowering& l) {
  if (l.op.operand(0).dtype != f32) decline("written for f32");
  l.pointwise([&](const std::vector<Val>& x) {
    Val inner = (x[0] + x[0] * x[0] * x[0] * 0.044715) * 0.7978845608028654;
    return x[0] * 0.5 * (tanh(inner) + 1.0);
  });
}

}  // namespace

FERRITE_PLUGIN("acme.lowering", "1.0.0", lowering("gelu", on("cpu"), lower_gelu))
