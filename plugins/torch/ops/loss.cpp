// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses and their gradients.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// 0 none, 1 mean, 2 sum
Value reduced_loss(Context& c, Value loss) {
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return loss;
  return sum_over(c, reduction == 1 ? "reduce_mean" : "reduce_sum", loss, dim_range(0, loss.rank()), false);
}
void mse_loss(Context& c) {
  const Value off = binary(c, "sub", c.tensor("self"), c.tensor("target"));
  c.give(reduced_loss(c, binary(c, "mul", off, off)));
}
void mse_loss_backward(Context& c) {
  const Value x = c.tensor("self"), g = c.tensor("grad_output");
  const double scale = c.integer("reduction", 1) == 1 ? 2.0 / static_cast<double>(product(x.dims())) : 2.0;
  const Value off = binary(c, "sub", x, c.tensor("target"));
  c.give(binary(c, "mul", binary(c, "mul", off, scale), g));
}

/// An operand in the dtype in which losses are computed.
Value wide_operand(Context& c, std::string_view name) {
  return c.operand(name, accumulated(c.result().dtype));
}
void give_loss(Context& c, Value loss) { c.give(cast_to(c, reduced_loss(c, loss), c.result().dtype)); }
/// slope * grad_output, and for means over the number of elements.
void give_slope(Context& c, Value slope) {
  if (c.integer("reduction", 1) == 1)
    slope = binary(c, "div", slope, static_cast<double>(product(slope.dims())));
  c.give(cast_to(c, binary(c, "mul", slope, wide_operand(c, "grad_output")), c.result().dtype));
}
Value difference(Context& c) { return binary(c, "sub", wide_operand(c, "self"), wide_operand(c, "target")); }

void l1_loss(Context& c) { give_loss(c, unary(c, "abs", difference(c))); }

/// A parabola around 0 that becomes a line at the bound, scaled: smooth_l1_loss by 1 / bound, huber_loss
/// by 1.
struct Bend {
  double bound, scale;
};
Bend read_bend(Context& c) {
  if (c.entry.target.find("huber") != std::string_view::npos) return {c.number("delta", 1), 1};
  const double bound = c.number("beta", 1);
  return {bound, bound > 0 ? 1 / bound : 0};
}
void bent_loss(Context& c) {
  const auto [bound, scale] = read_bend(c);
  const Value off = unary(c, "abs", difference(c));
  if (scale == 0) return give_loss(c, off);
  const Value parabola = binary(c, "mul", binary(c, "mul", off, off), 0.5 * scale);
  const Value line = binary(c, "mul", binary(c, "sub", off, 0.5 * bound), bound * scale);
  give_loss(c, select(c, binary(c, "lt", off, bound), parabola, line));
}
void bent_loss_backward(Context& c) {
  const auto [bound, scale] = read_bend(c);
  const Value off = difference(c);
  if (scale == 0) return give_slope(c, unary(c, "sign", off));
  const Value inner = binary(c, "minimum", binary(c, "maximum", off, -bound), bound);
  give_slope(c, binary(c, "mul", inner, scale));
}

Value weighted_loss(Context& c, Value loss) {
  return c.has("weight") ? binary(c, "mul", loss, wide_operand(c, "weight")) : loss;
}
/// Logarithms are at least -100.
void cross_entropy_of_two(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value log = binary(c, "maximum", unary(c, "log", x), -100);
  const Value log_rest = binary(c, "maximum", unary(c, "log1p", unary(c, "neg", x)), -100);
  const Value loss =
      binary(c, "sub", binary(c, "mul", binary(c, "sub", t, 1), log_rest), binary(c, "mul", t, log));
  give_loss(c, weighted_loss(c, loss));
}
void cross_entropy_of_two_backward(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value rest = binary(c, "sub", number_like(c, x, 1), x);
  const Value divisor = binary(c, "maximum", binary(c, "mul", rest, x), 1e-12);
  give_slope(c, weighted_loss(c, binary(c, "div", binary(c, "sub", x, t), divisor)));
}
void cross_entropy_of_logits(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value tail = unary(c, "log1p", unary(c, "exp", unary(c, "neg", unary(c, "abs", x))));
  Value log_sigmoid = binary(c, "sub", binary(c, "minimum", x, 0), tail);
  if (c.has("pos_weight")) {
    const Value more = binary(c, "mul", binary(c, "sub", wide_operand(c, "pos_weight"), 1), t);
    log_sigmoid = binary(c, "mul", log_sigmoid, binary(c, "add", more, 1));
  }
  const Value rest = binary(c, "mul", binary(c, "sub", number_like(c, t, 1), t), x);
  give_loss(c, weighted_loss(c, binary(c, "sub", rest, log_sigmoid)));
}

/// Operands that the negative log likelihood and its gradient share. The classes are dim 1, or the only dim.
struct Likelihood {
  size_t axis;
  Value target, valid,
      weight;  ///< with a dim of size 1 for the classes; weight: of each target, 0 where ignored
};
Likelihood read_likelihood(Context& c, Value x) {
  need_rank(c, x.rank(), 1);
  const size_t axis = x.rank() == 1 ? 0 : 1;
  Dims dims = x.dims();
  dims[axis] = 1;
  const Value target = reshape_to(c, c.tensor("target"), dims);
  const Value valid = binary(c, "ne", target, static_cast<double>(c.integer("ignore_index", -100)));
  const Value safe = select(c, valid, target, number_like(c, target, 0));
  Value weight = c.optional("weight");
  weight = weight ? c.make("gather", {weight, safe}, attr("axis", 0)) : full(c, {x.dtype(), dims}, 1);
  return {axis, safe, valid, select(c, valid, weight, number_like(c, weight, 0))};
}
void give_nll_loss(Context& c, Value x) {
  const auto v = read_likelihood(c, x);
  const Value picked = c.make("gather_elements", {x, v.target}, attr("axis", static_cast<int64_t>(v.axis)));
  const Value losses =
      unary(c, "neg", binary(c, "mul", select(c, v.valid, picked, number_like(c, picked, 0)), v.weight));
  const int64_t reduction = c.integer("reduction", 1);
  const Dims all = dim_range(0, x.rank());
  const Value total = sum_over(c, "reduce_sum", v.weight, all, false);
  if (reduction == 0) {
    c.give(0, reshape_to(c, losses, c.result(0).dims));
    // PyTorch gives the weight of a single row only.
    if (c.wants(1)) c.give(1, x.rank() == 1 ? total : full(c, c.result(1), 0));
    return;
  }
  const Value sum = sum_over(c, "reduce_sum", losses, all, false);
  c.give(0, reduction == 1 ? binary(c, "div", sum, total) : sum);
  c.give(1, total);
}
void nll_loss(Context& c) { give_nll_loss(c, c.tensor("self")); }
/// Targets that are probabilities of the classes, and a mean over the rows.
void give_loss_of_probabilities(Context& c, Value log, double smoothing) {
  need_rank(c, log.rank(), 1);
  const auto axis = static_cast<int64_t>(log.rank() > 1);
  const auto classes = static_cast<double>(size_of(c, log, static_cast<size_t>(axis)));
  c.integer("ignore_index", -100);
  Value target = c.operand("target", log.dtype());
  if (smoothing != 0) target = binary(c, "add", binary(c, "mul", target, 1 - smoothing), smoothing / classes);
  Value each = binary(c, "mul", log, target);
  if (c.has("weight")) each = binary(c, "mul", each, along(c, c.tensor("weight"), axis, log.rank()));
  const Value loss = unary(c, "neg", sum_over(c, "reduce_sum", each, {axis}, false));
  c.give(reduced_loss(c, loss));
}
void cross_entropy_loss(Context& c) {
  const double smoothing = c.number("label_smoothing", 0);
  const Value x = c.tensor("self");
  const Value log = c.make("log_softmax", {x}, attr("axis", int64_t{x.rank() > 1}));
  if (is_float(c.tensor("target").dtype())) return give_loss_of_probabilities(c, log, smoothing);
  if (smoothing == 0) return give_nll_loss(c, log);
  const auto v = read_likelihood(c, x);
  const auto axis = static_cast<int64_t>(v.axis);
  const Value picked =
      binary(c, "mul", c.make("gather_elements", {log, v.target}, attr("axis", axis)), v.weight);
  // Each class has an equal part of the smoothed label.
  Value all = log;
  if (c.has("weight")) all = binary(c, "mul", all, along(c, c.tensor("weight"), v.axis, x.rank()));
  all = sum_over(c, "reduce_sum", all, {axis}, true);
  all = select(c, v.valid, all, number_like(c, all, 0));
  const double part = smoothing / static_cast<double>(size_of(c, x, v.axis));
  const Value losses = unary(
      c, "neg",
      binary(c, "add", binary(c, "mul", select(c, v.valid, picked, number_like(c, picked, 0)), 1 - smoothing),
             binary(c, "mul", all, part)));
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) return c.give(reshape_to(c, losses, c.result().dims));
  const Dims axes = dim_range(0, x.rank());
  const Value sum = sum_over(c, "reduce_sum", losses, axes, false);
  c.give(reduction == 1 ? binary(c, "div", sum, sum_over(c, "reduce_sum", v.weight, axes, false)) : sum);
}
void nll_loss_backward(Context& c) {
  const Value x = c.tensor("self");
  const auto v = read_likelihood(c, x);
  Value g = c.tensor("grad_output");
  const Value total = c.tensor("total_weight");
  const int64_t reduction = c.integer("reduction", 1);
  if (reduction == 0) {
    Dims dims = x.dims();
    dims[v.axis] = 1;
    g = reshape_to(c, g, dims);
  } else if (reduction == 1) {
    g = binary(c, "div", g, total);
  }
  // Where all targets are ignored, the divided gradient is infinite.
  const Value each =
      select(c, v.valid, unary(c, "neg", binary(c, "mul", g, v.weight)), number_like(c, v.weight, 0));
  // One element of each row: where the class is the target's.
  const Value classes = counting(c, i64, x.dims(), v.axis);
  const Value here = binary(c, "eq", classes, cast_to(c, v.target, i64));
  const Value dx = select(c, here, each, number_like(c, each, 0));
  c.give(expand_to(c, dx, x.dims()));
}

// Losses that PyTorch composes.

Value at_least_zero(Context& c, Value x) { return binary(c, "maximum", x, 0); }
/// The value where the target is `label`, elsewhere 0.
Value where_labelled(Context& c, Value target, double label, Value value) {
  return select(c, binary(c, "eq", target, label), value, number_like(c, value, 0));
}
void divergence(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  if (c.flag("log_target", false))
    return give_loss(c, binary(c, "mul", unary(c, "exp", t), binary(c, "sub", t, x)));
  const Value entropy =
      select(c, binary(c, "eq", t, 0), number_like(c, t, 0), binary(c, "mul", t, unary(c, "log", t)));
  give_loss(c, binary(c, "sub", entropy, binary(c, "mul", t, x)));
}
void poisson_loss(Context& c) {
  const Value x = wide_operand(c, "input"), t = wide_operand(c, "target");
  const double eps = c.number("eps", 1e-8);
  Value loss = c.flag("log_input", true)
                   ? binary(c, "sub", unary(c, "exp", x), binary(c, "mul", t, x))
                   : binary(c, "sub", x, binary(c, "mul", t, unary(c, "log", binary(c, "add", x, eps))));
  if (c.flag("full", false)) {
    const Value root =
        binary(c, "mul", unary(c, "log", binary(c, "mul", t, 2 * 3.14159265358979323846)), 0.5);
    const Value stirling =
        binary(c, "add", binary(c, "sub", binary(c, "mul", t, unary(c, "log", t)), t), root);
    loss = binary(c, "add", loss, select(c, binary(c, "gt", t, 1), stirling, number_like(c, t, 0)));
  }
  give_loss(c, loss);
}
void soft_margin_loss(Context& c) {
  const Value product = binary(c, "mul", wide_operand(c, "self"), wide_operand(c, "target"));
  give_loss(c, unary(c, "log1p", unary(c, "exp", unary(c, "neg", product))));
}
void hinge_loss(Context& c) {
  const Value x = wide_operand(c, "self"), t = wide_operand(c, "target");
  const Value rest = at_least_zero(c, binary(c, "sub", number_like(c, x, c.number("margin", 1)), x));
  const Value zero = number_like(c, x, 0);
  const Value far = select(c, binary(c, "ne", t, 1), rest, zero),
              near = select(c, binary(c, "ne", t, -1), x, zero);
  give_loss(c, binary(c, "add", far, near));
}
void ranking_loss(Context& c) {
  const Value off = binary(c, "sub", wide_operand(c, "input2"), wide_operand(c, "input1"));
  const Value product = binary(c, "mul", wide_operand(c, "target"), off);
  give_loss(c, at_least_zero(c, binary(c, "add", product, c.number("margin", 0))));
}
void cosine_loss(Context& c) {
  const Value a = wide_operand(c, "input1"), b = wide_operand(c, "input2"), t = wide_operand(c, "target");
  const Dims axes{static_cast<int64_t>(t.rank() > 0)};
  const auto sum = [&](Value x, Value y) {
    return reduce_over(c, "reduce_sum", binary(c, "mul", x, y), axes, false);
  };
  constexpr double eps = 1e-12;
  const Value sizes = binary(c, "mul", binary(c, "add", sum(a, a), eps), binary(c, "add", sum(b, b), eps));
  const Value cosine = binary(c, "div", sum(a, b), unary(c, "sqrt", sizes));
  const Value same = where_labelled(c, t, 1, binary(c, "sub", number_like(c, cosine, 1), cosine));
  const Value other =
      where_labelled(c, t, -1, at_least_zero(c, binary(c, "sub", cosine, c.number("margin", 0))));
  give_loss(c, binary(c, "add", same, other));
}
void triplet_loss(Context& c) {
  const Value a = wide_operand(c, "anchor"), p = wide_operand(c, "positive"), n = wide_operand(c, "negative");
  const double order = c.number("p", 2), eps = c.number("eps", 1e-6);
  const auto apart = [&](Value x, Value y) {
    const Value off = binary(c, "add", binary(c, "sub", x, y), eps);
    return norm_over(c, off, order, {static_cast<int64_t>(off.rank()) - 1}, false);
  };
  Value far = apart(a, n);
  if (c.flag("swap", false)) far = binary(c, "minimum", far, apart(p, n));
  const Value rest = binary(c, "sub", apart(a, p), far);
  give_loss(c, at_least_zero(c, binary(c, "add", rest, c.number("margin", 1))));
}

constexpr OpEntry loss_entries[] = {
    {"aten.mse_loss.default", "self target reduction", mse_loss},
    {"aten.mse_loss_backward.default", "grad_output self target reduction", mse_loss_backward},
    {"aten.l1_loss.default", "self target reduction", l1_loss},
    {"aten.smooth_l1_loss.default", "self target reduction beta", bent_loss},
    {"aten.smooth_l1_loss_backward.default", "grad_output self target reduction beta", bent_loss_backward},
    {"aten.huber_loss.default", "self target reduction delta", bent_loss},
    {"aten.huber_loss_backward.default", "grad_output self target reduction delta", bent_loss_backward},
    {"aten.binary_cross_entropy.default", "self target weight reduction", cross_entropy_of_two},
    {"aten.binary_cross_entropy_backward.default", "grad_output self target weight reduction",
     cross_entropy_of_two_backward},
    {"aten.binary_cross_entropy_with_logits.default", "self target weight pos_weight reduction",
     cross_entropy_of_logits},
    {"aten.cross_entropy_loss.default", "self target weight reduction ignore_index label_smoothing",
     cross_entropy_loss},
    {"aten.nll_loss.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss_forward.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss2d_forward.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.nll_loss_backward.default", "grad_output self target weight reduction ignore_index total_weight",
     nll_loss_backward},
    {"aten.nll_loss2d_backward.default", "grad_output self target weight reduction ignore_index total_weight",
     nll_loss_backward},
    {"aten.nll_loss_nd.default", "self target weight reduction ignore_index", nll_loss},
    {"aten.kl_div.default", "self target reduction log_target", divergence},
    {"aten.poisson_nll_loss.default", "input target log_input full eps reduction", poisson_loss},
    {"aten.soft_margin_loss.default", "self target reduction", soft_margin_loss},
    {"aten.hinge_embedding_loss.default", "self target margin reduction", hinge_loss},
    {"aten.margin_ranking_loss.default", "input1 input2 target margin reduction", ranking_loss},
    {"aten.cosine_embedding_loss.default", "input1 input2 target margin reduction", cosine_loss},
    {"aten.triplet_margin_loss.default", "anchor positive negative margin p eps swap reduction",
     triplet_loss},
};

}  // namespace

std::span<const OpEntry> loss_ops() { return loss_entries; }

}  // namespace ferrite::from_torch
