// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gathers and scatters with computed indices. Negative indices count from the end; an index out of range is
// an error that names the node.
#include <algorithm>

#include "common.h"

namespace ferrite::standard {
namespace {

/// Whether the indices (operand 1) are constants in [0, dim), which need no check at run time.
bool known_in_range(const Instance& op, int64_t dim) {
  const auto& view = op.operand_view(1);
  if (!view.data || static_cast<DType>(view.type.dtype) != i64) return false;
  for (uint64_t k = 0; k < view.data_bytes / sizeof(int64_t); ++k) {
    int64_t value;
    std::memcpy(&value, static_cast<const char*>(view.data) + k * sizeof value, sizeof value);
    if (value < 0 || value >= dim) return false;
  }
  return true;
}
/// The index of a dim of size `dim` from `value`.
Idx address(Lowering& l, Val value, int64_t dim) {
  return l.indirect(value, dim, known_in_range(l.op, dim) ? FE_INDIRECT_ASSUME : FE_INDIRECT_WRAP);
}

/// The same for stores that must not collide: an index that can only be the single position is 0.
Idx sole_address(Lowering& l, Val value, int64_t dim) {
  return dim == 1 && known_in_range(l.op, dim) ? l.constant_index(0) : address(l, value, dim);
}

std::ptrdiff_t offset(size_t k) { return static_cast<std::ptrdiff_t>(k); }

/// Indexed dims must not be empty, unless nothing is read.
void need_addressable(const Instance& op, int64_t dim, const Dims& result) {
  bool empty = false;
  for (int64_t size : result) empty = empty || size == 0;
  need_fit(dim > 0 || empty, op, "a dim of size 0 is indexed");
}

OpDef gather_op() {
  return op_def("gather")
      .doc("Slices of x along the axis at the indices, whose dims take the axis' place.")
      .operands("x", "indices")
      .attr(attr("axis", 0))
      .axis()
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class), indices = typed(op, 1, FE_PRIM_INT);
        auto axis = static_cast<size_t>(axis_of(op, x.rank()));
        int64_t dim = x.dims[axis];
        x.dims.erase(x.dims.begin() + offset(axis));
        x.dims.insert(x.dims.begin() + offset(axis), indices.dims.begin(), indices.dims.end());
        need_addressable(op, dim, x.dims);
        element_count(op, x.dims);
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        auto x = l.op.operand(0);
        auto axis = static_cast<size_t>(axis_of(l.op, x.rank()));
        size_t inner = l.op.operand(1).rank();
        l.map(0, [&](const Indices& i) {
          auto first = i.begin() + offset(axis), last = first + offset(inner);
          Indices at(i.begin(), first);
          at.push_back(sole_address(l, l.load(1, Indices(first, last)), x.dims[axis]));
          at.insert(at.end(), last, i.end());
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[5,4], %i: i64[2,3]", "gather(%x, %i)"),
                sample("%x: f32[2,3,4], %i: i32[5]", "gather(%x, %i) {axis = 1}"),
                sample("%x: i64[6], %i: i64[]", "gather(%x, %i)")});
}

OpDef gather_elements_op() {
  return op_def("gather_elements")
      .doc("Result element i is that of x at i, with the coordinate along the axis taken from the indices.")
      .operands("x", "indices")
      .attr(attr("axis", 0))
      .axis()
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class), indices = typed(op, 1, FE_PRIM_INT);
        need_rank(op, 1, indices.rank(), x.rank(), x.rank());
        auto axis = static_cast<size_t>(axis_of(op, x.rank()));
        for (size_t d = 0; d < x.rank(); ++d)
          need_fit(d == axis || indices.dims[d] <= x.dims[d], op, "the indices ", to_string(indices),
                   " exceed ", to_string(x), " in dim ", d);
        need_addressable(op, x.dims[axis], indices.dims);
        return std::vector{TensorType{x.dtype, indices.dims}};
      })
      .lower([](Lowering& l) {
        auto x = l.op.operand(0);
        auto axis = static_cast<size_t>(axis_of(l.op, x.rank()));
        l.map(0, [&](const Indices& i) {
          Indices at = i;
          at[axis] = sole_address(l, l.load(1, i), x.dims[axis]);
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[3,4], %i: i64[2,4]", "gather_elements(%x, %i)"),
                sample("%x: f32[3,4], %i: i64[3,7]", "gather_elements(%x, %i) {axis = 1}")});
}

/// The coordinates in the last dim of `indices` (operand 1) at `prefix`, for dims [first, first + count) of
/// operand 0.
Indices read_tuple(Lowering& l, Indices prefix, size_t first, int64_t count) {
  auto dims = l.op.operand(0).dims;
  Indices at;
  for (int64_t k = 0; k < count; ++k) {
    prefix.push_back(l.constant_index(k));
    at.push_back(address(l, l.load(1, prefix), dims[first + static_cast<size_t>(k)]));
    prefix.pop_back();
  }
  return at;
}
/// Checks the common rules of gather_nd and scatter_nd, and returns the length of an index tuple.
size_t tuple_length(const Instance& op, size_t batch_dims) {
  auto x = typed(op, 0, any_class), indices = typed(op, 1, FE_PRIM_INT);
  need_rank(op, 1, indices.rank(), batch_dims + 1, 64);
  int64_t length = indices.dims.back();
  need_fit(length >= 0 && length <= static_cast<int64_t>(x.rank() - batch_dims), op, "index tuples of ",
           length, " for ", to_string(x));
  return static_cast<size_t>(length);
}

OpDef gather_nd_op() {
  return op_def("gather_nd")
      .doc(
          "The last dim of the indices holds coordinates of leading dims of x (after the batch dims); the "
          "result holds "
          "the elements there.")
      .operands("x", "indices")
      .attr(attr("batch_dims", 0))
      .infer([](const Instance& op) {
        auto x = op.operand(0), indices = op.operand(1);
        int64_t batch = op.attrs.integer("batch_dims");
        need_value(batch >= 0 && batch <= static_cast<int64_t>(x.rank()), op, "batch_dims", "is ", batch);
        size_t length = tuple_length(op, static_cast<size_t>(batch));
        for (size_t d = 0; d < static_cast<size_t>(batch); ++d)
          need_fit(x.dims[d] == indices.dims[d], op, "batch dim ", d, " differs between ", to_string(x),
                   " and ", to_string(indices));
        TensorType result{x.dtype, {indices.dims.begin(), indices.dims.end() - 1}};
        auto rest = x.dims.begin() + offset(static_cast<size_t>(batch) + length);
        result.dims.insert(result.dims.end(), rest, x.dims.end());
        for (auto dim = x.dims.begin() + batch; dim != rest; ++dim) need_addressable(op, *dim, result.dims);
        element_count(op, result.dims);
        return std::vector{result};
      })
      .lower([](Lowering& l) {
        auto batch = static_cast<size_t>(l.op.attrs.integer("batch_dims"));
        auto indices = l.op.operand(1);
        l.map(0, [&](const Indices& i) {
          auto prefix = i.begin() + offset(indices.rank() - 1);
          Indices at(i.begin(), i.begin() + offset(batch));
          auto tuple = read_tuple(l, Indices(i.begin(), prefix), batch, indices.dims.back());
          at.insert(at.end(), tuple.begin(), tuple.end());
          at.insert(at.end(), prefix, i.end());
          return l.load(0, at);
        });
      })
      .samples({sample("%x: f32[3,4,5], %i: i64[2,2]", "gather_nd(%x, %i)"),
                sample("%x: f32[2,3,4], %i: i64[2,1]", "gather_nd(%x, %i) {batch_dims = 1}")});
}

uint32_t store_mode(const Instance& op) {
  constexpr uint32_t modes[] = {FE_STORE_SET, FE_STORE_ADD, FE_STORE_MUL, FE_STORE_MAX, FE_STORE_MIN};
  size_t k = choice(op, "reduction", {"none", "add", "mul", "max", "min"});
  if (k == 1 || k == 2) typed(op, 0, numeric);
  return modes[k];
}

/// result = x, the initial contents of a scatter.
void copy_base(Lowering& l) {
  l.map(0, [&](const Indices& i) { return l.load(0, i); });
}

OpDef scatter_elements_op() {
  return op_def("scatter_elements")
      .doc(
          "x with update i stored at i, its coordinate along the axis taken from the indices; `reduction` "
          "says how it is "
          "combined with the elements there. Without one, duplicate indices leave the last of their updates.")
      .operands("x", "indices", "updates")
      .attr(attr("axis", 0))
      .axis()
      .attr(attr("reduction", "none"), "none | add | mul | max | min")
      .infer([](const Instance& op) {
        auto x = typed(op, 0, any_class), indices = typed(op, 1, FE_PRIM_INT), updates = op.operand(2);
        need_same_dtype(op, 2, x.dtype);
        need_rank(op, 1, indices.rank(), x.rank(), x.rank());
        need_fit(updates.dims == indices.dims, op, "the updates ", to_string(updates), " and the indices ",
                 to_string(indices), " differ in dims");
        auto axis = static_cast<size_t>(axis_of(op, x.rank()));
        for (size_t d = 0; d < x.rank(); ++d)
          need_fit(d == axis || indices.dims[d] <= x.dims[d], op, "the indices ", to_string(indices),
                   " exceed ", to_string(x), " in dim ", d);
        need_addressable(op, x.dims[axis], indices.dims);
        store_mode(op);
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        copy_base(l);
        auto x = l.op.operand(0);
        auto axis = static_cast<size_t>(axis_of(l.op, x.rank()));
        const auto updates = l.op.operand(1).dims;
        auto i = l.begin(updates), to = i;
        const auto addressed = updates[axis] == 1 ? sole_address : address;
        to[axis] = addressed(l, l.load(1, i), x.dims[axis]);
        l.store(l.result(), to, l.load(2, i), store_mode(l.op));
        l.end();
      })
      .samples({sample("%x: f32[3,4], %i: i64[2,4], %u: f32[2,4]",
                       "scatter_elements(%x, %i, %u) {reduction = \"add\"}"),
                sample("%x: f32[3,4], %i: i64[3,1], %u: f32[3,1]", "scatter_elements(%x, %i, %u) {axis = 1}"),
                sample("%x: i32[5], %i: i32[4], %u: i32[4]",
                       "scatter_elements(%x, %i, %u) {reduction = \"max\"}")});
}

OpDef scatter_into_constant_op() {
  return op_def("scatter_into_constant")
      .doc(
          "`size` elements along the axis for each index: the update at the coordinate that the index names, "
          "`fill` "
          "elsewhere. Indices and updates have size 1 there; see scatter_elements.")
      .operands("indices", "updates", "fill")
      .attr(attr("axis", 0))
      .axis()
      .required(attr("size", 1))
      .infer([](const Instance& op) {
        auto indices = typed(op, 0, FE_PRIM_INT), updates = typed(op, 1, any_class);
        need_same_dtype(op, 2, updates.dtype);
        need_rank(op, 2, op.operand(2).rank(), 0, 0);
        need_rank(op, 0, indices.rank(), 1, 64);
        need_fit(updates.dims == indices.dims, op, "the updates ", to_string(updates), " and the indices ",
                 to_string(indices), " differ in dims");
        auto axis = static_cast<size_t>(axis_of(op, indices.rank()));
        need_fit(indices.dims[axis] == 1, op, "the indices ", to_string(indices), " have not size 1 in dim ",
                 axis);
        int64_t size = op.attrs.integer("size");
        need_value(size >= 0 && size <= large, op, "size", "is ", size);
        need_addressable(op, size, indices.dims);
        updates.dims[axis] = size;
        element_count(op, updates.dims);
        return std::vector{updates};
      })
      .lower([](Lowering& l) {
        int64_t size = l.op.attrs.integer("size");
        auto axis = static_cast<size_t>(axis_of(l.op, l.op.operand(0).rank()));
        DType counted = size <= (int64_t{1} << 31) ? i32 : i64;
        l.map(0, [&](const Indices& i) {
          Indices at = i;
          at[axis] = l.constant_index(0);
          Idx wanted = l.indirect(l.load(0, at), size);
          return where(l.value(i[axis], counted) == l.value(wanted, counted), l.load(1, at),
                       load_single(l, 2));
        });
      })
      .samples({sample("%i: i64[3,1], %u: f32[3,1], %f: f32[]",
                       "scatter_into_constant(%i, %u, %f) {axis = 1, size = 4}"),
                sample("%i: i32[2,1,3], %u: i32[2,1,3], %f: i32[]",
                       "scatter_into_constant(%i, %u, %f) {axis = -2, size = 3}")});
}

OpDef scatter_nd_op() {
  return op_def("scatter_nd")
      .doc(
          "x with updates stored where the index tuples in the last dim of the indices say; see "
          "scatter_elements.")
      .operands("x", "indices", "updates")
      .attr(attr("reduction", "none"), "none | add | mul | max | min")
      .infer([](const Instance& op) {
        auto x = op.operand(0), indices = op.operand(1), updates = op.operand(2);
        need_same_dtype(op, 2, x.dtype);
        size_t length = tuple_length(op, 0);
        Dims expected(indices.dims.begin(), indices.dims.end() - 1);
        expected.insert(expected.end(), x.dims.begin() + offset(length), x.dims.end());
        need_fit(updates.dims == expected, op, "the updates ", to_string(updates), " should have the dims ",
                 to_string({DType::none, expected}).substr(1));
        for (size_t d = 0; d < length; ++d) need_addressable(op, x.dims[d], expected);
        store_mode(op);
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        copy_base(l);
        const auto tuples = l.op.operand(1).dims, updates = l.op.operand(2).dims;
        const size_t count = tuples.size() - 1;
        // Empty tuples all address one element, where the last update wins.
        const bool last_only = tuples.back() == 0 && store_mode(l.op) == FE_STORE_SET;
        auto dims = updates;
        for (size_t d = 0; last_only && d < count; ++d) dims[d] = std::min<int64_t>(dims[d], 1);
        auto i = l.begin(dims);
        for (size_t d = 0; d < count; ++d)
          if (dims[d] < updates[d]) i[d] = l.constant_index(updates[d] - 1);
        auto prefix = i.begin() + offset(count);
        Indices to = read_tuple(l, Indices(i.begin(), prefix), 0, tuples.back());
        to.insert(to.end(), prefix, i.end());
        l.store(l.result(), to, l.load(2, i), store_mode(l.op));
        l.end();
      })
      .samples(
          {sample("%x: f32[3,4], %i: i64[2,1], %u: f32[2,4]", "scatter_nd(%x, %i, %u) {reduction = \"add\"}"),
           sample("%x: f32[3,4], %i: i64[1,2], %u: f32[1]", "scatter_nd(%x, %i, %u)")});
}

OpDef one_hot_op() {
  return op_def("one_hot")
      .doc(
          "values[1] where the coordinate along the new axis of size `depth` is the index, else values[0]. "
          "Negative indices count from the end; one out of range has no such place.")
      .operands("indices", "values")
      .attr(attr("axis", -1))
      .axis_of_result()
      .required(attr("depth", 1))
      .infer([](const Instance& op) {
        auto indices = typed(op, 0, FE_PRIM_INT), values = typed(op, 1, any_class);
        need_fit(values.dims == Dims{2}, op, "the values ", to_string(values), " must be two");
        int64_t depth = op.attrs.integer("depth");
        need_value(depth >= 0 && depth <= large, op, "depth", "is ", depth);
        auto axis = axis_of(op, indices.rank() + 1);
        TensorType result{values.dtype, indices.dims};
        result.dims.insert(result.dims.begin() + axis, depth);
        element_count(op, result.dims);
        return std::vector{result};
      })
      .lower([](Lowering& l) {
        auto depth = static_cast<double>(l.op.attrs.integer("depth"));
        int64_t axis = axis_of(l.op, l.op.operand(0).rank() + 1);
        l.map(0, [&](const Indices& i) {
          Indices at = i;
          at.erase(at.begin() + axis);
          Val index = l.load(0, at), place = l.value(i[static_cast<size_t>(axis)]);
          Val wanted = cast(index, index.dtype() == u64 ? u64 : i64);
          if (is_signed(index.dtype())) wanted = where(wanted < 0.0, wanted + depth, wanted);
          Val off = l.load(1, {l.constant_index(0)}), on_ = l.load(1, {l.constant_index(1)});
          return where(wanted == cast(place, wanted.dtype()), on_, off);
        });
      })
      .samples({sample("%i: i64[3], %v: f32[2]", "one_hot(%i, %v) {depth = 4}"),
                sample("%i: i32[2,3], %v: i32[2]", "one_hot(%i, %v) {axis = 1, depth = 3}"),
                sample("%i: u64[3], %v: f32[2]", "one_hot(%i, %v) {depth = 4}")});
}

}  // namespace

void add_index(PluginBuilder& builder, const PluginContext&) {
  for (auto make : {gather_op, gather_elements_op, gather_nd_op, scatter_elements_op,
                    scatter_into_constant_op, scatter_nd_op, one_hot_op})
    builder.add(make());
}

}  // namespace ferrite::standard
