// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building blocks of handlers. Each adds no node if the value already has the requested form.
#pragma once

#include "context.h"

namespace ferrite::from_onnx {

Value cast_to(Context& c, Value x, DType dtype);
/// The conversion of Cast and of the quantising operators. If the attribute `saturate` is 1, its default,
/// numbers beyond the range of an 8-bit float, and infinities, become its largest number.
Value convert_to(Context& c, Value x, DType dtype);
Value reshape_to(Context& c, Value x, Dims shape);
Value expand_to(Context& c, Value x, Dims shape);
Value transpose_by(Context& c, Value x, Dims perm);
/// Slices one dim; the others stay whole.
Value slice_dim(Context& c, Value x, size_t dim, int64_t start, int64_t size);
Value reduce_over(Context& c, std::string_view op, Value x, Dims axes, bool keepdims = true);
Value number_like(Context& c, Value x, double value);

/// A vector along dim `axis`, with the shape that broadcasts to `rank` dims.
Value along(Context& c, Value vector, size_t axis, size_t rank);
/// 0, 1, ..., count - 1 along dim `axis` of `rank` dims.
Value counting(Context& c, DType dtype, int64_t count, size_t axis, size_t rank);

/// The dims that both broadcast to; FE-I23 if there are none.
Dims broadcast_dims(const Context& c, const Dims& a, const Dims& b);
/// The dims [first, last).
Dims dim_range(size_t first, size_t last);
int64_t product(const Dims& dims);
/// "[2,3]"
std::string dims_text(const Dims& dims);

}  // namespace ferrite::from_onnx
