// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activation functions, each lowered as one expression. Small floats compute in f32.
#include <cmath>
#include <numbers>

#include "common.h"

namespace ferrite::standard {
namespace {

using Body = Val (*)(Val x, const AttrView& attrs);

Val sigmoid_of(Val x) { return 1.0 / (exp(-x) + 1.0); }
/// log(1 + exp(x)) without overflow.
Val softplus_of(Val x) { return max(x, x.lowering()->constant(x.dtype(), 0)) + log1p(exp(-abs(x))); }

/// An activation over one float operand.
OpDef activation(const char* name, const char* doc, Body body) {
  return op_def(name)
      .doc(doc)
      .operands("x")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) { return std::vector{typed(op, 0, FE_PRIM_FLOAT)}; })
      .lower([body](Lowering& l) {
        widened_pointwise(l, [&](const std::vector<Val>& x) { return body(x[0], l.op.attrs); });
      })
      .samples({sample("%x: f32[2,3]", std::string(name) + "(%x)"),
                sample("%x: bf16[7]", std::string(name) + "(%x)")});
}

OpDef relu_op() {
  return op_def("relu")
      .doc("max(x, 0); NaN stays NaN.")
      .operands("x")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) { return std::vector{typed(op, 0, numeric)}; })
      .lower([](Lowering& l) {
        l.pointwise([&](const std::vector<Val>& x) { return max(x[0], l.constant(x[0].dtype(), 0)); });
      })
      .samples({sample("%x: f32[2,3]", "relu(%x)"), sample("%x: i32[5]", "relu(%x)")});
}

OpDef prelu_op() {
  return op_def("prelu")
      .doc("x where it is not negative, else slope * x; the slope broadcasts to x.")
      .operands("x", "slope")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        need_same_dtype(op, 1, x.dtype);
        need_broadcast_to(op, 1, x.dims);
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        widened_pointwise(l, [](const std::vector<Val>& x) { return where(x[0] < 0.0, x[0] * x[1], x[0]); });
      })
      .samples({sample("%x: f32[2,3,4], %slope: f32[3,1]", "prelu(%x, %slope)")});
}

Val gelu_of(Val x, const AttrView& attrs) {
  if (attrs.string("approximate") == "none") return x * 0.5 * (erf(x * (std::numbers::sqrt2 / 2)) + 1.0);
  const double scale = std::sqrt(2.0 * std::numbers::inv_pi);
  return x * 0.5 * (tanh((x + x * x * x * 0.044715) * scale) + 1.0);
}
OpDef gelu_op() {
  return activation(
             "gelu",
             "x times the normal distribution function of x: by erf, or by the approximation with tanh "
             "(Hendrycks and Gimpel, 2016).",
             gelu_of)
      .attr(attr("approximate", "none"), "none | tanh")
      .infer([](const Instance& op) {
        choice(op, "approximate", {"none", "tanh"});
        return std::vector{typed(op, 0, FE_PRIM_FLOAT)};
      })
      .samples(
          {sample("%x: f32[2,3]", "gelu(%x)"), sample("%x: f32[2,3]", "gelu(%x) {approximate = \"tanh\"}")});
}

}  // namespace

void add_activation(PluginBuilder& builder, const PluginContext&) {
  builder.add(relu_op());
  builder.add(prelu_op());
  builder.add(gelu_op());
  builder.add(
      activation("leaky_relu", "x where it is not negative, else alpha * x.", [](Val x, const AttrView& a) {
        return where(x < 0.0, x * a.number("alpha"), x);
      }).attr(attr("alpha", 0.01)));
  builder.add(
      activation("elu", "x where it is not negative, else alpha * (exp(x) - 1).",
                 [](Val x, const AttrView& a) { return where(x < 0.0, expm1(x) * a.number("alpha"), x); })
          .attr(attr("alpha", 1.0)));
  builder.add(activation("selu", "gamma times elu of alpha (Klambauer et al., 2017).",
                         [](Val x, const AttrView& a) {
                           return where(x < 0.0, expm1(x) * a.number("alpha"), x) * a.number("gamma");
                         })
                  .attr(attr("alpha", 1.67326319217681884765625))
                  .attr(attr("gamma", 1.05070102214813232421875)));
  builder.add(activation("celu", "x where it is not negative, else alpha * (exp(x / alpha) - 1).",
                         [](Val x, const AttrView& a) {
                           double alpha = a.number("alpha");
                           return where(x < 0.0, expm1(x / alpha) * alpha, x);
                         })
                  .attr(attr("alpha", 1.0)));
  builder.add(
      activation("sigmoid", "1 / (1 + exp(-x)).", [](Val x, const AttrView&) { return sigmoid_of(x); }));
  builder.add(
      activation("silu", "x * sigmoid(x).", [](Val x, const AttrView&) { return x / (exp(-x) + 1.0); }));
  builder.add(activation("hardsigmoid", "alpha * x + beta, limited to [0, 1].",
                         [](Val x, const AttrView& a) {
                           Val line = x * a.number("alpha") + a.number("beta");
                           auto* l = x.lowering();
                           return min(max(line, l->constant(x.dtype(), 0)), l->constant(x.dtype(), 1));
                         })
                  .attr(attr("alpha", 0.2))
                  .attr(attr("beta", 0.5)));
  builder.add(activation("hardswish", "x * hardsigmoid(x) with alpha = 1/6 and beta = 1/2.",
                         [](Val x, const AttrView&) {
                           auto* l = x.lowering();
                           Val line = x * (1.0 / 6.0) + 0.5;
                           return x * min(max(line, l->constant(x.dtype(), 0)), l->constant(x.dtype(), 1));
                         }));
  builder.add(
      activation("softplus", "log(1 + exp(x)).", [](Val x, const AttrView&) { return softplus_of(x); }));
  builder.add(
      activation("softsign", "x / (1 + |x|).", [](Val x, const AttrView&) { return x / (abs(x) + 1.0); }));
  builder.add(activation("mish", "x * tanh(softplus(x)).",
                         [](Val x, const AttrView&) { return x * tanh(softplus_of(x)); }));
  builder.add(activation("nan_to_zero", "x, and 0 where it is NaN.", [](Val x, const AttrView&) {
    return where(isnan(x), x.lowering()->constant(x.dtype(), 0), x);
  }));
  builder.add(activation("thresholded_relu", "x where it is greater than alpha, else 0.",
                         [](Val x, const AttrView& a) {
                           return where(x > a.number("alpha"), x, x.lowering()->constant(x.dtype(), 0));
                         })
                  .attr(attr("alpha", 1.0)));
  builder.add(activation("shrink", "x + bias below -lambda, x - bias above lambda, else 0.",
                         [](Val x, const AttrView& a) {
                           double bias = a.number("bias"), lambda = a.number("lambda");
                           Val zero = x.lowering()->constant(x.dtype(), 0);
                           return where(x < -lambda, x + bias, where(x > lambda, x - bias, zero));
                         })
                  .attr(attr("bias", 0.0))
                  .attr(attr("lambda", 0.5)));
}

}  // namespace ferrite::standard
