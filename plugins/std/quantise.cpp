// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantised integers: q = round(x / scale) + zero, with one scale and zero, or one per position of an axis.
#include "common.h"

namespace ferrite::standard {
namespace {

/// Checks scale (operand 1) and zero (operand 2) against x.
void check_parameters(const Instance& op, DType scale_dtype) {
  auto x = op.operand(0), scale = op.operand(1);
  need_same_dtype(op, 1, scale_dtype);
  need_rank(op, 1, scale.rank(), 0, 1);
  if (scale.elements() != 1) {
    auto axis = static_cast<size_t>(axis_of(op, x.rank()));
    need_fit(scale.dims[0] == x.dims[axis], op, "the scale ", to_string(scale),
             " must hold one number for each of the ", x.dims[axis], " positions of axis ", axis);
  }
  if (op.has_operand(2))
    need_fit(op.operand(2).dims == scale.dims, op, "the zero ", to_string(op.operand(2)), " and the scale ",
             to_string(scale), " differ in dims");
}
/// Operand k, scale or zero, for the element at i.
Val parameter(Lowering& l, size_t k, const Indices& i) {
  auto type = l.op.operand(k);
  if (type.elements() == 1) return load_single(l, k);
  return l.load(k, {i[static_cast<size_t>(axis_of(l.op, i.size()))]});
}

/// The difference of two integers of one dtype, as the nearest float.
Val difference(Val x, Val zero, DType to) {
  const DType dtype = x.dtype();
  if (bits_of(dtype) <= 16) return cast(cast(x, i32) - cast(zero, i32), to);
  if (bits_of(dtype) <= 32) return cast(cast(x, i64) - cast(zero, i64), to);
  // Differences need 65 bits: the magnitude fits in u64.
  const Val negative = x < zero;
  const Val magnitude = cast(cast(where(negative, zero - x, x - zero), u64), to);
  return where(negative, -magnitude, magnitude);
}

/// The sum of an integral float and a zero of the dtype, saturated to the dtype; 0 if the float is NaN.
Val shifted(Lowering& l, Val number, Val zero) {
  const DType dtype = zero.dtype(), wide = is_signed(dtype) ? i64 : u64;
  if (bits_of(dtype) <= 16) return cast(number + cast(zero, number.dtype()), dtype);
  const Val lowest_value = cast(lowest(l, dtype), wide), highest_value = cast(!lowest(l, dtype), wide);
  const Val from = cast(zero, wide), negative = number < 0.0, distance = cast(abs(number), u64);
  // The distance of the zero from the end of the range; both are taken modulo 2^64.
  const Val room = cast(where(negative, from - lowest_value, highest_value - from), u64);
  const Val moved = where(negative, from - cast(distance, wide), from + cast(distance, wide));
  const Val sum = where(distance > room, where(negative, lowest_value, highest_value), moved);
  return cast(where(isnan(number), l.constant(wide, 0), sum), dtype);
}

OpDef quantize_linear_op() {
  return op_def("quantize_linear")
      .doc(
          "round(x / scale) + zero, ties to even, saturated to the dtype of zero (or `dtype` where it is "
          "absent).")
      .operands("x", "scale", "zero?")
      .attr(attr("axis", 1))
      .axis()
      .attr(attr("dtype", u8))
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        check_parameters(op, x.dtype);
        DType to = op.has_operand(2) ? typed(op, 2, FE_PRIM_INT).dtype : op.attrs.dtype("dtype");
        need_value(is_integer(to), op, "dtype", "is ", name_of(to), ", which is no integer");
        return std::vector{TensorType{to, x.dims}};
      })
      .lower([](Lowering& l) {
        l.map(0, [&](const Indices& i) {
          Val q = round(widen(l.load(0, i)) / widen(parameter(l, 1, i)));
          return l.op.has_operand(2) ? shifted(l, q, parameter(l, 2, i)) : cast(q, l.result().type.dtype);
        });
      })
      .samples({sample("%x: f32[2,3], %s: f32[], %z: u8[]", "quantize_linear(%x, %s, %z)"),
                sample("%x: f32[2,3], %s: f32[3], %z: i8[3]", "quantize_linear(%x, %s, %z)"),
                sample("%x: f64[2,3], %s: f64[], %z: i64[]", "quantize_linear(%x, %s, %z)")});
}

OpDef dequantize_linear_op() {
  return op_def("dequantize_linear")
      .doc("(x - zero) * scale, in the dtype of the scale; the difference is exact, then rounded once.")
      .operands("x", "scale", "zero?")
      .attr(attr("axis", 1))
      .axis()
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_INT), scale = typed(op, 1, FE_PRIM_FLOAT);
        check_parameters(op, scale.dtype);
        if (op.has_operand(2)) need_same_dtype(op, 2, x.dtype);
        return std::vector{TensorType{scale.dtype, x.dims}};
      })
      .lower([](Lowering& l) {
        DType to = l.result().type.dtype;
        l.map(0, [&](const Indices& i) {
          const DType work = compute_type(to);
          const Val x = l.load(0, i);
          const Val number = l.op.has_operand(2) ? difference(x, parameter(l, 2, i), work) : cast(x, work);
          return cast(number * widen(parameter(l, 1, i)), to);
        });
      })
      .samples({sample("%x: u8[2,3], %s: f32[], %z: u8[]", "dequantize_linear(%x, %s, %z)"),
                sample("%x: i8[2,3], %s: f32[2], %z: i8[2]", "dequantize_linear(%x, %s, %z) {axis = 0}"),
                sample("%x: u64[2,3], %s: f64[], %z: u64[]", "dequantize_linear(%x, %s, %z)")});
}

OpDef dynamic_quantize_op() {
  return op_def("dynamic_quantize")
      .doc(
          "x as u8 with the scale and zero that its range, widened to hold 0, asks for: q, scale (f32), zero "
          "(u8).")
      .operands("x")
      .results(3)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_same_dtype(op, 0, f32);
        return std::vector{TensorType{u8, x.dims}, TensorType{f32, {}}, TensorType{u8, {}}};
      })
      .decompose([](Graph& g, const Instance& op, std::span<const Value> operands) {
        Value x = operands[0], zero = g.scalar(f32, 0), one = g.scalar(f32, 1), top = g.scalar(f32, 255);
        auto axes = axis_range(0, static_cast<int64_t>(op.operand(0).rank()));
        Value high = g.make("maximum", {reduce(g, "reduce_max", x, axes, false), zero});
        Value low = g.make("minimum", {reduce(g, "reduce_min", x, axes, false), zero});
        Value range = g.make("div", {g.make("sub", {high, low}), top});
        Value scale = g.make("where", {g.make("eq", {range, zero}), one, range});
        Value offset = g.make("round", {g.make("div", {g.make("neg", {low}), scale})});
        offset = g.make("cast", {g.make("clamp", {offset, zero, top})}, {attr("dtype", u8)});
        return std::vector{g.make("quantize_linear", {x, scale, offset}), scale, offset};
      })
      .samples({sample("%x: f32[3,4]", "dynamic_quantize(%x)", {"q", "s", "z"})});
}

/// The operand as i32 minus its zero; a zero with several numbers lies along the rows.
Value centred(Graph& g, Value x, Value zero, bool rows) {
  Value wide = cast_to(g, x, i32);
  if (!zero) return wide;
  Value offset = cast_to(g, zero, i32);
  auto count = offset.type().elements();
  if (rows && count != 1) offset = reshape_to(g, offset, {count, 1});
  return g.make("sub", {wide, offset.rank() == 1 && count == 1 ? reshape_to(g, offset, {}) : offset});
}

OpDef matmul_integer_op() {
  return op_def("matmul_integer")
      .doc(
          "(a - a_zero) x (b - b_zero) in i32; a_zero has one number, or one a row; b_zero one, or one a "
          "column.")
      .operands("a", "b", "a_zero?", "b_zero?")
      .infer([](const Instance& op) {
        auto a = typed(op, 0, FE_PRIM_INT), b = typed(op, 1, FE_PRIM_INT);
        need_rank(op, 0, a.rank(), 2, 64);
        need_rank(op, 1, b.rank(), 2, 64);
        need_fit(a.dims.back() == b.dims[b.rank() - 2], op, to_string(a), " and ", to_string(b),
                 " do not multiply");
        for (size_t k = 2; k < 4; ++k) {
          if (!op.has_operand(k)) continue;
          need_same_dtype(op, k, op.operand(k - 2).dtype);
          auto zero = op.operand(k);
          int64_t wanted = k == 2 ? a.dims[a.rank() - 2] : b.dims.back();
          need_fit(zero.rank() <= 1 && (zero.elements() == 1 || zero.elements() == wanted), op, "operand ", k,
                   " ", to_string(zero), " must hold one number or ", wanted);
        }
        auto dims = broadcast_dims(op.op(), Dims(a.dims.begin(), a.dims.end() - 2),
                                   Dims(b.dims.begin(), b.dims.end() - 2));
        dims.push_back(a.dims[a.rank() - 2]);
        dims.push_back(b.dims.back());
        return std::vector{TensorType{i32, dims}};
      })
      .decompose([](Graph& g, const Instance&, std::span<const Value> operands) {
        auto zero = [&](size_t k) { return k < operands.size() ? operands[k] : Value(); };
        Value a = centred(g, operands[0], zero(2), true), b = centred(g, operands[1], zero(3), false);
        return std::vector{g.make("matmul", {a, b})};
      })
      .samples({sample("%a: u8[3,4], %b: i8[4,2], %z: u8[]", "matmul_integer(%a, %b, %z)")});
}

}  // namespace

void add_quantise(PluginBuilder& builder, const PluginContext&) {
  for (auto make : {quantize_linear_op, dequantize_linear_op, dynamic_quantize_op, matmul_integer_op})
    builder.add(make());
}

}  // namespace ferrite::standard
