// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that move elements: views, other orders, joins. A view of PyTorch may share
// memory with its source; here each value is its own, and programs write to none.
#include <algorithm>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The tensor that is moved: prims call it "a".
Value source_of(Context& c) { return c.tensor(c.has("a") ? "a" : "self"); }

// ---- the same elements under other dims

void same(Context& c) { c.give(source_of(c)); }
/// The elements in their order; the result's type says under which dims.
void with_dims_of_result(Context& c) { c.give(reshape_to(c, source_of(c), c.result().dims)); }
void expand(Context& c) { c.give(expand_to(c, c.tensor("self"), c.result().dims)); }

/// Each tensor of a list with the dims of all of them.
void expand_all(Context& c) {
  const auto tensors = c.tensors("tensors");
  for (size_t k = 0; k < tensors.size(); ++k)
    if (c.wants(k)) c.give(k, expand_to(c, tensors[k], c.result(k).dims));
}
/// Each vector of a list along a dim of its own: in the order "xy" the first two dims change places.
void mesh(Context& c) {
  const auto tensors = c.tensors("tensors");
  const bool swaps = c.text("indexing", "ij") == "xy";
  for (size_t k = 0; k < tensors.size(); ++k) {
    if (!c.wants(k)) continue;
    const size_t rank = c.result(k).rank(), dim = swaps && k < 2 && rank > 1 ? 1 - k : k;
    c.give(k, expand_to(c, along(c, flat(c, tensors[k]), dim, rank), c.result(k).dims));
  }
}

/// The bits under another dtype. A bool is a byte of 0 or 1.
void reinterpret(Context& c) {
  const Value x = source_of(c);
  const DType from = x.dtype(), to = c.result().dtype;
  if (from == to) return c.give(x);
  if (bits_of(from == boolean ? u8 : from) != bits_of(to == boolean ? u8 : to))
    c.unsupported("the bits of ", name_of(from), " as ", name_of(to), ", which has another width");
  for (const DType dtype : {from, to})
    if (dtype != boolean && !is_integer(dtype) && !is_computable_float(dtype))
      c.unsupported("the bits of ", name_of(dtype));
  if (from == boolean || to == boolean)
    return c.give(cast_to(c, cast_to(c, x, from == boolean ? u8 : from), to));
  c.give(c.make("bitcast", {x}, attr("dtype", to)));
}

/// prims.broadcast_in_dim: dim k of x is dim broadcast_dimensions[k] of the result.
void broadcast_in_dim(Context& c) {
  const Value x = source_of(c);
  const auto places = c.integers("broadcast_dimensions");
  const auto& dims = c.result().dims;
  const auto sizes = x.dims();
  if (places.size() != sizes.size()) c.bad("it places ", places.size(), " dims of rank ", sizes.size());
  Dims shape(dims.size(), 1);
  for (size_t k = 0; k < places.size(); ++k)
    shape[static_cast<size_t>(c.dim(places[k], dims.size()))] = sizes[k];
  c.give(expand_to(c, reshape_to(c, x, shape), dims));
}

// ---- other orders

void permute(Context& c) {
  const Value x = source_of(c);
  c.give(transpose_by(c, x, c.dims(c.integers(c.has("dims") ? "dims" : "permutation"), x.rank())));
}
void transpose(Context& c) {
  const Value x = c.tensor("self");
  const auto a = c.dim(c.integer(c.has("dim0") ? "dim0" : "axis0"), x.rank());
  const auto b = c.dim(c.integer(c.has("dim1") ? "dim1" : "axis1"), x.rank());
  c.give(a == b ? x : swap_dims(c, x, static_cast<size_t>(a), static_cast<size_t>(b)));
}
void matrix_transpose(Context& c) {
  const Value x = c.tensor("self");
  c.give(x.rank() < 2 ? x : swap_dims(c, x, 0, 1));
}
void move_dims(Context& c) {
  const Value x = c.tensor("self");
  const auto from = c.dims(c.integers("source"), x.rank()), to = c.dims(c.integers("destination"), x.rank());
  if (from.size() != to.size()) c.bad("it moves ", from.size(), " dims to ", to.size(), " places");
  if (x.rank() == 0) return c.give(x);
  constexpr int64_t open = -1;
  Dims perm(x.rank(), open);
  for (size_t k = 0; k < to.size(); ++k) perm[static_cast<size_t>(to[k])] = from[k];
  auto next = perm.begin();
  for (int64_t d = 0; d < static_cast<int64_t>(x.rank()); ++d) {
    if (std::ranges::count(from, d)) continue;
    next = std::find(next, perm.end(), open);
    *next = d;
  }
  c.give(transpose_by(c, x, perm));
}
/// All dims in reverse.
void reverse_dims(Context& c) {
  const Value x = c.tensor("self");
  auto perm = dim_range(0, x.rank());
  std::ranges::reverse(perm);
  c.give(transpose_by(c, x, perm));
}
void swap_last_dims(Context& c) {
  const Value x = c.tensor("self");
  c.give(x.rank() < 2 ? x : swap_dims(c, x, x.rank() - 2, x.rank() - 1));
}
Value flipped(Context& c, Value x, const Dims& dims) {
  Dims starts(x.rank(), 0), sizes = x.dims(), strides(x.rank(), 1);
  for (const auto dim : c.dims(dims, x.rank())) {
    const auto d = static_cast<size_t>(dim);
    if (x.rank() == 0 || sizes[d] < 2) continue;
    starts[d] = sizes[d] - 1;
    strides[d] = -1;
  }
  if (std::ranges::count(strides, -1) == 0) return x;
  return c.make("slice", {x}, attr("starts", starts), attr("sizes", sizes), attr("strides", strides));
}
void flip(Context& c) { c.give(flipped(c, source_of(c), c.integers("dims"))); }
void flip_rows(Context& c) { c.give(flipped(c, c.tensor("self"), {0})); }
void flip_columns(Context& c) { c.give(flipped(c, c.tensor("self"), {1})); }
/// By k right angles, from the first of two dims towards the second.
void rotate(Context& c) {
  Value x = c.tensor("self");
  const auto dims = c.dims(c.has("dims") ? c.integers("dims") : Dims{0, 1}, x.rank());
  if (dims.size() != 2) c.bad("it turns ", dims.size(), " dims");
  const int64_t turns = ((c.integer("k", 1) % 4) + 4) % 4;
  if (turns == 2) return c.give(flipped(c, x, dims));
  if (turns != 0)
    x = swap_dims(c, flipped(c, x, {dims[turns == 1 ? 1 : 0]}), static_cast<size_t>(dims[0]),
                  static_cast<size_t>(dims[1]));
  c.give(x);
}

/// The channels in `groups` groups, of which the first members come first, then the second ones.
void channel_shuffle(Context& c) {
  const Value x = c.tensor("self");
  const int64_t groups = c.integer("groups");
  auto dims = x.dims();
  if (dims.size() < 3 || groups < 1 || dims[1] % groups != 0)
    c.bad(groups, " groups of channels of ", dims_text(dims));
  dims[1] /= groups;
  dims.insert(dims.begin() + 1, groups);
  c.give(reshape_to(c, swap_dims(c, reshape_to(c, x, dims), 1, 2), x.dims()));
}
/// Blocks of factor^2 channels become squares of pixels.
void pixel_shuffle(Context& c) {
  const Value x = c.tensor("self");
  const int64_t factor = c.integer("upscale_factor");
  const auto dims = x.dims();
  if (dims.size() < 3 || factor < 1) c.bad("factor ", factor, " for ", dims_text(dims));
  const size_t n = dims.size() - 3;
  Dims shape(dims.begin(), dims.end() - 3);
  shape.insert(shape.end(), {dims[n] / (factor * factor), factor, factor, dims[n + 1], dims[n + 2]});
  auto perm = dim_range(0, shape.size());
  const auto at = static_cast<int64_t>(n);
  std::ranges::copy(Dims{at, at + 3, at + 1, at + 4, at + 2}, perm.end() - 5);
  c.give(reshape_to(c, transpose_by(c, reshape_to(c, x, shape), perm), c.result().dims));
}
void pixel_unshuffle(Context& c) {
  const Value x = c.tensor("self");
  const int64_t factor = c.integer("downscale_factor");
  const auto dims = x.dims();
  if (dims.size() < 3 || factor < 1) c.bad("factor ", factor, " for ", dims_text(dims));
  const size_t n = dims.size() - 3;
  Dims shape(dims.begin(), dims.end() - 3);
  shape.insert(shape.end(), {dims[n], dims[n + 1] / factor, factor, dims[n + 2] / factor, factor});
  auto perm = dim_range(0, shape.size());
  const auto at = static_cast<int64_t>(n);
  std::ranges::copy(Dims{at, at + 2, at + 4, at + 1, at + 3}, perm.end() - 5);
  c.give(reshape_to(c, transpose_by(c, reshape_to(c, x, shape), perm), c.result().dims));
}

// ---- joins and repetitions

void concatenate(Context& c) {
  const auto& result = c.result();
  std::vector<Value> parts;
  for (const auto& part : c.tensors("tensors"))
    if (part.dims() != Dims{0}) parts.push_back(cast_to(c, part, result.dtype));  // [0] joins any rank
  const size_t dim = named_dim(c, result.rank());
  c.give(parts.empty() ? full(c, result, 0) : concat(c, parts, dim));
}
/// hstack, vstack and others: tensors of low rank get dims before they are joined along one.
void joined(Context& c) {
  const auto& result = c.result();
  const std::string_view how = c.entry.standard;
  std::vector<Value> parts;
  for (const auto& part : c.tensors("tensors")) {
    Dims dims = part.dims();
    if (dims.empty()) dims = {1};
    if (how == "column" && dims.size() == 1) dims.push_back(1);
    if ((how == "row" || how == "depth") && dims.size() == 1) dims.insert(dims.begin(), 1);
    if (how == "depth" && dims.size() == 2) dims.push_back(1);
    parts.push_back(reshape_to(c, cast_to(c, part, result.dtype), dims));
  }
  if (parts.empty()) c.bad("there is nothing to join");
  const size_t dim = how == "row" ? 0 : how == "depth" ? 2 : how == "column" ? 1 : parts[0].rank() > 1;
  c.give(concat(c, parts, dim));
}
void stack(Context& c) {
  const auto& result = c.result();
  const size_t dim = named_dim(c, result.rank());
  auto dims = result.dims;
  dims[dim] = 1;
  std::vector<Value> parts;
  for (const auto& part : c.tensors("tensors"))
    parts.push_back(reshape_to(c, cast_to(c, part, result.dtype), dims));
  if (parts.empty()) c.bad("there is nothing to stack");
  c.give(concat(c, parts, dim));
}
void repeat(Context& c) {
  const Value x = c.tensor("self");
  auto repeats = c.integers(c.has("dims") ? "dims" : "repeats");
  auto dims = x.dims();
  if (repeats.size() > dims.size()) dims.insert(dims.begin(), repeats.size() - dims.size(), 1);
  if (repeats.size() < dims.size()) repeats.insert(repeats.begin(), dims.size() - repeats.size(), 1);
  const Value tile = reshape_to(c, x, dims);
  if (std::ranges::all_of(repeats, [](int64_t count) { return count == 1; })) return c.give(tile);
  c.give(c.make("tile", {tile}, attr("repeats", repeats)));
}
/// Each element `repeats` times in a row.
void repeat_each(Context& c) {
  const Value source = c.tensor("self");
  const int64_t repeats = c.integer("repeats");
  if (repeats < 0) c.bad(repeats, " repeats");
  const bool whole = !c.has("dim") || source.rank() == 0;
  const Value x = whole ? flat(c, source) : source;
  const auto dim = static_cast<std::ptrdiff_t>(whole ? 0 : named_dim(c, x.rank()));
  auto dims = x.dims();
  dims.insert(dims.begin() + dim + 1, 1);
  const Value apart = reshape_to(c, x, dims);
  dims[static_cast<size_t>(dim) + 1] = repeats;
  c.give(reshape_to(c, expand_to(c, apart, dims), c.result().dims));
}

/// The first elements; those that PyTorch leaves undefined are 0.
void resize_flat(Context& c) {
  const Value x = flat(c, c.tensor("self"));
  const auto& result = c.result();
  const int64_t count = product(result.dims), given = size_of(c, x, 0);
  const Value all = given < count ? concat(c, {x, full(c, {x.dtype(), {count - given}}, 0)}, 0) : x;
  c.give(reshape_to(c, slice_dim(c, all, 0, 0, count), result.dims));
}

// ---- by strides

/// For each element of the result its place in memory.
Value strided_places(Context& c, const Dims& size, const Dims& stride, int64_t count) {
  const int64_t offset = c.integer("storage_offset", 0);
  if (size.size() != stride.size()) c.bad(size.size(), " sizes and ", stride.size(), " strides");
  int64_t last = offset;
  Value places = integer_scalar(c, i64, offset);
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] < 2) continue;
    last += (size[d] - 1) * stride[d];
    Dims shape(size.size(), 1);
    shape[d] = size[d];
    const Value steps = binary(c, "mul", counting(c, i64, shape, d), integer_scalar(c, i64, stride[d]));
    places = binary(c, "add", places, steps);
  }
  if (product(size) > 0 && (offset < 0 || last >= count))
    c.unsupported("element ", last, " of a tensor of ", count, " elements");
  return expand_to(c, places, size);
}
void as_strided(Context& c) {
  const auto size = c.integers("size"), stride = c.integers("stride");
  const Value x = source_of(c), memory = flat(c, x);
  const int64_t count = product(x.dims());
  const Value places = strided_places(c, size, stride, count);
  if (product(size) == 0) return c.give(full(c, c.result(), 0));
  bool whole = c.integer("storage_offset", 0) == 0 && product(size) == count;
  int64_t expected = 1;
  for (size_t d = size.size(); d-- > 0;) {
    whole = whole && (size[d] == 1 || stride[d] == expected);
    expected *= size[d];
  }
  c.give(whole ? reshape_to(c, x, size) : c.make("gather", {memory, places}, attr("axis", 0)));
}
void as_strided_scatter(Context& c) {
  const auto size = c.integers("size"), stride = c.integers("stride");
  const Value x = c.tensor("self"), memory = flat(c, x);
  const Value places = strided_places(c, size, stride, product(x.dims()));
  const Value source = expand_to(c, cast_to(c, c.tensor("src"), x.dtype()), size);
  const Dims row{product(size)};
  if (row[0] == 0) return c.give(x);
  const Value written =
      c.make("scatter_elements", {memory, reshape_to(c, places, row), reshape_to(c, source, row)},
             attr("axis", 0), attr("reduction", "none"));
  c.give(reshape_to(c, written, x.dims()));
}

constexpr const char* shaped = "self ~size";
constexpr const char* at_dim = "self ~dim";
constexpr const char* strided = "self size stride storage_offset";

constexpr OpEntry view_entries[] = {
    {"aten.view.default", shaped, with_dims_of_result},
    {"aten._unsafe_view.default", shaped, with_dims_of_result},
    {"aten.reshape.default", "self ~shape", with_dims_of_result},
    {"aten._reshape_copy.default", shaped, with_dims_of_result},
    {"aten._reshape_alias.default", "self ~size ~stride", with_dims_of_result},
    {"aten.view_copy.default", shaped, with_dims_of_result},
    {"aten.view_as.default", "self ~other", with_dims_of_result},
    {"aten.flatten.using_ints", "self ~start_dim ~end_dim", with_dims_of_result},
    {"aten.reshape_as.default", "self ~other", with_dims_of_result},
    {"aten.ravel.default", "self", with_dims_of_result},
    {"aten.atleast_1d.default", "self", with_dims_of_result},
    {"aten.atleast_2d.default", "self", with_dims_of_result},
    {"aten.atleast_3d.default", "self", with_dims_of_result},
    {"aten.unflatten.int", "self ~dim ~sizes", with_dims_of_result},
    {"aten.unsqueeze.default", at_dim, with_dims_of_result},
    {"aten.unsqueeze_copy.default", at_dim, with_dims_of_result},
    {"aten.squeeze.default", "self", with_dims_of_result},
    {"aten.squeeze.dim", at_dim, with_dims_of_result},
    {"aten.squeeze.dims", at_dim, with_dims_of_result},
    {"aten.squeeze_copy.default", "self", with_dims_of_result},
    {"aten.squeeze_copy.dim", at_dim, with_dims_of_result},
    {"aten.squeeze_copy.dims", at_dim, with_dims_of_result},
    {"prims.reshape.default", "a ~shape", with_dims_of_result},
    {"prims.squeeze.default", "a ~dimensions", with_dims_of_result},
    {"prims.split_dim.default", "a ~dim ~outer_length", with_dims_of_result},
    {"prims.collapse.default", "a ~start ~end", with_dims_of_result},
    {"prims.collapse_view.default", "a ~start ~end", with_dims_of_result},
    {"aten.alias_copy.default", "self", same},
    {"aten.detach_copy.default", "self", same},
    {"aten.lift.default", "self", same},
    {"prims.view_of.default", "a", same},
    {"prims.clone.default", "self ~memory_format", same},
    {"prims.copy_strided.default", "a ~stride", same},
    {"aten.view.dtype", "self ~dtype", reinterpret},
    {"aten.view_copy.dtype", "self ~dtype", reinterpret},
    {"prims.view_of_dtype.default", "a ~dtype", reinterpret},
    {"aten.expand.default", "self ~size ~implicit", expand},
    {"aten.expand_copy.default", "self ~size ~implicit", expand},
    {"aten.broadcast_to.default", "self ~size", expand},
    {"aten.broadcast_tensors.default", "tensors", expand_all},
    {"aten.meshgrid.default", "tensors", mesh},
    {"aten.meshgrid.indexing", "tensors indexing", mesh},
    {"aten.expand_as.default", "self ~other", expand},
    {"prims.broadcast_in_dim.default", "a ~shape broadcast_dimensions", broadcast_in_dim},
    {"aten.permute.default", "self dims", permute},
    {"aten.permute_copy.default", "self dims", permute},
    {"prims.transpose.default", "a permutation", permute},
    {"aten.transpose.int", "self dim0 dim1", transpose},
    {"aten.transpose_copy.int", "self dim0 dim1", transpose},
    {"aten.swapaxes.default", "self axis0 axis1", transpose},
    {"aten.t.default", "self", matrix_transpose},
    {"aten.t_copy.default", "self", matrix_transpose},
    {"aten.numpy_T.default", "self", reverse_dims},
    {"aten.mT.default", "self", swap_last_dims},
    {"aten.mH.default", "self", swap_last_dims},
    {"aten.matrix_H.default", "self", swap_last_dims},
    {"aten.adjoint.default", "self", swap_last_dims},
    {"aten.movedim.int", "self source destination", move_dims},
    {"aten.movedim.intlist", "self source destination", move_dims},
    {"aten.flip.default", "self dims", flip},
    {"aten.flipud.default", "self", flip_rows},
    {"aten.fliplr.default", "self", flip_columns},
    {"aten.rot90.default", "self k dims", rotate},
    {"prims.rev.default", "a dims", flip},
    {"aten.channel_shuffle.default", "self groups", channel_shuffle},
    {"aten.native_channel_shuffle.default", "self groups", channel_shuffle},
    {"aten.pixel_shuffle.default", "self upscale_factor", pixel_shuffle},
    {"aten.pixel_unshuffle.default", "self downscale_factor", pixel_unshuffle},
    {"aten.cat.default", "tensors dim", concatenate},
    {"prims.cat.default", "tensors dim", concatenate},
    {"aten.hstack.default", "tensors", joined, ""},
    {"aten.vstack.default", "tensors", joined, "row"},
    {"aten.dstack.default", "tensors", joined, "depth"},
    {"aten.column_stack.default", "tensors", joined, "column"},
    {"aten.stack.default", "tensors dim", stack},
    {"aten.repeat.default", "self repeats", repeat},
    {"aten.tile.default", "self dims", repeat},
    {"aten.repeat_interleave.self_int", "self repeats dim ~output_size", repeat_each},
    {"aten.resize.default", "self ~size ~memory_format", resize_flat},
    {"aten.as_strided.default", strided, as_strided},
    {"aten.as_strided_copy.default", strided, as_strided},
    {"prims.as_strided.default", "a size stride storage_offset", as_strided},
    {"aten.as_strided_scatter.default", "self src size stride storage_offset", as_strided_scatter},
    {"prims.as_strided_scatter.default", "self src size stride storage_offset", as_strided_scatter},
};

}  // namespace

std::span<const OpEntry> view_ops() { return view_entries; }

}  // namespace ferrite::from_torch
