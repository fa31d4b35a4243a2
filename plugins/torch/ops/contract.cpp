// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that contract: matrix products and convolutions, and the gradients of convolutions.
#include <algorithm>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

Value product_of(Context& c, Value a, Value b) { return c.make("matmul", {a, b}); }

bool scales(Context& c) {
  return (c.has("alpha") && c.number("alpha") != 1) || (c.has("beta") && c.number("beta") != 1);
}

/// The dtype of a product, and of its scaled sum before it is rounded to that of the result, as PyTorch's
/// libraries compute it.
DType sum_dtype(Context& c) { return scales(c) ? accumulated(c.result().dtype) : c.result().dtype; }

/// The product of two arguments, in sum_dtype(), which may be wider than that of the operands.
Value product_of(Context& c, std::string_view a, std::string_view b) {
  const DType dtype = sum_dtype(c);
  return product_of(c, c.operand(a, dtype), c.operand(b, dtype));
}

void matmul(Context& c) { c.give(product_of(c, "self", "mat2")); }

/// Of any ranks: vectors are rows or columns.
void any_matmul(Context& c) {
  Value a = c.tensor("self"), b = c.tensor("other");
  if (a.rank() == 1) a = reshape_to(c, a, {1, size_of(c, a, 0)});
  if (b.rank() == 1) b = reshape_to(c, b, {size_of(c, b, 0), 1});
  c.give(reshape_to(c, product_of(c, a, b), c.result().dims));
}

void matrix_vector(Context& c) {
  const Value a = c.tensor("self"), v = c.tensor("vec");
  const Value column = reshape_to(c, v, {size_of(c, v, 0), 1});
  c.give(reshape_to(c, product_of(c, a, column), c.result().dims));
}

void dot(Context& c) {
  const Value a = c.tensor("self"), b = c.tensor(c.entry.target == "aten.dot.default" ? "tensor" : "other");
  const int64_t n = size_of(c, a, 0);
  c.give(reshape_to(c, product_of(c, reshape_to(c, a, {1, n}), reshape_to(c, b, {n, 1})), {}));
}

/// beta * self + alpha * product; with beta 0 PyTorch does not read self.
void add_to_product(Context& c, Value product) {
  const DType dtype = sum_dtype(c);
  product = cast_to(c, product, dtype);
  const auto give = [&](Value sum) { c.give(cast_to(c, sum, c.result().dtype)); };
  if (c.has("alpha") && c.number("alpha") != 1)
    product = binary(c, "mul", product, c.operand("alpha", dtype));
  Value added = c.operand("self", dtype);
  if (c.has("beta") && c.number("beta") == 0) return give(expand_to(c, product, c.result().dims));
  if (c.has("beta") && c.number("beta") != 1) added = binary(c, "mul", added, c.operand("beta", dtype));
  give(binary(c, "add", product, added));
}
void addmm(Context& c) { add_to_product(c, product_of(c, "mat1", "mat2")); }
void baddbmm(Context& c) { add_to_product(c, product_of(c, "batch1", "batch2")); }
void addmv(Context& c) {
  const Value a = c.operand("mat", sum_dtype(c)), v = c.operand("vec", sum_dtype(c));
  add_to_product(c,
                 reshape_to(c, product_of(c, a, reshape_to(c, v, {size_of(c, v, 0), 1})), c.result().dims));
}
void addbmm(Context& c) {
  add_to_product(c, reduce_over(c, "reduce_sum", product_of(c, "batch1", "batch2"), {0}, false));
}
void addr(Context& c) {
  const DType dtype = sum_dtype(c);
  const Value column = along(c, c.operand("vec1", dtype), 0, 2),
              row = along(c, c.operand("vec2", dtype), 1, 2);
  add_to_product(c, binary(c, "mul", column, row));
}

// Convolutions.

struct Convolution {
  size_t dims;
  Dims stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;
};

/// pads: whether the argument `padding` is a list of integers; else no dim is padded.
Convolution read_convolution(Context& c, bool pads = true) {
  const Value weight = c.tensor("weight");
  need_rank(c, weight.rank(), 3);
  const size_t dims = weight.rank() - 2;
  Convolution v{dims,
                for_each_dim(c, "stride", dims, Dims(dims, 1)),
                pads ? for_each_dim(c, "padding", dims, Dims(dims, 0)) : Dims(dims, 0),
                for_each_dim(c, "dilation", dims, Dims(dims, 1)),
                for_each_dim(c, "output_padding", dims, Dims(dims, 0)),
                c.integer("groups", 1),
                c.flag("transposed", c.entry.target.starts_with("aten.conv_transpose"))};
  for (const auto* steps : {&v.stride, &v.dilation})
    for (const auto step : *steps)
      if (step < 1) c.bad("a stride or dilation of ", step);
  return v;
}

Value convolve(Context& c, const Convolution& v, Value x, Value w, Value bias, const Dims& high) {
  return c.make("conv", {x, w, bias}, attr("strides", v.stride), attr("pads_low", v.padding),
                attr("pads_high", high), attr("dilations", v.dilation), attr("groups", v.groups));
}
/// `high`: the elements cut off after each dim of the result.
Value convolve_transposed(Context& c, const Convolution& v, Value x, Value w, Value bias, const Dims& high,
                          const Dims& extra) {
  return c.make("conv_transpose", {x, w, bias}, attr("strides", v.stride), attr("pads_low", v.padding),
                attr("pads_high", high), attr("dilations", v.dilation), attr("groups", v.groups),
                attr("output_padding", extra));
}

/// `high`: the zeros after each dim of the operand.
void give_convolution(Context& c, const Convolution& v, const Dims& high) {
  const Value x = c.tensor("input"), w = c.tensor("weight"), bias = c.optional("bias");
  // A batch dim may be missing.
  const bool unbatched = x.rank() + 1 == w.rank();
  Dims batched = x.dims();
  if (unbatched) batched.insert(batched.begin(), 1);
  const Value in = reshape_to(c, x, batched);
  const Value out = v.transposed ? convolve_transposed(c, v, in, w, bias, v.padding, v.output_padding)
                                 : convolve(c, v, in, w, bias, high);
  c.give(reshape_to(c, out, c.result().dims));
}
void convolution(Context& c) {
  const auto v = read_convolution(c);
  give_convolution(c, v, v.padding);
}
/// With the padding "valid": none, or "same": the result has the operand's size.
void named_padding(Context& c) {
  auto v = read_convolution(c, false);
  const auto kernel = c.tensor("weight").dims();
  Dims high(v.dims, 0);
  if (const auto name = c.text("padding", "valid"); name == "same") {
    for (size_t k = 0; k < v.dims; ++k) {
      const int64_t total = v.dilation[k] * (kernel[k + 2] - 1);
      v.padding[k] = total / 2;
      high[k] = total - v.padding[k];
    }
  } else if (name != "valid") {
    c.bad("argument 'padding' is '", name, "'");
  }
  give_convolution(c, v, high);
}

/// The gradient of the input: the transposed convolution of the gradient, of the input's size.
Value input_gradient(Context& c, const Convolution& v, Value g, Value x, Value w) {
  const auto sizes = x.dims(), given = g.dims(), kernel = w.dims();
  if (v.transposed) {
    Value dx = convolve(c, v, g, w, Value(), v.padding);
    // An output padding of at least the stride lets the convolution have more windows than `x` has elements;
    // the last ones are cut off.
    for (size_t k = 2; k < sizes.size(); ++k) dx = slice_dim(c, dx, k, 0, sizes[k]);
    return dx;
  }
  Dims extra(v.dims), zeros(kernel.size(), 0), added(kernel.size(), 0), high = v.padding;
  for (size_t k = 0; k < v.dims; ++k) {
    const int64_t size = kernel[k + 2], stride = v.stride[k];
    extra[k] =
        sizes[k + 2] - ((given[k + 2] - 1) * stride - 2 * v.padding[k] + v.dilation[k] * (size - 1) + 1);
    // Kernels that are whole multiples of the stride take no products with the zeros between elements; a few
    // with zeros of the kernel are cheaper.
    if (size > stride && v.dilation[k] == 1 && sizes[k + 2] % stride == 0)
      added[k + 2] = (stride - size % stride) % stride;
    high[k] += added[k + 2];
  }
  const Value whole = added == zeros ? w : c.make("pad", {w}, attr("low", zeros), attr("high", added));
  return convolve_transposed(c, v, g, whole, Value(), high, extra);
}

/// The gradient of the weights of windows over `big`, one for each place of `small`.
Value weight_gradient(Context& c, const Convolution& v, Value big, Value small, const Dims& kernel) {
  return c.make("conv_weight_gradient", {big, small}, attr("kernel", Dims(kernel.begin() + 2, kernel.end())),
                attr("strides", v.stride), attr("pads_low", v.padding), attr("dilations", v.dilation),
                attr("groups", v.groups));
}

void convolution_backward(Context& c) {
  const Value g = c.tensor("grad_output"), x = c.tensor("input"), w = c.tensor("weight");
  const auto v = read_convolution(c);
  c.integers("bias_sizes");
  const auto& mask = c.argument("output_mask");
  if (!mask.list() || mask.list()->size() != 3) c.bad("argument 'output_mask' is no list of three bools");
  if (x.rank() != w.rank()) c.unsupported("the input has no batch dim");
  need_rank(c, g.rank(), w.rank(), w.rank());
  if (c.wants(0)) c.give(0, input_gradient(c, v, g, x, w));
  if (c.wants(1))
    c.give(1, v.transposed ? weight_gradient(c, v, g, x, w.dims()) : weight_gradient(c, v, x, g, w.dims()));
  if (c.wants(2)) {
    Dims axes = {0};
    for (size_t k = 2; k < g.rank(); ++k) axes.push_back(static_cast<int64_t>(k));
    const Value sum = reduce_over(c, "reduce_sum", cast_to(c, g, accumulated(g.dtype())), axes, false);
    c.give(2, cast_to(c, sum, g.dtype()));
  }
}

void linear(Context& c) {
  const Value x = c.tensor("input"), w = c.tensor("weight"), bias = c.optional("bias");
  Value out = product_of(c, x, w.rank() > 1 ? swap_dims(c, w, 0, 1) : w);
  if (bias) out = binary(c, "add", out, bias);
  c.give(reshape_to(c, out, c.result().dims));
}

constexpr const char* convolution_parameters =
    "input weight bias stride padding dilation transposed output_padding groups";
constexpr const char* plain_parameters = "input weight bias stride padding dilation groups";
constexpr const char* transposed_parameters =
    "input weight bias stride padding output_padding groups dilation";

/// The sum over some dims of the product of three tensors, each of which has size 1 in dims of its own.
void trilinear(Context& c) {
  const auto& result = c.result();
  const DType wide = accumulated(result.dtype);
  c.integer("unroll_dim", 1);  // a matter of speed
  const auto expanded = [&](std::string_view tensor, std::string_view expand) {
    const Value x = c.operand(tensor, wide);
    Dims dims = x.dims(), places = c.integers(expand);
    std::ranges::sort(places);
    for (const auto place : places) {
      if (place < 0 || place > static_cast<int64_t>(dims.size())) c.bad("it expands dim ", place);
      dims.insert(dims.begin() + place, 1);
    }
    return reshape_to(c, x, dims);
  };
  const Value first = expanded("i1", "expand1"), second = expanded("i2", "expand2"),
              third = expanded("i3", "expand3");
  const Value all = binary(c, "mul", binary(c, "mul", first, second), third);
  const Dims axes = c.dims(c.integers("sumdim"), all.rank());
  c.give(cast_to(c, axes.empty() ? all : reduce_over(c, "reduce_sum", all, axes, false), result.dtype));
}

constexpr OpEntry contract_entries[] = {
    {"aten.mm.default", "self mat2", matmul},
    {"aten.bmm.default", "self mat2", matmul},
    {"aten._trilinear.default", "i1 i2 i3 expand1 expand2 expand3 sumdim unroll_dim", trilinear},
    {"aten.mm.dtype", "self mat2 ~out_dtype", matmul},
    {"aten.bmm.dtype", "self mat2 ~out_dtype", matmul},
    {"aten.matmul.default", "self other", any_matmul},
    {"aten.mv.default", "self vec", matrix_vector},
    {"aten.dot.default", "self tensor", dot},
    {"aten.vdot.default", "self other", dot},
    {"aten.addmm.default", "self mat1 mat2 beta alpha", addmm},
    {"aten.baddbmm.default", "self batch1 batch2 beta alpha", baddbmm},
    {"aten.addbmm.default", "self batch1 batch2 beta alpha", addbmm},
    {"aten.addmm.dtype", "self mat1 mat2 ~out_dtype beta alpha", addmm},
    {"aten.baddbmm.dtype", "self batch1 batch2 ~out_dtype beta alpha", baddbmm},
    {"aten.addr.default", "self vec1 vec2 beta alpha", addr},
    {"aten.addmv.default", "self mat vec beta alpha", addmv},
    {"aten.linear.default", "input weight bias", linear},
    {"aten.convolution.default", convolution_parameters, convolution},
    {"aten._convolution.default",
     "input weight bias stride padding dilation transposed output_padding groups ~*", convolution},
    {"aten.conv1d.default", plain_parameters, convolution},
    {"aten.conv2d.default", plain_parameters, convolution},
    {"aten.conv3d.default", plain_parameters, convolution},
    {"aten.convolution_backward.default",
     "grad_output input weight bias_sizes stride padding dilation transposed output_padding groups "
     "output_mask",
     convolution_backward},
    {"aten.conv1d.padding", plain_parameters, named_padding},
    {"aten.conv2d.padding", plain_parameters, named_padding},
    {"aten.conv3d.padding", plain_parameters, named_padding},
    {"aten.conv_transpose1d.default", transposed_parameters, convolution},
    {"aten.conv_transpose2d.input", transposed_parameters, convolution},
    {"aten.conv_transpose3d.input", transposed_parameters, convolution},
};

}  // namespace

std::span<const OpEntry> contract_ops() { return contract_entries; }

}  // namespace ferrite::from_torch
