// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalisations and their gradients. PyTorch computes statistics of f16 and bf16 in f32.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The mean and 1 / sqrt(variance + eps) over dims, which are kept with size 1.
struct Statistics {
  Value mean, off, variance, rstd;  ///< off: x - mean
};
Statistics statistics(Context& c, Value x, const Dims& axes, double eps) {
  Statistics s;
  s.mean = reduce_over(c, "reduce_mean", x, axes);
  s.off = binary(c, "sub", x, s.mean);
  s.variance = reduce_over(c, "reduce_mean", binary(c, "mul", s.off, s.off), axes);
  s.rstd = unary(c, "rsqrt", binary(c, "add", s.variance, eps));
  return s;
}

/// A vector of channels, which are dim 1.
Value channels(Context& c, Value vector, size_t rank) { return along(c, vector, 1, rank); }

Value as_result(Context& c, size_t k, Value value) {
  return cast_to(c, reshape_to(c, value, c.result(k).dims), c.result(k).dtype);
}

void layer_norm(Context& c) {
  const Value x = c.tensor("input");
  const size_t count = c.integers("normalized_shape").size();
  const Dims axes = dim_range(x.rank() - count, x.rank());
  const double eps = c.number("eps", 1e-5);
  const Value scale = c.optional("weight"), bias = c.optional("bias");
  const bool plain = x.dtype() == c.result(0).dtype && (!scale || scale.dtype() == x.dtype()) &&
                     (!bias || bias.dtype() == x.dtype());
  const Value wide = cast_to(c, x, accumulated(x.dtype()));
  const auto s = statistics(c, wide, axes, eps);
  if (plain && count > 0) {
    c.give(0, c.make("layer_norm", {x, scale, bias}, attr("axis", axes[0]), attr("epsilon", eps)));
  } else {
    Value y = binary(c, "mul", s.off, s.rstd);
    if (scale) y = binary(c, "mul", y, cast_to(c, scale, wide.dtype()));
    if (bias) y = binary(c, "add", y, cast_to(c, bias, wide.dtype()));
    c.give(0, as_result(c, 0, y));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, s.mean));
  if (c.wants(2)) c.give(2, as_result(c, 2, s.rstd));
}

/// dx of y = (x - mean) * rstd, for dy over the same dims: rstd * (dy - mean(dy) - xhat * mean(dy * xhat)).
Value normalised_gradient(Context& c, Value dy, Value xhat, Value rstd, const Dims& axes) {
  const Value first = reduce_over(c, "reduce_mean", dy, axes);
  const Value second = reduce_over(c, "reduce_mean", binary(c, "mul", dy, xhat), axes);
  const Value centred = binary(c, "sub", binary(c, "sub", dy, first), binary(c, "mul", xhat, second));
  return binary(c, "mul", rstd, centred);
}

/// The sum over the dims that are not normalised.
Value sum_of_rows(Context& c, Value x, const Dims& others) {
  return others.empty() ? x : reduce_over(c, "reduce_sum", x, others, false);
}

void layer_norm_backward(Context& c) {
  const Value given = c.tensor("grad_out"), x = c.tensor("input"), scale = c.optional("weight");
  const DType wide = accumulated(x.dtype());
  c.optional("bias");
  c.argument("output_mask");
  const size_t count = c.integers("normalized_shape").size();
  const Dims axes = dim_range(x.rank() - count, x.rank()), others = dim_range(0, x.rank() - count);
  const Value mean = cast_to(c, c.tensor("mean"), wide), rstd = cast_to(c, c.tensor("rstd"), wide);
  const Value g = cast_to(c, given, wide);
  const Value xhat = binary(c, "mul", binary(c, "sub", cast_to(c, x, wide), mean), rstd);
  if (c.wants(0)) {
    const Value dy = scale ? binary(c, "mul", g, cast_to(c, scale, wide)) : g;
    c.give(0, as_result(c, 0, normalised_gradient(c, dy, xhat, rstd, axes)));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, sum_of_rows(c, binary(c, "mul", g, xhat), others)));
  if (c.wants(2)) c.give(2, as_result(c, 2, sum_of_rows(c, g, others)));
}

void group_norm(Context& c) {
  const Value x = c.tensor("input"), scale = c.optional("weight"), bias = c.optional("bias");
  const int64_t n = c.integer("N"), channel_count = c.integer("C"), pixels = c.integer("HxW"),
                groups = c.integer("group");
  const double eps = c.number("eps");
  const DType wide = accumulated(x.dtype());
  const Value grouped = reshape_to(c, cast_to(c, x, wide), {n, groups, channel_count / groups * pixels});
  const auto s = statistics(c, grouped, {2}, eps);
  if (x.dtype() == wide && c.result(0).dtype == wide && (!scale || scale.dtype() == wide)) {
    c.give(0, c.make("group_norm", {x, scale, bias}, attr("groups", groups), attr("epsilon", eps)));
  } else {
    Value y = reshape_to(c, binary(c, "mul", s.off, s.rstd), x.dims());
    if (scale) y = binary(c, "mul", y, cast_to(c, channels(c, scale, x.rank()), wide));
    if (bias) y = binary(c, "add", y, cast_to(c, channels(c, bias, x.rank()), wide));
    c.give(0, as_result(c, 0, y));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, s.mean));
  if (c.wants(2)) c.give(2, as_result(c, 2, s.rstd));
}

void group_norm_backward(Context& c) {
  const Value given = c.tensor("grad_out"), x = c.tensor("input"), scale = c.optional("weight");
  const int64_t n = c.integer("N"), channel_count = c.integer("C"), pixels = c.integer("HxW"),
                groups = c.integer("group");
  c.argument("output_mask");
  const DType wide = accumulated(x.dtype());
  const Dims in_groups = {n, groups, channel_count / groups, pixels},
             in_channels = {n, channel_count, pixels};
  const Dims of_groups = {n, groups, 1, 1};
  const Value mean = reshape_to(c, cast_to(c, c.tensor("mean"), wide), of_groups);
  const Value rstd = reshape_to(c, cast_to(c, c.tensor("rstd"), wide), of_groups);
  const Value g = reshape_to(c, cast_to(c, given, wide), in_groups);
  const Value xhat =
      binary(c, "mul", binary(c, "sub", reshape_to(c, cast_to(c, x, wide), in_groups), mean), rstd);
  if (c.wants(0)) {
    Value dy = g;
    if (scale)
      dy = binary(c, "mul", dy,
                  reshape_to(c, cast_to(c, scale, wide), {1, groups, channel_count / groups, 1}));
    c.give(0, as_result(c, 0, normalised_gradient(c, dy, xhat, rstd, {2, 3})));
  }
  const auto over_pixels = [&](Value value) {
    return reduce_over(c, "reduce_sum", reshape_to(c, value, in_channels), {0, 2}, false);
  };
  if (c.wants(1)) c.give(1, as_result(c, 1, over_pixels(binary(c, "mul", g, xhat))));
  if (c.wants(2)) c.give(2, as_result(c, 2, over_pixels(g)));
}

// Batch norm. Its statistics are over all dims but the channels.

Dims all_but_channels(size_t rank) {
  Dims axes = {0};
  for (size_t k = 2; k < rank; ++k) axes.push_back(static_cast<int64_t>(k));
  return axes;
}

Value scaled(Context& c, Value xhat, Value scale, Value bias) {
  if (scale) xhat = binary(c, "mul", xhat, cast_to(c, channels(c, scale, xhat.rank()), xhat.dtype()));
  if (bias) xhat = binary(c, "add", xhat, cast_to(c, channels(c, bias, xhat.rank()), xhat.dtype()));
  return xhat;
}

void give_empty(Context& c, size_t k) {
  if (c.wants(k)) c.give(k, full(c, c.result(k), 0));
}

/// Normalises by running statistics.
void normalise_as_known(Context& c, Value x, Value scale, Value bias, Value mean, Value variance,
                        double eps) {
  const Dims vector = {size_of(c, x, 1)};
  const DType wide = accumulated(x.dtype());
  if (x.dtype() == wide && mean.dtype() == wide) {
    if (!scale) scale = full(c, {wide, vector}, 1);
    if (!bias) bias = full(c, {wide, vector}, 0);
    return c.give(0, c.make("batch_norm", {x, scale, bias, mean, variance}, attr("epsilon", eps)));
  }
  const Value rstd = unary(c, "rsqrt", binary(c, "add", cast_to(c, variance, wide), eps));
  const Value off = binary(c, "sub", cast_to(c, x, wide), channels(c, cast_to(c, mean, wide), x.rank()));
  const Value y = scaled(c, binary(c, "mul", off, channels(c, rstd, x.rank())), scale, bias);
  c.give(0, cast_to(c, y, c.result(0).dtype));
}

void batch_norm(Context& c) {
  const std::string_view target = c.entry.target;
  const auto is = [&](std::string_view part) { return target.find(part) != std::string_view::npos; };
  const Value x = c.tensor("input"), scale = c.optional("weight"), bias = c.optional("bias");
  const Value mean = c.optional("running_mean"), variance = c.optional("running_var");
  need_rank(c, x.rank(), 2);
  const bool training = !is("no_training") && !is("no_update") && c.flag("training", true);
  const double momentum = c.number("momentum", 0.1), eps = c.number("eps", 1e-5);
  const bool functional = is("functional");
  // The new running statistics are the last two results. A buffer that the device keeps may stand before
  // them.
  const size_t updated = is("_with_update") ? 4 : 3;
  if (updated == 4 || is("no_update")) give_empty(c, 3);
  if (!training) {
    if (!mean || !variance) c.unsupported("it has no running statistics and is not in training");
    normalise_as_known(c, x, scale, bias, mean, variance, eps);
    give_empty(c, 1);
    give_empty(c, 2);
    for (const size_t k : {updated, updated + 1})
      if (functional && c.wants(k)) c.give(k, as_result(c, k, k == updated ? mean : variance));
    return;
  }
  if (mean && !functional) c.unsupported("it changes the running statistics in place");
  const DType wide = accumulated(x.dtype());
  const Dims axes = all_but_channels(x.rank()), vector = {size_of(c, x, 1)};
  const auto s = statistics(c, cast_to(c, x, wide), axes, eps);
  c.give(0, cast_to(c, scaled(c, binary(c, "mul", s.off, s.rstd), scale, bias), c.result(0).dtype));
  if (c.wants(1)) c.give(1, as_result(c, 1, s.mean));
  if (c.wants(2)) c.give(2, as_result(c, 2, s.rstd));
  if (!functional) return;
  const double count =
      static_cast<double>(product(x.dims())) / static_cast<double>(std::max<int64_t>(1, vector[0]));
  const auto give_mixed = [&](size_t k, Value old, Value now) {
    if (!c.wants(k)) return;
    const Value kept = binary(c, "mul", cast_to(c, old, wide), 1 - momentum);
    c.give(k,
           as_result(c, k, binary(c, "add", kept, binary(c, "mul", reshape_to(c, now, vector), momentum))));
  };
  if (mean) give_mixed(updated, mean, s.mean);
  if (variance)
    give_mixed(updated + 1, variance, binary(c, "mul", s.variance, count / std::max(1.0, count - 1)));
}

void batch_norm_backward(Context& c) {
  const Value given = c.tensor("grad_out"), x = c.tensor("input"), scale = c.optional("weight");
  const Value mean = c.optional("running_mean"), variance = c.optional("running_var");
  need_rank(c, x.rank(), 2);
  const bool plain = c.entry.target.starts_with("aten.native");
  const Value saved_mean = c.optional("save_mean"),
              saved_rstd = c.optional(plain ? "save_invstd" : "save_var");
  const bool training = c.flag(plain ? "train" : "update", true);
  const double eps = c.number("eps", 1e-5);
  c.argument("output_mask");
  const DType wide = accumulated(x.dtype());
  const size_t rank = x.rank();
  const Dims axes = all_but_channels(rank);
  const Value g = cast_to(c, given, wide), in = cast_to(c, x, wide);
  Value centre, rstd;
  if (!training) {
    centre = channels(c, cast_to(c, mean, wide), rank);
    rstd = unary(c, "rsqrt", binary(c, "add", channels(c, cast_to(c, variance, wide), rank), eps));
  } else if (saved_mean.dtype() == wide && saved_rstd.dtype() == wide) {
    centre = channels(c, saved_mean, rank);
    rstd = channels(c, saved_rstd, rank);
  } else {
    // A mean that is rounded to bf16 may be off by more than a deviation.
    const auto exact = statistics(c, in, axes, eps);
    centre = exact.mean;
    rstd = exact.rstd;
  }
  const Value xhat = binary(c, "mul", binary(c, "sub", in, centre), rstd);
  const Value sum = reduce_over(c, "reduce_sum", g, axes);
  const Value slope = reduce_over(c, "reduce_sum", binary(c, "mul", g, xhat), axes);
  if (c.wants(0)) {
    Value dx = g;
    if (training) {
      const auto all = static_cast<double>(std::max<int64_t>(1, product(x.dims())));
      const double share = static_cast<double>(std::max<int64_t>(1, size_of(c, x, 1))) / all;
      const Value linear = binary(c, "add", sum, binary(c, "mul", xhat, slope));
      dx = binary(c, "sub", g, binary(c, "mul", linear, share));
    }
    c.give(0, as_result(c, 0, scaled(c, binary(c, "mul", dx, rstd), scale, Value())));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, slope));
  if (c.wants(2)) c.give(2, as_result(c, 2, sum));
}

void rms_norm(Context& c) {
  const Value x = c.tensor("input"), scale = c.optional("weight");
  const DType wide = accumulated(x.dtype());
  const size_t count = c.integers("normalized_shape").size();
  const Dims axes = dim_range(x.rank() - count, x.rank());
  // The default is the epsilon of the dtype in which the op computes.
  const double eps = c.number("eps", wide == f64 ? 0x1p-52 : 0x1p-23);
  const Value in = cast_to(c, x, wide);
  const Value mean = reduce_over(c, "reduce_mean", binary(c, "mul", in, in), axes);
  const Value rstd = unary(c, "rsqrt", binary(c, "add", mean, eps));
  if (count > 0 && x.dtype() == c.result(0).dtype) {
    c.give(0, c.make("rms_norm", {x, scale}, attr("axis", axes[0]), attr("epsilon", eps)));
  } else {
    Value y = binary(c, "mul", in, rstd);
    if (scale) y = binary(c, "mul", y, cast_to(c, scale, wide));
    c.give(0, cast_to(c, y, c.result(0).dtype));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, rstd));
}
void rms_norm_backward(Context& c) {
  const Value x = c.tensor("input"), scale = c.optional("weight");
  const DType wide = accumulated(x.dtype());
  c.argument("output_mask");
  const size_t count = c.integers("normalized_shape").size();
  const Dims axes = dim_range(x.rank() - count, x.rank()), others = dim_range(0, x.rank() - count);
  const Value g = c.operand("grad_out", wide), rstd = c.operand("rstd", wide);
  const Value xhat = binary(c, "mul", cast_to(c, x, wide), rstd);
  if (c.wants(0)) {
    const Value dy = scale ? binary(c, "mul", g, cast_to(c, scale, wide)) : g;
    const Value along_x = reduce_over(c, "reduce_mean", binary(c, "mul", dy, xhat), axes);
    const Value dx = binary(c, "mul", rstd, binary(c, "sub", dy, binary(c, "mul", xhat, along_x)));
    c.give(0, as_result(c, 0, dx));
  }
  if (c.wants(1)) c.give(1, as_result(c, 1, sum_of_rows(c, binary(c, "mul", g, xhat), others)));
}

/// Layers of which programs of torch.export consist.
void group_norm_layer(Context& c) {
  const Value x = c.tensor("input"), scale = c.optional("weight"), bias = c.optional("bias");
  c.give(c.make("group_norm", {x, scale, bias}, attr("groups", c.integer("num_groups")),
                attr("epsilon", c.number("eps", 1e-5))));
}
void instance_norm_layer(Context& c) {
  const Value x = c.tensor("input");
  Value scale = c.optional("weight"), bias = c.optional("bias");
  const Value mean = c.optional("running_mean"), variance = c.optional("running_var");
  const double eps = c.number("eps", 1e-5);
  c.number("momentum", 0.1);
  if (!c.flag("use_input_stats", true)) {
    if (!mean || !variance) c.unsupported("it has neither statistics nor takes them of the input");
    return normalise_as_known(c, x, scale, bias, mean, variance, eps);
  }
  if (mean) c.unsupported("it changes the running statistics in place");
  const TensorType vector{x.dtype(), {size_of(c, x, 1)}};
  if (!scale) scale = full(c, vector, 1);
  if (!bias) bias = full(c, vector, 0);
  c.give(c.make("instance_norm", {x, scale, bias}, attr("epsilon", eps)));
}

/// v scaled so that each part along `dim` has the norm g.
void weight_norm(Context& c) {
  const Value v = c.tensor("v"), g = c.tensor("g");
  const auto dim = c.dim(c.integer("dim", 0), v.rank());
  Dims axes;
  for (const auto d : dim_range(0, v.rank()))
    if (d != dim) axes.push_back(d);
  const DType wide = accumulated(v.dtype());
  const Value x = cast_to(c, v, wide);
  const Value scale = binary(c, "div", cast_to(c, g, wide), norm_over(c, x, 2, axes));
  c.give(cast_to(c, binary(c, "mul", x, scale), c.result().dtype));
}

constexpr OpEntry norm_entries[] = {
    {"aten._weight_norm.default", "v g dim", weight_norm},
    {"aten.native_layer_norm.default", "input normalized_shape weight bias eps", layer_norm},
    {"aten.layer_norm.default", "input normalized_shape weight bias eps ~*", layer_norm},
    {"aten.native_layer_norm_backward.default",
     "grad_out input normalized_shape mean rstd weight bias output_mask", layer_norm_backward},
    {"aten.native_group_norm.default", "input weight bias N C HxW group eps", group_norm},
    {"aten.native_group_norm_backward.default", "grad_out input mean rstd weight N C HxW group output_mask",
     group_norm_backward},
    {"aten._fused_rms_norm.default", "input normalized_shape weight eps", rms_norm},
    {"aten._fused_rms_norm_backward.default", "grad_out input normalized_shape rstd weight output_mask",
     rms_norm_backward},
    {"aten.rms_norm.default", "input normalized_shape weight eps", rms_norm},
    {"aten._native_batch_norm_legit_no_training.default",
     "input weight bias running_mean running_var momentum eps", batch_norm},
    {"aten._native_batch_norm_legit_functional.default",
     "input weight bias running_mean running_var training momentum eps", batch_norm},
    {"aten._native_batch_norm_legit.no_stats", "input weight bias training momentum eps", batch_norm},
    {"aten._native_batch_norm_legit.default",
     "input weight bias running_mean running_var training momentum eps", batch_norm},
    {"aten.native_batch_norm.default", "input weight bias running_mean running_var training momentum eps",
     batch_norm},
    {"aten._batch_norm_with_update_functional.default",
     "input weight bias running_mean running_var momentum eps", batch_norm},
    {"aten._batch_norm_no_update.default", "input weight bias running_mean running_var momentum eps",
     batch_norm},
    {"aten.batch_norm.default", "input weight bias running_mean running_var training momentum eps ~*",
     batch_norm},
    {"aten.native_batch_norm_backward.default",
     "grad_out input weight running_mean running_var save_mean save_invstd train eps output_mask",
     batch_norm_backward},
    {"aten.batch_norm_backward.default",
     "grad_out input weight running_mean running_var save_mean save_var update eps output_mask ~reserve",
     batch_norm_backward},
    {"aten.group_norm.default", "input num_groups weight bias eps ~*", group_norm_layer},
    {"aten.instance_norm.default",
     "input weight bias running_mean running_var use_input_stats momentum eps ~*", instance_norm_layer},
};

}  // namespace

std::span<const OpEntry> norm_ops() { return norm_entries; }

}  // namespace ferrite::from_torch
