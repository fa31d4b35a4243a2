// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resampling, one axis after the other. The elements that each result element reads, and their weights,
// depend only on shapes and attributes, so the decomposition computes them and stores them as constants.
#include <algorithm>
#include <cmath>

#include "common.h"

namespace ferrite::standard {
namespace {

__extension__ typedef __int128 Wide;

/// An exact position or scale; den > 0. With the bounds below, numerators and denominators stay below 2^121.
struct Ratio {
  Wide num, den;
};
constexpr int64_t largest_dim = large >> 8;  // 2^32, for resampled dims
constexpr double largest_scale = 0x1p32, smallest_scale = 0x1p-32;

Wide floor_of(Ratio x) { return x.num / x.den - (x.num % x.den < 0); }
Wide ceil_of(Ratio x) { return -floor_of({-x.num, x.den}); }

/// The elements that one axis of the result reads: `taps` positions and weights per element.
struct AxisPlan {
  size_t taps = 1;
  std::vector<int64_t> positions;  ///< [tap][element]
  std::vector<double> weights;     ///< [tap][element]; empty: all are 1
  std::vector<uint8_t> inside;     ///< [element]: false for extrapolated ones
  bool averages = true;            ///< the weights of each element sum to 1, except for rounding
};
constexpr int64_t most_positions = int64_t{1} << 28;  // per axis; they are stored as constants, 16 bytes each

enum Mode : size_t { mode_nearest, mode_linear, mode_cubic };
size_t mode_of(const Instance& op) { return choice(op, "mode", {"nearest", "linear", "cubic"}); }
size_t taps_of(size_t mode) { return mode == mode_nearest ? 1 : mode == mode_linear ? 2 : 4; }

constexpr size_t crop_and_resize = 5;
size_t coordinates_of(const Instance& op) {
  return choice(op, "coordinate_mode",
                {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
                 "tf_crop_and_resize", "tf_half_pixel_for_nn"});
}
size_t rounding_of(const Instance& op) {
  return choice(op, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}

/// The part of an axis that tf_crop_and_resize resamples, in units of its length times `region_step`; the
/// whole axis in other modes.
struct Region {
  int64_t from, to;
};
constexpr int64_t region_step = int64_t{1} << 48;
constexpr double largest_region = 256;

/// The scale of an axis. A number that equals the ratio of the sizes, rounded to f32 or f64, stands for the
/// exact ratio: models give scales in f32, which represents few ratios exactly. Any other number is taken
/// literally.
Ratio scale_of(double scale, int64_t in, int64_t out) {
  const auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (scale == to / from || scale == static_cast<double>(static_cast<float>(to) / static_cast<float>(from)))
    return {out, in};
  int exponent = 0;
  Wide num = static_cast<int64_t>(std::frexp(scale, &exponent) * 0x1p53);
  for (exponent -= 53; num % 2 == 0; ++exponent) num /= 2;
  return exponent >= 0 ? Ratio{num << exponent, 1} : Ratio{num, Wide{1} << -exponent};
}

/// The position in the operand of element k of the result.
Ratio source_position(size_t mode, Wide k, Wide in, Wide out, Ratio scale, Region region) {
  const Ratio centre{(2 * k + 1) * scale.den, 2 * scale.num};  // (k + 1/2) / scale
  const Ratio half{centre.num - scale.num, centre.den};
  switch (mode) {
    case 0: return half;
    case 1: return {k * scale.den, scale.num};
    case 2: return out > 1 ? Ratio{k * (in - 1), out - 1} : Ratio{0, 1};
    case 3: return out > 1 ? half : Ratio{0, 1};
    case 4: return {half.num + in * scale.num - out * scale.den, half.den};
    case crop_and_resize:
      return out > 1 ? Ratio{(region.from * (out - 1) + k * (region.to - region.from)) * (in - 1),
                             region_step * (out - 1)}
                     : Ratio{(Wide{region.from} + region.to) * (in - 1), 2 * Wide{region_step}};
    default: return centre;
  }
}

Wide nearest(size_t rounding, Ratio x) {
  switch (rounding) {
    case 0: return ceil_of({2 * x.num - x.den, 2 * x.den});
    case 1: return floor_of({2 * x.num + x.den, 2 * x.den});
    case 2: return floor_of(x);
    default: return ceil_of(x);
  }
}

/// The weight of the element at distance x (Keys, 1981).
double cubic(double x, double a) {
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

AxisPlan plan_axis(const Instance& op, size_t d, Region region) {
  const int64_t in = op.operand(0).dims[d], out = op.result(0).dims[d];
  const Ratio scale = scale_of(op.attrs.numbers("scales")[d], in, out);
  const size_t mode = mode_of(op), coordinates = coordinates_of(op), rounding = rounding_of(op);
  const bool exclude = op.attrs.boolean("exclude_outside");
  AxisPlan plan;
  plan.taps = taps_of(mode);
  const auto count = static_cast<size_t>(out);
  plan.positions.resize(plan.taps * count);
  if (mode != mode_nearest) plan.weights.resize(plan.taps * count);
  const auto place = [&](size_t tap, size_t k, Wide at) {
    plan.positions[tap * count + k] = static_cast<int64_t>(std::clamp<Wide>(at, 0, in - 1));
  };
  for (size_t k = 0; k < count; ++k) {
    const Ratio x = source_position(coordinates, static_cast<int64_t>(k), in, out, scale, region);
    plan.inside.push_back(coordinates != crop_and_resize || (x.num >= 0 && ceil_of(x) <= in - 1));
    if (mode == mode_nearest) {
      place(0, k, nearest(rounding, x));
      continue;
    }
    const Wide first = floor_of(x) - (mode == mode_cubic ? 1 : 0);
    double total = 0;
    for (size_t tap = 0; tap < plan.taps; ++tap) {
      const Wide at = first + static_cast<int64_t>(tap);
      const Wide distance = x.num > at * x.den ? x.num - at * x.den : at * x.den - x.num;
      const auto part = [&](Wide num) { return static_cast<double>(num) / static_cast<double>(x.den); };
      double weight =
          mode == mode_linear ? part(x.den - distance) : cubic(part(distance), op.attrs.number("cubic_a"));
      if (exclude && (at < 0 || at > in - 1)) weight = 0;
      total += weight;
      plan.weights[tap * count + k] = weight;
      place(tap, k, at);
    }
    for (size_t tap = 0; exclude && total != 0 && tap < plan.taps; ++tap)
      plan.weights[tap * count + k] /= total;
    plan.averages = plan.averages && !(exclude && total == 0);
  }
  return plan;
}

/// The elements of x along axis d at constant positions; repetition and strided reads stay views.
Value select(Graph& g, Value x, size_t d, std::span<const int64_t> positions) {
  Dims dims = x.dims();
  auto out = static_cast<int64_t>(positions.size());
  int64_t times = dims[d] > 0 && out % dims[d] == 0 ? out / dims[d] : 0,
          step = out > 1 ? positions[1] - positions[0] : 0;
  bool repeats = times > 0, strided = true;
  for (int64_t k = 0; k < out; ++k) {
    auto at = positions[static_cast<size_t>(k)];
    repeats = repeats && at == k / times;
    strided = strided && at == positions[0] + k * step;
  }
  if (strided) {
    Dims starts(dims.size()), strides(dims.size(), 1);
    if (out > 0) starts[d] = positions[0];
    strides[d] = step;
    dims[d] = out;
    return g.make("slice", {x}, {attr("starts", starts), attr("sizes", dims), attr("strides", strides)});
  }
  if (repeats) {
    Dims split = dims, merged = dims;
    split.insert(split.begin() + static_cast<std::ptrdiff_t>(d) + 1, 1);
    Dims spread = split;
    spread[d + 1] = times;
    merged[d] = out;
    return reshape_to(g, g.make("expand", {reshape_to(g, x, split)}, {attr("shape", spread)}), merged);
  }
  return g.make("gather", {x, g.integers({positions.begin(), positions.end()})},
                {attr("axis", static_cast<int64_t>(d))});
}

/// `numbers` as a constant of `dtype` along axis d, which broadcasts over the other axes.
Value along_axis(Graph& g, std::span<const double> numbers, DType dtype, size_t d, size_t rank) {
  Dims shape(rank, 1);
  shape[d] = static_cast<int64_t>(numbers.size());
  auto width = static_cast<size_t>(bits_of(dtype)) / 8;
  std::vector<char> data(numbers.size() * width);
  for (size_t k = 0; k < numbers.size(); ++k) {
    uint64_t bits = Graph::scalar_bits(dtype, numbers[k]);
    std::memcpy(data.data() + k * width, &bits, width);
  }
  return g.literal({dtype, shape}, data.data());
}

/// If all elements that are read equal one number, the result is that number: rounded weights need not sum to
/// 1, and integers truncate.
Value resample(Graph& g, Value x, size_t d, const AxisPlan& plan) {
  if (plan.weights.empty()) return select(g, x, d, plan.positions);
  size_t count = plan.positions.size() / plan.taps;
  Value result, first, same;
  for (size_t tap = 0; tap < plan.taps; ++tap) {
    std::span positions(plan.positions.data() + tap * count, count);
    std::span weights(plan.weights.data() + tap * count, count);
    if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; })) continue;
    const Value tap_of = select(g, x, d, positions);
    if (first) {
      const Value equal = g.make("eq", {tap_of, first});
      same = same ? g.make("logical_and", {same, equal}) : equal;
    } else {
      first = tap_of;
    }
    Value term = tap_of;
    if (!std::all_of(weights.begin(), weights.end(), [](double w) { return w == 1; }))
      term = g.make("mul", {term, along_axis(g, weights, x.dtype(), d, x.rank())});
    result = result ? g.make("add", {result, term}) : term;
  }
  if (plan.averages && first && !same) return first;
  if (plan.averages && same) return g.make("where", {same, first, result});
  return result ? result : select(g, x, d, {plan.positions.data(), count});
}

/// The region of interest of each dim: operand 1, a constant with 2 * rank numbers, starts first.
std::vector<Region> regions_of(const Instance& op, size_t rank) {
  std::vector<Region> regions(rank, Region{0, region_step});
  if (coordinates_of(op) != crop_and_resize) return regions;
  if (!op.has_operand(1)) fail("FE-G79", op.op(), ": tf_crop_and_resize needs a region of interest");
  const auto& view = op.operand_view(1);
  const auto type = op.operand(1);
  if (!view.data || (type.dtype != f32 && type.dtype != f64) ||
      type.elements() != static_cast<int64_t>(2 * rank))
    fail("FE-G79", op.op(), ": the region of interest must be a constant f32[", 2 * rank, "] or f64[",
         2 * rank, "]");
  for (size_t k = 0; k < 2 * rank; ++k) {
    double number;
    if (type.dtype == f32) {
      float narrow;
      std::memcpy(&narrow, static_cast<const char*>(view.data) + k * sizeof narrow, sizeof narrow);
      number = static_cast<double>(narrow);
    } else {
      std::memcpy(&number, static_cast<const char*>(view.data) + k * sizeof number, sizeof number);
    }
    if (!(std::abs(number) <= largest_region))
      fail("FE-G79", op.op(), ": the region of interest holds ", number, ", which is not in [",
           -largest_region, ", ", largest_region, "]");
    auto& region = regions[k % rank];
    (k < rank ? region.from : region.to) = std::llround(number * static_cast<double>(region_step));
  }
  return regions;
}

std::vector<Value> decompose_resize(Graph& g, const Instance& op, std::span<const Value> operands) {
  auto x = op.operand(0);
  auto result = op.result(0);
  auto regions = regions_of(op, x.rank());
  bool moves_only = mode_of(op) == mode_nearest;
  // Weighted sums of integers use a float that represents them, up to 53 bits, and truncate.
  DType work = moves_only              ? x.dtype
               : is_float(x.dtype)     ? compute_type(x.dtype)
               : bits_of(x.dtype) > 16 ? f64
                                       : f32;
  Value value = cast_to(g, operands[0], work);
  std::vector<std::pair<size_t, std::vector<uint8_t>>> masks;
  for (size_t d = 0; d < x.rank(); ++d) {
    const auto& region = regions[d];
    const bool cropped = region.from != 0 || region.to != region_step;
    if (x.dims[d] == result.dims[d] && op.attrs.numbers("scales")[d] == 1.0 && !cropped) continue;
    auto plan = plan_axis(op, d, region);
    value = resample(g, value, d, plan);
    if (std::find(plan.inside.begin(), plan.inside.end(), 0) != plan.inside.end())
      masks.emplace_back(d, plan.inside);
  }
  for (const auto& [d, inside] : masks) {
    std::vector<double> numbers(inside.begin(), inside.end());
    Value outside_value = g.scalar(work, op.attrs.number("extrapolation_value"));
    value = g.make("where", {along_axis(g, numbers, boolean, d, x.rank()), value, outside_value});
  }
  return {cast_to(g, value, x.dtype)};
}

OpDef resize_op() {
  return op_def("resize")
      .doc(
          "x resampled to `sizes`: a scale and a size for each dim. A scale that is the ratio of the sizes, "
          "rounded to f32 or f64, stands for that ratio, any other for itself; positions are exact "
          "fractions. "
          "`roi`, a constant, is for tf_crop_and_resize. Weighted sums of integers truncate; the sum of "
          "equal "
          "numbers is that number.")
      .operands("x", "roi?")
      .attr(attr("mode", "nearest"), "nearest | linear | cubic")
      .required(attr("scales", std::vector<double>{}))
      .required(attr("sizes", Dims{}))
      .attr(attr("coordinate_mode", "half_pixel"),
            "half_pixel | asymmetric | align_corners | pytorch_half_pixel | half_pixel_symmetric | "
            "tf_crop_and_resize | "
            "tf_half_pixel_for_nn")
      .attr(attr("nearest_mode", "round_prefer_floor"),
            "round_prefer_floor | round_prefer_ceil | floor | ceil")
      .attr(attr("cubic_a", -0.75))
      .attr(attr("exclude_outside", false),
            "weights of elements outside are 0 and the others made to sum to 1")
      .attr(attr("extrapolation_value", 0.0))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        auto sizes = integers(op, "sizes", x.rank(), 0, largest_dim);
        auto scales = op.attrs.numbers("scales");
        if (scales.size() != x.rank())
          fail("FE-G72", op.op(), ": attribute 'scales' has ", scales.size(), " numbers and needs ",
               x.rank());
        const size_t mode = mode_of(op);
        for (size_t d = 0; d < x.rank(); ++d) {
          need_value(scales[d] >= smallest_scale && scales[d] <= largest_scale, op, "scales", "holds ",
                     scales[d], ", which is not in [2^-32, 2^32]");
          need_fit(x.dims[d] > 0 || sizes[d] == 0, op, "dim ", d, " of ", to_string(x), " is empty");
          if (x.dims[d] == sizes[d] && scales[d] == 1.0) continue;
          need_fit(x.dims[d] <= largest_dim, op, "dim ", d, " of ", to_string(x), " is longer than 2^32");
          const int64_t most = most_positions / static_cast<int64_t>(taps_of(mode));
          need_value(sizes[d] <= most, op, "sizes", "holds ", sizes[d], ", and a resampled dim has at most ",
                     most, " elements");
        }
        coordinates_of(op), rounding_of(op);
        element_count(op, sizes);
        return std::vector{TensorType{x.dtype, sizes}};
      })
      .decompose(decompose_resize)
      .samples({sample("%x: f32[1,2,3,4]",
                       "resize(%x) {scales = [1.0, 1.0, 2.0, 2.0], sizes = [1, 2, 6, 8], "
                       "coordinate_mode = \"asymmetric\", nearest_mode = \"floor\"}"),
                sample("%x: f32[1,1,4,4]",
                       "resize(%x) {mode = \"linear\", scales = [1.0, 1.0, 0.6, 1.5], sizes = [1, 1, 2, 6]}"),
                sample("%x: f32[1,1,4,4]",
                       "resize(%x) {mode = \"cubic\", scales = [1.0, 1.0, 2.0, 2.0], sizes = [1, 1, 8, 8], "
                       "coordinate_mode = \"align_corners\", exclude_outside = true}")});
}

}  // namespace

void add_resize(PluginBuilder& builder, const PluginContext&) { builder.add(resize_op()); }

}  // namespace ferrite::standard
