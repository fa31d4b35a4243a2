// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pooling and its gradients.
#include <algorithm>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The windows of a pool over the last dims of a tensor.
struct Windows {
  size_t dims;
  Dims kernel, stride, padding, dilation;
  Dims sizes;  ///< of the tensor
  Dims count;  ///< of windows
  Dims high;   ///< padding that the last windows need
};

Windows read_windows(Context& c, size_t dims, const Dims& in, const Dims& out) {
  for (const auto* each : {&in, &out}) need_rank(c, each->size(), dims);
  Windows w;
  w.dims = dims;
  w.kernel = for_each_dim(c, "kernel_size", dims, {});
  w.stride = for_each_dim(c, "stride", dims, w.kernel);
  w.padding = for_each_dim(c, "padding", dims, Dims(dims, 0));
  w.dilation = for_each_dim(c, "dilation", dims, Dims(dims, 1));
  c.flag("ceil_mode", false);  // the sizes of the result have it
  w.sizes.assign(in.end() - static_cast<ptrdiff_t>(dims), in.end());
  w.count.assign(out.end() - static_cast<ptrdiff_t>(dims), out.end());
  for (size_t k = 0; k < dims; ++k)
    w.high.push_back(std::max<int64_t>(0, (w.count[k] - 1) * w.stride[k] + (w.kernel[k] - 1) * w.dilation[k] +
                                              1 - w.sizes[k] - w.padding[k]));
  return w;
}

/// With a batch dim and a dim of channels before the pooled ones.
Value batched(Context& c, Value x, size_t dims) {
  need_rank(c, x.rank(), dims, dims + 2);
  Dims shape = x.dims();
  while (shape.size() < dims + 2) shape.insert(shape.begin(), 1);
  return reshape_to(c, x, shape);
}

size_t pooled_dims(Context& c) {
  return c.entry.target.find("1d") != std::string_view::npos   ? 1
         : c.entry.target.find("3d") != std::string_view::npos ? 3
                                                               : 2;
}

/// The elements that the windows of one dim have: [element of a window][window].
using Steps = std::vector<Dims>;

/// Adaptive windows: number o has [o * in / out, ceil((o + 1) * in / out)).
Steps adaptive_steps(int64_t in, int64_t out) {
  Steps steps;
  bool more = true;
  for (int64_t s = 0; more; ++s) {
    more = false;
    steps.emplace_back();
    for (int64_t o = 0; o < out; ++o) {
      const int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
      more = more || first + s + 1 < end;
      steps.back().push_back(std::min(first + s, end - 1));
    }
  }
  return steps;
}

/// Elements of x along dim `axis` at places that are known.
Value take(Context& c, Value x, size_t axis, const Dims& places) {
  const int64_t step = places.size() > 1 ? places[1] - places[0] : 1;
  bool regular = step > 0;
  for (size_t k = 1; k < places.size(); ++k) regular = regular && places[k] - places[k - 1] == step;
  return regular ? slice_dim(c, x, axis, places[0], static_cast<int64_t>(places.size()), step)
                 : gather(c, x, c.graph.integers(places), axis);
}

struct Greatest {
  Value values, numbers;
};
/// `next` where it is greater than `best`, or NaN.
Greatest greater(Context& c, const Greatest& best, const Greatest& next) {
  Value better = binary(c, "gt", next.values, best.values);
  if (is_float(next.values.dtype())) better = binary(c, "logical_or", better, unary(c, "isnan", next.values));
  return {select(c, better, next.values, best.values), select(c, better, next.numbers, best.numbers)};
}
/// Of each window of one dim the greatest element, the first among equal ones, and its number: the place
/// times `stride`, plus the number that the element has in `from`. The last NaN wins, as in PyTorch.
Greatest greatest_along(Context& c, Greatest from, size_t axis, const Steps& steps, int64_t stride) {
  const size_t rank = from.values.rank();
  const auto numbered = [&](Dims places) {
    for (auto& place : places) place *= stride;
    return along(c, c.graph.integers(places), axis, rank);
  };
  const int64_t size = size_of(c, from.values, axis);
  bool whole = steps[0].size() == 1 && static_cast<int64_t>(steps.size()) == size;
  for (size_t s = 0; whole && s < steps.size(); ++s) whole = steps[s][0] == static_cast<int64_t>(s);
  if (whole) {
    const Value place =
        c.make("argmax", {from.values}, attr("axis", static_cast<int64_t>(axis)), attr("keepdims", true));
    Value number = binary(c, "mul", place, static_cast<double>(stride));
    if (from.numbers) number = binary(c, "add", number, gather_elements(c, from.numbers, place, axis));
    return {reduce_over(c, "reduce_max", from.values, {static_cast<int64_t>(axis)}), number};
  }
  Greatest best;
  for (const auto& places : steps) {
    const Value value = take(c, from.values, axis, places);
    Value number = numbered(places);
    if (from.numbers) number = binary(c, "add", number, take(c, from.numbers, axis, places));
    number = expand_to(c, number, value.dims());
    if (!best.values) {
      best = {value, number};
      continue;
    }
    best = greater(c, best, {value, number});
  }
  return best;
}
/// The same over all pooled dims. Numbers count the elements of these dims.
Greatest greatest(Context& c, Value x, const std::vector<Steps>& steps) {
  Greatest found{x, Value()};
  int64_t stride = 1;
  for (size_t k = steps.size(); k-- > 0;) {
    const size_t axis = 2 + k;
    found = greatest_along(c, found, axis, steps[k], stride);
    stride *= size_of(c, x, axis);
  }
  return found;
}

void max_pool(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value x = batched(c, c.tensor("self"), dims);
  const auto w = read_windows(c, dims, x.dims(), c.result(0).dims);
  const auto attrs =
      std::vector{attr("kernel", w.kernel),  attr("strides", w.stride),     attr("pads_low", w.padding),
                  attr("pads_high", w.high), attr("dilations", w.dilation), attr("sizes", w.count)};
  if (!c.wants(1))
    return c.give(0, reshape_to(c, c.graph.make("max_pool", std::span(&x, 1), attrs), c.result(0).dims));
  const auto found = c.graph.make_all("max_pool_with_indices", std::span(&x, 1), attrs);
  for (size_t k = 0; k < 2; ++k) c.give(k, reshape_to(c, found[k], c.result(k).dims));
}
void adaptive_max_pool(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value x = batched(c, c.tensor("self"), dims);
  c.argument("output_size");
  const Dims in = x.dims(), out = c.result(0).dims;
  need_rank(c, out.size(), dims);
  std::vector<Steps> steps;
  for (size_t k = 0; k < dims; ++k) {
    const int64_t count = out[out.size() - dims + k];
    if (count == 0) c.unsupported("a result without elements");
    steps.push_back(adaptive_steps(in[2 + k], count));
  }
  const auto found = greatest(c, x, steps);
  c.give(0, reshape_to(c, found.values, c.result(0).dims));
  if (c.wants(1)) c.give(1, reshape_to(c, found.numbers, c.result(1).dims));
}

/// Adds each element of the gradient to the element that was the greatest of its window.
void max_pool_backward(Context& c) {
  const size_t dims = pooled_dims(c);
  for (const auto* name : {"kernel_size", "stride", "padding", "dilation", "ceil_mode"}) c.argument(name);
  const Value g = batched(c, c.tensor("grad_output"), dims), indices = batched(c, c.tensor("indices"), dims);
  const Value x = batched(c, c.tensor("self"), dims);
  const auto flat = [&](const Dims& d) { return Dims{d[0], d[1], product(Dims(d.begin() + 2, d.end()))}; };
  const DType wide = accumulated(g.dtype());
  const Value zeros = full(c, {wide, flat(x.dims())}, 0);
  const Value sums = scatter(c, zeros, 2, reshape_to(c, indices, flat(g.dims())),
                             reshape_to(c, cast_to(c, g, wide), flat(g.dims())), "add");
  c.give(reshape_to(c, cast_to(c, sums, g.dtype()), c.result().dims));
}

/// The matrix [windows, size] of a dim's averages: element (o, i) is the number of times that window o has
/// element i.
Value membership(Context& c, DType dtype, const Windows& w, size_t k) {
  const Dims shape = {w.count[k], w.sizes[k]};
  const Value first =
      binary(c, "add", binary(c, "mul", counting(c, i64, shape, 0), static_cast<double>(w.stride[k])),
             static_cast<double>(-w.padding[k]));
  const Value off = binary(c, "sub", counting(c, i64, shape, 1), first);
  const Value in = binary(c, "logical_and", binary(c, "ge", off, 0),
                          binary(c, "lt", off, static_cast<double>(w.kernel[k])));
  return cast_to(c, in, dtype);
}

/// By how much the sum of each window of dim k is divided: the elements inside, or also those of the padding.
std::vector<double> window_sizes(const Windows& w, size_t k, bool with_padding) {
  std::vector<double> sizes;
  for (int64_t o = 0; o < w.count[k]; ++o) {
    const int64_t first = o * w.stride[k] - w.padding[k];
    // With ceil_mode a window may end after the padding; the elements after it never count.
    const int64_t end = std::min(first + w.kernel[k], w.sizes[k] + (with_padding ? w.padding[k] : 0));
    sizes.push_back(static_cast<double>(end - (with_padding ? first : std::max<int64_t>(first, 0))));
  }
  return sizes;
}

/// The sum of each window, divided by its number of elements; integers are truncated.
Value mean_of_sums(Context& c, Value sums, const Windows& w, bool with_padding) {
  const DType dtype = sums.dtype();
  if (c.has("divisor_override"))
    return binary(c, "div", sums, static_cast<double>(c.integer("divisor_override")));
  Value all;
  for (size_t k = 0; k < w.dims; ++k) {
    const auto sizes = window_sizes(w, k, with_padding);
    Value along_dim = c.graph.literal({f64, {w.count[k]}}, sizes.data());
    along_dim = along(c, along_dim, k, w.dims);
    all = all ? binary(c, "mul", all, along_dim) : along_dim;
  }
  return binary(c, "div", sums, cast_to(c, all, dtype));
}

void avg_pool(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value x = batched(c, c.tensor("self"), dims);
  const auto w = read_windows(c, dims, x.dims(), c.result().dims);
  const bool with_padding = c.flag("count_include_pad", true);
  bool regular = !c.has("divisor_override") && is_float(x.dtype());
  // avg_pool has no divisors for windows that end after the padding.
  for (size_t k = 0; k < dims; ++k) regular = regular && w.high[k] <= w.padding[k];
  if (regular) {
    const Value y = c.make("avg_pool", {x}, attr("kernel", w.kernel), attr("strides", w.stride),
                           attr("pads_low", w.padding), attr("pads_high", w.padding),
                           attr("count_include_pad", with_padding), attr("sizes", w.count));
    return c.give(reshape_to(c, y, c.result().dims));
  }
  const DType wide = accumulated(x.dtype());
  Value y = cast_to(c, x, wide);
  for (size_t k = 0; k < dims; ++k) {
    y = times_along(c, y, swap_dims(c, membership(c, wide, w, k), 0, 1), 2 + k);
  }
  y = mean_of_sums(c, y, w, with_padding);
  c.give(reshape_to(c, cast_to(c, y, x.dtype()), c.result().dims));
}

/// Each dim's windows are a matrix; its transpose takes the gradient back.
void avg_pool_backward(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value g = batched(c, c.tensor("grad_output"), dims), x = batched(c, c.tensor("self"), dims);
  const auto w = read_windows(c, dims, x.dims(), g.dims());
  const DType wide = accumulated(g.dtype());
  Value d = mean_of_sums(c, cast_to(c, g, wide), w, c.flag("count_include_pad", true));
  bool apart = true;  // windows that do not overlap and cover everything
  for (size_t k = 0; k < dims; ++k)
    apart =
        apart && w.stride[k] == w.kernel[k] && w.padding[k] == 0 && w.count[k] * w.kernel[k] == w.sizes[k];
  if (apart) {
    Dims split = {size_of(c, d, 0), size_of(c, d, 1)}, whole = split;
    for (size_t k = 0; k < dims; ++k) {
      split.insert(split.end(), {w.count[k], 1});
      whole.insert(whole.end(), {w.count[k], w.kernel[k]});
    }
    d = expand_to(c, reshape_to(c, d, split), whole);
    return c.give(reshape_to(c, cast_to(c, d, g.dtype()), c.result().dims));
  }
  for (size_t k = 0; k < dims; ++k) {
    d = times_along(c, d, membership(c, wide, w, k), 2 + k);
  }
  c.give(reshape_to(c, cast_to(c, d, g.dtype()), c.result().dims));
}

/// The matrix [out, in] of adaptive averages of one dim: window o covers [o * in / out, ceil((o + 1) * in /
/// out)).
Value adaptive_matrix(Context& c, DType dtype, int64_t in, int64_t out) {
  std::vector<double> weights(static_cast<size_t>(in * out), 0);
  for (int64_t o = 0; o < out; ++o) {
    const int64_t first = o * in / out, end = ((o + 1) * in + out - 1) / out;
    for (int64_t i = first; i < end; ++i)
      weights[static_cast<size_t>(o * in + i)] = 1.0 / static_cast<double>(end - first);
  }
  return cast_to(c, c.graph.literal({f64, {out, in}}, weights.data()), dtype);
}

void adaptive_avg_pool(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value x = c.tensor("self");
  c.argument("output_size");
  const Dims in = x.dims(), out = c.result().dims;
  need_rank(c, x.rank(), std::max(dims, out.size()), out.size());
  const size_t first = in.size() - dims;
  bool even = true;
  Dims kernel;
  for (size_t k = first; k < in.size(); ++k) {
    even = even && out[k] != 0 && in[k] % out[k] == 0;
    kernel.push_back(out[k] ? in[k] / out[k] : 1);
  }
  if (even && product(kernel) == product(Dims(in.begin() + static_cast<ptrdiff_t>(first), in.end()))) {
    Dims axes = dim_range(first, in.size());
    const DType dtype = x.dtype();
    return c.give(cast_to(c, reduce_over(c, "reduce_mean", cast_to(c, x, accumulated(dtype)), axes), dtype));
  }
  if (even) {
    const Value y =
        c.make("avg_pool", {batched(c, x, dims)}, attr("kernel", kernel), attr("strides", kernel));
    return c.give(reshape_to(c, y, out));
  }
  const DType wide = accumulated(x.dtype());
  Value y = cast_to(c, x, wide);
  for (size_t k = first; k < in.size(); ++k) {
    y = times_along(c, y, swap_dims(c, adaptive_matrix(c, wide, in[k], out[k]), 0, 1), k);
  }
  c.give(cast_to(c, y, x.dtype()));
}

void adaptive_avg_pool_backward(Context& c) {
  const size_t dims = pooled_dims(c);
  const Value g = c.tensor("grad_output"), x = c.tensor("self");
  const Dims in = x.dims(), out = g.dims();
  need_rank(c, x.rank(), std::max(dims, out.size()), out.size());
  const DType wide = accumulated(g.dtype());
  Value d = cast_to(c, g, wide);
  double count = 1;
  bool single = true;
  for (size_t k = in.size() - dims; k < in.size(); ++k)
    single = single && out[k] == 1, count *= static_cast<double>(in[k]);
  if (single) return c.give(cast_to(c, expand_to(c, binary(c, "div", d, count), in), g.dtype()));
  for (size_t k = in.size() - dims; k < in.size(); ++k) {
    d = times_along(c, d, adaptive_matrix(c, wide, in[k], out[k]), k);
  }
  c.give(cast_to(c, d, g.dtype()));
}

constexpr const char* max_windows = "self kernel_size stride padding dilation ceil_mode";
constexpr const char* avg_windows_1d = "self kernel_size stride padding ceil_mode count_include_pad";
constexpr const char* avg_windows =
    "self kernel_size stride padding ceil_mode count_include_pad divisor_override";
constexpr const char* avg_gradients =
    "grad_output self kernel_size stride padding ceil_mode count_include_pad divisor_override";

/// Each element at its place in an image of the result's size, which is 0 elsewhere.
void max_unpool(Context& c) {
  const Value x = c.tensor("self"), indices = c.tensor("indices");
  for (const auto* name : {"output_size", "stride", "padding"}) c.argument(name);  // the dims of the result
  const Dims dims = c.result().dims;
  const size_t image = c.entry.target == "aten.max_unpool3d.default" ? 3 : 2;
  if (dims.size() < image || x.rank() != dims.size()) c.bad("an image of rank ", dims.size());
  const auto rows = [&](const Dims& of) {
    Dims row(of.begin(), of.end() - static_cast<ptrdiff_t>(image));
    row.push_back(product(Dims(of.end() - static_cast<ptrdiff_t>(image), of.end())));
    return row;
  };
  const Dims part = rows(x.dims());
  const Value empty = full(c, {x.dtype(), rows(dims)}, 0);
  const Value placed =
      scatter(c, empty, part.size() - 1, reshape_to(c, indices, part), reshape_to(c, x, part), "none");
  c.give(reshape_to(c, placed, dims));
}

constexpr OpEntry pool_entries[] = {
    {"aten.max_unpool2d.default", "self indices output_size", max_unpool},
    {"aten.max_unpool3d.default", "self indices output_size stride padding", max_unpool},
    {"aten.max_pool2d_with_indices.default", max_windows, max_pool},
    {"aten.max_pool1d_with_indices.default", max_windows, max_pool},
    {"aten.max_pool1d.default", max_windows, max_pool},
    {"aten.max_pool2d.default", max_windows, max_pool},
    {"aten.max_pool3d.default", max_windows, max_pool},
    {"aten.max_pool3d_with_indices.default", max_windows, max_pool},
    {"aten.max_pool2d_with_indices_backward.default",
     "grad_output self kernel_size stride padding dilation ceil_mode indices", max_pool_backward},
    {"aten.max_pool3d_with_indices_backward.default",
     "grad_output self kernel_size stride padding dilation ceil_mode indices", max_pool_backward},
    {"aten.adaptive_max_pool1d.default", "self output_size", adaptive_max_pool},
    {"aten.adaptive_max_pool2d.default", "self output_size", adaptive_max_pool},
    {"aten.adaptive_max_pool3d.default", "self output_size", adaptive_max_pool},
    {"aten.adaptive_max_pool2d_backward.default", "grad_output self indices", max_pool_backward},
    {"aten.adaptive_max_pool3d_backward.default", "grad_output self indices", max_pool_backward},
    {"aten.avg_pool1d.default", avg_windows_1d, avg_pool},
    {"aten.avg_pool2d.default", avg_windows, avg_pool},
    {"aten.avg_pool3d.default", avg_windows, avg_pool},
    {"aten.avg_pool2d_backward.default", avg_gradients, avg_pool_backward},
    {"aten.avg_pool3d_backward.default", avg_gradients, avg_pool_backward},
    {"aten.adaptive_avg_pool1d.default", "self output_size", adaptive_avg_pool},
    {"aten.adaptive_avg_pool2d.default", "self output_size", adaptive_avg_pool},
    {"aten.adaptive_avg_pool3d.default", "self output_size", adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d.default", "self output_size", adaptive_avg_pool},
    {"aten._adaptive_avg_pool3d.default", "self output_size", adaptive_avg_pool},
    {"aten._adaptive_avg_pool2d_backward.default", "grad_output self", adaptive_avg_pool_backward},
    {"aten._adaptive_avg_pool3d_backward.default", "grad_output self", adaptive_avg_pool_backward},
};

}  // namespace

std::span<const OpEntry> pool_ops() { return pool_entries; }

}  // namespace ferrite::from_torch
