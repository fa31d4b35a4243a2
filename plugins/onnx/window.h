// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The attributes of convolutions and pooling, resolved for the given shapes.
#pragma once

#include "helpers.h"

namespace ferrite::from_onnx {

/// Each list has one number per spatial dim.
struct Window {
  Dims input, kernel, strides, dilations, low, high;
  Dims sizes;             ///< spatial dims of the result
  bool past_end = false;  ///< because of ceil_mode, a window reaches past the padded input

  /// Elements that one window spans along dim d.
  int64_t span(size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }
};

/// The attribute `name`: `count` numbers of at least `least`; if it is absent, `otherwise` for each.
Dims spatial_numbers(const Context& c, std::string_view name, size_t count, int64_t otherwise, int64_t least);

/// Reads kernel_shape (unless `kernel` is given), strides, dilations, pads, auto_pad and, for pooling,
/// ceil_mode.
Window window_of(const Context& c, const Dims& kernel, bool pooling);

/// The convolution of the operands: x, w and, if given, bias.
Value convolve(Context& c, const Window& w, Value x, Value weight, Value bias);

}  // namespace ferrite::from_onnx
