// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns layer norm and RMS norm over the last dim, as exporters write them, into one op each. The epsilon is
// the number that the model adds, with its rounding. In small floats, a model with an epsilon below 1e-6
// divides by nearly nothing if a row is constant, while the op computes in f32 and does not: such norms stay.
// Scale and bias are absorbed one after the other, since not all norms have them.
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

/// x * (scale / root) + (bias - mean * (scale / root)), as Keras writes it, with the mean negated or the
/// product subtracted. An infinite scale makes this NaN but not the op; so does a root of 0, which needs an
/// epsilon that is not a positive number.
Rule distributed_layer_norm(bool scaled, bool shifted) {
  const char* last_dim = "{axes = [rank(%x) - 1], keepdims = true}";
  const char* attributes = "{axis = -1, epsilon = value(%epsilon)}";
  auto add = op("add"), mul = op("mul"), sub = op("sub");
  Term x = any("x"), scale = any("scale"), bias = any("bias");
  Term mean = op("reduce_mean")(x).attrs(last_dim);
  Term centred = sub(x, mean);
  Term variance = op("reduce_mean")(mul(centred, centred) | op("pow")(centred, 2.0)).attrs(last_dim);
  Term sum = add(variance, any("epsilon"));
  Term inverse = op("rsqrt")(sum) | op("reciprocal")(op("sqrt")(sum));
  Term factor = scaled ? mul(inverse, scale) : inverse;
  Term whole = mul(x, factor), product = mul(mean, factor), negated = mul(op("neg")(mean), factor);
  Rule made = rule(std::string("passes.recognise_layer_norm.distributed") + (scaled ? "" : ".unscaled") +
                   (shifted ? "" : ".unshifted"));
  if (shifted)
    made.match(add(whole, sub(bias, product) | add(negated, bias)))
        .where("elements(%bias) == dim(%x, -1), dim(%bias, -1) == dim(%x, -1)");
  else
    made.match(sub(whole, product) | add(whole, negated));
  made.where("value(%epsilon) > 0");
  if (scaled) made.where("elements(%scale) == dim(%x, -1), dim(%scale, -1) == dim(%x, -1)");
  made.where([=](const Match& match) {
    return (!scaled || is_finite(match["scale"])) && (!shifted || is_finite(match["bias"]));
  });
  auto norm = op("layer_norm");
  if (scaled) return made.yield((shifted ? norm(x, scale, bias) : norm(x, scale)).attrs(attributes));
  Term plain = norm(x).attrs(attributes);
  return made.yield(shifted ? add(plain, bias) : plain);
}

/// The normalised dims: the last one, or the last two.
struct LastDims {
  const char *name, *axes, *axis, *shape;
};
constexpr LastDims last_dims[] = {
    {"", "[rank(%x) - 1]", "-1", "elements(%V) == dim(%x, -1), dim(%V, -1) == dim(%x, -1)"},
    {".of_2_dims", "[rank(%x) - 2, rank(%x) - 1]", "-2",
     "elements(%V) == dim(%x, -2) * dim(%x, -1), dim(%V, -2) == dim(%x, -2), dim(%V, -1) == dim(%x, -1)"},
};

/// Mean and variance, with which every form of a layer norm begins.
constexpr const char* variance_text = R"(    %mean = reduce_mean(%x) {axes = AXES, keepdims = true}
    %d = sub(%x, %mean)
    %square = mul(%d, %d) | pow(%d, 2)
    %variance = reduce_mean(%square) {axes = AXES, keepdims = true})";

/// Fills in the dims, the variance, and the names and phase of the rules.
std::string over(const LastDims& dims, const std::string& suffix, const std::string& phase,
                 std::string text) {
  auto put = [&](const std::string& what, const std::string& with) {
    for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
      text.replace(at, what.size(), with);
  };
  put("VARIANCE", variance_text);
  std::string axis = dims.axis;
  put("FITS(scale)", dims.shape), put("%V", "%scale");
  put("FITS(bias)", dims.shape), put("%V", "%bias");
  put("AXES", dims.axes), put("AXIS", axis), put("FIRST", "rank(%x) - " + axis.substr(1));
  put("NAME", dims.name + suffix), put("PHASE", phase);
  return text;
}

/// If a norm is written with duplicates of x - mean, as in TensorFlow, two terms match one node each, or the
/// same node. PyTorch's exporter drops a small epsilon; with small floats the op would then compute something
/// else.
constexpr const char* layer_norm_text = R"(
rule passes.recognise_layer_normNAME at PHASE {
  match {
VARIANCE
    %v = add(%variance, %epsilon)
    %inverse = rsqrt(%v) | reciprocal(sqrt(%v)) | div(1, sqrt(%v)) | pow(%v, -0.5)
    %centred = sub(%x, %mean)
    %r = div(%centred, sqrt(%v) | pow(%v, 0.5)) | mul(%centred, %inverse)
  }
  where { dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6 }
  yield { %r = layer_norm(%x) {axis = AXIS, epsilon = value(%epsilon)} }
}
rule passes.recognise_layer_norm.exactNAME at PHASE {
  match {
VARIANCE
    %centred = sub(%x, %mean)
    %r = div(%centred, sqrt(%variance)) | mul(%centred, rsqrt(%variance) | reciprocal(sqrt(%variance)))
  }
  where { dtype(%x) == f32 or dtype(%x) == f64 }
  yield { %r = layer_norm(%x) {axis = AXIS, epsilon = 0.0} }
}
rule passes.recognise_layer_norm.scaled_rootNAME at PHASE {
  match {
VARIANCE
    %v = add(%variance, %epsilon)
    %centred = sub(%x, %mean)
    %r = mul(%centred, mul(rsqrt(%v) | reciprocal(sqrt(%v)), %scale))
  }
  where { value(%epsilon) > 0, dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6, FITS(scale) }
  yield { %r = layer_norm(%x, %scale) {axis = AXIS, epsilon = value(%epsilon)} }
}
rule passes.recognise_layer_norm.scaleNAME at PHASE {
  match {
    %n = layer_norm(%x) {axis = FIRST, epsilon = $epsilon} once
    %r = mul(%n, %scale)
  }
  where { FITS(scale) }
  yield { %r = layer_norm(%x, %scale) {axis = AXIS, epsilon = $epsilon} }
}
rule passes.recognise_layer_norm.biasNAME at PHASE {
  match {
    %n = layer_norm(%x, %scale | none) {axis = FIRST, epsilon = $epsilon} once
    %r = add(%n, %bias)
  }
  where { FITS(bias) }
  yield { %r = layer_norm(%x, %scale, %bias) {axis = AXIS, epsilon = $epsilon} }
}
)";

constexpr const char* rms_norm_text = R"(
rule passes.recognise_rms_normNAME at PHASE {
  match {
    %square = mul(%x, %x) | pow(%x, 2)
    %mean = reduce_mean(%square) {axes = AXES, keepdims = true}
    %v = add(%mean, %epsilon)
    %inverse = rsqrt(%v) | reciprocal(sqrt(%v)) | div(1, sqrt(%v)) | pow(%v, -0.5)
    %r = div(%x, sqrt(%v) | pow(%v, 0.5)) | mul(%x, %inverse)
  }
  where { dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6 }
  yield { %r = rms_norm(%x) {axis = AXIS, epsilon = value(%epsilon)} }
}
rule passes.recognise_rms_norm.scaleNAME at PHASE {
  match {
    %n = rms_norm(%x) {axis = FIRST, epsilon = $epsilon} once
    %r = mul(%n, %scale)
  }
  where { FITS(scale) }
  yield { %r = rms_norm(%x, %scale) {axis = AXIS, epsilon = $epsilon} }
}
)";

/// Keras multiplies the scale with the root first. An infinite scale times an inverse of 0 is NaN either way.
constexpr const char* distributed_rms_norm = R"(
rule passes.recognise_rms_norm.distributed at post_grad_post {
  match {
    %square = mul(%x, %x) | pow(%x, 2)
    %mean = reduce_mean(%square) {axes = [rank(%x) - 1], keepdims = true}
    %v = add(%mean, %epsilon)
    %inverse = rsqrt(%v) | reciprocal(sqrt(%v))
    %r = mul(%x, mul(%inverse, %scale))
  }
  where {
    value(%epsilon) > 0, dtype(%x) == f32 or dtype(%x) == f64 or value(%epsilon) >= 1e-6
    elements(%scale) == dim(%x, -1), dim(%scale, -1) == dim(%x, -1)
  }
  yield { %r = rms_norm(%x, %scale) {axis = -1, epsilon = value(%epsilon)} }
}
)";

}  // namespace

RuleSet recognise_layer_norm() {
  std::string text;
  for (const LastDims& dims : last_dims) text += over(dims, "", "post_grad_pre", layer_norm_text);
  RuleSet set = rule_text("passes.recognise_layer_norm", std::move(text));
  set.phase = "post_grad_pre";
  for (bool scaled : {true, false})
    for (bool shifted : {true, false}) set.rules.push_back(distributed_layer_norm(scaled, shifted));
  return set;
}

// Runs again when factors of 1 and reshapes to the same shape are gone: Paddle multiplies by 1 when it adds a
// number.
RuleSet recognise_simplified_layer_norm() {
  return rule_text("passes.recognise_layer_norm.simplified",
                   over(last_dims[0], ".simplified", "post_grad_post", layer_norm_text));
}

// A layer norm contains an RMS norm, so it is recognised first. Rules of other plugins for the same
// expressions come first, too.
RuleSet recognise_rms_norm() {
  std::string text = distributed_rms_norm;
  for (const LastDims& dims : last_dims) text += over(dims, "", "post_grad_post", rms_norm_text);
  return rule_text("passes.recognise_rms_norm", std::move(text));
}

}  // namespace ferrite::passes
