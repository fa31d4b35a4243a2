// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalisations. All are composites, defined by their decompositions; small floats compute in f32
// throughout.
#include <algorithm>

#include "common.h"

namespace ferrite::standard {
namespace {

using Operands = std::span<const Value>;

/// The type of an op over one float operand with an axis.
std::vector<TensorType> float_with_axis(const Instance& op) {
  auto x = typed(op, 0, FE_PRIM_FLOAT);
  axis_of(op, x.rank());
  return {x};
}

/// A vector over the channels (dim 1) in the shape that broadcasts to `rank` dims.
Value per_channel(Graph& g, Value vector, size_t rank) {
  Dims shape(rank, 1);
  shape[1] = vector.type().elements();
  return reshape_to(g, vector, shape);
}
void need_channels(const Instance& op, size_t first, size_t last) {
  auto x = op.operand(0);
  need_rank(op, 0, x.rank(), 2, 64);
  for (size_t k = first; k < last; ++k) {
    auto type = typed(op, k, FE_PRIM_FLOAT);
    need_fit(type.dims == Dims{x.dims[1]}, op, "operand ", k, " ", to_string(type),
             " must hold one number for each of the ", x.dims[1], " channels");
  }
}

/// (x - mean) / sqrt(variance + epsilon) over the axes.
Value standardise(Graph& g, Value x, const Dims& axes, double epsilon) {
  Value centred = g.make("sub", {x, reduce(g, "reduce_mean", x, axes)});
  Value variance = reduce(g, "reduce_mean", g.make("mul", {centred, centred}), axes);
  Value scale = g.make("rsqrt", {g.make("add", {variance, g.scalar(x.dtype(), epsilon)})});
  return g.make("mul", {centred, scale});
}
/// x * scale + bias, as far as they are given.
Value affine(Graph& g, Value x, Value scale, Value bias) {
  if (scale) x = g.make("mul", {x, cast_to(g, scale, x.dtype())});
  return bias ? g.make("add", {x, cast_to(g, bias, x.dtype())}) : x;
}
Value optional_operand(Operands operands, size_t k) { return k < operands.size() ? operands[k] : Value(); }

std::vector<Value> softmax(Graph& g, const Instance& op, Operands operands) {
  Value x = widen(g, operands[0]);
  Dims axes{axis_of(op, x.rank())};
  Value powers = g.make("exp", {g.make("sub", {x, reduce(g, "reduce_max", x, axes)})});
  // One division per sum. The sum is at least 1 or NaN, so multiplying with its reciprocal costs at most one
  // more unit in the last place.
  Value result = g.make("mul", {powers, g.make("reciprocal", {reduce(g, "reduce_sum", powers, axes)})});
  return {cast_to(g, result, op.operand(0).dtype)};
}

std::vector<Value> log_softmax(Graph& g, const Instance& op, Operands operands) {
  Value x = widen(g, operands[0]);
  Dims axes{axis_of(op, x.rank())};
  Value shifted = g.make("sub", {x, reduce(g, "reduce_max", x, axes)});
  Value sum = reduce(g, "reduce_sum", g.make("exp", {shifted}), axes);
  return {cast_to(g, g.make("sub", {shifted, g.make("log", {sum})}), op.operand(0).dtype)};
}

OpDef softmax_like(const std::string& name, const char* doc, DecomposeFunction body, uint32_t flags = 0) {
  return op_def(name)
      .flags(flags)
      .doc(doc)
      .operands("x")
      .attr(attr("axis", -1))
      .axis()
      .infer(float_with_axis)
      .decompose(std::move(body))
      .samples({sample("%x: f32[3,17]", name + "(%x)"), sample("%x: f32[2,5,3]", name + "(%x) {axis = 1}"),
                sample("%x: bf16[2,9]", name + "(%x)")});
}

std::vector<TensorType> layer_norm_type(const Instance& op) {
  auto x = typed(op, 0, FE_PRIM_FLOAT);
  axis_of(op, x.rank());
  for (size_t k = 1; k < 3; ++k)
    if (op.has_operand(k)) typed(op, k, FE_PRIM_FLOAT), need_broadcast_to(op, k, x.dims);
  return {x};
}

OpDef layer_norm_op() {
  return op_def("layer_norm")
      .doc(
          "(x - mean) / sqrt(variance + epsilon) over the dims from the axis on, times scale, plus bias (Ba "
          "et al., 2016).")
      .operands("x", "scale?", "bias?")
      .attr(attr("axis", -1))
      .axis()
      .attr(attr("epsilon", 1e-5))
      .infer(layer_norm_type)
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        auto rank = x.rank();
        auto axes = axis_range(axis_of(op, rank), static_cast<int64_t>(rank));
        Value result = standardise(g, x, axes, op.attrs.number("epsilon"));
        result = affine(g, result, optional_operand(operands, 1), optional_operand(operands, 2));
        return std::vector{cast_to(g, result, op.operand(0).dtype)};
      })
      .samples({sample("%x: f32[3,17], %s: f32[17], %b: f32[17]", "layer_norm(%x, %s, %b)"),
                sample("%x: f32[2,3,5]", "layer_norm(%x) {axis = 1}"),
                sample("%x: bf16[3,8], %s: bf16[8]", "layer_norm(%x, %s)")});
}

OpDef rms_norm_op() {
  return op_def("rms_norm")
      .doc(
          "x / sqrt(mean(x * x) + epsilon) over the dims from the axis on, times scale (Zhang and Sennrich, "
          "2019).")
      .operands("x", "scale?")
      .attr(attr("axis", -1))
      .axis()
      .attr(attr("epsilon", 1e-5))
      .infer(layer_norm_type)
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        auto rank = x.rank();
        auto axes = axis_range(axis_of(op, rank), static_cast<int64_t>(rank));
        Value mean = reduce(g, "reduce_mean", g.make("mul", {x, x}), axes);
        Value scale =
            g.make("rsqrt", {g.make("add", {mean, g.scalar(x.dtype(), op.attrs.number("epsilon"))})});
        Value result = affine(g, g.make("mul", {x, scale}), optional_operand(operands, 1), Value());
        return std::vector{cast_to(g, result, op.operand(0).dtype)};
      })
      .samples({sample("%x: f32[3,17], %s: f32[17]", "rms_norm(%x, %s)")});
}

OpDef batch_norm_op() {
  return op_def("batch_norm")
      .doc(
          "(x - mean) / sqrt(variance + epsilon) * scale + bias for each channel (dim 1), with given "
          "statistics.")
      .operands("x", "scale", "bias", "mean", "variance")
      .attr(attr("epsilon", 1e-5))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_channels(op, 1, 5);
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        // One multiply and one add per element; the rest depends on the channel only.
        Value x = widen(g, operands[0]);
        std::vector<Value> c;
        for (size_t k = 1; k < 5; ++k) c.push_back(cast_to(g, operands[k], x.dtype()));
        Value variance = g.make("add", {c[3], g.scalar(x.dtype(), op.attrs.number("epsilon"))});
        Value scale = g.make("div", {c[0], g.make("sqrt", {variance})});
        Value shift = g.make("sub", {c[1], g.make("mul", {c[2], scale})});
        Value result = affine(g, x, per_channel(g, scale, x.rank()), per_channel(g, shift, x.rank()));
        return std::vector{cast_to(g, result, op.operand(0).dtype)};
      })
      .samples({"ferrite graph 0\ngraph @sample(%x: f32[2,3,4,5], %s: f32[3], %b: f32[3], %m: f32[3], %v: "
                "f32[3]) -> "
                "(%r \"r\") {\n  %w = mul(%v, %v)\n  %r = batch_norm(%x, %s, %b, %m, %w)\n}\n"});
}

OpDef instance_norm_op() {
  return op_def("instance_norm")
      .doc(
          "Each channel of each item standardised over its spatial dims, times scale, plus bias (Ulyanov et "
          "al., 2016).")
      .operands("x", "scale", "bias")
      .attr(attr("epsilon", 1e-5))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_channels(op, 1, 3);
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        auto axes = axis_range(2, static_cast<int64_t>(x.rank()));
        Value result = standardise(g, x, axes, op.attrs.number("epsilon"));
        result =
            affine(g, result, per_channel(g, operands[1], x.rank()), per_channel(g, operands[2], x.rank()));
        return std::vector{cast_to(g, result, op.operand(0).dtype)};
      })
      .samples({sample("%x: f32[2,3,4,5], %s: f32[3], %b: f32[3]", "instance_norm(%x, %s, %b)")});
}

OpDef group_norm_op() {
  return op_def("group_norm")
      .doc(
          "The channels in groups, each standardised with its spatial dims; scale and bias for each channel "
          "(Wu and He, 2018).")
      .operands("x", "scale?", "bias?")
      .required(attr("groups", 1))
      .attr(attr("epsilon", 1e-5))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_channels(op, op.has_operand(1) ? 1 : 3, op.has_operand(2) ? 3 : 2);
        int64_t groups = op.attrs.integer("groups");
        need_value(groups > 0 && x.dims[1] % groups == 0, op, "groups", "is ", groups,
                   ", which does not divide the ", x.dims[1], " channels");
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        Dims dims = x.dims();
        int64_t groups = op.attrs.integer("groups"), rest = dims[1] / groups;
        for (size_t d = 2; d < dims.size(); ++d) rest *= dims[d];
        Value grouped = reshape_to(g, x, {dims[0], groups, rest});
        Value result = reshape_to(g, standardise(g, grouped, {2}, op.attrs.number("epsilon")), dims);
        auto channel = [&](size_t k) {
          Value v = optional_operand(operands, k);
          return v ? per_channel(g, v, dims.size()) : v;
        };
        return std::vector{cast_to(g, affine(g, result, channel(1), channel(2)), op.operand(0).dtype)};
      })
      .samples({sample("%x: f32[2,6,4], %s: f32[6], %b: f32[6]", "group_norm(%x, %s, %b) {groups = 3}")});
}

OpDef lp_norm_op() {
  return op_def("lp_norm")
      .doc("x divided by its p-norm along the axis, p being 1 or 2; 0 where the norm is 0.")
      .operands("x")
      .attr(attr("axis", -1))
      .axis()
      .attr(attr("p", 2))
      .infer([](const Instance& op) {
        int64_t p = op.attrs.integer("p");
        need_value(p == 1 || p == 2, op, "p", "is ", p, " and may be 1 or 2");
        return float_with_axis(op);
      })
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        Dims axes{axis_of(op, x.rank())};
        Value norm = reduce(g, op.attrs.integer("p") == 1 ? "reduce_l1" : "reduce_l2", x, axes);
        // Elements with a norm of 0 are finite; divided by infinity they become 0.
        Value is_zero = g.make("eq", {norm, g.scalar(x.dtype(), 0)});
        Value divisor = g.make("where", {is_zero, g.scalar(x.dtype(), __builtin_inf()), norm});
        return std::vector{cast_to(g, g.make("div", {x, divisor}), op.operand(0).dtype)};
      })
      .samples(
          {sample("%x: f32[3,7]", "lp_norm(%x)"), sample("%x: f32[3,7]", "lp_norm(%x) {axis = 0, p = 1}")});
}

OpDef mean_variance_norm_op() {
  return op_def("mean_variance_norm")
      .doc("(x - mean) / (standard deviation + 1e-9) over the axes.")
      .operands("x")
      .attr(attr("axes", Dims{0, 2, 3}))
      .axis()
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        for (int64_t axis : op.attrs.integers("axes")) axis_of(op, axis, x.rank());
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance& op, Operands operands) {
        Value x = widen(g, operands[0]);
        auto list = op.attrs.integers("axes");
        Dims axes(list.begin(), list.end());
        Value centred = g.make("sub", {x, reduce(g, "reduce_mean", x, axes)});
        Value variance = reduce(g, "reduce_mean", g.make("mul", {centred, centred}), axes);
        Value divisor = g.make("add", {g.make("sqrt", {variance}), g.scalar(x.dtype(), 1e-9)});
        return std::vector{cast_to(g, g.make("div", {centred, divisor}), op.operand(0).dtype)};
      })
      .samples({sample("%x: f32[2,3,4,5]", "mean_variance_norm(%x)")});
}

/// One statement: the windowed sum of squares is the reduction, the division its finish part.
void lower_lrn(Lowering& l) {
  auto x = l.op.operand(0);
  const int64_t size = l.op.attrs.integer("size"), farthest = std::max<int64_t>(x.dims[1] - 1, 0);
  // No channel has neighbours further away than this.
  const int64_t before = std::min((size - 1) / 2, farthest), after = std::min(size / 2, farthest);
  const int64_t steps = before + 1 + after;
  auto vars = l.begin(x.dims, {&steps, 1});
  Idx step = vars.back();
  vars.pop_back();
  Indices at = vars;
  at[1] = vars[1] + step - before;
  DType wide = compute_type(x.dtype);
  Val channel = l.value(at[1]), zero = l.constant(x.dtype, 0);
  Val inside = (channel >= 0.0) & (channel < static_cast<double>(x.dims[1]));
  Val element = cast(l.load(l.operand(0), at, inside, zero), wide);
  Val sum = l.reduce(FE_REDUCE_SUM, element * element);
  Val base = sum * (l.op.attrs.number("alpha") / static_cast<double>(size)) + l.op.attrs.number("bias");
  Val result = widen(l.load(0, vars)) / pow(base, l.constant(wide, l.op.attrs.number("beta")));
  l.store(l.result(), vars, cast(result, x.dtype));
  l.end();
}
OpDef lrn_op() {
  return op_def("lrn")
      .doc(
          "x / (bias + alpha / size * s) ^ beta, s being the sum of squares of `size` neighbouring channels "
          "(Krizhevsky et al., 2012).")
      .operands("x")
      .required(attr("size", 1))
      .attr(attr("alpha", 1e-4))
      .attr(attr("beta", 0.75))
      .attr(attr("bias", 1.0))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_rank(op, 0, x.rank(), 2, 64);
        int64_t size = op.attrs.integer("size");
        need_value(size > 0 && size <= large, op, "size", "is ", size, " and must be positive");
        return std::vector{x};
      })
      .lower(lower_lrn)
      .samples({sample("%x: f32[2,5,3,3]", "lrn(%x) {size = 3}")});
}

OpDef dropout_op() {
  return op_def("dropout")
      .doc("x itself: inference keeps every element.")
      .operands("x")
      .flags(FE_OP_DECOMPOSE_EARLY)
      .infer([](const Instance& op) { return std::vector{op.operand(0)}; })
      .decompose([](Graph&, const Instance&, Operands operands) { return std::vector{operands[0]}; })
      .samples({sample("%x: f32[2,3]", "dropout(%x)")});
}

}  // namespace

void add_norm(PluginBuilder& builder, const PluginContext&) {
  builder.add(softmax_like("softmax", "exp(x) divided by its sum along the axis.", softmax));
  // As its parts, so that a training step can keep the largest elements and the sums in place of the result.
  builder.add(softmax_like("log_softmax", "The logarithm of softmax.", log_softmax, FE_OP_DECOMPOSE_EARLY));
  for (auto make : {layer_norm_op, rms_norm_op, batch_norm_op, instance_norm_op, group_norm_op, lp_norm_op,
                    mean_variance_norm_op, lrn_op, dropout_op})
    builder.add(make());
}

}  // namespace ferrite::standard
