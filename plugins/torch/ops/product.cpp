// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and norms that plain torch.export leaves whole, and that PyTorch composes of others.
#include <algorithm>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

void einsum(Context& c) {
  c.argument("path");  // an order of the products
  auto operands = c.tensors("tensors");
  for (auto& operand : operands) operand = cast_to(c, operand, c.result().dtype);
  auto equation = c.text("equation", "");
  std::erase(equation, ' ');
  c.give(c.graph.make("einsum", operands, {attr("equation", equation)}));
}
void outer_product(Context& c) {
  const DType dtype = c.result().dtype;
  c.give(
      binary(c, "mul", along(c, c.operand("self", dtype), 0, 2), along(c, c.operand("vec2", dtype), 1, 2)));
}
/// The sum of products over dims of a and of b, as one product of matrices.
Value contracted(Context& c, Value a, Value b, const Dims& of_a, const Dims& of_b) {
  const auto matrix = [&](Value x, const Dims& dims, bool first) {
    Dims others;
    for (const auto d : dim_range(0, x.rank()))
      if (!std::ranges::count(dims, d)) others.push_back(d);
    Dims perm = first ? others : dims;
    perm.insert(perm.end(), (first ? dims : others).begin(), (first ? dims : others).end());
    int64_t count = 1;
    for (const auto d : dims) count *= size_of(c, x, static_cast<size_t>(d));
    const int64_t rest = count == 0 ? 0 : product(x.dims()) / count;
    return reshape_to(c, transpose_by(c, x, perm), first ? Dims{rest, count} : Dims{count, rest});
  };
  if (product(a.dims()) == 0 || product(b.dims()) == 0) return full(c, c.result(), 0);
  return reshape_to(c, c.make("matmul", {matrix(a, of_a, true), matrix(b, of_b, false)}), c.result().dims);
}
void inner_product(Context& c) {
  const DType dtype = c.result().dtype;
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  if (a.rank() == 0 || b.rank() == 0) return c.give(binary(c, "mul", a, b));
  c.give(contracted(c, a, b, {static_cast<int64_t>(a.rank()) - 1}, {static_cast<int64_t>(b.rank()) - 1}));
}
void tensordot(Context& c) {
  const Value a = c.tensor("self"), b = c.tensor("other");
  c.give(contracted(c, a, b, c.dims(c.integers("dims_self"), a.rank()),
                    c.dims(c.integers("dims_other"), b.rank())));
}
/// A chain of matrix products. The first and the last factor may be vectors.
void chain_product(Context& c) {
  auto factors = c.tensors(c.entry.target == "aten.chain_matmul.default" ? "matrices" : "tensors");
  if (factors.empty()) c.bad("there is nothing to multiply");
  if (factors.size() > 1 && factors[0].rank() == 1) factors[0] = along(c, factors[0], 1, 2);
  if (factors.size() > 1 && factors.back().rank() == 1) factors.back() = along(c, factors.back(), 0, 2);
  Value made = factors[0];
  for (size_t k = 1; k < factors.size(); ++k) made = c.make("matmul", {made, factors[k]});
  c.give(reshape_to(c, made, c.result().dims));
}
/// x1 W x2 for each matrix W of the weight.
void bilinear(Context& c) {
  const Value a = c.tensor("input1"), b = c.tensor("input2"), w = c.tensor("weight"),
              bias = c.optional("bias");
  need_rank(c, w.rank(), 3, 3);
  const Dims sizes = w.dims();
  const int64_t count = sizes[0] == 0 ? 0 : product(c.result().dims) / sizes[0];
  const Value rows = reshape_to(c, a, {count, sizes[1]});
  const Value matrix = reshape_to(c, swap_dims(c, w, 0, 1), {sizes[1], sizes[0] * sizes[2]});
  const Value left = reshape_to(c, c.make("matmul", {rows, matrix}), {count, sizes[0], sizes[2]});
  Value sum = sum_of_last(c, binary(c, "mul", left, reshape_to(c, b, {count, 1, sizes[2]})));
  if (bias) sum = binary(c, "add", sum, bias);
  c.give(reshape_to(c, sum, c.result().dims));
}
void vector_dot(Context& c) {
  const DType dtype = c.result().dtype;
  const Value both = binary(c, "mul", c.operand("x", dtype), c.operand("y", dtype));
  c.give(sum_over(c, "reduce_sum", both, {c.dim(c.integer("dim", -1), both.rank())}, false));
}
void cross_product(Context& c) {
  const DType dtype = c.result().dtype;
  const Dims dims = c.result().dims;
  const Value a = expand_to(c, c.operand("self", dtype), dims),
              b = expand_to(c, c.operand("other", dtype), dims);
  size_t dim = 0;
  if (c.has("dim") || c.entry.target == "aten.linalg_cross.default") {
    dim = named_dim(c, dims.size(), -1);
  } else {
    dim = static_cast<size_t>(std::ranges::find(dims, int64_t{3}) - dims.begin());
  }
  if (dim >= dims.size() || dims[dim] != 3) c.bad("no dim of size 3");
  const auto turned = [&](Value x, int64_t by) {
    return concat(c, {slice_dim(c, x, dim, by, 3 - by), slice_dim(c, x, dim, 0, by)}, dim);
  };
  c.give(binary(c, "sub", binary(c, "mul", turned(a, 1), turned(b, 2)),
                binary(c, "mul", turned(a, 2), turned(b, 1))));
}
void trace(Context& c) {
  const Value x = c.tensor("self");
  if (x.rank() != 2) c.bad("a matrix of rank ", x.rank());
  const Dims dims = x.dims();
  const Value here = binary(c, "eq", counting(c, i64, {dims[0], 1}, 0), counting(c, i64, {1, dims[1]}, 1));
  const Value wide = cast_to(c, x, c.result().dtype);
  c.give(sum_over(c, "reduce_sum", select(c, here, wide, number_like(c, wide, 0)), {0, 1}, false));
}

/// Norms of vectors, and the Frobenius norm of matrices.
void any_norm(Context& c) {
  c.argument("dtype");
  const DType dtype = c.result().dtype, wide = accumulated(dtype);
  const Value x = c.operand("self", wide);
  const bool of_matrices = c.entry.target.starts_with("aten.linalg_matrix_norm");
  Dims axes = c.dims(c.integers("dim"), x.rank());
  if (axes.empty() && of_matrices) axes = c.dims({-2, -1}, x.rank());
  const auto& given = c.argument("ord");
  const bool named = std::holds_alternative<std::string>(given.value);
  if (named && c.text("ord", "fro") != "fro") c.unsupported("the norm '", c.text("ord", ""), "' of matrices");
  const bool vectors = axes.size() == 1 || (axes.empty() && x.rank() < 2);
  if (!named && !given.is_none() && !vectors) c.unsupported("a norm of matrices of an order");
  const double order = named || given.is_none() ? 2 : c.number("ord");
  if (axes.empty()) axes = dim_range(0, x.rank());
  c.give(cast_to(c, norm_over(c, x, order, axes, c.flag("keepdim", false)), dtype));
}

/// The places of an affine map of an image, from -1 to 1.
void affine_grid(Context& c) {
  const auto size = c.integers("size");
  const Value theta = c.tensor("theta");
  const bool align = c.flag("align_corners", false);
  if (size.size() < 4 || size.size() > 5 || theta.rank() != 3) c.bad("a grid of rank ", size.size());
  const size_t rank = size.size() - 2;
  const Dims plane(size.begin() + 2, size.end());
  Dims each = plane;
  each.push_back(1);
  std::vector<Value> parts;
  for (size_t k = rank; k-- > 0;) {  // x comes first
    const auto n = static_cast<double>(plane[k]);
    const Value count = counting(c, theta.dtype(), each, k);
    const double scale = align ? 2 / std::max(n - 1, 1.0) : 2 / n;
    const double offset = align ? (plane[k] == 1 ? 0 : -1) : 1 / n - 1;
    parts.push_back(expand_to(c, binary(c, "add", binary(c, "mul", count, scale), offset), each));
  }
  parts.push_back(full(c, {theta.dtype(), each}, 1));
  const auto points = static_cast<int64_t>(product(plane));
  const Value base = reshape_to(c, concat(c, parts, rank), {1, points, static_cast<int64_t>(rank) + 1});
  c.give(reshape_to(c, c.make("matmul", {base, swap_dims(c, theta, 1, 2)}), c.result().dims));
}

constexpr OpEntry product_entries[] = {
    {"aten.einsum.default", "equation tensors path", einsum},
    {"aten.outer.default", "self vec2", outer_product},
    {"aten.ger.default", "self vec2", outer_product},
    {"aten.inner.default", "self other", inner_product},
    {"aten.tensordot.default", "self other dims_self dims_other", tensordot},
    {"aten.linalg_multi_dot.default", "tensors", chain_product},
    {"aten.chain_matmul.default", "matrices", chain_product},
    {"aten.bilinear.default", "input1 input2 weight bias", bilinear},
    {"aten.linalg_vecdot.default", "x y dim", vector_dot},
    {"aten.linalg_cross.default", "self other dim", cross_product},
    {"aten.cross.default", "self other dim", cross_product},
    {"aten.trace.default", "self", trace},
    {"aten.linalg_norm.default", "self ord dim keepdim dtype", any_norm},
    {"aten.linalg_norm.ord_str", "self ord dim keepdim dtype", any_norm},
    {"aten.linalg_matrix_norm.default", "self ord dim keepdim dtype", any_norm},
    {"aten.linalg_matrix_norm.str_ord", "self ord dim keepdim dtype", any_norm},
    {"aten.frobenius_norm.dim", "self dim keepdim", any_norm},
    {"aten.affine_grid_generator.default", "theta size align_corners", affine_grid},
};

}  // namespace

std::span<const OpEntry> product_ops() { return product_entries; }

}  // namespace ferrite::from_torch
