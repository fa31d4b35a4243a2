// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small pieces that handlers are made of. Each adds nothing where the value is already as asked for.
#pragma once

#include "context.h"

namespace ferrite::from_onnx {

Value cast_to(Context& c, Value x, DType dtype);
/// What Cast and the quantising operators mean: the attribute `saturate` (where absent, 1) takes numbers beyond a float of 8 bits, and
/// infinities, to its largest number.
Value convert_to(Context& c, Value x, DType dtype);
Value reshape_to(Context& c, Value x, Dims shape);
Value expand_to(Context& c, Value x, Dims shape);
Value transpose_by(Context& c, Value x, Dims perm);
/// Every index of one dim, the others whole.
Value slice_dim(Context& c, Value x, size_t dim, int64_t start, int64_t size);
Value reduce_over(Context& c, std::string_view op, Value x, Dims axes, bool keepdims = true);
Value number_like(Context& c, Value x, double value);

/// A vector along dim `axis` in the shape that broadcasts to `rank` dims.
Value along(Context& c, Value vector, size_t axis, size_t rank);
/// 0, 1, ..., count - 1 along dim `axis` of `rank` dims.
Value counting(Context& c, DType dtype, int64_t count, size_t axis, size_t rank);

/// The dims that both broadcast to; FE-I23 where there are none.
Dims broadcast_dims(const Context& c, const Dims& a, const Dims& b);
/// The dims [first, last).
Dims dim_range(size_t first, size_t last);
int64_t product(const Dims& dims);
/// "[2,3]"
std::string dims_text(const Dims& dims);

}  // namespace ferrite::from_onnx
