// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses over classes in dim 1.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

/// The negative log-probability of each target times its weight, 0 for ignored targets; then the sum or the
/// mean.
Value negative_log_likelihood(Context& c, Value log_probability, Value target, Value weight) {
  auto x = log_probability.type();
  auto labels = target.type();
  if (x.rank() < 2 || labels.rank() + 1 != x.rank())
    c.bad("the labels ", to_string(labels), " do not go with ", to_string(x));
  auto reduction = c.text("reduction", "mean");
  if (reduction != "none" && reduction != "sum" && reduction != "mean")
    c.bad("attribute 'reduction' is '", reduction, "' and may be none, sum or mean");
  Dims one_class = labels.dims;
  one_class.insert(one_class.begin() + 1, 1);
  Value counted;  // whether a label is not ignored
  if (c.has_attribute("ignore_index")) {
    int64_t ignored = c.integer("ignore_index");
    target = cast_to(c, target, i64);
    counted = c.make("ne", {target, c.graph.literal({i64, {}}, &ignored)});
    target = c.make("where", {counted, target, c.graph.scalar(i64, 0)});
  }
  Value picked =
      c.make("gather_elements", {log_probability, reshape_to(c, target, one_class)}, attr("axis", 1));
  Value loss = c.make("neg", {reshape_to(c, picked, labels.dims)});
  Value weights;
  if (weight) weights = c.make("gather", {weight, target}, attr("axis", 0));
  if (counted) {
    Value zero = number_like(c, loss, 0);
    weights = c.make("where", {counted, weights ? weights : number_like(c, loss, 1), zero});
    loss = c.make("where", {counted, loss, zero});
  }
  if (weights) loss = c.make("mul", {loss, weights});
  Dims all = dim_range(0, labels.rank());
  if (reduction == "none") return loss;
  if (reduction == "sum") return reduce_over(c, "reduce_sum", loss, all, false);
  if (!weights) return reduce_over(c, "reduce_mean", loss, all, false);
  return c.make("div", {reduce_over(c, "reduce_sum", loss, all, false),
                        reduce_over(c, "reduce_sum", expand_to(c, weights, labels.dims), all, false)});
}

void nll_loss(Context& c) { c.give(negative_log_likelihood(c, c.operand(0), c.operand(1), c.optional(2))); }

void softmax_cross_entropy(Context& c) {
  Value log_probability = c.make("log_softmax", {c.operand(0)}, attr("axis", 1));
  c.give(negative_log_likelihood(c, log_probability, c.operand(1), c.optional(2)));
  if (c.wants(1)) c.give(1, log_probability);
}

constexpr OpEntry loss_entries[] = {
    {"NegativeLogLikelihoodLoss", 12, newest, nll_loss},
    {"SoftmaxCrossEntropyLoss", 12, newest, softmax_cross_entropy},
};

}  // namespace

std::span<const OpEntry> loss_ops() { return loss_entries; }

}  // namespace ferrite::from_onnx
