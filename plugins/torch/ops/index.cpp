// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads that read or write at computed places, and sorting. The gathers and scatters of the standard
// library count negative indices from the end, as PyTorch does where it takes them.
#include <algorithm>
#include <limits>
#include <string>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

std::ptrdiff_t offset(size_t k) { return static_cast<std::ptrdiff_t>(k); }
/// A tensor of rank 0 as one of rank 1: PyTorch takes both where a dim is named.
Value with_dim(Context& c, Value x) { return x.rank() == 0 ? reshape_to(c, x, {1}) : x; }

// ---- a tensor of indices a dim: x[i, :, j]

bool is_mask(const Value& index) { return index && (index.dtype() == boolean || index.dtype() == u8); }

struct Indexed {
  std::vector<Value> indices;  ///< of the indexed dims
  Dims perm;                   ///< of x; the indexed dims come first
  Dims shape;                  ///< of the indices together
  size_t place = 0;            ///< the dim of the result at which `shape` begins
};
Indexed read_indices(Context& c, Value x, const std::vector<Value>& listed) {
  Indexed in;
  Dims rest;
  if (listed.size() > x.rank()) c.bad(listed.size(), " indices for rank ", x.rank());
  for (size_t d = 0; d < x.rank(); ++d) {
    if (d >= listed.size() || !listed[d]) {
      rest.push_back(static_cast<int64_t>(d));
      continue;
    }
    if (is_mask(listed[d])) c.unsupported("the dims of what a mask selects depend on its values");
    in.indices.push_back(listed[d]);
    in.perm.push_back(static_cast<int64_t>(d));
    in.shape = broadcast_dims(c, in.shape, listed[d].dims());
  }
  // The dims of the indices take the place of the indexed dims if these are neighbours, else come first.
  const size_t count = in.perm.size();
  if (count > 0 && in.perm.back() - in.perm.front() + 1 == static_cast<int64_t>(count))
    in.place = static_cast<size_t>(in.perm.front());
  in.perm.insert(in.perm.end(), rest.begin(), rest.end());
  return in;
}
/// One coordinate for each indexed dim, in a last dim.
Value tuples_of(Context& c, const Indexed& in) {
  auto dims = in.shape;
  dims.push_back(1);
  std::vector<Value> columns;
  for (const auto& index : in.indices)
    columns.push_back(reshape_to(c, expand_to(c, cast_to(c, index, i64), in.shape), dims));
  return concat(c, columns, in.shape.size());
}
/// The perm that moves `count` dims at the front to `place`.
Dims from_front(size_t rank, size_t count, size_t place) {
  auto perm = dim_range(0, rank);
  std::rotate(perm.begin(), perm.begin() + offset(count), perm.begin() + offset(count + place));
  return perm;
}

Value read_at(Context& c, Value x, const Indexed& in) {
  if (in.indices.empty()) return x;
  if (in.indices.size() == 1) return gather(c, x, in.indices[0], in.place);
  const Value found = c.make("gather_nd", {transpose_by(c, x, in.perm), tuples_of(c, in)});
  return transpose_by(c, found, from_front(found.rank(), in.shape.size(), in.place));
}
Value written_at(Context& c, Value x, const Indexed& in, Value values, bool accumulate) {
  const Value moved = transpose_by(c, x, in.perm);
  auto dims = moved.dims();
  dims.erase(dims.begin(), dims.begin() + offset(in.indices.size()));
  dims.insert(dims.begin() + offset(in.place), in.shape.begin(), in.shape.end());
  if (in.indices.empty()) return accumulate ? binary(c, "add", x, values) : expand_to(c, values, dims);
  const auto perm = inverse(from_front(dims.size(), in.shape.size(), in.place));
  const Value updates = transpose_by(c, expand_to(c, values, dims), perm);
  const Value written = c.make("scatter_nd", {moved, tuples_of(c, in), updates},
                               attr("reduction", accumulate ? reduction_of("add", x.dtype()) : "none"));
  return transpose_by(c, written, inverse(in.perm));
}

void index(Context& c) {
  const Value x = c.tensor("self");
  c.give(read_at(c, x, read_indices(c, x, c.optional_tensors("indices"))));
}
/// x[mask] = values, where the values are the same for all places that the mask selects.
Value written_by_mask(Context& c, Value x, const std::vector<Value>& listed, Value values, bool accumulate) {
  const auto found = std::ranges::find_if(listed, is_mask);
  if (std::ranges::count_if(listed, [](const Value& index) { return bool(index); }) != 1)
    c.unsupported("a mask together with other indices");
  const auto before = static_cast<size_t>(found - listed.begin());
  const auto dims = x.dims(), selected = found->dims(), given = values.dims();
  if (before + selected.size() > dims.size()) c.bad("the mask has more dims than the tensor");
  const size_t after = dims.size() - before - selected.size();
  // Of what is selected, `before` dims come first, then one of the selected places, then `after` dims.
  Dims aligned(dims.size(), 1), condition(dims.size(), 1);
  std::ranges::copy(selected, condition.begin() + offset(before));
  for (size_t k = 0; k < given.size(); ++k) {
    const int64_t size = given[given.size() - 1 - k];
    if (k < after)
      aligned[dims.size() - 1 - k] = size;
    else if (k == after && size != 1)
      c.unsupported("the dims of what a mask selects depend on its values");
    else if (k > after && k - after <= before)
      aligned[before - (k - after)] = size;
    else if (k > after && size != 1)
      c.bad("values of ", dims_text(given), " for a tensor of ", dims_text(dims));
  }
  values = reshape_to(c, values, aligned);
  if (accumulate) values = binary(c, x.dtype() == boolean ? "logical_or" : "add", x, values);
  return expand_to(c, select(c, reshape_to(c, *found, condition), values, x), dims);
}
void index_put(Context& c) {
  const Value x = c.tensor("self"), values = cast_to(c, c.tensor("values"), x.dtype());
  const bool accumulate = c.flag("accumulate", false);
  const auto listed = c.optional_tensors("indices");
  const bool by_mask = std::ranges::any_of(listed, is_mask);
  c.give(by_mask ? written_by_mask(c, x, listed, values, accumulate)
                 : written_at(c, x, read_indices(c, x, listed), values, accumulate));
}
/// Where the mask does not hold, an index may be out of range.
Indexed read_safe_indices(Context& c, Value x) {
  auto listed = c.optional_tensors("indices");
  const auto dims = x.dims();
  for (size_t d = 0; d < std::min(listed.size(), dims.size()); ++d)
    if (listed[d] && !is_mask(listed[d])) listed[d] = clamped(c, listed[d], -dims[d], dims[d] - 1);
  return read_indices(c, x, listed);
}
void masked_index(Context& c) {
  const Value x = c.tensor("self"), fill = c.operand("fill", x.dtype()), mask = c.tensor("mask");
  const auto& result = c.result();
  const auto in = read_safe_indices(c, x);
  if (product(x.dims()) == 0) return c.give(expand_to(c, fill, result.dims));
  c.give(expand_to(c, select(c, mask, read_at(c, x, in), fill), result.dims));
}
void masked_index_put(Context& c) {
  const Value x = c.tensor("self"), mask = c.tensor("mask");
  const Value values = cast_to(c, c.tensor("values"), x.dtype());
  const auto in = read_safe_indices(c, x);
  if (product(x.dims()) == 0) return c.give(x);
  c.give(written_at(c, x, in, select(c, mask, values, number_like(c, x, 0)), true));
}
/// Each place of the mask takes the next element of the source.
void masked_scatter(Context& c) {
  const auto& result = c.result();
  const Value x = expand_to(c, c.tensor("self"), result.dims), source = flat(c, c.tensor("source"));
  const Value mask = expand_to(c, c.tensor("mask"), result.dims);
  const int64_t count = size_of(c, source, 0);
  if (count == 0 || product(result.dims) == 0) return c.give(x);
  const Value before =
      c.make("cumsum", {flat(c, cast_to(c, mask, i64))}, attr("axis", 0), attr("exclusive", true));
  const Value taken = gather(c, source, clamped(c, before, 0, count - 1), 0);
  c.give(select(c, mask, reshape_to(c, taken, result.dims), x));
}

// ---- a vector of indices for one dim

void embedding(Context& c) { c.give(gather(c, c.tensor("weight"), c.tensor("indices"), 0)); }
void index_select(Context& c) {
  const Value x = with_dim(c, c.tensor("self"));
  const Value found = gather(c, x, flat(c, c.tensor("index")), named_dim(c, x.rank()));
  c.give(reshape_to(c, found, c.result().dims));
}
void take(Context& c) { c.give(gather(c, flat(c, c.tensor("self")), c.tensor("index"), 0)); }
void put(Context& c) {
  const Value x = c.tensor("self"), indices = flat(c, c.tensor("index"));
  const char* reduction = c.flag("accumulate", false) ? "add" : "none";
  const Value source = c.tensor("source");
  if (product(x.dims()) == 0) return c.give(x);
  c.give(reshape_to(c, scatter(c, flat(c, x), 0, indices, flat(c, source), reduction), x.dims()));
}

/// Places along one dim, with what is stored there.
struct Places {
  Value x, indices, updates;  ///< of one rank, which is at least 1
  size_t axis;
};
/// Of index_add and the like: slice k of the source goes to place index[k].
Places slice_places(Context& c) {
  const Value x = with_dim(c, c.tensor("self")), indices = flat(c, c.tensor("index"));
  const Value source = cast_to(c, with_dim(c, c.tensor("source")), x.dtype());
  const size_t axis = named_dim(c, x.rank());
  auto dims = x.dims();
  dims[axis] = size_of(c, indices, 0);
  return {x, expand_to(c, along(c, indices, axis, x.rank()), dims), expand_to(c, source, dims), axis};
}
/// Of scatter and the like: the source has an element for each index, and may have more.
Places element_places(Context& c) {
  const Value x = with_dim(c, c.tensor("self")), indices = with_dim(c, c.tensor("index"));
  const size_t axis = named_dim(c, x.rank());
  const char* name = c.has("src") ? "src" : "value";
  Value updates;
  if (c.is_tensor(name) && c.tensor(name).rank() > 0) {
    updates = cast_to(c, c.tensor(name), x.dtype());
    const auto dims = indices.dims();
    if (dims.size() != updates.rank()) c.bad("the indices and the source differ in rank");
    for (size_t d = 0; d < dims.size(); ++d) updates = slice_dim(c, updates, d, 0, dims[d]);
  } else {
    updates = expand_to(c, c.operand(name, x.dtype()), indices.dims());
  }
  return {x, indices, updates, axis};
}
void give_scattered(Context& c, const Places& at, std::string_view reduction) {
  const bool nothing = product(at.indices.dims()) == 0;
  const Value written = nothing ? at.x : scatter(c, at.x, at.axis, at.indices, at.updates, reduction);
  c.give(reshape_to(c, written, c.result().dims));
}
void index_add(Context& c) {
  auto at = slice_places(c);
  if (c.has("alpha") && c.number("alpha") != 1)
    at.updates = binary(c, "mul", at.updates, c.operand("alpha", at.x.dtype()));
  give_scattered(c, at, "add");
}
void index_copy(Context& c) { give_scattered(c, slice_places(c), "none"); }
void index_fill(Context& c) {
  const Value x = with_dim(c, c.tensor("self")), indices = flat(c, c.tensor("index"));
  const size_t axis = named_dim(c, x.rank());
  const Value value = reshape_to(c, c.operand("value", x.dtype()), {});
  const Value none = full(c, {boolean, {size_of(c, x, axis)}}, 0),
              all = full(c, {boolean, indices.dims()}, 1);
  if (product(indices.dims()) == 0) return c.give(c.tensor("self"));
  const Value filled = scatter(c, none, 0, indices, all, "none");
  c.give(reshape_to(c, select(c, along(c, filled, axis, x.rank()), value, x), c.result().dims));
}

void gather_along(Context& c) {
  const auto& result = c.result();
  const Value x = with_dim(c, c.tensor("self")), indices = with_dim(c, c.tensor("index"));
  const size_t axis = named_dim(c, x.rank());
  if (product(result.dims) == 0) return c.give(full(c, result, 0));
  c.give(reshape_to(c, gather_elements(c, x, indices, axis), result.dims));
}
/// scatter and scatter_add; `standard` is the reduction where the overload has one.
void scatter_along(Context& c) {
  std::string reduction = c.entry.standard ? c.entry.standard : "none";
  if (c.has("reduce")) {
    const auto named = c.text("reduce", "");
    if (named != "add" && named != "multiply") c.bad("the reduction is '", named, "'");
    reduction = named == "add" ? "add" : "mul";
  }
  give_scattered(c, element_places(c), reduction);
}

void give_reduced(Context& c, const Places& at) {
  const auto reduce = c.text("reduce", "");
  const bool include = c.flag("include_self", true), is_mean = reduce == "mean";
  const DType dtype = at.x.dtype();
  const std::string_view reduction = reduce == "sum" || is_mean ? "add"
                                     : reduce == "prod"         ? "mul"
                                     : reduce == "amax"         ? "max"
                                     : reduce == "amin"         ? "min"
                                                                : "";
  if (reduction.empty()) c.bad("the reduction is '", reduce, "'");
  if (product(at.indices.dims()) == 0) return c.give(reshape_to(c, at.x, c.result().dims));
  auto from = at;
  if (!include) {
    // Elements that are written start from the neutral element of the reduction, not from `self`.
    const Value none = full(c, {boolean, at.x.dims()}, 0), all = full(c, {boolean, at.indices.dims()}, 1);
    const Value written = scatter(c, none, at.axis, at.indices, all, "none");
    const Value neutral = reduction == "add"   ? number_like(c, at.x, 0)
                          : reduction == "mul" ? number_like(c, at.x, 1)
                                               : extreme_number(c, dtype, reduction == "min");
    from.x = select(c, written, neutral, at.x);
  }
  Value y = scatter(c, from.x, at.axis, at.indices, at.updates, reduction);
  if (is_mean) {
    const Value start = full(c, at.x.type(), include ? 1 : 0), ones = full(c, at.updates.type(), 1);
    const Value count =
        binary(c, "maximum", scatter(c, start, at.axis, at.indices, ones, "add"), number_like(c, at.x, 1));
    if (!is_float(dtype)) y = binary(c, "sub", y, binary(c, "mod", y, count));  // rounds down
    y = binary(c, "div", y, count);
  }
  c.give(reshape_to(c, y, c.result().dims));
}
void scatter_reduce(Context& c) { give_reduced(c, element_places(c)); }
void index_reduce(Context& c) { give_reduced(c, slice_places(c)); }

// ---- sorting

/// Both results of an op, with the values of rank 0 that PyTorch sorts too.
void give_both(Context& c, const std::vector<Value>& both) {
  for (size_t k = 0; k < both.size(); ++k)
    if (c.wants(k)) c.give(k, reshape_to(c, both[k], c.result(k).dims));
}
std::vector<Value> sorted(Context& c) {
  const Value x = with_dim(c, c.tensor("self"));
  const auto axis = static_cast<int64_t>(named_dim(c, x.rank(), -1));
  return c.graph.make_all("sort", std::vector{x},
                          std::vector{attr("axis", axis), attr("descending", c.flag("descending", false))});
}
void sort(Context& c) { give_both(c, sorted(c)); }
void argsort(Context& c) { c.give(reshape_to(c, sorted(c)[1], c.result().dims)); }
std::vector<Value> first_sorted(Context& c, Value x, int64_t k, size_t axis, bool largest) {
  return c.graph.make_all(
      "topk", std::vector{x},
      std::vector{attr("k", k), attr("axis", static_cast<int64_t>(axis)), attr("largest", largest)});
}
void topk(Context& c) {
  const Value x = with_dim(c, c.tensor("self"));
  const size_t axis = named_dim(c, x.rank(), -1);
  give_both(c, first_sorted(c, x, c.integer("k"), axis, c.flag("largest", true)));
}
void kth_value(Context& c) {
  const Value x = with_dim(c, c.tensor("self"));
  const size_t axis = named_dim(c, x.rank(), -1);
  const int64_t k = c.integer("k");
  c.flag("keepdim", false);
  auto both = first_sorted(c, x, k, axis, false);
  for (auto& result : both) result = slice_dim(c, result, axis, k - 1, 1);
  give_both(c, both);
}
/// The lower one of an even number of elements; the first NaN of a row that has one.
void median(Context& c) {
  const bool all = !c.has("dim");
  const Value x = all ? flat(c, c.tensor("self")) : with_dim(c, c.tensor("self"));
  const size_t axis = all ? 0 : named_dim(c, x.rank());
  c.flag("keepdim", false);
  const int64_t count = size_of(c, x, axis);
  if (product(x.dims()) == 0) c.unsupported("the median of no elements");
  const int64_t half = (count + 1) / 2;
  auto both = first_sorted(c, x, half, axis, false);
  for (auto& result : both) result = slice_dim(c, result, axis, half - 1, 1);
  if (is_float(x.dtype())) {
    const Value odd = cast_to(c, unary(c, "isnan", x), i32);
    const Value place =
        c.make("argmax", {odd}, attr("axis", static_cast<int64_t>(axis)), attr("keepdims", true));
    const Value any = gather_elements(c, odd, place, axis);
    both = {select(c, any, gather_elements(c, x, place, axis), both[0]), select(c, any, place, both[1])};
  }
  if (all) return c.give(reshape_to(c, both[0], c.result().dims));
  give_both(c, both);
}
/// The median of the elements that are no NaN, which come first in order; a NaN if there are none.
void median_of_numbers(Context& c) {
  const bool all = !c.has("dim");
  const Value x = all ? flat(c, c.tensor("self")) : with_dim(c, c.tensor("self"));
  if (!is_float(x.dtype())) return median(c);
  const size_t axis = all ? 0 : named_dim(c, x.rank());
  const auto dim = static_cast<int64_t>(axis);
  c.flag("keepdim", false);
  if (product(x.dims()) == 0) c.unsupported("the median of no elements");
  auto both =
      c.graph.make_all("sort", std::vector{x}, std::vector{attr("axis", dim), attr("descending", false)});
  const Value numbers = cast_to(c, unary(c, "logical_not", unary(c, "isnan", x)), i64);
  const Value last =
      binary(c, "sub", reduce_over(c, "reduce_sum", numbers, {dim}), integer_scalar(c, i64, 1));
  const Value half = binary(c, "div", last, integer_scalar(c, i64, 2));
  const Value place = clamped(c, half, 0, size_of(c, x, axis) - 1);
  for (auto& result : both) result = gather_elements(c, result, place, axis);
  if (all) return c.give(reshape_to(c, both[0], c.result().dims));
  give_both(c, both);
}
/// The least of the elements of a row that occur most often, and its last place in the order of the values.
/// Each element is compared with each: a NaN equals none.
void mode(Context& c) {
  constexpr int64_t most = 2048;
  const Value x = with_dim(c, c.tensor("self"));
  const size_t axis = named_dim(c, x.rank(), -1);
  c.flag("keepdim", false);
  const int64_t count = size_of(c, x, axis);
  if (product(x.dims()) == 0) c.unsupported("the mode of no elements");
  if (count > most) c.unsupported("the mode of more than ", most, " elements");
  const auto both =
      c.graph.make_all("sort", std::vector{x},
                       std::vector{attr("axis", static_cast<int64_t>(axis)), attr("descending", false)});
  auto dims = x.dims(), others = x.dims();
  dims.insert(dims.begin() + offset(axis) + 1, 1);
  others.insert(others.begin() + offset(axis), 1);
  const Value equal = binary(c, "eq", reshape_to(c, both[0], dims), reshape_to(c, both[0], others));
  const Value times =
      reduce_over(c, "reduce_sum", cast_to(c, equal, i64), {static_cast<int64_t>(axis) + 1}, false);
  const Value first =
      c.make("argmax", {times}, attr("axis", static_cast<int64_t>(axis)), attr("keepdims", true));
  const Value more = binary(c, "maximum", gather_elements(c, times, first, axis), integer_scalar(c, i64, 1));
  const Value last = binary(c, "sub", binary(c, "add", first, more), integer_scalar(c, i64, 1));
  give_both(c, {gather_elements(c, both[0], last, axis), gather_elements(c, both[1], last, axis)});
}
/// The number of elements of a sorted row that come before each value: less, or with `right` not greater. The
/// rows are read whole; of NaNs, which come last, PyTorch's bisection says the same.
Value count_before(Context& c, Value rows, Value values, bool right) {
  auto value_dims = values.dims(), row_dims = rows.dims();
  value_dims.push_back(1);
  if (row_dims.size() > 1) row_dims.insert(row_dims.end() - 1, 1);
  const Value after =
      binary(c, right ? "gt" : "ge", reshape_to(c, rows, row_dims), reshape_to(c, values, value_dims));
  return sum_of_last(c, cast_to(c, unary(c, "logical_not", after), i64));
}
void search_sorted(Context& c) {
  const char* name = c.has("boundaries") ? "boundaries" : "sorted_sequence";
  const DType dtype = c.promoted({"self", name});
  Value rows = c.operand(name, dtype);
  if (c.has("sorter")) rows = gather_elements(c, rows, c.tensor("sorter"), rows.rank() - 1);
  bool right = c.flag("right", false);
  if (c.has("side")) right = c.text("side", "left") == "right";
  const Value count = count_before(c, rows, c.operand("self", dtype), right);
  c.give(cast_to(c, count, c.result().dtype));
}
void histogram(Context& c) {
  const auto& result = c.result();
  const Value x = flat(c, c.tensor("self"));
  const int64_t bins = c.integer("bins", 100), count = size_of(c, x, 0);
  const double least = c.number("min", 0), greatest = c.number("max", 0);
  if (!is_float(x.dtype())) c.unsupported("a histogram of ", name_of(x.dtype()));
  if (count == 0) return c.give(full(c, result, 0));
  Value low = number_like(c, x, least), high = number_like(c, x, greatest);
  if (least == greatest) {
    // The range of the elements; that of equal ones is widened.
    const Value first = reduce_over(c, "reduce_min", x, {0}, false),
                last = reduce_over(c, "reduce_max", x, {0}, false);
    const Value equal = binary(c, "eq", first, last);
    low = select(c, equal, binary(c, "sub", first, 1), first);
    high = select(c, equal, binary(c, "add", last, 1), last);
  }
  const Value inside = c.make("logical_and", {binary(c, "ge", x, low), binary(c, "le", x, high)});
  const Value scaled = binary(c, "mul", binary(c, "sub", x, low), static_cast<double>(bins));
  const Value bin = cast_to(c, binary(c, "div", scaled, binary(c, "sub", high, low)), i64);
  c.give(
      scatter(c, full(c, result, 0), 0, clamped(c, bin, 0, bins - 1), cast_to(c, inside, x.dtype()), "add"));
}

/// The places of the first `size` elements that are not 0; `fill_value` if there are fewer.
void first_nonzero(Context& c) {
  const auto& result = c.result();
  const Value x = c.tensor("self");
  const int64_t size = c.integer("size");
  const Value missing = integer_scalar(c, i64, c.integer("fill_value", -1));
  const Dims dims = x.dims();
  const int64_t count = product(dims);
  if (product(result.dims) == 0 || count == 0) return c.give(expand_to(c, missing, result.dims));
  const Value holds = flat(c, cast_to(c, x, boolean));
  const Value before = c.make("cumsum", {cast_to(c, holds, i64)}, attr("axis", 0), attr("exclusive", true));
  // Those that are 0, and those that are too many, go to a row that is cut off.
  const Value row = select(c, holds, clamped(c, before, 0, size), integer_scalar(c, i64, size));
  const Value rows = scatter(c, full(c, {i64, {size + 1}}, -1), 0, row, counting(c, i64, {count}, 0), "none");
  Value place = slice_dim(c, rows, 0, 0, size);
  const Value found = binary(c, "ge", place, 0);
  std::vector<Value> columns(dims.size());
  for (size_t k = dims.size(); k-- > 0;) {
    const Value extent = integer_scalar(c, i64, dims[k]);
    columns[k] = reshape_to(c, select(c, found, binary(c, "mod", place, extent), missing), {size, 1});
    place = binary(c, "div", place, extent);
  }
  c.give(concat(c, columns, 1));
}

/// gather_elements of tensors that are broadcast in the other dims; without a dim of both as they are in
/// order.
void take_along(Context& c) {
  const Value x = c.tensor("self"), indices = c.tensor("indices");
  if (!c.has("dim")) return c.give(gather_elements(c, flat(c, x), flat(c, indices), 0));
  const size_t dim = named_dim(c, x.rank());
  if (x.rank() != indices.rank() || x.rank() == 0) c.bad("indices of rank ", indices.rank());
  Dims from = x.dims(), places = indices.dims();
  const int64_t size = from[dim], count = places[dim];
  from[dim] = places[dim] = 1;
  from = places = broadcast_dims(c, from, places);
  from[dim] = size;
  places[dim] = count;
  c.give(gather_elements(c, expand_to(c, x, from), expand_to(c, indices, places), dim));
}
void one_hot(Context& c) {
  const Value x = c.tensor("self");
  c.integer("num_classes", -1);  // the last dim of the result
  Dims row = x.dims();
  row.push_back(1);
  const Dims dims = c.result().dims;
  need_rank(c, dims.size(), row.size(), row.size());
  Dims classes(dims.size(), 1);
  classes.back() = dims.back();
  const Value equal =
      binary(c, "eq", reshape_to(c, x, row), counting(c, x.dtype(), classes, dims.size() - 1));
  c.give(cast_to(c, equal, c.result().dtype));
}
/// Each element as often as `repeats` says. An element of the result comes from the one whose range of places
/// it is in: as many ranges end before it.
void repeat_by_tensor(Context& c) {
  const Value source = c.tensor("self"), repeats = c.tensor("repeats");
  c.integer("output_size", 0);  // that of the result's dim
  const bool whole = !c.has("dim");
  const Value x = whole ? flat(c, source) : source;
  const size_t dim = whole ? 0 : named_dim(c, x.rank());
  if (x.rank() == 0 || repeats.rank() != 1) c.bad("repeats of rank ", repeats.rank());
  const int64_t count = size_of(c, x, dim), made = c.result().dims.at(dim);
  const Value ends = c.make("cumsum", {expand_to(c, repeats, {count})}, attr("axis", 0));
  const Value place = counting(c, repeats.dtype(), {made, 1}, 0);
  const Value ended = cast_to(c, binary(c, "le", along(c, ends, 1, 2), place), i64);
  const Value from = reduce_over(c, "reduce_sum", ended, {1}, false);
  c.give(gather(c, x, clamped(c, from, 0, count - 1), dim));
}

constexpr OpEntry index_entries[] = {
    {"aten.take_along_dim.default", "self indices dim", take_along},
    {"aten.one_hot.default", "self num_classes", one_hot},
    {"aten.repeat_interleave.self_Tensor", "self repeats dim output_size", repeat_by_tensor},
    {"aten.index.Tensor", "self indices", index},
    {"aten._unsafe_index.Tensor", "self indices", index},
    {"aten.index_put.default", "self indices values accumulate", index_put},
    {"aten._unsafe_index_put.default", "self indices values accumulate", index_put},
    {"aten._unsafe_masked_index.default", "self mask indices fill", masked_index},
    {"aten._unsafe_masked_index_put_accumulate.default", "self mask indices values", masked_index_put},
    {"aten.masked_scatter.default", "self mask source", masked_scatter},
    {"aten.nonzero_static.default", "self size fill_value", first_nonzero},
    {"aten.index_select.default", "self dim index", index_select},
    {"aten.index_add.default", "self dim index source alpha", index_add},
    {"aten.index_copy.default", "self dim index source", index_copy},
    {"aten.index_fill.int_Scalar", "self dim index value", index_fill},
    {"aten.index_fill.int_Tensor", "self dim index value", index_fill},
    {"aten.index_reduce.default", "self dim index source reduce include_self", index_reduce},
    {"aten.take.default", "self index", take},
    {"aten.put.default", "self index source accumulate", put},
    {"aten.gather.default", "self dim index ~sparse_grad", gather_along},
    {"aten.scatter.src", "self dim index src", scatter_along},
    {"aten.scatter.value", "self dim index value", scatter_along},
    {"aten.scatter.reduce", "self dim index src reduce", scatter_along},
    {"aten.scatter.value_reduce", "self dim index value reduce", scatter_along},
    {"aten.scatter_add.default", "self dim index src", scatter_along, "add"},
    {"aten.scatter_reduce.two", "self dim index src reduce include_self", scatter_reduce},
    {"aten.sort.default", "self dim descending", sort},
    {"aten.sort.stable", "self ~stable dim descending", sort},
    {"aten.argsort.default", "self dim descending", argsort},
    {"aten.argsort.stable", "self ~stable dim descending", argsort},
    {"aten.topk.default", "self k dim largest ~sorted", topk},
    {"aten.kthvalue.default", "self k dim keepdim", kth_value},
    {"aten.median.default", "self", median},
    {"aten.median.dim", "self dim keepdim", median},
    {"aten.nanmedian.default", "self", median_of_numbers},
    {"aten.nanmedian.dim", "self dim keepdim", median_of_numbers},
    {"aten.mode.default", "self dim keepdim", mode},
    {"aten.searchsorted.Tensor", "sorted_sequence self ~out_int32 right side sorter", search_sorted},
    {"aten.searchsorted.Scalar", "sorted_sequence self ~out_int32 right side sorter", search_sorted},
    {"aten.bucketize.Tensor", "self boundaries ~out_int32 right", search_sorted},
    {"aten.bucketize.Scalar", "self boundaries ~out_int32 right", search_sorted},
    {"aten.histc.default", "self bins min max", histogram},
    {"aten.embedding.default", "weight indices ~padding_idx ~scale_grad_by_freq ~sparse", embedding},
};

}  // namespace

std::span<const OpEntry> index_ops() { return index_entries; }

}  // namespace ferrite::from_torch
