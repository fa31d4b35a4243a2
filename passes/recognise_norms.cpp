// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns layer norm and RMS norm over the last dim, as exporters write them, into one op each. The epsilon is whatever the model
// adds, rounded as it is there. In small floats a model with a smaller one than 1e-6 divides by nearly nothing where a row is
// constant, and the op, which computes in f32, does not: that stays. Scale and bias go in one after the other, as not all norms
// have them.
#include <algorithm>
#include <cmath>

#include "passes.h"

namespace ferrite::passes {
namespace {

bool is_finite(Value value) {
  if (!value.is_constant() || value.dtype() != f32) return false;
  const auto elements = value.elements<float>();
  return std::all_of(elements.begin(), elements.end(), [](float element) { return std::isfinite(element); });
}

/// x * (scale / root) + (bias - mean * (scale / root)), as Keras writes it. Of an infinite scale that is NaN, and the op is not.
Rule distributed_layer_norm() {
  const char* last_dim = "{axes = [rank(%x) - 1], keepdims = true}";
  auto add = op("add"), mul = op("mul"), sub = op("sub");
  Term x = any("x"), scale = any("scale"), bias = any("bias");
  Term mean = op("reduce_mean")(x).attrs(last_dim);
  Term centred = sub(x, mean);
  Term variance = op("reduce_mean")(mul(centred, centred) | op("pow")(centred, 2.0)).attrs(last_dim);
  Term shifted = add(variance, any("epsilon"));
  Term factor = mul(op("rsqrt")(shifted) | op("reciprocal")(op("sqrt")(shifted)), scale);
  return rule("passes.recognise_layer_norm.distributed")
      .match(add(mul(x, factor), sub(bias, mul(mean, factor))))
      .where("elements(%scale) == dim(%x, -1), dim(%scale, -1) == dim(%x, -1)")
      .where("elements(%bias) == dim(%x, -1), dim(%bias, -1) == dim(%x, -1)")
      .where([](const Match& match) { return is_finite(match["scale"]) && is_finite(match["bias"]); })
      .yield(op("layer_norm")(x, scale, bias).attrs("{axis = -1, epsilon = value(%epsilon)}"));
}

}  // namespace

// Where a norm is written with duplicates of x - mean, as TensorFlow does, two terms match one node each, or the same one.
RuleSet recognise_layer_norm() {
  RuleSet set = rule_text("passes.recognise_layer_norm", R"(
rule passes.recognise_layer_norm at post_grad_pre {
  match {
    %mean = reduce_mean(%x) {axes = [rank(%x) - 1], keepdims = true}
    %d = sub(%x, %mean)
    %square = mul(%d, %d) | pow(%d, 2)
    %variance = reduce_mean(%square) {axes = [rank(%x) - 1], keepdims = true}
    %v = add(%variance, %epsilon)
    %inverse = rsqrt(%v) | reciprocal(sqrt(%v)) | div(1, sqrt(%v)) | pow(%v, -0.5)
    %centred = sub(%x, %mean)
    %r = div(%centred, sqrt(%v) | pow(%v, 0.5)) | mul(%centred, %inverse)
  }
  where { dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6 }
  yield { %r = layer_norm(%x) {axis = -1, epsilon = value(%epsilon)} }
}
rule passes.recognise_layer_norm.scale at post_grad_pre {
  match {
    %n = layer_norm(%x) {axis = rank(%x) - 1, epsilon = $epsilon} once
    %r = mul(%n, %scale)
  }
  where { elements(%scale) == dim(%x, -1), dim(%scale, -1) == dim(%x, -1) }
  yield { %r = layer_norm(%x, %scale) {axis = -1, epsilon = $epsilon} }
}
rule passes.recognise_layer_norm.bias at post_grad_pre {
  match {
    %n = layer_norm(%x, %scale | none) {axis = rank(%x) - 1, epsilon = $epsilon} once
    %r = add(%n, %bias)
  }
  where { elements(%bias) == dim(%x, -1), dim(%bias, -1) == dim(%x, -1) }
  yield { %r = layer_norm(%x, %scale, %bias) {axis = -1, epsilon = $epsilon} }
}
)");
  set.phase = "post_grad_pre";
  set.rules.push_back(distributed_layer_norm());
  return set;
}

// A layer norm has all of an RMS norm in it, and is recognised in a phase before. Rules of other plugins that look for the same
// forms have had their turn.
RuleSet recognise_rms_norm() {
  return rule_text("passes.recognise_rms_norm", R"(
rule passes.recognise_rms_norm at post_grad_post {
  match {
    %square = mul(%x, %x) | pow(%x, 2)
    %mean = reduce_mean(%square) {axes = [rank(%x) - 1], keepdims = true}
    %v = add(%mean, %epsilon)
    %inverse = rsqrt(%v) | reciprocal(sqrt(%v)) | div(1, sqrt(%v)) | pow(%v, -0.5)
    %r = div(%x, sqrt(%v) | pow(%v, 0.5)) | mul(%x, %inverse)
  }
  where { dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6 }
  yield { %r = rms_norm(%x) {axis = -1, epsilon = value(%epsilon)} }
}
rule passes.recognise_rms_norm.scale at post_grad_post {
  match {
    %n = rms_norm(%x) {axis = rank(%x) - 1, epsilon = $epsilon} once
    %r = mul(%n, %scale)
  }
  where { elements(%scale) == dim(%x, -1), dim(%scale, -1) == dim(%x, -1) }
  yield { %r = rms_norm(%x, %scale) {axis = -1, epsilon = $epsilon} }
}
)");
}

}  // namespace ferrite::passes
