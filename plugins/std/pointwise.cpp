// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elementwise arithmetic, comparison, logic and type changes. Operands broadcast as in NumPy and share one
// dtype.
#include "common.h"

namespace ferrite::standard {
namespace {

/// An op that consists of one primitive.
struct Primitive {
  const char* name;
  Prim prim;
  int classes;  ///< accepted dtypes
  const char* doc;
  uint32_t flags = 0;
};

constexpr Primitive binary[] = {
    {"add", Prim::add_, numeric, "a + b; integers wrap.", FE_OP_COMMUTATIVE},
    {"sub", Prim::sub_, numeric, "a - b; integers wrap."},
    {"mul", Prim::mul_, numeric, "a * b; integers wrap.", FE_OP_COMMUTATIVE},
    {"div", Prim::div_, numeric, "a / b; integers truncate, and give 0 for b = 0."},
    {"pow", Prim::pow_, numeric, "a to the power of b."},
    {"mod", Prim::mod_, numeric, "The floor modulus: the result has the sign of b."},
    {"remainder_trunc", Prim::rem_, numeric,
     "The truncated remainder (C's fmod): the result has the sign of a."},
    {"minimum", Prim::min_, any_class, "The smaller of a and b; NaN if either is.", FE_OP_COMMUTATIVE},
    {"maximum", Prim::max_, any_class, "The larger of a and b; NaN if either is.", FE_OP_COMMUTATIVE},
    {"atan2", Prim::atan2_, FE_PRIM_FLOAT, "The angle of the point (b, a) in radians."},
    {"bitwise_and", Prim::and_, FE_PRIM_BOOL | FE_PRIM_INT, "Bits set in both.", FE_OP_COMMUTATIVE},
    {"bitwise_or", Prim::or_, FE_PRIM_BOOL | FE_PRIM_INT, "Bits set in either.", FE_OP_COMMUTATIVE},
    {"bitwise_xor", Prim::xor_, FE_PRIM_BOOL | FE_PRIM_INT, "Bits set in one.", FE_OP_COMMUTATIVE},
    {"shift_left", Prim::shl_, FE_PRIM_INT, "a shifted left by b bits; 0 from the width on."},
    {"shift_right", Prim::shr_, FE_PRIM_INT,
     "a shifted right by b bits, with its sign; 0 from the width on."},
    {"eq", Prim::eq_, any_class, "Whether a equals b.", FE_OP_COMMUTATIVE},
    {"ne", Prim::ne_, any_class, "Whether a differs from b.", FE_OP_COMMUTATIVE},
    {"lt", Prim::lt_, any_class, "Whether a is less than b."},
    {"le", Prim::le_, any_class, "Whether a is at most b."},
    {"gt", Prim::gt_, any_class, "Whether a is greater than b."},
    {"ge", Prim::ge_, any_class, "Whether a is at least b."},
    {"logical_and", Prim::and_, FE_PRIM_BOOL, "Whether both hold.", FE_OP_COMMUTATIVE},
    {"logical_or", Prim::or_, FE_PRIM_BOOL, "Whether either holds.", FE_OP_COMMUTATIVE},
    {"logical_xor", Prim::xor_, FE_PRIM_BOOL, "Whether exactly one holds.", FE_OP_COMMUTATIVE},
};

constexpr Primitive unary[] = {
    {"logical_not", Prim::not_, FE_PRIM_BOOL, "Whether x does not hold."},
    {"bitwise_not", Prim::not_, FE_PRIM_BOOL | FE_PRIM_INT, "All bits flipped."},
    {"neg", Prim::neg_, numeric, "-x."},
    {"abs", Prim::abs_, numeric, "The magnitude."},
    {"sign", Prim::sign_, numeric, "-1, 0 or 1; NaN for NaN."},
    {"exp", Prim::exp_, FE_PRIM_FLOAT, "e to the power of x."},
    {"exp2", Prim::exp2_, FE_PRIM_FLOAT, "2 to the power of x."},
    {"expm1", Prim::expm1_, FE_PRIM_FLOAT, "exp(x) - 1, accurate near 0."},
    {"log", Prim::log_, FE_PRIM_FLOAT, "The natural logarithm."},
    {"log2", Prim::log2_, FE_PRIM_FLOAT, "The logarithm to base 2."},
    {"log1p", Prim::log1p_, FE_PRIM_FLOAT, "log(1 + x), accurate near 0."},
    {"sqrt", Prim::sqrt_, FE_PRIM_FLOAT, "The square root."},
    {"rsqrt", Prim::rsqrt_, FE_PRIM_FLOAT, "1 / sqrt(x)."},
    {"reciprocal", Prim::reciprocal_, FE_PRIM_FLOAT, "1 / x."},
    {"sin", Prim::sin_, FE_PRIM_FLOAT, "The sine of x radians."},
    {"cos", Prim::cos_, FE_PRIM_FLOAT, "The cosine of x radians."},
    {"tan", Prim::tan_, FE_PRIM_FLOAT, "The tangent of x radians."},
    {"asin", Prim::asin_, FE_PRIM_FLOAT, "The inverse sine, in radians."},
    {"acos", Prim::acos_, FE_PRIM_FLOAT, "The inverse cosine, in radians."},
    {"atan", Prim::atan_, FE_PRIM_FLOAT, "The inverse tangent, in radians."},
    {"sinh", Prim::sinh_, FE_PRIM_FLOAT, "The hyperbolic sine."},
    {"cosh", Prim::cosh_, FE_PRIM_FLOAT, "The hyperbolic cosine."},
    {"tanh", Prim::tanh_, FE_PRIM_FLOAT, "The hyperbolic tangent."},
    {"asinh", Prim::asinh_, FE_PRIM_FLOAT, "The inverse hyperbolic sine."},
    {"acosh", Prim::acosh_, FE_PRIM_FLOAT, "The inverse hyperbolic cosine."},
    {"atanh", Prim::atanh_, FE_PRIM_FLOAT, "The inverse hyperbolic tangent."},
    {"erf", Prim::erf_, FE_PRIM_FLOAT, "The error function."},
    {"floor", Prim::floor_, FE_PRIM_FLOAT, "Rounds towards minus infinity."},
    {"ceil", Prim::ceil_, FE_PRIM_FLOAT, "Rounds towards infinity."},
    {"round", Prim::round_, FE_PRIM_FLOAT, "Rounds to the nearest integer, ties to even."},
    {"trunc", Prim::trunc_, FE_PRIM_FLOAT, "Rounds towards 0."},
    {"isnan", Prim::isnan_, FE_PRIM_FLOAT, "Whether x is NaN."},
};

std::vector<TensorType> primitive_type(const Instance& op, const Primitive& primitive) {
  typed(op, 0, primitive.classes);
  auto result = broadcast(op);
  if (info_of(primitive.prim).gives_bool) result[0].dtype = boolean;
  return result;
}

/// Graphs that cover the op's dtypes, with broadcasting if it has two operands.
std::vector<std::string> primitive_samples(const Primitive& primitive, bool two) {
  std::vector<std::string> texts;
  auto add = [&](const std::string& dtype) {
    std::string call = std::string(primitive.name) + (two ? "(%x, %y)" : "(%x)");
    texts.push_back(sample("%x: " + dtype + "[2,1,3]" + (two ? ", %y: " + dtype + "[5,3]" : ""), call));
  };
  if (primitive.classes & FE_PRIM_FLOAT) add("f32"), add("bf16");
  if (primitive.classes & FE_PRIM_INT) add("i64"), add("u8");
  if (primitive.classes & FE_PRIM_BOOL) add("bool");
  return texts;
}

OpDef define(const Primitive& primitive, bool two) {
  auto def = op_def(primitive.name).doc(primitive.doc).flags(FE_OP_POINTWISE | primitive.flags);
  two ? def.operands("a", "b") : def.operands("x");
  return def.infer([primitive](const Instance& op) { return primitive_type(op, primitive); })
      .lower([primitive, two](Lowering& l) {
        widened_pointwise(l, [&](const std::vector<Val>& x) {
          return two ? l.prim(primitive.prim, x[0], x[1]) : l.prim(primitive.prim, x[0]);
        });
      })
      .samples(primitive_samples(primitive, two));
}

OpDef isinf_op() {
  return op_def("isinf")
      .doc("Whether x is infinite, of a sign that is looked for.")
      .operands("x")
      .attr(attr("detect_positive", true))
      .attr(attr("detect_negative", true))
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        return std::vector{TensorType{boolean, typed(op, 0, FE_PRIM_FLOAT).dims}};
      })
      .lower([](Lowering& l) {
        bool positive = l.op.attrs.boolean("detect_positive"),
             negative = l.op.attrs.boolean("detect_negative");
        widened_pointwise(l, [&](const std::vector<Val>& x) {
          Val infinite = isinf(x[0]);
          if (positive && negative) return infinite;
          if (positive) return infinite & (x[0] > 0.0);
          return negative ? infinite & (x[0] < 0.0) : l.constant(boolean, 0);
        });
      })
      .samples(
          {sample("%x: f32[4]", "isinf(%x)"), sample("%x: f32[4]", "isinf(%x) {detect_negative = false}")});
}

OpDef where_op() {
  return op_def("where")
      .doc("a where the condition holds, else b.")
      .operands("condition", "a", "b")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto condition = typed(op, 0, FE_PRIM_BOOL), a = typed(op, 1, any_class), b = op.operand(2);
        need_same_dtype(op, 2, a.dtype);
        auto dims = broadcast_dims(op.op(), broadcast_dims(op.op(), condition.dims, a.dims), b.dims);
        return std::vector{TensorType{a.dtype, dims}};
      })
      .lower(
          [](Lowering& l) { l.pointwise([](const std::vector<Val>& x) { return where(x[0], x[1], x[2]); }); })
      .samples({sample("%c: bool[2,3], %a: f32[3], %b: f32[2,1]", "where(%c, %a, %b)"),
                sample("%c: bool[], %a: i32[3], %b: i32[3]", "where(%c, %a, %b)")});
}

OpDef cast_op() {
  return op_def("cast")
      .doc(
          "The value in another dtype. Floats to integers truncate and saturate, NaN gives 0; integers wrap; "
          "a value that is too large for a float becomes infinite, or NaN where there are no infinities.")
      .operands("x")
      .required(attr("dtype", f32))
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        DType to = op.attrs.dtype("dtype");
        need_value(class_mask(to) != 0, op, "dtype", "is ", name_of(to),
                   ", which is no bool, integer or float");
        return std::vector{TensorType{to, typed(op, 0, any_class).dims}};
      })
      .lower([](Lowering& l) {
        l.pointwise([&](const std::vector<Val>& x) { return cast(x[0], l.op.attrs.dtype("dtype")); });
      })
      .samples({sample("%x: f32[2,3]", "cast(%x) {dtype = i32}"),
                sample("%x: i64[2,3]", "cast(%x) {dtype = f32}"),
                sample("%x: f32[2,3]", "cast(%x) {dtype = bf16}"),
                sample("%x: f32[2,3]", "cast(%x) {dtype = f8e4m3}"),
                sample("%x: f8e5m2[2,3]", "cast(%x) {dtype = f16}"),
                sample("%x: f32[3]", "cast(%x) {dtype = bool}")});
}

OpDef bitcast_op() {
  return op_def("bitcast")
      .doc("The same bits as another dtype of the same width.")
      .operands("x")
      .required(attr("dtype", f32))
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        DType to = op.attrs.dtype("dtype");
        need_value((class_mask(to) & numeric) && bits_of(to) == bits_of(x.dtype), op, "dtype", "is ",
                   name_of(to), ", which has not the width of ", name_of(x.dtype));
        for (DType dtype : {x.dtype, to})
          need_value(is_integer(dtype) || is_computable_float(dtype), op, "dtype", "is ", name_of(to),
                     " for an operand of ", name_of(x.dtype), ", and nothing computes with ", name_of(dtype));
        return std::vector{TensorType{to, x.dims}};
      })
      .lower([](Lowering& l) {
        DType to = l.op.attrs.dtype("dtype");
        l.pointwise(
            [&](const std::vector<Val>& x) { return x[0].dtype() == to ? x[0] : l.bitcast(x[0], to); });
      })
      .samples({sample("%x: f32[2,3]", "bitcast(%x) {dtype = i32}")});
}

OpDef clamp_op() {
  return op_def("clamp")
      .doc("x limited to at least `min`, then to at most `max`. NaN stays NaN.")
      .operands("x", "min?", "max?")
      .flags(FE_OP_POINTWISE)
      .infer([](const Instance& op) {
        auto x = typed(op, 0, numeric);
        for (size_t k = 1; k < 3; ++k) {
          if (!op.has_operand(k)) continue;
          need_same_dtype(op, k, x.dtype);
          need_broadcast_to(op, k, x.dims);
        }
        return std::vector{x};
      })
      .lower([](Lowering& l) {
        l.pointwise([](const std::vector<Val>& x) {
          Val value = x[0];
          if (x.size() > 1 && x[1].lowering()) value = max(value, x[1]);
          if (x.size() > 2 && x[2].lowering()) value = min(value, x[2]);
          return value;
        });
      })
      .samples({sample("%x: f32[2,3], %a: f32[], %b: f32[]", "clamp(%x, %a, %b)"),
                sample("%x: i32[2,3], %a: i32[]", "clamp(%x, %a)")});
}

}  // namespace

void add_pointwise(PluginBuilder& builder, const PluginContext&) {
  for (const auto& primitive : binary) builder.add(define(primitive, true));
  for (const auto& primitive : unary) builder.add(define(primitive, false));
  for (auto make : {isinf_op, where_op, cast_op, bitcast_op, clamp_op}) builder.add(make());
}

}  // namespace ferrite::standard
