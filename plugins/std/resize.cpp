// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resampling, one axis after the other. Which elements each result element reads, and with what weights,
// depends on shapes and attributes only, so the decomposition works it out and writes it down as
// constants.
#include <algorithm>
#include <cmath>

#include "common.h"

namespace ferrite::standard {
namespace {

/// What one axis of the result reads: `taps` positions and weights for each element.
struct AxisPlan {
  size_t taps = 1;
  std::vector<int64_t> positions;  ///< [tap][element]
  std::vector<double> weights;     ///< [tap][element]
  std::vector<uint8_t> inside;     ///< [element]: whether it is no extrapolation
};

enum Mode : size_t { mode_nearest, mode_linear, mode_cubic };
size_t mode_of(const Instance& op) { return choice(op, "mode", {"nearest", "linear", "cubic"}); }

constexpr size_t crop_and_resize = 5;
size_t coordinates_of(const Instance& op) {
  return choice(op, "coordinate_mode",
                {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric",
                 "tf_crop_and_resize", "tf_half_pixel_for_nn"});
}
size_t rounding_of(const Instance& op) {
  return choice(op, "nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
}

/// The coordinate in the operand of element k of the result, in f32 as ONNX computes it: which way a tie
/// rounds depends on that.
float source_coordinate(size_t mode, float k, float in, float out, float scale, float from, float to) {
  float half = (k + 0.5f) / scale - 0.5f;
  switch (mode) {
    case 0: return half;
    case 1: return k / scale;
    case 2: return out > 1 ? k * (in - 1) / (out - 1) : 0;
    case 3: return out > 1 ? half : 0;
    case 4: return in / 2 * (1 - out / (scale * in)) + half;
    case crop_and_resize:
      return out > 1 ? from * (in - 1) + k * (to - from) * (in - 1) / (out - 1)
                     : 0.5f * (from + to) * (in - 1);
    default: return (k + 0.5f) / scale;
  }
}

double nearest(size_t mode, double x) {
  switch (mode) {
    case 0: return std::ceil(x - 0.5);
    case 1: return std::floor(x + 0.5);
    case 2: return std::floor(x);
    default: return std::ceil(x);
  }
}

/// The weight of the element at distance x (Keys, 1981).
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// from and to: the region of interest along the axis, in parts of its length.
AxisPlan plan_axis(const Instance& op, size_t d, double from, double to) {
  int64_t in = op.operand(0).dims[d], out = op.result(0).dims[d];
  double scale = op.attrs.numbers("scales")[d];
  size_t mode = mode_of(op), coordinates = coordinates_of(op), rounding = rounding_of(op);
  bool exclude = op.attrs.boolean("exclude_outside");
  AxisPlan plan;
  plan.taps = mode == mode_nearest ? 1 : mode == mode_linear ? 2 : 4;
  auto count = static_cast<size_t>(out);
  plan.positions.resize(plan.taps * count);
  plan.weights.resize(plan.taps * count);
  for (size_t k = 0; k < count; ++k) {
    double x =
        source_coordinate(coordinates, static_cast<float>(k), static_cast<float>(in), static_cast<float>(out),
                          static_cast<float>(scale), static_cast<float>(from), static_cast<float>(to));
    plan.inside.push_back(coordinates != crop_and_resize || (x >= 0 && x <= static_cast<double>(in - 1)));
    double base = mode == mode_nearest ? nearest(rounding, x) : std::floor(x), total = 0;
    for (size_t tap = 0; tap < plan.taps; ++tap) {
      double at = base + static_cast<double>(tap) - (mode == mode_cubic ? 1 : 0);
      double weight = mode == mode_nearest  ? 1
                      : mode == mode_linear ? 1 - std::abs(x - at)
                                            : cubic(x - at, op.attrs.number("cubic_a"));
      if (exclude && (at < 0 || at > static_cast<double>(in - 1))) weight = 0;
      total += weight;
      plan.weights[tap * count + k] = weight;
      plan.positions[tap * count + k] =
          static_cast<int64_t>(std::clamp(at, 0.0, static_cast<double>(in - 1)));
    }
    for (size_t tap = 0; exclude && total != 0 && tap < plan.taps; ++tap)
      plan.weights[tap * count + k] /= total;
  }
  return plan;
}

/// Elements of x along axis d at fixed positions: whole repetition and strided reading stay views.
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

/// `numbers` as a constant of `dtype` that lies along axis d and broadcasts over the others.
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

Value resample(Graph& g, Value x, size_t d, const AxisPlan& plan) {
  size_t count = plan.positions.size() / plan.taps;
  Value result;
  for (size_t tap = 0; tap < plan.taps; ++tap) {
    std::span positions(plan.positions.data() + tap * count, count);
    std::span weights(plan.weights.data() + tap * count, count);
    if (std::all_of(weights.begin(), weights.end(), [](double w) { return w == 0; })) continue;
    Value term = select(g, x, d, positions);
    if (!std::all_of(weights.begin(), weights.end(), [](double w) { return w == 1; }))
      term = g.make("mul", {term, along_axis(g, weights, x.dtype(), d, x.rank())});
    result = result ? g.make("add", {result, term}) : term;
  }
  return result ? result : select(g, x, d, {plan.positions.data(), count});
}

/// The region of interest as 2 * rank numbers, starts first: operand 1, a constant.
std::vector<double> region(const Instance& op, size_t rank) {
  std::vector<double> numbers(rank, 0.0);
  numbers.resize(2 * rank, 1.0);
  if (coordinates_of(op) != crop_and_resize) return numbers;
  if (!op.has_operand(1)) fail("FE-G79", op.op(), ": tf_crop_and_resize needs a region of interest");
  const auto& view = op.operand_view(1);
  if (!view.data || op.operand(1).dtype != f32 || op.operand(1).elements() != static_cast<int64_t>(2 * rank))
    fail("FE-G79", op.op(), ": the region of interest must be a constant f32[", 2 * rank, "]");
  for (size_t k = 0; k < 2 * rank; ++k) {
    float value;
    std::memcpy(&value, static_cast<const char*>(view.data) + k * sizeof value, sizeof value);
    numbers[k] = static_cast<double>(value);
  }
  return numbers;
}

std::vector<Value> decompose_resize(Graph& g, const Instance& op, std::span<const Value> operands) {
  auto x = op.operand(0);
  auto result = op.result(0);
  auto roi = region(op, x.rank());
  bool moves_only = mode_of(op) == mode_nearest;
  // Weighted sums of integers are done in f32 and truncate.
  DType work = moves_only ? x.dtype : is_float(x.dtype) ? compute_type(x.dtype) : f32;
  Value value = cast_to(g, operands[0], work);
  std::vector<std::pair<size_t, std::vector<uint8_t>>> masks;
  for (size_t d = 0; d < x.rank(); ++d) {
    bool cropped = coordinates_of(op) == crop_and_resize && (roi[d] != 0 || roi[x.rank() + d] != 1);
    if (x.dims[d] == result.dims[d] && op.attrs.numbers("scales")[d] == 1.0 && !cropped) continue;
    auto plan = plan_axis(op, d, roi[d], roi[x.rank() + d]);
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
          "x resampled to `sizes`: a scale and a size for each dim. `roi`, a constant, is for "
          "tf_crop_and_resize.")
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
        auto sizes = integers(op, "sizes", x.rank(), 0, large >> 8);
        auto scales = op.attrs.numbers("scales");
        if (scales.size() != x.rank())
          fail("FE-G72", op.op(), ": attribute 'scales' has ", scales.size(), " numbers and needs ",
               x.rank());
        for (size_t d = 0; d < x.rank(); ++d) {
          need_value(scales[d] > 0 && std::isfinite(scales[d]), op, "scales", "holds ", scales[d]);
          need_fit(x.dims[d] > 0 || sizes[d] == 0, op, "dim ", d, " of ", to_string(x), " is empty");
        }
        mode_of(op), coordinates_of(op), rounding_of(op);
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
