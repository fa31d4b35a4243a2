// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building blocks of handlers. Each adds no node if the value already has the requested form.
#pragma once

#include <cstdint>

#include "context.h"

namespace ferrite::from_torch {

// Dtypes.
int category(DType dtype);        ///< none 0, bool 1, integer 2, float 3, complex 4
DType promote(DType a, DType b);  ///< PyTorch's promotion of two dtypes; none is neutral
/// f32 for the floats below it, in which PyTorch accumulates; itself otherwise.
DType accumulated(DType dtype);

// Values.
/// The size of a dim; FE-I52 where the rank is lower.
int64_t size_of(const Context& c, Value x, size_t dim);
/// FE-I52 if the rank is not from `least` to `most`.
void need_rank(const Context& c, size_t rank, size_t least, size_t most = SIZE_MAX);
Value cast_to(Context& c, Value x, DType dtype);
Value reshape_to(Context& c, Value x, Dims shape);
/// The elements [n] as they lie in memory: who writes programs refuses tensors that are not stored row by
/// row.
Value flat(Context& c, Value x);
Value expand_to(Context& c, Value x, Dims shape);  ///< broadcasts
Value transpose_by(Context& c, Value x, Dims perm);
Value swap_dims(Context& c, Value x, size_t a, size_t b);
/// Slices one dim; the others stay whole. A negative step runs backwards from `start`.
Value slice_dim(Context& c, Value x, size_t dim, int64_t start, int64_t size, int64_t step = 1);
Value concat(Context& c, const std::vector<Value>& parts, size_t dim);
Value reduce_over(Context& c, std::string_view op, Value x, Dims axes, bool keepdims = true);
/// As reduce_over; sums of low precision are accumulated in f32.
Value sum_over(Context& c, std::string_view op, Value x, const Dims& axes, bool keep);
Value full(Context& c, const TensorType& type, double value);
Value integer_scalar(Context& c, DType dtype, int64_t value);  ///< exact for 64 bits
Value number_like(Context& c, Value x, double value);          ///< rank 0, x's dtype
/// A pointwise op of two values, which are broadcast.
Value binary(Context& c, std::string_view op, Value a, Value b);
Value binary(Context& c, std::string_view op, Value a, double b);  ///< b in a's dtype
Value unary(Context& c, std::string_view op, Value x);
Value select(Context& c, Value condition, Value a, Value b);

/// A list of integers with one for each of `dims` dims: a list of one element stands for all of them, an
/// empty one for `otherwise`. FE-I52 for another number of them.
Dims for_each_dim(Context& c, std::string_view name, size_t dims, const Dims& otherwise);
/// The dim that the argument `dim` names, in [0, rank). FE-I52 if the rank is 0.
size_t named_dim(Context& c, size_t rank, int64_t otherwise = 0);

// Reading and writing at computed places, along one dim. Negative indices count from the end.
Value gather(Context& c, Value x, Value indices, size_t axis);
Value gather_elements(Context& c, Value x, Value indices, size_t axis);
/// The name of a reduction for this dtype: the sum of bools is that one holds, their product that all do.
std::string reduction_of(std::string_view reduction, DType dtype);
/// `reduction`: "none", "add", "mul", "min", "max". The sum of bools is that one holds, their product that
/// all do.
Value scatter(Context& c, Value x, size_t axis, Value indices, Value updates, std::string_view reduction);
Value clamped(Context& c, Value index, int64_t low, int64_t high);
Value sum_of_last(Context& c, Value x);  ///< over the last dim, which goes
/// The least (or greatest) value of a dtype, of rank 0.
Value extreme_number(Context& c, DType dtype, bool greatest);

/// The product of each row along dim `dim` and a matrix [size of the dim, new size].
Value times_along(Context& c, Value x, Value matrix, size_t dim);
/// The sum of |x|^order, for order 0 the number of those that are not 0.
Value power_sum(Context& c, Value x, double order, const Dims& axes, bool keepdims = true);
/// The norm of an order, which may be 0 or infinite.
Value norm_over(Context& c, Value x, double order, const Dims& axes, bool keepdims = true);
/// The logarithm of the sum of exp; -inf for rows that are -inf throughout.
Value log_sum_exp(Context& c, Value x, const Dims& axes);

/// A vector along dim `axis`, with the shape that broadcasts to `rank` dims.
Value along(Context& c, Value vector, size_t axis, size_t rank);
/// 0, 1, ... along dim `axis` of `shape`.
Value counting(Context& c, DType dtype, const Dims& shape, size_t axis);

Dims broadcast_dims(const Context& c, const Dims& a, const Dims& b);  ///< FE-I52 if there are none
Dims dim_range(size_t first, size_t last);                            ///< [first, last)
Dims inverse(const Dims& perm);
int64_t product(const Dims& dims);
std::string dims_text(const Dims& dims);  ///< "[2,3]"

}  // namespace ferrite::from_torch
