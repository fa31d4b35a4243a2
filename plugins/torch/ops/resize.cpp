// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that resize images, one dim after the other, and their gradients; and that resize parts of
// images.
#include <algorithm>
#include <cmath>
#include <optional>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

enum class Filter { nearest, nearest_exact, linear, cubic };

struct Resizing {
  Filter filter = Filter::nearest;
  bool align = false, smooth = false;          ///< smooth: the filter widens where the result is smaller
  std::vector<std::optional<double>> factors;  ///< of each resized dim, where the call chooses them
};
Resizing read_resizing(Context& c) {
  const auto has = [&](std::string_view part) { return c.entry.target.find(part) != std::string_view::npos; };
  Resizing r;
  r.filter = has("exact")     ? Filter::nearest_exact
             : has("nearest") ? Filter::nearest
             : has("cubic")   ? Filter::cubic
                              : Filter::linear;
  r.smooth = has("_aa");
  r.align = c.flag("align_corners", false);
  c.argument("output_size");
  c.argument("input_size");
  need_rank(c, c.result().rank(), 3);
  const auto take = [&](const Argument& factor) {
    const auto* number = std::get_if<double>(&factor.value);
    const auto* integer = std::get_if<int64_t>(&factor.value);
    const double value = number ? *number : integer ? static_cast<double>(*integer) : 0;
    r.factors.push_back(value > 0 ? std::optional(value) : std::nullopt);
  };
  if (const auto* list = c.argument("scale_factors").list()) {
    for (const auto& factor : *list) take(factor);
  } else {
    const size_t dims = c.result().rank() - 2;
    if (dims == 1) take(c.argument("scales"));
    if (dims == 3) take(c.argument("scales_d"));
    if (dims > 1) take(c.argument("scales_h")), take(c.argument("scales_w"));
  }
  r.factors.resize(c.result().rank() - 2);
  return r;
}

/// The distance in the operand between two neighbouring results. PyTorch computes it in f32 unless tensors
/// are f64.
double step_of(const Resizing& r, size_t k, int64_t in, int64_t out, DType dtype) {
  const auto rounded = [&](double x) {
    return dtype == f64 ? x : static_cast<double>(static_cast<float>(x));
  };
  const auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (r.align) return out > 1 ? rounded((from - 1) / (to - 1)) : 0;
  return rounded(r.factors[k] ? 1 / *r.factors[k] : from / to);
}

/// The element of the operand that each element of the result equals.
std::vector<int64_t> nearest_places(const Resizing& r, size_t k, int64_t in, int64_t out, DType dtype) {
  const double step = step_of(r, k, in, out, dtype), first = r.filter == Filter::nearest_exact ? 0.5 : 0;
  std::vector<int64_t> places;
  // PyTorch halves where the size doubles, whatever the chosen factor.
  const bool doubled = r.filter == Filter::nearest && out == 2 * in;
  for (int64_t o = 0; o < out; ++o) {
    if (doubled) {
      places.push_back(o / 2);
      continue;
    }
    double at = (static_cast<double>(o) + first) * step;
    if (dtype != f64) at = static_cast<double>(static_cast<float>(at));
    places.push_back(static_cast<int64_t>(std::min(at, static_cast<double>(in - 1))));
  }
  return places;
}

/// The weight of an element at a distance (Keys, 1981).
double cubic_weight(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// The matrix [out, in] of a dim: how much of each element of the operand each element of the result has.
Value resizing_matrix(Context& c, const Resizing& r, size_t k, int64_t in, int64_t out, DType dtype) {
  std::vector<double> matrix(static_cast<size_t>(in * out), 0);
  const auto put = [&](int64_t o, int64_t at, double weight) {
    matrix[static_cast<size_t>(o * in + std::clamp<int64_t>(at, 0, in - 1))] += weight;
  };
  const double step = step_of(r, k, in, out, dtype);
  const bool cubic = r.filter == Filter::cubic;
  if (r.filter == Filter::nearest || r.filter == Filter::nearest_exact) {
    const auto places = nearest_places(r, k, in, out, dtype);
    for (int64_t o = 0; o < out; ++o) put(o, places[static_cast<size_t>(o)], 1);
  } else if (r.smooth) {
    const double spread = std::max(step, 1.0), reach = (cubic ? 2 : 1) * spread;
    for (int64_t o = 0; o < out; ++o) {
      const double centre = step * (static_cast<double>(o) + 0.5);
      const int64_t first = std::max<int64_t>(static_cast<int64_t>(std::trunc(centre - reach + 0.5)), 0);
      const int64_t end = std::min(static_cast<int64_t>(std::trunc(centre + reach + 0.5)), in);
      std::vector<double> weights;
      double total = 0;
      for (int64_t i = first; i < end; ++i) {
        const double x = (static_cast<double>(i) - centre + 0.5) / spread;
        weights.push_back(cubic ? cubic_weight(x, -0.5) : std::max(0.0, 1 - std::abs(x)));
        total += weights.back();
      }
      for (int64_t i = first; i < end; ++i) put(o, i, weights[static_cast<size_t>(i - first)] / total);
    }
  } else {
    for (int64_t o = 0; o < out; ++o) {
      double at = r.align ? step * static_cast<double>(o) : step * (static_cast<double>(o) + 0.5) - 0.5;
      if (!cubic) at = std::max(at, 0.0);
      const auto below = static_cast<int64_t>(std::floor(at));
      for (int64_t i = below - cubic; i <= below + 1 + cubic; ++i) {
        const double x = at - static_cast<double>(i);
        put(o, i, cubic ? cubic_weight(x, -0.75) : 1 - std::abs(x));
      }
    }
  }
  return cast_to(c, c.graph.literal({f64, {out, in}}, matrix.data()), dtype);
}

/// Where a dim keeps its size, some of PyTorch's filters copy it whatever the chosen factor.
bool is_resized(const Resizing& r, size_t k, int64_t in, int64_t out, bool backward = false) {
  if (in != out) return true;
  const bool copies = r.smooth ? !backward : r.filter == Filter::nearest || r.filter == Filter::linear;
  return !copies && !r.align && r.factors[k] && *r.factors[k] != 1;
}

void resize(Context& c) {
  const auto r = read_resizing(c);
  Value x = c.tensor(c.entry.target.ends_with(".vec") ? "input" : "self");
  const auto in = x.dims(), out = c.result().dims;
  need_rank(c, x.rank(), out.size(), out.size());
  if (product(in) == 0 || product(out) == 0) return c.give(full(c, c.result(), 0));
  if (r.filter == Filter::nearest || r.filter == Filter::nearest_exact) {
    for (size_t d = 2; d < out.size(); ++d)
      if (is_resized(r, d - 2, in[d], out[d]))
        x = gather(c, x, c.graph.integers(nearest_places(r, d - 2, in[d], out[d], x.dtype())), d);
    return c.give(x);
  }
  if (!is_float(x.dtype())) c.unsupported("weighted sums of integers");
  if (r.smooth) {
    const DType dtype = x.dtype(), wide = accumulated(dtype);
    x = cast_to(c, x, wide);
    for (size_t d = 2; d < out.size(); ++d)
      if (is_resized(r, d - 2, in[d], out[d]))
        x = times_along(c, x, swap_dims(c, resizing_matrix(c, r, d - 2, in[d], out[d], wide), 0, 1), d);
    return c.give(cast_to(c, x, dtype));
  }
  std::vector<double> scales(2, 1);
  for (size_t d = 2; d < out.size(); ++d)
    scales.push_back(r.factors[d - 2] && !r.align && is_resized(r, d - 2, in[d], out[d])
                         ? *r.factors[d - 2]
                         : static_cast<double>(out[d]) / static_cast<double>(in[d]));
  c.give(c.make("resize", {x}, attr("mode", std::string(r.filter == Filter::cubic ? "cubic" : "linear")),
                attr("scales", scales), attr("sizes", out),
                attr("coordinate_mode", std::string(r.align ? "align_corners" : "half_pixel"))));
}

void resize_backward(Context& c) {
  const auto r = read_resizing(c);
  Value g = c.tensor("grad_output");
  const DType dtype = g.dtype(), wide = accumulated(dtype);
  const auto in = c.result().dims, out = g.dims();
  need_rank(c, g.rank(), in.size(), in.size());
  if (product(in) == 0 || product(out) == 0) return c.give(full(c, c.result(), 0));
  if (r.filter == Filter::cubic && !r.smooth && in == out) return c.give(g);
  g = cast_to(c, g, wide);
  for (size_t d = 2; d < out.size(); ++d) {
    if (!is_resized(r, d - 2, in[d], out[d], true)) continue;
    const int64_t times = out[d] / in[d];
    const bool repeats = r.filter == Filter::nearest && times * in[d] == out[d] &&
                         (times == 2 || !r.factors[d - 2] || *r.factors[d - 2] == static_cast<double>(times));
    if (!repeats) {
      g = times_along(c, g, resizing_matrix(c, r, d - 2, in[d], out[d], wide), d);
      continue;
    }
    auto apart = g.dims();
    apart[d] = in[d];
    apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(d) + 1, times);
    g = reduce_over(c, "reduce_sum", reshape_to(c, g, apart), {static_cast<int64_t>(d) + 1}, false);
  }
  c.give(cast_to(c, g, dtype));
}

// ---- parts of images, resized

/// For samples along one dim of each region, the two elements that each lies between, and their weights,
/// which are 0 outside of the image.
struct Between {
  Value index[2], weight[2];  ///< [regions, samples]
};
/// `first`, `step`: of each region's bins, [regions, 1].
Between sampled(Context& c, Value first, Value step, int64_t bins, int64_t samples, int64_t length) {
  const Value k = binary(c, "add", counting(c, first.dtype(), {1, bins * samples}, 1), 0.5);
  const Value scaled = binary(c, "mul", k, 1.0 / static_cast<double>(samples));
  Value place = binary(c, "add", first, binary(c, "mul", step, scaled));
  const auto size = static_cast<double>(length);
  const Value inside = c.make("logical_and", {binary(c, "ge", place, -1), binary(c, "le", place, size)});
  place = binary(c, "minimum", binary(c, "maximum", place, 0), size - 1);
  const Value low = unary(c, "floor", place), above = binary(c, "sub", place, low);
  const auto weight = [&](Value x) { return select(c, inside, x, number_like(c, x, 0)); };
  const Value index = clamped(c, cast_to(c, low, i64), 0, length - 1);
  const Value next = clamped(c, binary(c, "add", index, integer_scalar(c, i64, 1)), 0, length - 1);
  return {{index, next}, {weight(binary(c, "sub", number_like(c, above, 1), above)), weight(above)}};
}
/// torchvision's: each bin is the mean of samples between four pixels.
void align_regions(Context& c) {
  const auto& result = c.result();
  const DType dtype = accumulated(result.dtype);
  const Value x = c.operand("input", dtype), regions = c.operand("rois", dtype);
  const int64_t height = c.integer("pooled_height"), width = c.integer("pooled_width"),
                samples = c.integer("sampling_ratio");
  const double scale = c.number("spatial_scale");
  const bool aligned = c.flag("aligned", false);
  if (samples < 1) c.unsupported("a number of samples that depends on the sizes of the regions");
  const Dims dims = x.dims();
  if (product(dims) == 0 || product(result.dims) == 0) return c.give(full(c, result, 0));
  const int64_t count = size_of(c, regions, 0);
  const auto side = [&](int64_t column, int64_t bins, int64_t length) {
    const auto edge = [&](int64_t at) {
      const Value value = binary(c, "mul", slice_dim(c, regions, 1, at, 1), scale);
      return aligned ? binary(c, "sub", value, 0.5) : value;
    };
    const Value first = edge(column);
    Value size = binary(c, "sub", edge(column + 2), first);
    if (!aligned) size = binary(c, "maximum", size, 1);
    return sampled(c, first, binary(c, "div", size, static_cast<double>(bins)), bins, samples, length);
  };
  const auto columns = side(1, width, dims[3]), rows = side(2, height, dims[2]);
  const Dims places{count, height * samples, width * samples};
  const auto coordinate = [&](Value index, const Dims& shape) {
    const Dims one{places[0], places[1], places[2], 1};
    return reshape_to(c, expand_to(c, reshape_to(c, index, shape), places), one);
  };
  const Value image = coordinate(cast_to(c, slice_dim(c, regions, 1, 0, 1), i64), {count, 1, 1});
  const Value channels_last = transpose_by(c, x, {0, 2, 3, 1});
  Value sum;
  for (size_t v = 0; v < 2; ++v)
    for (size_t h = 0; h < 2; ++h) {
      const Value tuple = concat(c,
                                 {image, coordinate(rows.index[v], {count, places[1], 1}),
                                  coordinate(columns.index[h], {count, 1, places[2]})},
                                 3);
      const Value weight = binary(c, "mul", reshape_to(c, rows.weight[v], {count, places[1], 1, 1}),
                                  reshape_to(c, columns.weight[h], {count, 1, places[2], 1}));
      const Value part = binary(c, "mul", c.make("gather_nd", {channels_last, tuple}), weight);
      sum = sum ? binary(c, "add", sum, part) : part;
    }
  const Value bins = reshape_to(c, sum, {count, height, samples, width, samples, dims[1]});
  const Value mean = reduce_over(c, "reduce_mean", bins, {2, 4}, false);
  c.give(cast_to(c, transpose_by(c, mean, {0, 3, 1, 2}), result.dtype));
}

constexpr const char* factors = "input output_size scale_factors";
constexpr const char* aligned_factors = "input output_size align_corners scale_factors";

constexpr OpEntry resize_entries[] = {
    {"aten.upsample_nearest1d.default", "self output_size scales", resize},
    {"aten.upsample_nearest1d.vec", factors, resize},
    {"aten.upsample_nearest1d_backward.default", "grad_output output_size input_size scales",
     resize_backward},
    {"aten.upsample_nearest2d.default", "self output_size scales_h scales_w", resize},
    {"aten.upsample_nearest2d.vec", factors, resize},
    {"aten.upsample_nearest2d_backward.default", "grad_output output_size input_size scales_h scales_w",
     resize_backward},
    {"aten.upsample_nearest3d.default", "self output_size scales_d scales_h scales_w", resize},
    {"aten.upsample_nearest3d.vec", factors, resize},
    {"aten.upsample_nearest3d_backward.default",
     "grad_output output_size input_size scales_d scales_h scales_w", resize_backward},
    {"aten._upsample_nearest_exact1d.default", "self output_size scales", resize},
    {"aten._upsample_nearest_exact1d.vec", factors, resize},
    {"aten._upsample_nearest_exact1d_backward.default", "grad_output output_size input_size scales",
     resize_backward},
    {"aten._upsample_nearest_exact2d.default", "self output_size scales_h scales_w", resize},
    {"aten._upsample_nearest_exact2d.vec", factors, resize},
    {"aten._upsample_nearest_exact2d_backward.default",
     "grad_output output_size input_size scales_h scales_w", resize_backward},
    {"aten._upsample_nearest_exact3d.default", "self output_size scales_d scales_h scales_w", resize},
    {"aten._upsample_nearest_exact3d.vec", factors, resize},
    {"aten._upsample_nearest_exact3d_backward.default",
     "grad_output output_size input_size scales_d scales_h scales_w", resize_backward},
    {"aten.upsample_linear1d.default", "self output_size align_corners scales", resize},
    {"aten.upsample_linear1d.vec", aligned_factors, resize},
    {"aten.upsample_linear1d_backward.default", "grad_output output_size input_size align_corners scales",
     resize_backward},
    {"aten.upsample_bilinear2d.default", "self output_size align_corners scales_h scales_w", resize},
    {"aten.upsample_bilinear2d.vec", aligned_factors, resize},
    {"aten.upsample_bilinear2d_backward.default",
     "grad_output output_size input_size align_corners scales_h scales_w", resize_backward},
    {"aten.upsample_trilinear3d.default", "self output_size align_corners scales_d scales_h scales_w",
     resize},
    {"aten.upsample_trilinear3d.vec", aligned_factors, resize},
    {"aten.upsample_trilinear3d_backward.default",
     "grad_output output_size input_size align_corners scales_d scales_h scales_w", resize_backward},
    {"aten.upsample_bicubic2d.default", "self output_size align_corners scales_h scales_w", resize},
    {"aten.upsample_bicubic2d.vec", aligned_factors, resize},
    {"aten.upsample_bicubic2d_backward.default",
     "grad_output output_size input_size align_corners scales_h scales_w", resize_backward},
    {"aten._upsample_bilinear2d_aa.default", "self output_size align_corners scales_h scales_w", resize},
    {"aten._upsample_bilinear2d_aa.vec", aligned_factors, resize},
    {"aten._upsample_bilinear2d_aa_backward.default",
     "grad_output output_size input_size align_corners scales_h scales_w", resize_backward},
    {"aten._upsample_bicubic2d_aa.default", "self output_size align_corners scales_h scales_w", resize},
    {"aten._upsample_bicubic2d_aa.vec", aligned_factors, resize},
    {"aten._upsample_bicubic2d_aa_backward.default",
     "grad_output output_size input_size align_corners scales_h scales_w", resize_backward},
    {"torchvision.roi_align.default",
     "input rois spatial_scale pooled_height pooled_width sampling_ratio aligned", align_regions},
};

}  // namespace

std::span<const OpEntry> resize_ops() { return resize_entries; }

}  // namespace ferrite::from_torch
