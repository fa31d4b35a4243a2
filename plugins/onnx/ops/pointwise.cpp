// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise arithmetic, comparison, logic and casts.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

/// Applies the entry's operator to all operands.
void direct(Context& c) {
  std::vector<Value> operands;
  for (size_t k = 0; k < c.operand_count(); ++k) operands.push_back(c.operand(k));
  c.give(c.graph.make(c.entry.standard, operands));
}
void unary(Context& c) { c.give(c.make(c.entry.standard, {c.operand(0)})); }
void binary(Context& c) { c.give(c.make(c.entry.standard, {c.operand(0), c.operand(1)})); }

/// Any number of operands, combined from the left.
Value fold(Context& c, const char* op) {
  Value result = c.operand(0);
  for (size_t k = 1; k < c.operand_count(); ++k) result = c.make(op, {result, c.operand(k)});
  return result;
}
void variadic(Context& c) { c.give(fold(c, c.entry.standard)); }
void mean(Context& c) {
  Value sum = fold(c, "add");
  if (c.operand_count() > 1)
    sum = c.make("div", {sum, number_like(c, sum, static_cast<double>(c.operand_count()))});
  c.give(sum);
}

void mod(Context& c) {
  bool truncated = c.flag("fmod", false);
  if (!truncated && c.opset < 28 && is_float(c.operand(0).dtype()))
    c.bad("floats need the attribute fmod = 1 before opset 28");
  c.give(c.make(truncated ? "remainder_trunc" : "mod", {c.operand(0), c.operand(1)}));
}

/// The result has the dtype of the base. If the exponent has another dtype, the power is computed in one that
/// holds both.
void pow(Context& c) {
  Value base = c.operand(0), exponent = c.operand(1);
  DType from = base.dtype(), to = exponent.dtype(), work = from;
  if (from != to && is_integer(from)) {
    bool widens = is_integer(to) && bits_of(to) > bits_of(from) && is_signed(to) == is_signed(from);
    if (is_float(to))
      work = f64;
    else if (widens)
      work = to;
    else if (is_signed(from) != is_signed(to))
      work = i64;
    if (from == u64 || to == u64) {
      if (work == i64)
        c.unsupported("powers of ", name_of(from), " with exponents of ", name_of(to), " are not supported");
    }
  }
  Value result = c.make("pow", {cast_to(c, base, work), cast_to(c, exponent, work)});
  c.give(cast_to(c, result, from));
}

void bit_shift(Context& c) {
  auto direction = c.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    c.bad("attribute 'direction' is '", direction, "' and may be LEFT or RIGHT");
  Value x = c.operand(0), amount = c.operand(1);
  if (direction == "LEFT") return c.give(c.make("shift_left", {x, amount}));
  if (is_signed(x.dtype())) {
    // Shifts beyond the width leave only copies of the sign, like a shift by the width minus one.
    const double width = bits_of(x.dtype());
    Value within = c.make("logical_and", {c.make("ge", {amount, number_like(c, amount, 0)}),
                                          c.make("lt", {amount, number_like(c, amount, width)})});
    amount = c.make("where", {within, amount, number_like(c, amount, width - 1)});
  }
  c.give(c.make("shift_right", {x, amount}));
}

void is_inf(Context& c) {
  c.give(c.make("isinf", {c.operand(0)}, attr("detect_positive", c.flag("detect_positive", true)),
                attr("detect_negative", c.flag("detect_negative", true))));
}

/// The bounds are attributes before opset 11, and scalar operands from 11 on.
void clip(Context& c) {
  Value x = c.operand(0), low = c.optional(1), high = c.optional(2);
  if (c.opset < 11) {
    if (c.has_attribute("min")) low = number_like(c, x, c.number("min", 0));
    if (c.has_attribute("max")) high = number_like(c, x, c.number("max", 0));
  }
  for (Value bound : {low, high})
    if (bound && bound.type().elements() != 1)
      c.bad("a bound holds ", bound.type().elements(), " numbers and must hold one");
  for (Value* bound : {&low, &high})
    if (*bound) *bound = reshape_to(c, *bound, {});
  if (!low && !high) return c.give(x);
  std::vector<Value> operands{x, low};
  if (high) operands.push_back(high);
  c.give(c.graph.make("clamp", operands));
}

void cast(Context& c) {
  int64_t to = c.integer("to");
  if (to < 0 || to > INT32_MAX) c.bad("attribute 'to' is ", to, ", which is no element type");
  c.give(convert_to(c, c.operand(0), dtype_of(static_cast<int32_t>(to), c.where())));
}
void cast_like(Context& c) { c.give(convert_to(c, c.operand(0), c.operand(1).dtype())); }

constexpr OpEntry pointwise_entries[] = {
    {"Add", 7, newest, binary, "add"},
    {"Sub", 7, newest, binary, "sub"},
    {"Mul", 7, newest, binary, "mul"},
    {"Div", 7, newest, binary, "div"},
    {"Pow", 7, newest, pow},
    {"Mod", 10, newest, mod},
    {"Max", 6, newest, variadic, "maximum"},
    {"Min", 6, newest, variadic, "minimum"},
    {"Sum", 6, newest, variadic, "add"},
    {"Mean", 6, newest, mean},
    {"And", 7, newest, binary, "logical_and"},
    {"Or", 7, newest, binary, "logical_or"},
    {"Xor", 7, newest, binary, "logical_xor"},
    {"Not", 1, newest, unary, "logical_not"},
    {"BitwiseAnd", 18, newest, binary, "bitwise_and"},
    {"BitwiseOr", 18, newest, binary, "bitwise_or"},
    {"BitwiseXor", 18, newest, binary, "bitwise_xor"},
    {"BitwiseNot", 18, newest, unary, "bitwise_not"},
    {"BitShift", 11, newest, bit_shift},
    {"Equal", 7, newest, binary, "eq"},
    {"Greater", 7, newest, binary, "gt"},
    {"GreaterOrEqual", 12, newest, binary, "ge"},
    {"Less", 7, newest, binary, "lt"},
    {"LessOrEqual", 12, newest, binary, "le"},
    {"Where", 9, newest, direct, "where"},
    {"Abs", 6, newest, unary, "abs"},
    {"Neg", 6, newest, unary, "neg"},
    {"Sign", 9, newest, unary, "sign"},
    {"Exp", 6, newest, unary, "exp"},
    {"Log", 6, newest, unary, "log"},
    {"Sqrt", 6, newest, unary, "sqrt"},
    {"Reciprocal", 6, newest, unary, "reciprocal"},
    {"Sin", 7, newest, unary, "sin"},
    {"Cos", 7, newest, unary, "cos"},
    {"Tan", 7, newest, unary, "tan"},
    {"Asin", 7, newest, unary, "asin"},
    {"Acos", 7, newest, unary, "acos"},
    {"Atan", 7, newest, unary, "atan"},
    {"Sinh", 9, newest, unary, "sinh"},
    {"Cosh", 9, newest, unary, "cosh"},
    {"Tanh", 6, newest, unary, "tanh"},
    {"Asinh", 9, newest, unary, "asinh"},
    {"Acosh", 9, newest, unary, "acosh"},
    {"Atanh", 9, newest, unary, "atanh"},
    {"Erf", 9, newest, unary, "erf"},
    {"Floor", 6, newest, unary, "floor"},
    {"Ceil", 6, newest, unary, "ceil"},
    {"Round", 11, newest, unary, "round"},
    {"IsNaN", 9, newest, unary, "isnan"},
    {"IsInf", 10, newest, is_inf},
    {"Clip", 6, newest, clip},
    {"Cast", 6, newest, cast},
    {"CastLike", 15, newest, cast_like},
};

}  // namespace

std::span<const OpEntry> pointwise_ops() { return pointwise_entries; }

}  // namespace ferrite::from_onnx
