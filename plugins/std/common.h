// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared code of the standard operator library: checks of operands and attributes, widening, sample texts.
// Errors: FE-G61, FE-G62, FE-G70 to FE-G79, each thrown by one function here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/op.hpp"
#include "ferrite/plugin.hpp"

namespace ferrite::standard {

// One function per file; plugin.cpp lists them.
void add_pointwise(PluginBuilder& builder, const PluginContext& context);
void add_activation(PluginBuilder& builder, const PluginContext& context);
void add_view(PluginBuilder& builder, const PluginContext& context);
void add_move(PluginBuilder& builder, const PluginContext& context);
void add_index(PluginBuilder& builder, const PluginContext& context);
void add_reduce(PluginBuilder& builder, const PluginContext& context);
void add_norm(PluginBuilder& builder, const PluginContext& context);
void add_attention(PluginBuilder& builder, const PluginContext& context);
void add_contract(PluginBuilder& builder, const PluginContext& context);
void add_convolution(PluginBuilder& builder, const PluginContext& context);
void add_pool(PluginBuilder& builder, const PluginContext& context);
void add_resize(PluginBuilder& builder, const PluginContext& context);
void add_quantise(PluginBuilder& builder, const PluginContext& context);
void add_random(PluginBuilder& builder, const PluginContext& context);
void add_sort(PluginBuilder& builder, const PluginContext& context);

// ---- checks, for type rules. All of them throw.

inline constexpr int any_class = FE_PRIM_BOOL | FE_PRIM_INT | FE_PRIM_FLOAT;
inline constexpr int numeric = FE_PRIM_INT | FE_PRIM_FLOAT;

constexpr int class_mask(DType dtype) {
  return dtype == boolean    ? FE_PRIM_BOOL
         : is_integer(dtype) ? FE_PRIM_INT
         : is_float(dtype)   ? FE_PRIM_FLOAT
                             : 0;
}
constexpr std::string_view class_names(int classes) {
  switch (classes) {
    case FE_PRIM_BOOL: return "bool";
    case FE_PRIM_INT: return "integers";
    case FE_PRIM_FLOAT: return "floats";
    case FE_PRIM_BOOL | FE_PRIM_INT: return "bool and integers";
    case FE_PRIM_INT | FE_PRIM_FLOAT: return "integers and floats";
    default: return "bool, integers and floats";
  }
}

/// The type of operand k, whose dtype must be of `classes`.
inline TensorType typed(const Instance& op, size_t k, int classes) {
  auto type = op.operand(k);
  if (!(class_mask(type.dtype) & classes))
    fail("FE-G70", op.op(), ": operand ", k, " has dtype ", name_of(type.dtype), ", and it takes ",
         class_names(classes));
  return type;
}
/// The axis attribute `name` in [0, rank); negative ones count from the end.
inline int64_t axis_of(const Instance& op, int64_t axis, size_t rank) {
  const auto limit = static_cast<int64_t>(rank);
  if (axis < -limit || axis >= limit)
    fail("FE-G71", op.op(), ": axis ", axis, " does not lie in an operand of rank ", rank);
  return axis < 0 ? axis + limit : axis;
}
inline int64_t axis_of(const Instance& op, size_t rank) {
  return axis_of(op, op.attrs.integer("axis"), rank);
}
/// The value of an attribute with `count` integers, each in [low, high].
inline Dims integers(const Instance& op, std::string_view name, size_t count, int64_t low, int64_t high) {
  auto list = op.attrs.integers(name);
  if (list.size() != count)
    fail("FE-G72", op.op(), ": attribute '", name, "' has ", list.size(), " numbers and needs ", count);
  for (int64_t value : list)
    if (value < low || value > high)
      fail("FE-G75", op.op(), ": attribute '", name, "' holds ", value, ", which is not in [", low, ", ",
           high, "]");
  return {list.begin(), list.end()};
}
/// A bound for sizes, pads and strides that keeps the arithmetic on them from wrapping.
inline constexpr int64_t large = int64_t{1} << 40;

inline void need_rank(const Instance& op, size_t k, size_t rank, size_t low, size_t high) {
  if (rank < low || rank > high)
    fail("FE-G73", op.op(), ": operand ", k, " has rank ", rank, " and needs ", low,
         high == low ? std::string() : " to " + std::to_string(high));
}
inline void need_same_dtype(const Instance& op, size_t k, DType dtype) {
  if (op.operand(k).dtype != dtype)
    fail("FE-G61", op.op(), ": operands have dtypes ", name_of(dtype), " and ", name_of(op.operand(k).dtype));
}
template <class... Parts>
void need_fit(bool holds, const Instance& op, const Parts&... parts) {
  if (!holds) fail("FE-G74", op.op(), ": ", parts...);
}
template <class... Parts>
void need_value(bool holds, const Instance& op, std::string_view name, const Parts&... parts) {
  if (!holds) fail("FE-G75", op.op(), ": attribute '", name, "' ", parts...);
}
/// The position of a string attribute's value in `choices`.
inline size_t choice(const Instance& op, std::string_view name,
                     std::initializer_list<std::string_view> choices) {
  auto value = op.attrs.string(name);
  size_t k = 0;
  std::string listed;
  for (auto item : choices) {
    if (item == value) return k;
    listed += (k++ ? ", " : "") + std::string(item);
  }
  fail("FE-G78", op.op(), ": attribute '", name, "' is '", value, "' and may be ", listed);
}
/// The number of elements; throws if it exceeds 56 bits.
inline int64_t element_count(const Instance& op, const Dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    if (__builtin_mul_overflow(count, dim, &count) || count > (int64_t{1} << 56))
      fail("FE-G62", op.op(), ": a tensor of ", to_string(TensorType{DType::none, dims}).substr(1),
           " is too large");
  return count;
}
/// Operand k must broadcast to `dims` without changing them.
inline void need_broadcast_to(const Instance& op, size_t k, const Dims& dims) {
  need_fit(broadcast_dims(op.op(), op.operand(k).dims, dims) == dims, op, "operand ", k, " ",
           to_string(op.operand(k)), " does not broadcast to the dims of operand 0");
}

// ---- lowering

/// Converts to the type in which arithmetic is done: f32 for the smaller floats.
inline Val widen(Val x) { return cast(x, compute_type(x.dtype())); }

/// result[i..] = body(x): x[k] is operand k at i, broadcast and widened; the value is rounded to the result's
/// dtype.
template <class Body>
void widened_pointwise(Lowering& l, Body&& body) {
  DType to = l.result().type.dtype;
  l.pointwise([&](std::vector<Val>& x) {
    for (auto& value : x)
      if (value.lowering()) value = widen(value);
    return cast(body(std::as_const(x)), to);
  });
}
/// The single element of operand k, which has rank 0 or dims of size 1.
inline Val load_single(Lowering& l, size_t k) {
  return l.load(k, Indices(l.op.operand(k).rank(), l.constant_index(0)));
}
inline Idx min_index(Idx a, Idx b) { return a.lowering()->index_op(FE_INDEX_MIN, a, b); }
inline Idx max_index(Idx a, Idx b) { return a.lowering()->index_op(FE_INDEX_MAX, a, b); }
inline Idx min_index(Idx a, int64_t b) { return min_index(a, a.lowering()->constant_index(b)); }
inline Idx max_index(Idx a, int64_t b) { return max_index(a, a.lowering()->constant_index(b)); }

/// The lowest value of a dtype: minus infinity for floats that have it.
inline Val lowest(Lowering& l, DType dtype) {
  if (is_f8(dtype)) return l.constant(dtype, -f8_value(dtype, f8_format(dtype).last));
  if (is_float(dtype)) return l.constant(dtype, -__builtin_inf());
  return l.constant_bits(dtype, is_signed(dtype) ? uint64_t{1} << (bits_of(dtype) - 1) : 0);
}

// ---- decompositions

inline Value cast_to(Graph& g, Value x, DType dtype) {
  return x.dtype() == dtype ? x : g.make("cast", {x}, {attr("dtype", dtype)});
}
inline Value widen(Graph& g, Value x) { return cast_to(g, x, compute_type(x.dtype())); }
inline Value reshape_to(Graph& g, Value x, Dims shape) {
  return x.dims() == shape ? x : g.make("reshape", {x}, {attr("shape", std::move(shape))});
}
inline Value reduce(Graph& g, std::string_view op, Value x, const Dims& axes, bool keepdims = true) {
  return g.make(op, {x}, {attr("axes", axes), attr("keepdims", keepdims)});
}
/// The axes [first, last).
inline Dims axis_range(int64_t first, int64_t last) {
  Dims axes;
  for (int64_t axis = first; axis < last; ++axis) axes.push_back(axis);
  return axes;
}

// ---- samples

/// sample("%x: f32[2,3]", "relu(%x)"): a graph of one op, with these names of its results.
inline std::string sample(std::string_view inputs, std::string_view call,
                          std::initializer_list<std::string_view> results = {"r"}) {
  std::string values, outputs;
  for (const auto name : results) {
    const std::string value = "%" + std::string(name);
    values += (values.empty() ? "" : ", ") + value;
    outputs += (outputs.empty() ? "" : ", ") + value + " \"" + std::string(name) + "\"";
  }
  return "ferrite graph 0\ngraph @sample(" + std::string(inputs) + ") -> (" + outputs + ") {\n  " + values +
         " = " + std::string(call) + "\n}\n";
}

}  // namespace ferrite::standard
