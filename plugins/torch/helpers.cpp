// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "helpers.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace ferrite::from_torch {

int category(DType dtype) {
  if (dtype == DType::none) return 0;
  if (dtype == boolean) return 1;
  if (is_integer(dtype)) return 2;
  return is_float(dtype) ? 3 : 4;
}

DType promote(DType a, DType b) {
  if (a == b || b == DType::none) return a;
  if (a == DType::none) return b;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 3) {
    // f16 and bf16, and any two 8-bit floats, have no common type among themselves.
    if (bits_of(a) == bits_of(b)) return f32;
    return bits_of(a) > bits_of(b) ? a : b;
  }
  const bool unsigned_a = class_of(a) == FE_CLASS_UINT, unsigned_b = class_of(b) == FE_CLASS_UINT;
  if (unsigned_a == unsigned_b) return bits_of(a) > bits_of(b) ? a : b;
  // A signed type with more bits holds both; where neither is one, the next wider one does. PyTorch takes i64
  // for u64, too.
  const int unsigned_bits = bits_of(unsigned_a ? a : b), signed_bits = bits_of(unsigned_a ? b : a);
  if (signed_bits > unsigned_bits) return unsigned_a ? b : a;
  switch (unsigned_bits) {
    case 8: return i16;
    case 16: return i32;
    default: return i64;
  }
}

DType accumulated(DType dtype) { return is_float(dtype) && bits_of(dtype) < 32 ? f32 : dtype; }

Value cast_to(Context& c, Value x, DType dtype) {
  return x.dtype() == dtype ? x : c.make("cast", {x}, attr("dtype", dtype));
}
Value reshape_to(Context& c, Value x, Dims shape) {
  return x.dims() == shape ? x : c.make("reshape", {x}, attr("shape", std::move(shape)));
}
Value flat(Context& c, Value x) { return reshape_to(c, x, {product(x.dims())}); }
Value expand_to(Context& c, Value x, Dims shape) {
  return x.dims() == shape ? x : c.make("expand", {x}, attr("shape", std::move(shape)));
}
Value transpose_by(Context& c, Value x, Dims perm) {
  return perm == dim_range(0, perm.size()) ? x : c.make("transpose", {x}, attr("perm", std::move(perm)));
}
Value swap_dims(Context& c, Value x, size_t a, size_t b) {
  auto perm = dim_range(0, x.rank());
  if (a >= perm.size() || b >= perm.size()) c.bad("a tensor of rank ", x.rank(), " is no matrix");
  std::swap(perm[a], perm[b]);
  return transpose_by(c, x, std::move(perm));
}
Value slice_dim(Context& c, Value x, size_t dim, int64_t start, int64_t size, int64_t step) {
  const int64_t whole = size_of(c, x, dim);
  if (start == 0 && size == whole && step == 1) return x;
  auto sizes = x.dims();
  Dims starts(sizes.size(), 0), strides(sizes.size(), 1);
  starts[dim] = start;
  sizes[dim] = size;
  strides[dim] = step;
  return c.make("slice", {x}, attr("starts", starts), attr("sizes", sizes), attr("strides", strides));
}
Value concat(Context& c, const std::vector<Value>& parts, size_t dim) {
  return parts.size() == 1 ? parts[0]
                           : c.graph.make("concat", parts, {attr("axis", static_cast<int64_t>(dim))});
}
Value reduce_over(Context& c, std::string_view op, Value x, Dims axes, bool keepdims) {
  if (x.rank() == 0) return x;  // PyTorch reduces a scalar over dim 0, which Ferrite's scalars do not have
  return c.make(op, {x}, attr("axes", std::move(axes)), attr("keepdims", keepdims));
}
Value sum_over(Context& c, std::string_view op, Value x, const Dims& axes, bool keep) {
  const DType dtype = x.dtype();
  return cast_to(c, reduce_over(c, op, cast_to(c, x, accumulated(dtype)), axes, keep), dtype);
}
Value full(Context& c, const TensorType& type, double value) {
  // A view of one number: nothing is stored.
  return expand_to(c, c.graph.scalar(type.dtype, value), type.dims);
}
Value integer_scalar(Context& c, DType dtype, int64_t value) {
  // scalar() takes a double, which rounds integers of more than 53 bits.
  if (!is_integer(dtype) || bits_of(dtype) != 64) return c.graph.scalar(dtype, static_cast<double>(value));
  return c.graph.literal({dtype, {}}, &value);
}
Value number_like(Context& c, Value x, double value) { return c.graph.scalar(x.dtype(), value); }
Value binary(Context& c, std::string_view op, Value a, Value b) { return c.make(op, {a, b}); }
Value binary(Context& c, std::string_view op, Value a, double b) {
  return c.make(op, {a, number_like(c, a, b)});
}
Value unary(Context& c, std::string_view op, Value x) { return c.make(op, {x}); }
Value select(Context& c, Value condition, Value a, Value b) {
  return c.make("where", {cast_to(c, condition, boolean), a, b});
}

Dims for_each_dim(Context& c, std::string_view name, size_t dims, const Dims& otherwise) {
  Dims values = c.integers(name);
  if (values.empty()) values = otherwise;
  if (values.size() == 1) values.resize(dims, values[0]);
  if (values.size() != dims)
    c.bad("argument '", name, "' has ", values.size(), " elements for ", dims, " dims");
  return values;
}
size_t named_dim(Context& c, size_t rank, int64_t otherwise) {
  if (rank == 0) c.bad("the tensor has no dims");
  return static_cast<size_t>(c.dim(c.integer("dim", otherwise), rank));
}
int64_t size_of(const Context& c, Value x, size_t dim) {
  if (dim >= x.rank()) c.bad("a tensor of rank ", x.rank(), " has no dim ", dim);
  return x.dims()[dim];
}
void need_rank(const Context& c, size_t rank, size_t least, size_t most) {
  if (rank < least || rank > most)
    c.bad("a tensor of rank ", rank, ", and at ", rank < least ? "least " : "most ",
          rank < least ? least : most, " is wanted");
}
Value gather(Context& c, Value x, Value indices, size_t axis) {
  return c.make("gather", {x, indices}, attr("axis", static_cast<int64_t>(axis)));
}
Value gather_elements(Context& c, Value x, Value indices, size_t axis) {
  return c.make("gather_elements", {x, indices}, attr("axis", static_cast<int64_t>(axis)));
}
std::string reduction_of(std::string_view reduction, DType dtype) {
  // PyTorch adds bools as 0 and 1 and converts back, where any number but 0 is true.
  if (dtype == boolean && reduction == "add") return "max";
  if (dtype == boolean && reduction == "mul") return "min";
  return std::string(reduction);
}

Value scatter(Context& c, Value x, size_t axis, Value indices, Value updates, std::string_view reduction) {
  return c.make("scatter_elements", {x, indices, updates}, attr("axis", static_cast<int64_t>(axis)),
                attr("reduction", reduction_of(reduction, x.dtype())));
}
Value clamped(Context& c, Value index, int64_t low, int64_t high) {
  const Value least = binary(c, "maximum", index, integer_scalar(c, index.dtype(), low));
  return binary(c, "minimum", least, integer_scalar(c, index.dtype(), high));
}
Value sum_of_last(Context& c, Value x) {
  return reduce_over(c, "reduce_sum", x, {static_cast<int64_t>(x.rank()) - 1}, false);
}
Value extreme_number(Context& c, DType dtype, bool greatest) {
  if (is_float(dtype)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return c.graph.scalar(dtype, greatest ? infinity : -infinity);
  }
  if (dtype == boolean) return c.graph.scalar(dtype, greatest);
  const int bits = bits_of(dtype);
  // All bits of the greatest u64 are set, as those of the signed -1 are.
  if (class_of(dtype) == FE_CLASS_UINT)
    return integer_scalar(c, dtype, !greatest ? 0 : bits == 64 ? -1 : (int64_t{1} << bits) - 1);
  const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return integer_scalar(c, dtype, greatest ? most : -most - 1);
}

Value times_along(Context& c, Value x, Value matrix, size_t dim) {
  // A product sums over the last dim; the transpositions are views.
  const size_t last = x.rank() - 1;
  return swap_dims(c, c.make("matmul", {swap_dims(c, x, dim, last), matrix}), dim, last);
}
Value power_sum(Context& c, Value x, double order, const Dims& axes, bool keepdims) {
  // The usual orders need no pow, which is a logarithm and an exponential for each element.
  Value powers;
  if (order == 0)
    powers = cast_to(c, binary(c, "ne", x, 0), x.dtype());
  else if (order == 2)
    powers = binary(c, "mul", x, x);
  else
    powers = order == 1 ? unary(c, "abs", x) : binary(c, "pow", unary(c, "abs", x), order);
  return reduce_over(c, "reduce_sum", powers, axes, keepdims);
}
Value norm_over(Context& c, Value x, double order, const Dims& axes, bool keepdims) {
  // The limit of the norms as the order grows: the element of the largest, or least, size.
  if (std::isinf(order))
    return reduce_over(c, order > 0 ? "reduce_max" : "reduce_min", unary(c, "abs", x), axes, keepdims);
  const Value sum = power_sum(c, x, order, axes, keepdims);
  if (order == 0 || order == 1) return sum;
  return order == 2 ? unary(c, "sqrt", sum) : binary(c, "pow", sum, 1 / order);
}
Value log_sum_exp(Context& c, Value x, const Dims& axes) {
  // Relative to the greatest element, no exponential is infinite.
  const Value top = reduce_over(c, "reduce_max", x, axes);
  // A row of one infinity has no difference from it.
  const Value safe = select(c, unary(c, "isinf", top), number_like(c, top, 0), top);
  const Value sum = reduce_over(c, "reduce_sum", unary(c, "exp", binary(c, "sub", x, safe)), axes);
  return binary(c, "add", unary(c, "log", sum), safe);
}

Value along(Context& c, Value vector, size_t axis, size_t rank) {
  need_rank(c, vector.rank(), 1, 1);
  if (axis >= rank) c.bad("a tensor of rank ", rank, " has no dim ", axis);
  Dims shape(rank, 1);
  shape[axis] = size_of(c, vector, 0);
  return reshape_to(c, vector, std::move(shape));
}
Value counting(Context& c, DType dtype, const Dims& shape, size_t axis) {
  return c.make("iota", {}, attr("dtype", dtype), attr("shape", shape),
                attr("axis", static_cast<int64_t>(axis)));
}

Dims broadcast_dims(const Context& c, const Dims& a, const Dims& b) {
  // Shapes are aligned at their last dims; dims that one of them lacks count as 1.
  Dims out(std::max(a.size(), b.size()), 1);
  for (size_t k = 0; k < out.size(); ++k) {
    const int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1)
      c.bad("the shapes ", dims_text(a), " and ", dims_text(b), " do not broadcast");
    out[out.size() - 1 - k] = x == 1 ? y : x;
  }
  return out;
}
Dims dim_range(size_t first, size_t last) {
  Dims range(last - first);
  std::iota(range.begin(), range.end(), static_cast<int64_t>(first));
  return range;
}
Dims inverse(const Dims& perm) {
  Dims out(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) out[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  return out;
}
int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}
std::string dims_text(const Dims& dims) {
  std::string text = "[";
  for (size_t k = 0; k < dims.size(); ++k) text += (k ? "," : "") + std::to_string(dims[k]);
  return text + "]";
}

}  // namespace ferrite::from_torch
