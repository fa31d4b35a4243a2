// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "helpers.h"

#include <numeric>

namespace ferrite::from_onnx {

Value cast_to(Context& c, Value x, DType dtype) {
  return x.dtype() == dtype ? x : c.make("cast", {x}, attr("dtype", dtype));
}
Value convert_to(Context& c, Value x, DType dtype) {
  if (!is_f8(dtype) || !c.flag("saturate", true)) return cast_to(c, x, dtype);
  Value wide = x.dtype() == f64 ? x : cast_to(c, x, f32);
  const double most = f8_largest(dtype);
  return cast_to(c, c.make("clamp", {wide, number_like(c, wide, -most), number_like(c, wide, most)}), dtype);
}
Value reshape_to(Context& c, Value x, Dims shape) {
  return x.dims() == shape ? x : c.make("reshape", {x}, attr("shape", std::move(shape)));
}
Value expand_to(Context& c, Value x, Dims shape) {
  return x.dims() == shape ? x : c.make("expand", {x}, attr("shape", std::move(shape)));
}
Value transpose_by(Context& c, Value x, Dims perm) {
  return perm == dim_range(0, perm.size()) ? x : c.make("transpose", {x}, attr("perm", std::move(perm)));
}
Value slice_dim(Context& c, Value x, size_t dim, int64_t start, int64_t size) {
  Dims dims = x.dims();
  if (start == 0 && size == dims[dim]) return x;
  Dims starts(dims.size()), strides(dims.size(), 1);
  starts[dim] = start;
  dims[dim] = size;
  return c.make("slice", {x}, attr("starts", starts), attr("sizes", dims), attr("strides", strides));
}
Value reduce_over(Context& c, std::string_view op, Value x, Dims axes, bool keepdims) {
  return c.make(op, {x}, attr("axes", std::move(axes)), attr("keepdims", keepdims));
}
Value number_like(Context& c, Value x, double value) { return c.graph.scalar(x.dtype(), value); }

Value along(Context& c, Value vector, size_t axis, size_t rank) {
  Dims shape(rank, 1);
  shape[axis] = vector.type().elements();
  return reshape_to(c, vector, std::move(shape));
}
Value counting(Context& c, DType dtype, int64_t count, size_t axis, size_t rank) {
  Dims shape(rank, 1);
  shape[axis] = count;
  return c.make("iota", {}, attr("dtype", dtype), attr("shape", shape),
                attr("axis", static_cast<int64_t>(axis)));
}

Dims broadcast_dims(const Context& c, const Dims& a, const Dims& b) {
  Dims result(std::max(a.size(), b.size()), 1);
  for (size_t k = 0; k < result.size(); ++k) {
    auto dim_of = [&](const Dims& dims) {
      size_t missing = result.size() - dims.size();
      return k < missing ? int64_t{1} : dims[k - missing];
    };
    int64_t x = dim_of(a), y = dim_of(b);
    if (x != y && x != 1 && y != 1)
      c.bad("the shapes ", dims_text(a), " and ", dims_text(b), " do not broadcast");
    result[k] = x == 1 ? y : x;
  }
  return result;
}
Dims dim_range(size_t first, size_t last) {
  Dims dims;
  for (size_t k = first; k < last; ++k) dims.push_back(static_cast<int64_t>(k));
  return dims;
}
int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}
std::string dims_text(const Dims& dims) {
  std::string text = "[";
  for (size_t k = 0; k < dims.size(); ++k) text += (k ? "," : "") + std::to_string(dims[k]);
  return text + "]";
}

}  // namespace ferrite::from_onnx
