// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An op of one's own: acme.snake(x) = x + sin(alpha * x)^2 / alpha (Ziyin et al., 2020).
#include <ferrite/plugin.hpp>

namespace {

using namespace ferrite;

/// One expression for each element; the host records it once, for whatever shape the node has.
void lower_snake(Lowering& lowering) {
  const double alpha = lowering.op.attrs.number("alpha");
  lowering.pointwise([&](const std::vector<Val>& x) {
    Val wave = sin(x[0] * alpha);
    return x[0] + wave * wave / alpha;
  });
}

OpDef snake() {
  return op_def("acme.snake")
      .doc("x + sin(alpha * x)^2 / alpha.")
      .operands("x")
      .attr(attr("alpha", 1.0), "the frequency; not 0")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        if (!is_float(op.operand(0).dtype)) fail("acme.snake/dtype", "acme.snake needs floats");
        if (op.attrs.number("alpha") == 0) fail("acme.snake/alpha", "alpha is 0");
        return std::vector{op.operand(0)};
      })
      .lower(lower_snake)
      .samples({"ferrite graph 0\n"
                "graph @sample(%x: f32[2,3]) -> (%y \"y\") {\n"
                "  %y = acme.snake(%x) {alpha = 0.5}\n"
                "}\n"});
}

}  // namespace

FERRITE_PLUGIN("acme.snake", "1.0.0", snake())
