// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions over axes: one statement each, or a decomposition into such statements. Sums and products of
// small floats accumulate in f32.
#include <algorithm>

#include "common.h"

namespace ferrite::standard {
namespace {

/// By dim of operand 0: whether it is reduced.
std::vector<bool> reduced_dims(const Instance& op, size_t rank) {
  std::vector<bool> reduced(rank);
  if (op.attrs.has("axis")) {
    reduced[static_cast<size_t>(axis_of(op, rank))] = true;
    return reduced;
  }
  for (int64_t axis : op.attrs.integers("axes")) {
    auto d = static_cast<size_t>(axis_of(op, axis, rank));
    need_value(!reduced[d], op, "axes", "names axis ", axis, " twice");
    reduced[d] = true;
  }
  return reduced;
}

TensorType reduced_type(const Instance& op, int classes) {
  auto x = typed(op, 0, classes);
  auto reduced = reduced_dims(op, x.rank());
  TensorType result{x.dtype, {}};
  for (size_t d = 0; d < x.rank(); ++d)
    if (!reduced[d] || op.attrs.boolean("keepdims")) result.dims.push_back(reduced[d] ? 1 : x.dims[d]);
  return result;
}

/// The loop nest of a reduction: indices of the operand and of the result.
struct Nest {
  Indices operand, result;
  std::vector<Idx> reduced;  ///< the reduction variables
};
Nest begin_reduction(Lowering& l) {
  auto dims = l.op.operand(0).dims;
  auto reduced = reduced_dims(l.op, dims.size());
  Dims kept, inner;
  for (size_t d = 0; d < dims.size(); ++d) (reduced[d] ? inner : kept).push_back(dims[d]);
  auto vars = l.begin(kept, inner);
  Nest nest;
  size_t next_kept = 0, next_reduced = kept.size();
  for (size_t d = 0; d < dims.size(); ++d) {
    nest.operand.push_back(reduced[d] ? vars[next_reduced++] : vars[next_kept++]);
    if (reduced[d]) nest.reduced.push_back(nest.operand.back());
    if (!reduced[d])
      nest.result.push_back(nest.operand.back());
    else if (l.op.attrs.boolean("keepdims"))
      nest.result.push_back(l.constant_index(0));
  }
  return nest;
}

void lower_reduction(Lowering& l, uint32_t kind) {
  const DType dtype = l.result().type.dtype;
  // An extremum of no elements is infinite in the accumulator type; most 8-bit floats have no infinity.
  if ((kind == FE_REDUCE_MAX || kind == FE_REDUCE_MIN) && is_f8(dtype) && l.op.operand(0).elements() == 0) {
    l.map(0, [&](const Indices&) {
      const Val least = widen(lowest(l, dtype));
      return cast(kind == FE_REDUCE_MAX ? least : -least, dtype);
    });
    return;
  }
  auto nest = begin_reduction(l);
  Val result = l.reduce(kind, widen(l.load(0, nest.operand)));
  l.store(l.result(), nest.result, cast(result, dtype));
  l.end();
}

/// The sum divided by the number of elements; integers are summed in 64 bits, and the quotient is truncated.
void lower_mean(Lowering& l) {
  auto x = l.op.operand(0);
  auto nest = begin_reduction(l);
  DType wide = is_float(x.dtype) ? compute_type(x.dtype) : x.dtype == u64 ? u64 : i64;
  Val sum = l.reduce(FE_REDUCE_SUM, cast(l.load(0, nest.operand), wide));
  int64_t count = 1;
  auto reduced = reduced_dims(l.op, x.rank());
  for (size_t d = 0; d < x.rank(); ++d)
    if (reduced[d]) count *= x.dims[d];
  l.store(l.result(), nest.result, cast(sum / static_cast<double>(count), x.dtype));
  l.end();
}

/// Reads backwards to find the last of equal elements, since the first index found wins.
void lower_arg(Lowering& l, uint32_t kind) {
  auto x = l.op.operand(0);
  int64_t last = x.dims[static_cast<size_t>(axis_of(l.op, x.rank()))] - 1;
  bool backwards = l.op.attrs.boolean("select_last");
  auto nest = begin_reduction(l);
  Idx step = nest.reduced[0];
  Indices at = nest.operand;
  if (backwards) at[static_cast<size_t>(axis_of(l.op, x.rank()))] = step * -1 + last;
  const Val index = l.value(step), element = widen(l.load(0, at));
  Val found = l.reduce(kind, element, index);
  l.store(l.result(), nest.result, backwards ? static_cast<double>(last) - found : found);
  l.end();
}

OpDef reduction_def(const std::string& name, const char* doc, int classes) {
  std::string dtype = classes & FE_PRIM_FLOAT ? "f32" : "bool";
  auto text = [&](const char* dims, const char* attrs) {
    return sample("%x: " + dtype + dims, name + "(%x) " + attrs);
  };
  return op_def(name)
      .doc(doc)
      .operands("x")
      .required(attr("axes", Dims{}), "the axes to reduce; none of them twice")
      .axis()
      .attr(attr("keepdims", true), "keep reduced dims with size 1")
      .infer([classes](const Instance& op) { return std::vector{reduced_type(op, classes)}; })
      .samples({text("[3,4,5]", "{axes = [1]}"), text("[3,4,5]", "{axes = [0, 2], keepdims = false}"),
                text("[3,33]", "{axes = [0, 1]}"), text("[2,0]", "{axes = [0]}")});
}

OpDef reduction(const char* name, const char* doc, int classes, uint32_t kind) {
  return reduction_def(name, doc, classes).lower([kind](Lowering& l) { lower_reduction(l, kind); });
}

OpDef arg_reduction(const std::string& name, const char* doc, uint32_t kind) {
  return op_def(name)
      .doc(doc)
      .operands("x")
      .attr(attr("axis", 0))
      .axis()
      .attr(attr("keepdims", true))
      .attr(attr("select_last", false), "of equal elements take the last, not the first")
      .infer([](const Instance& op) {
        auto result = reduced_type(op, numeric);
        auto x = op.operand(0);
        need_fit(x.dims[static_cast<size_t>(axis_of(op, x.rank()))] > 0, op, "the axis of ", to_string(x),
                 " is empty");
        return std::vector{TensorType{i64, result.dims}};
      })
      .lower([kind](Lowering& l) { lower_arg(l, kind); })
      .samples({sample("%x: f32[3,17]", name + "(%x) {axis = 1}"),
                sample("%x: i64[3,5]", name + "(%x) {axis = 0, keepdims = false, select_last = true}")});
}

/// A reduction composed of others; `body` gets the widened operand and the axes. It keeps the dims, so that
/// it can subtract a result; they are removed at the end.
using Compose = Value (*)(Graph& g, Value x, const Dims& axes);
OpDef composite(const char* name, const char* doc, int classes, Compose body) {
  return reduction_def(name, doc, classes)
      .decompose([body](Graph& g, const Instance& op, std::span<const Value> operands) {
        auto list = op.attrs.integers("axes");
        Value result = body(g, widen(g, operands[0]), Dims(list.begin(), list.end()));
        result = cast_to(g, result, op.operand(0).dtype);
        return std::vector{reshape_to(g, result, op.result(0).dims)};
      });
}

Value square_sum(Graph& g, Value x, const Dims& axes) {
  return reduce(g, "reduce_sum", g.make("mul", {x, x}), axes);
}

/// log(sum(exp(x))), shifted by the maximum if that is finite, so that nothing overflows.
Value log_sum_exp(Graph& g, Value x, const Dims& axes) {
  Value top = reduce(g, "reduce_max", x, axes);
  top = g.make("where", {g.make("isinf", {top}), g.scalar(x.dtype(), 0), top});
  Value sum = reduce(g, "reduce_sum", g.make("exp", {g.make("sub", {x, top})}), axes);
  return g.make("add", {g.make("log", {sum}), top});
}

OpDef cumsum_op() {
  return op_def("cumsum")
      .doc(
          "The running sum along the axis; `exclusive` leaves the element itself out, `reverse` starts at "
          "the end.")
      .operands("x")
      .attr(attr("axis", 0))
      .axis()
      .attr(attr("exclusive", false))
      .attr(attr("reverse", false))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        axis_of(op, x.rank());
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        auto x = l.op.operand(0);
        auto axis = static_cast<size_t>(axis_of(l.op, x.rank()));
        Dims outer = x.dims;
        outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(axis));
        const int64_t extent = x.dims[axis];
        auto at = l.begin(outer, {}, {&extent, 1});
        Idx step = at.back();
        at.pop_back();
        at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis),
                  l.op.attrs.boolean("reverse") ? step * -1 + (extent - 1) : step);
        Val sum = l.carry(compute_type(x.dtype), 0);
        Val next = sum + widen(l.load(0, at));
        l.set_carry(sum, next);
        l.store(l.result(), at, cast(l.op.attrs.boolean("exclusive") ? sum : next, x.dtype));
        l.end();
      })
      .samples({sample("%x: f32[3,4]", "cumsum(%x) {axis = 1}"),
                sample("%x: i64[3,4]", "cumsum(%x) {axis = 0, exclusive = true, reverse = true}")});
}

}  // namespace

void add_reduce(PluginBuilder& builder, const PluginContext&) {
  builder.add(reduction("reduce_sum", "The sum.", numeric, FE_REDUCE_SUM));
  builder.add(reduction("reduce_prod", "The product.", numeric, FE_REDUCE_PROD));
  builder.add(reduction("reduce_max", "The maximum; NaN if one is. Of nothing: the least value.", numeric,
                        FE_REDUCE_MAX));
  builder.add(reduction("reduce_min", "The minimum; NaN if one is. Of nothing: the greatest value.", numeric,
                        FE_REDUCE_MIN));
  builder.add(reduction("reduce_any", "Whether any holds.", FE_PRIM_BOOL, FE_REDUCE_ANY));
  builder.add(reduction("reduce_all", "Whether all hold.", FE_PRIM_BOOL, FE_REDUCE_ALL));
  builder.add(reduction_def("reduce_mean", "The mean; of integers truncated.", numeric).lower(lower_mean));
  builder.add(arg_reduction("argmax", "The index of the maximum along the axis; NaN counts as the maximum.",
                            FE_REDUCE_ARGMAX));
  builder.add(arg_reduction("argmin", "The index of the minimum along the axis.", FE_REDUCE_ARGMIN));
  builder.add(composite(
      "reduce_l1", "The sum of magnitudes.", numeric,
      [](Graph& g, Value x, const Dims& axes) { return reduce(g, "reduce_sum", g.make("abs", {x}), axes); }));
  builder.add(composite(
      "reduce_l2", "The square root of the sum of squares.", FE_PRIM_FLOAT,
      [](Graph& g, Value x, const Dims& axes) { return g.make("sqrt", {square_sum(g, x, axes)}); }));
  builder.add(composite(
      "reduce_log_sum", "The logarithm of the sum.", FE_PRIM_FLOAT,
      [](Graph& g, Value x, const Dims& axes) { return g.make("log", {reduce(g, "reduce_sum", x, axes)}); }));
  builder.add(
      composite("reduce_log_sum_exp", "The logarithm of the sum of exp(x).", FE_PRIM_FLOAT, log_sum_exp));
  builder.add(composite("reduce_sum_square", "The sum of squares.", numeric, square_sum));
  builder.add(cumsum_op());
}

}  // namespace ferrite::standard
