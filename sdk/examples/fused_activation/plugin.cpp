// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two activations that exporters write as several ops, each as one op with one lowering.
//
// acme.hard_swish   x * clamp(x + shift, 0, 6) / 6, made by the rule below
// acme.silu         x * sigmoid(x), made by the rule in fusions.fe
// hardsigmoid       an op of the standard plugin, with another lowering for the CPU
#include <ferrite/plugin.hpp>

namespace {

namespace fe = ferrite;

/// Turn x * clamp(x + 3, 0, 6) / 6 into acme.hard_swish(x). The intermediate results must have no other use.
fe::Rule hard_swish() {
  auto x = fe::any("x");
  auto gate = fe::op("clamp")(fe::op("add")(x, 3.0).used_once(), 0.0, 6.0).used_once();
  return fe::rule("acme.hard_swish")
      .match(fe::op("div")(fe::op("mul")(x, gate).used_once(), 6.0))
      .where([](const fe::Match& match) { return match["x"].dtype() == fe::f32; })
      .yield(fe::op("acme.hard_swish")(x));
}

/// One statement instead of four: the division becomes a product.
void lower_hard_swish(fe::Lowering& l) {
  l.pointwise([&](const std::vector<fe::Val>& x) {
    auto zero = l.constant(x[0].dtype(), 0.0), six = l.constant(x[0].dtype(), 6.0);
    return x[0] * fe::min(fe::max(x[0] + 3.0, zero), six) * (1.0 / 6.0);
  });
}

/// x / (1 + e^-x): one division instead of a division and a product.
void lower_silu(fe::Lowering& l) {
  l.pointwise([&](const std::vector<fe::Val>& x) { return x[0] / (fe::exp(-x[0]) + 1.0); });
}

/// hardsigmoid(x) = max(0, min(1, alpha * x + beta)) as one fused multiply-add and a clamp. For f32 only;
/// otherwise the next lowering is tried.
void lower_hard_sigmoid(fe::Lowering& l) {
  if (l.op.operand(0).dtype != fe::f32) fe::decline("written for f32");
  const double alpha = l.op.attrs.number("alpha"), beta = l.op.attrs.number("beta");
  l.pointwise([&](const std::vector<fe::Val>& x) {
    auto line = l.prim(fe::Prim::fma_, x[0], l.constant(fe::f32, alpha), l.constant(fe::f32, beta));
    return fe::min(fe::max(line, l.constant(fe::f32, 0.0)), l.constant(fe::f32, 1.0));
  });
}

}  // namespace

FERRITE_PLUGIN("acme.fused_activation", "1.0.0",
               fe::op_def("acme.hard_swish")
                   .doc("x * clamp(x + 3, 0, 6) / 6.")
                   .operands("x")
                   .flags(FE_OP_POINTWISE)
                   .shape(fe::same_as(0))
                   .lower(lower_hard_swish),
               fe::op_def("acme.silu")
                   .doc("x * sigmoid(x).")
                   .operands("x")
                   .flags(FE_OP_POINTWISE)
                   .shape(fe::same_as(0))
                   .lower(lower_silu),
               fe::rules("post_grad_pre", hard_swish),
               fe::lowering("hardsigmoid", fe::on("cpu"), lower_hard_sigmoid))
