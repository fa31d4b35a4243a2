// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that contract: matrix products and convolutions, and the gradients of convolutions.
#include "helpers.h"

namespace ferrite::from_torch {
namespace {

Value product_of(Context& c, Value a, Value b) { return c.make("matmul", {a, b}); }

void matmul(Context& c) { c.give(product_of(c, c.tensor("self"), c.tensor("mat2"))); }

/// Of any ranks: vectors are rows or columns.
void any_matmul(Context& c) {
  Value a = c.tensor("self"), b = c.tensor("other");
  if (a.rank() == 1) a = reshape_to(c, a, {1, a.dims()[0]});
  if (b.rank() == 1) b = reshape_to(c, b, {b.dims()[0], 1});
  c.give(reshape_to(c, product_of(c, a, b), c.result().dims));
}

void matrix_vector(Context& c) {
  const Value a = c.tensor("self"), v = c.tensor("vec");
  const Value column = reshape_to(c, v, {v.dims()[0], 1});
  c.give(reshape_to(c, product_of(c, a, column), c.result().dims));
}

void dot(Context& c) {
  const Value a = c.tensor("self"), b = c.tensor("tensor");
  const int64_t n = a.dims()[0];
  c.give(reshape_to(c, product_of(c, reshape_to(c, a, {1, n}), reshape_to(c, b, {n, 1})), {}));
}

/// beta * self + alpha * product; with beta 0 PyTorch does not read self.
void add_to_product(Context& c, Value product) {
  const DType dtype = c.result().dtype;
  if (c.has("alpha") && c.number("alpha") != 1)
    product = binary(c, "mul", product, c.operand("alpha", dtype));
  Value added = c.tensor("self");
  if (c.has("beta") && c.number("beta") == 0) return c.give(expand_to(c, product, c.result().dims));
  if (c.has("beta") && c.number("beta") != 1) added = binary(c, "mul", added, c.operand("beta", dtype));
  c.give(binary(c, "add", product, added));
}
void addmm(Context& c) { add_to_product(c, product_of(c, c.tensor("mat1"), c.tensor("mat2"))); }
void baddbmm(Context& c) { add_to_product(c, product_of(c, c.tensor("batch1"), c.tensor("batch2"))); }
void addmv(Context& c) {
  const Value a = c.tensor("mat"), v = c.tensor("vec");
  add_to_product(c, reshape_to(c, product_of(c, a, reshape_to(c, v, {v.dims()[0], 1})), c.result().dims));
}
void addbmm(Context& c) {
  add_to_product(
      c, reduce_over(c, "reduce_sum", product_of(c, c.tensor("batch1"), c.tensor("batch2")), {0}, false));
}

// Convolutions. A list of one element stands for all dims.

Dims for_each_dim(Context& c, std::string_view name, size_t dims, int64_t otherwise) {
  Dims values = c.integers(name);
  if (values.empty()) values.push_back(otherwise);
  if (values.size() == 1) values.resize(dims, values[0]);
  if (values.size() != dims)
    c.bad("argument '", name, "' has ", values.size(), " elements for ", dims, " dims");
  return values;
}

struct Convolution {
  size_t dims;
  Dims stride, padding, dilation, output_padding;
  int64_t groups;
  bool transposed;
};

Convolution read_convolution(Context& c, size_t dims) {
  return {dims,
          for_each_dim(c, "stride", dims, 1),
          for_each_dim(c, "padding", dims, 0),
          for_each_dim(c, "dilation", dims, 1),
          for_each_dim(c, "output_padding", dims, 0),
          c.integer("groups", 1),
          c.flag("transposed", false)};
}

Value convolve(Context& c, const Convolution& v, Value x, Value w, Value bias, const Dims& high) {
  return c.make("conv", {x, w, bias}, attr("strides", v.stride), attr("pads_low", v.padding),
                attr("pads_high", high), attr("dilations", v.dilation), attr("groups", v.groups));
}
Value convolve_transposed(Context& c, const Convolution& v, Value x, Value w, Value bias, const Dims& extra) {
  return c.make("conv_transpose", {x, w, bias}, attr("strides", v.stride), attr("pads_low", v.padding),
                attr("pads_high", v.padding), attr("dilations", v.dilation), attr("groups", v.groups),
                attr("output_padding", extra));
}

void convolution(Context& c) {
  const Value x = c.tensor("input"), w = c.tensor("weight"), bias = c.optional("bias");
  const auto v = read_convolution(c, w.rank() - 2);
  // A batch dim may be missing.
  const bool unbatched = x.rank() + 1 == w.rank();
  Dims batched = x.dims();
  if (unbatched) batched.insert(batched.begin(), 1);
  const Value in = reshape_to(c, x, batched);
  const Value out = v.transposed ? convolve_transposed(c, v, in, w, bias, v.output_padding)
                                 : convolve(c, v, in, w, bias, v.padding);
  c.give(reshape_to(c, out, c.result().dims));
}

/// The gradient of the input: the transposed convolution of the gradient, of the input's size.
Value input_gradient(Context& c, const Convolution& v, Value g, Value x, Value w) {
  if (v.transposed) return convolve(c, v, g, w, Value(), v.padding);
  Dims extra(v.dims);
  const auto sizes = x.dims(), given = g.dims(), kernel = w.dims();
  for (size_t k = 0; k < v.dims; ++k)
    extra[k] = sizes[k + 2] - ((given[k + 2] - 1) * v.stride[k] - 2 * v.padding[k] +
                               v.dilation[k] * (kernel[k + 2] - 1) + 1);
  return convolve_transposed(c, v, g, w, Value(), extra);
}

/// The gradient of the weights: dw[o, i, k] = sum over n, p of big[n, i, p * stride + k * dilation - padding]
/// * small[n, o, p], a convolution whose batch is the channels and whose channels are the batch. Stride and
/// dilation change their parts.
Value weight_gradient(Context& c, const Convolution& v, Value big, Value small, const Dims& kernel) {
  const auto large = big.dims(), little = small.dims();
  const int64_t n = large[0], g = v.groups, in = large[1] / g, out = little[1] / g;
  auto spatial = [&](const Dims& dims, Dims front) {
    front.insert(front.end(), dims.begin() + 2, dims.end());
    return front;
  };
  Dims perm = {2, 1, 0}, perm_small = {1, 2, 0};
  for (size_t k = 0; k < v.dims; ++k)
    perm.push_back(static_cast<int64_t>(k) + 3), perm_small.push_back(static_cast<int64_t>(k) + 3);
  Value a = transpose_by(c, reshape_to(c, big, spatial(large, {n, g, in})), perm);
  a = reshape_to(c, a, spatial(large, {in, g * n}));
  Value b = transpose_by(c, reshape_to(c, small, spatial(little, {n, g, out})), perm_small);
  b = reshape_to(c, b, spatial(little, {g * out, n}));
  Dims high(v.dims);
  for (size_t k = 0; k < v.dims; ++k) {
    high[k] = (kernel[k + 2] - 1) * v.dilation[k] + (little[k + 2] - 1) * v.stride[k] + 1 - large[k + 2] -
              v.padding[k];
    // What no window reaches is cut off.
    if (high[k] < 0) a = slice_dim(c, a, k + 2, 0, large[k + 2] + high[k]), high[k] = 0;
  }
  const Value sums = c.make("conv", {a, b, Value()}, attr("strides", v.dilation), attr("pads_low", v.padding),
                            attr("pads_high", high), attr("dilations", v.stride), attr("groups", g));
  return swap_dims(c, sums, 0, 1);
}

void convolution_backward(Context& c) {
  const Value g = c.tensor("grad_output"), x = c.tensor("input"), w = c.tensor("weight");
  const auto v = read_convolution(c, w.rank() - 2);
  c.integers("bias_sizes");
  const auto& mask = c.argument("output_mask");
  if (!mask.list() || mask.list()->size() != 3) c.bad("argument 'output_mask' is no list of three bools");
  if (x.rank() != w.rank()) c.unsupported("the input has no batch dim");
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
  Value out = product_of(c, x, swap_dims(c, w, 0, 1));
  if (bias) out = binary(c, "add", out, bias);
  c.give(reshape_to(c, out, c.result().dims));
}

// Resizing of images.

void nearest(Context& c) {
  const bool exact = c.entry.target.find("exact") != std::string_view::npos;
  Value x = c.tensor("self");
  const auto& to = c.result().dims;
  // A chosen scale decides the places where it is given; PyTorch's own graphs nearly always give sizes.
  for (const auto* name : {"scales", "scales_h", "scales_w", "scales_d"}) c.argument(name);
  c.argument("output_size");
  for (size_t k = 2; k < to.size(); ++k) {
    const int64_t from = x.dims()[k];
    if (from == to[k]) continue;
    // Places in f32, as PyTorch computes them.
    const float scale = static_cast<float>(from) / static_cast<float>(to[k]);
    std::vector<int64_t> places;
    for (int64_t p = 0; p < to[k]; ++p) {
      const float at = exact ? (static_cast<float>(p) + 0.5f) * scale : static_cast<float>(p) * scale;
      places.push_back(std::min(static_cast<int64_t>(at), from - 1));
    }
    x = c.make("gather", {x, c.graph.integers(places)}, attr("axis", static_cast<int64_t>(k)));
  }
  c.give(x);
}

constexpr const char* convolution_parameters =
    "input weight bias stride padding dilation transposed output_padding groups";
constexpr const char* plain_parameters = "input weight bias stride padding dilation groups";

constexpr OpEntry entries[] = {
    {"aten.mm.default", "self mat2", matmul},
    {"aten.bmm.default", "self mat2", matmul},
    {"aten.matmul.default", "self other", any_matmul},
    {"aten.mv.default", "self vec", matrix_vector},
    {"aten.dot.default", "self tensor", dot},
    {"aten.vdot.default", "self tensor", dot},
    {"aten.addmm.default", "self mat1 mat2 beta alpha", addmm},
    {"aten.baddbmm.default", "self batch1 batch2 beta alpha", baddbmm},
    {"aten.addbmm.default", "self batch1 batch2 beta alpha", addbmm},
    {"aten.addmv.default", "self mat vec beta alpha", addmv},
    {"aten.linear.default", "input weight bias", linear},
    {"aten.convolution.default", convolution_parameters, convolution},
    {"aten.conv1d.default", plain_parameters, convolution},
    {"aten.conv2d.default", plain_parameters, convolution},
    {"aten.conv3d.default", plain_parameters, convolution},
    {"aten.convolution_backward.default",
     "grad_output input weight bias_sizes stride padding dilation transposed output_padding groups "
     "output_mask",
     convolution_backward},
    {"aten.upsample_nearest1d.default", "self output_size scales", nearest},
    {"aten.upsample_nearest2d.default", "self output_size scales_h scales_w", nearest},
    {"aten.upsample_nearest3d.default", "self output_size scales_d scales_h scales_w", nearest},
    {"aten._upsample_nearest_exact1d.default", "self output_size scales", nearest},
    {"aten._upsample_nearest_exact2d.default", "self output_size scales_h scales_w", nearest},
    {"aten._upsample_nearest_exact3d.default", "self output_size scales_d scales_h scales_w", nearest},
};

}  // namespace

std::span<const OpEntry> contract_ops() { return entries; }

}  // namespace ferrite::from_torch
