// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Resampling.
#include <cmath>

#include "ferrite/counted.hpp"
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

struct Resampling {
  std::string mode, coordinates, nearest;
  std::vector<double> scales;
  Dims sizes;  ///< empty: they follow from the scales
  Value region;
};

/// floor(dim * scale), computed in f32 as in ONNX Runtime and shape inference, since models give scales in
/// f32. So 10 times the f32 nearest to 0.7 is 7. For an integral scale the product is exact.
int64_t scaled_size(const Context& c, int64_t dim, double scale) {
  const auto narrow = static_cast<float>(scale);
  if (!(narrow >= 0x1p-32f && narrow <= 0x1p32f))
    c.bad("a scale is ", scale, ", which is not in [2^-32, 2^32]");
  int64_t size = 0;
  const bool whole = std::floor(narrow) == narrow;
  const bool fits = whole ? !__builtin_mul_overflow(dim, static_cast<int64_t>(narrow), &size)
                          : static_cast<float>(dim) * narrow < 0x1p63f;
  if (!fits || dim < 0) c.bad("dim ", dim, " by scale ", scale, " is too large");
  return whole ? size : static_cast<int64_t>(std::floor(static_cast<float>(dim) * narrow));
}

void resample(Context& c, Resampling r, std::vector<Attr> more = {}) {
  auto x = c.type(0);
  if (r.mode == "bilinear") r.mode = "linear";
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
    c.bad("attribute 'mode' is '", r.mode, "' and may be nearest, linear or cubic");
  if (!r.sizes.empty()) {
    if (r.sizes.size() != x.rank()) c.bad("there are ", r.sizes.size(), " sizes for ", to_string(x));
    for (size_t d = 0; d < x.rank(); ++d) {
      if (r.sizes[d] < 1 || x.dims[d] < 1) c.bad(to_string(x), " does not resize to ", dims_text(r.sizes));
      r.scales.push_back(static_cast<double>(r.sizes[d]) / static_cast<double>(x.dims[d]));
    }
  } else {
    if (r.scales.size() != x.rank()) c.bad("there are ", r.scales.size(), " scales for ", to_string(x));
    for (size_t d = 0; d < x.rank(); ++d) r.sizes.push_back(scaled_size(c, x.dims[d], r.scales[d]));
  }
  bool same = r.sizes == x.dims;
  for (double scale : r.scales) same = same && scale == 1.0;
  if (same && !r.region) return c.give(c.operand(0));
  std::vector<Value> operands{c.operand(0)};
  if (r.region) operands.push_back(r.region);
  more.insert(more.end(), {attr("mode", r.mode), attr("scales", r.scales), attr("sizes", r.sizes),
                           attr("coordinate_mode", r.coordinates), attr("nearest_mode", r.nearest)});
  c.give(c.graph.make("resize", operands, more));
}

void need_growing(const Context& c, const Resampling& r) {
  for (double scale : r.scales)
    if (r.mode == "nearest" && scale < 1)
      c.unsupported("nearest with scales below 1 is not defined in this opset; convert to opset 11");
}
void upsample(Context& c) {
  Resampling r{c.text("mode", "nearest"), "asymmetric", "floor", {}, {}, {}};
  r.scales = c.opset < 9 ? c.numbers("scales").value_or(std::vector<double>{}) : c.constant_numbers(1);
  need_growing(c, r);
  resample(c, r);
}

void resize(Context& c) {
  if (c.opset < 11) {
    Resampling r{c.text("mode", "nearest"), "asymmetric", "floor", c.constant_numbers(1), {}, {}};
    need_growing(c, r);
    return resample(c, r);
  }
  Resampling r{c.text("mode", "nearest"),
               c.text("coordinate_transformation_mode", "half_pixel"),
               c.text("nearest_mode", "round_prefer_floor"),
               {},
               {},
               {}};
  if (c.flag("antialias", false)) c.unsupported("antialias is not supported");
  if (c.text("keep_aspect_ratio_policy", "stretch") != "stretch")
    c.unsupported("keep_aspect_ratio_policy other than stretch is not supported");
  auto x = c.type(0);
  Dims named = dim_range(0, x.rank());
  if (auto axes = c.opset >= 18 ? c.integers("axes") : std::nullopt) named = c.axes(*axes, x.rank());
  auto spread = [&](auto list, auto whole) {
    if (list.size() != named.size())
      c.bad("there are ", counted(list.size(), "number"), " for ", counted(named.size(), "dim"));
    for (size_t k = 0; k < list.size(); ++k) whole[static_cast<size_t>(named[k])] = list[k];
    return whole;
  };
  // An empty tensor stands for an absent one.
  auto given = [&](size_t k) { return c.has(k) && c.type(k).elements() > 0; };
  if (given(2) && given(3)) c.bad("both scales and sizes are given; give one of the two");
  if (!given(2) && !given(3)) c.bad("neither scales nor sizes are given; give one of the two");
  if (given(2))
    r.scales = spread(c.constant_numbers(2), std::vector<double>(x.rank(), 1.0));
  else
    r.sizes = spread(c.constant_integers(3), x.dims);
  if (r.coordinates == "tf_crop_and_resize") {
    if (!given(1)) c.bad("the region of interest is missing");
    const auto numbers = c.constant_numbers(1);
    if (numbers.size() != 2 * named.size())
      c.bad("the region of interest has ", counted(numbers.size(), "number"), " for ",
            counted(named.size(), "dim"));
    // The size does not depend on the region, as in ONNX Runtime and ONNX's reference implementation.
    const auto half = numbers.begin() + static_cast<std::ptrdiff_t>(named.size());
    auto region = spread(std::vector(numbers.begin(), half), std::vector<double>(x.rank(), 0.0));
    const auto ends = spread(std::vector(half, numbers.end()), std::vector<double>(x.rank(), 1.0));
    region.insert(region.end(), ends.begin(), ends.end());
    r.region = c.graph.literal({f64, {static_cast<int64_t>(region.size())}}, region.data());
  }
  resample(c, r,
           {attr("cubic_a", c.number("cubic_coeff_a", -0.75)),
            attr("exclude_outside", c.flag("exclude_outside", false)),
            attr("extrapolation_value", c.number("extrapolation_value", 0.0))});
}

constexpr OpEntry resize_entries[] = {
    {"Resize", 10, newest, resize},
    {"Upsample", 7, 9, upsample},
};

}  // namespace

std::span<const OpEntry> resize_ops() { return resize_entries; }

}  // namespace ferrite::from_onnx
