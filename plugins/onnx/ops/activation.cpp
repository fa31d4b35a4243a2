// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activation functions.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

void plain(Context& c) { c.give(c.make(c.entry.standard, {c.operand(0)})); }
void prelu(Context& c) { c.give(c.make("prelu", {c.operand(0), c.operand(1)})); }

void leaky_relu(Context& c) {
  c.give(c.make("leaky_relu", {c.operand(0)}, attr("alpha", c.number("alpha", 0.01))));
}
void with_alpha(Context& c) {
  c.give(c.make(c.entry.standard, {c.operand(0)}, attr("alpha", c.number("alpha", 1.0))));
}
void selu(Context& c) {
  c.give(c.make("selu", {c.operand(0)}, attr("alpha", c.number("alpha", 1.67326319217681884765625)),
                attr("gamma", c.number("gamma", 1.05070102214813232421875))));
}
void hard_sigmoid(Context& c) {
  c.give(c.make("hardsigmoid", {c.operand(0)}, attr("alpha", c.number("alpha", 0.2)),
                attr("beta", c.number("beta", 0.5))));
}
void shrink(Context& c) {
  c.give(c.make("shrink", {c.operand(0)}, attr("bias", c.number("bias", 0.0)),
                attr("lambda", c.number("lambd", 0.5))));
}
void gelu(Context& c) {
  auto approximate = c.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    c.bad("attribute 'approximate' is '", approximate, "' and may be none or tanh");
  c.give(c.make("gelu", {c.operand(0)}, attr("approximate", approximate)));
}
Value swish_of(Context& c, Value x) {
  double alpha = c.number("alpha", 1.0);
  if (alpha == 1.0) return c.make("silu", {x});
  Value gate = c.make("sigmoid", {c.make("mul", {x, number_like(c, x, alpha)})});
  return c.make("mul", {x, gate});
}
void swish(Context& c) { c.give(swish_of(c, c.operand(0))); }
void swiglu(Context& c) {
  if (c.type(0) != c.type(1))
    c.bad("the gate ", to_string(c.type(0)), " and the value ", to_string(c.type(1)), " differ");
  c.give(c.make("mul", {swish_of(c, c.operand(0)), c.operand(1)}));
}

constexpr OpEntry activation_entries[] = {
    {"Relu", 6, newest, plain, "relu"},
    {"Sigmoid", 6, newest, plain, "sigmoid"},
    {"HardSwish", 14, newest, plain, "hardswish"},
    {"Softplus", 1, newest, plain, "softplus"},
    {"Softsign", 1, newest, plain, "softsign"},
    {"Mish", 18, newest, plain, "mish"},
    {"PRelu", 7, newest, prelu},
    {"LeakyRelu", 6, newest, leaky_relu},
    {"Elu", 6, newest, with_alpha, "elu"},
    {"Celu", 12, newest, with_alpha, "celu"},
    {"ThresholdedRelu", 10, newest, with_alpha, "thresholded_relu"},
    {"Selu", 6, newest, selu},
    {"HardSigmoid", 6, newest, hard_sigmoid},
    {"Shrink", 9, newest, shrink},
    {"Gelu", 20, newest, gelu},
    {"Swish", 24, newest, swish},
    {"SwiGLU", 28, newest, swiglu},
};

}  // namespace

std::span<const OpEntry> activation_ops() { return activation_entries; }

}  // namespace ferrite::from_onnx
