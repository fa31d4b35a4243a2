// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that make tensors of constants. Their dtypes and dims are those of the result.
#include <algorithm>
#include <cmath>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

void zeros(Context& c) { c.give(full(c, c.result(), 0)); }
void ones(Context& c) { c.give(full(c, c.result(), 1)); }
/// Elements that PyTorch leaves undefined are 0.
void empty(Context& c) { zeros(c); }
/// Every element is the number or the tensor of rank 0 in the parameter that the entry names.
void fill(Context& c) {
  const auto& result = c.result();
  const Value value = c.operand(c.entry.standard, result.dtype);
  c.give(
      expand_to(c, value.rank() > 0 && result.dims.empty() ? reshape_to(c, value, {}) : value, result.dims));
}

/// A number as PyTorch converts it to an integer dtype, or a constant of a float dtype.
Value constant(Context& c, std::string_view name, DType dtype, int64_t otherwise) {
  return c.has(name) ? c.operand(name, dtype) : integer_scalar(c, dtype, otherwise);
}
/// start + k * step for k along the result's dim. Like PyTorch, f32 is computed in f64 and f16 in f32.
void arange(Context& c) {
  const auto& result = c.result();
  const double start = c.number("start", 0), step = c.number("step", 1);
  DType wide = accumulated(result.dtype);
  if (wide == f32 && result.dtype == f32) {
    constexpr double most = 1 << 24;  // up to here f32 holds each integer
    const bool exact = start == std::trunc(start) && step == std::trunc(step) &&
                       std::abs(start) + std::abs(step) * static_cast<double>(product(result.dims)) < most;
    wide = exact ? f32 : f64;
  }
  if (wide == boolean) wide = i64;
  Value x = counting(c, wide, result.dims, 0);
  if (step != 1) x = binary(c, "mul", x, constant(c, "step", wide, 1));
  if (start != 0) x = binary(c, "add", x, constant(c, "start", wide, 0));
  c.give(cast_to(c, x, result.dtype));
}
/// From `start` to `end` in equal steps, computed from the nearer end.
Value equal_steps(Context& c, DType dtype, const Dims& dims) {
  const int64_t count = product(dims), half = count / 2;
  const Value start = c.operand("start", dtype), end = c.operand("end", dtype);
  if (count < 2) return expand_to(c, start, dims);
  const Value step = binary(c, "div", binary(c, "sub", end, start), static_cast<double>(count - 1));
  const Value k = counting(c, dtype, dims, 0);
  const Value rest = binary(c, "sub", number_like(c, k, static_cast<double>(count - 1)), k);
  const Value from_start = binary(c, "add", start, binary(c, "mul", step, k));
  const Value from_end = binary(c, "sub", end, binary(c, "mul", step, rest));
  return select(c, binary(c, "lt", k, static_cast<double>(half)), from_start, from_end);
}
void linspace(Context& c) {
  const auto& result = c.result();
  const DType wide = is_float(result.dtype) ? accumulated(result.dtype) : f64;
  c.give(cast_to(c, equal_steps(c, wide, result.dims), result.dtype));
}
void logspace(Context& c) {
  const auto& result = c.result();
  if (!is_float(result.dtype)) c.unsupported("powers are not exact enough to be truncated to integers");
  const Value exponent = equal_steps(c, accumulated(result.dtype), result.dims);
  const Value base = number_like(c, exponent, c.number("base", 10));
  c.give(cast_to(c, binary(c, "pow", base, exponent), result.dtype));
}
void eye(Context& c) {
  const auto& result = c.result();
  const int64_t rows = result.dims.at(0), columns = result.dims.at(1);
  const Value equal = binary(c, "eq", counting(c, i64, {rows, 1}, 0), counting(c, i64, {1, columns}, 1));
  c.give(cast_to(c, equal, result.dtype));
}
/// The rows and the columns of the places in a triangle of a matrix, in row-major order.
void triangle_indices(Context& c) {
  const bool upper = std::string_view(c.entry.standard) == "upper";
  const int64_t rows = c.integer("row"), columns = c.integer("col"), offset = c.integer("offset", 0);
  std::vector<int64_t> row_of, column_of;
  const int64_t limit = product(c.result().dims) / 2;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t bound = std::clamp<int64_t>(r + offset + (upper ? 0 : 1), 0, columns);
    for (int64_t k = upper ? bound : 0; k < (upper ? columns : bound); ++k) {
      row_of.push_back(r);
      column_of.push_back(k);
    }
    if (static_cast<int64_t>(row_of.size()) > limit) c.bad("more places than the result holds");
  }
  const auto count = static_cast<int64_t>(row_of.size());
  row_of.insert(row_of.end(), column_of.begin(), column_of.end());
  c.give(cast_to(c, reshape_to(c, c.graph.integers(row_of), {2, count}), c.result().dtype));
}

// The last parameters say the type and where the tensor lies.
#define FERRITE_TYPED "~dtype ~layout ~device ~pin_memory"
#define FERRITE_LIKE "~self ~dtype ~layout ~device ~pin_memory ~memory_format"
constexpr const char* sized = "~size " FERRITE_TYPED;
constexpr const char* sized_format = "~size " FERRITE_TYPED " ~memory_format";
constexpr const char* like = FERRITE_LIKE;
constexpr const char* sized_new = "~self ~size " FERRITE_TYPED;

constexpr OpEntry create_entries[] = {
    {"aten.zeros.default", sized, zeros},
    {"aten.zeros_like.default", like, zeros},
    {"aten.new_zeros.default", sized_new, zeros},
    {"aten._efficientzerotensor.default", sized, zeros},
    {"aten.zero.default", "~self", zeros},
    {"aten.ones.default", sized, ones},
    {"aten.ones_like.default", like, ones},
    {"aten.new_ones.default", sized_new, ones},
    {"aten.empty.memory_format", sized_format, empty},
    {"aten.empty_like.default", like, empty},
    {"aten.empty_strided.default", "~size ~stride " FERRITE_TYPED, empty},
    {"aten.empty_permuted.default", "~size ~physical_layout " FERRITE_TYPED, empty},
    {"aten.new_empty.default", sized_new, empty},
    {"aten.new_empty_strided.default", "~self ~size ~stride " FERRITE_TYPED, empty},
    {"prims.empty.default", "~shape ~dtype ~device ~requires_grad", empty},
    {"prims.empty_strided.default", "~shape ~strides ~dtype ~device ~requires_grad", empty},
    {"prims.empty_permuted.default", "~shape ~physical_layout ~dtype ~device ~requires_grad", empty},
    {"aten.full.default", "~size fill_value " FERRITE_TYPED, fill, "fill_value"},
    {"aten.full_like.default", "~self fill_value ~dtype ~layout ~device ~pin_memory ~memory_format", fill,
     "fill_value"},
    {"aten.new_full.default", "~self ~size fill_value " FERRITE_TYPED, fill, "fill_value"},
    {"aten.fill.Scalar", "~self value", fill, "value"},
    {"aten.fill.Tensor", "~self value", fill, "value"},
    {"aten.scalar_tensor.default", "s " FERRITE_TYPED, fill, "s"},
    {"prims.full.default", "~shape fill_value ~dtype ~device ~requires_grad", fill, "fill_value"},
    {"prims.full_like.default", "~a fill_value ~dtype ~device ~requires_grad", fill, "fill_value"},
    {"prims.fill.default", "~self value", fill, "value"},
    {"prims.scalar_tensor.default", "s ~dtype ~device", fill, "s"},

    {"aten.arange.default", "~end " FERRITE_TYPED, arange},
    {"aten.arange.start", "start ~end " FERRITE_TYPED, arange},
    {"aten.arange.start_step", "start ~end step " FERRITE_TYPED, arange},
    {"prims.iota.default", "~length start step ~dtype ~device ~requires_grad", arange},
    {"aten.linspace.default", "start end ~steps " FERRITE_TYPED, linspace},
    {"aten.logspace.default", "start end ~steps base " FERRITE_TYPED, logspace},
    {"aten.eye.default", "~n " FERRITE_TYPED, eye},
    {"aten.eye.m", "~n ~m " FERRITE_TYPED, eye},
    {"aten.tril_indices.default", "row col offset " FERRITE_TYPED, triangle_indices, "lower"},
    {"aten.triu_indices.default", "row col offset " FERRITE_TYPED, triangle_indices, "upper"},
};

#undef FERRITE_TYPED
#undef FERRITE_LIKE

}  // namespace

std::span<const OpEntry> create_ops() { return create_entries; }

}  // namespace ferrite::from_torch
