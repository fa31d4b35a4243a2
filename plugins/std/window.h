// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sliding windows over the spatial dims (from dim 2 on), for convolution and pooling.
#pragma once

#include <algorithm>

#include "common.h"

namespace ferrite::standard {

/// The geometry of a window, with one number per spatial dim.
struct Window {
  Dims input, output, kernel, strides, low, high, dilations;

  size_t rank() const { return kernel.size(); }
  int64_t volume() const {
    int64_t count = 1;
    for (int64_t size : kernel) count *= size;
    return count;
  }
  /// Whether a window can reach before the start, or past the end, of dim d.
  bool before(size_t d) const { return low[d] > 0; }
  bool past(size_t d) const {
    return (output[d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] - low[d] >= input[d];
  }
};

/// The attribute's numbers, or `otherwise` for every spatial dim if the list is empty.
inline Dims spatial(const Instance& op, std::string_view name, size_t rank, int64_t otherwise, int64_t low) {
  if (op.attrs.integers(name).empty()) return Dims(rank, otherwise);
  return integers(op, name, rank, low, large >> 16);
}

/// Reads the attributes of an op over `input` (spatial dims only). If the op has a nonempty attribute
/// `sizes`, it gives the result's spatial dims; otherwise there are as many windows as fit.
inline Window window_of(const Instance& op, Dims input, Dims kernel) {
  size_t rank = input.size();
  Window w{std::move(input), {}, std::move(kernel), {}, {}, {}, {}};
  w.strides = spatial(op, "strides", rank, 1, 1);
  w.low = spatial(op, "pads_low", rank, 0, 0);
  w.high = spatial(op, "pads_high", rank, 0, 0);
  w.dilations = spatial(op, "dilations", rank, 1, 1);
  if (op.attrs.has("sizes") && !op.attrs.integers("sizes").empty()) {
    w.output = integers(op, "sizes", rank, 1, large >> 4);
    return w;
  }
  for (size_t d = 0; d < rank; ++d) {
    int64_t room = w.input[d] + w.low[d] + w.high[d] - ((w.kernel[d] - 1) * w.dilations[d] + 1);
    need_fit(room >= 0, op, "the window of ", w.kernel[d], " does not fit spatial dim ", d, " of size ",
             w.input[d], " with pads ", w.low[d], " and ", w.high[d]);
    w.output.push_back(room / w.strides[d] + 1);
  }
  return w;
}

/// The window without those elements of its kernel that never meet the operand; at least one element stays. A
/// sum over it takes no longer if pads and kernels are larger than the operand.
inline Window trimmed(Window w) {
  for (size_t d = 0; d < w.rank(); ++d) {
    // Element k covers the positions k * dilation - low plus 0 to `reach`.
    const int64_t reach = (w.output[d] - 1) * w.strides[d], dilation = w.dilations[d];
    const int64_t before_first = std::max<int64_t>(w.low[d] - reach, 0);
    const int64_t first = std::min((before_first + dilation - 1) / dilation, w.kernel[d] - 1);
    const int64_t last = std::min((w.input[d] + w.low[d] - 1) / dilation, w.kernel[d] - 1);
    w.low[d] -= first * dilation;
    w.kernel[d] = std::max<int64_t>(last - first, 0) + 1;
  }
  return w;
}

/// The number of kernel elements that a window visits in dim d: all of them, or, if the kernel is more than
/// twice as long as the operand, those that can meet it, from walk_start on.
inline int64_t walk_of(const Window& w, size_t d) {
  const int64_t most = std::max<int64_t>((w.input[d] - 1) / w.dilations[d] + 1, 1);
  return w.kernel[d] / 2 > most ? most : w.kernel[d];
}
/// The first kernel element that does not lie before the operand, for the window at result position `at`.
inline Idx walk_start(const Window& w, size_t d, Idx at) {
  return max_index((at * -w.strides[d] + (w.low[d] + w.dilations[d] - 1)) / w.dilations[d], 0);
}

/// The operand's spatial dims.
inline Dims spatial_dims(const TensorType& type) { return {type.dims.begin() + 2, type.dims.end()}; }

/// The position that the window at result position `at` reads with its element `step`.
inline Idx window_index(const Window& w, size_t d, Idx at, Idx step) {
  return at * w.strides[d] + step * w.dilations[d] - w.low[d];
}

/// Loads `buffer` at `index`, whose coordinates from `first` on are window indices. The mask covers only dims
/// in which a window can leave the operand, combined with `mask` (no token: true); elsewhere it gives
/// `other`.
inline Val load_window(Lowering& l, const BufferRef& buffer, const Indices& index, size_t first,
                       const Window& w, const std::function<Val()>& other, Val mask = {}) {
  auto add = [&](Val condition) { mask = mask.lowering() ? mask & condition : condition; };
  for (size_t d = 0; d < w.rank(); ++d) {
    if (!w.before(d) && !w.past(d)) continue;
    Val position = l.value(index[first + d]);
    if (w.before(d)) add(position >= 0.0);
    if (w.past(d)) add(position < static_cast<double>(w.input[d]));
  }
  return mask.lowering() ? l.load(buffer, index, mask, other()) : l.load(buffer, index);
}

}  // namespace ferrite::standard
