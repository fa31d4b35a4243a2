// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// gelu by its approximation with tanh, on the CPU and for f32 alone: what is declined falls through to the next lowering, at last
// to the op's own.
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
