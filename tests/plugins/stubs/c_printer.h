// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints a kernel as C.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "ferrite/loop_check.hpp"
#include "ferrite/provider.hpp"

namespace acme {

namespace loop = ferrite::loop;
namespace index = ferrite::index;
using ferrite::DType, ferrite::Prim;
using ferrite::detail::concatenate;

inline constexpr size_t most_text = 1 << 22;
inline constexpr int64_t enough_tasks = 64, points_a_worker = 1 << 14;

// What every C source of the backend begins with: the primitives that C has no operator for, with the meaning
// that prims.def gives them. Halves are computed with as floats and kept as their bits; either conversion
// moves a NaN as it is, so that a value that is only moved keeps its bits.
inline constexpr const char prelude[] = R"C(#include <stdint.h>
#include <string.h>
#include <tgmath.h>
static inline float f32_value(uint32_t u) { float v; memcpy(&v, &u, 4); return v; }
static inline double f64_value(uint64_t u) { double v; memcpy(&v, &u, 8); return v; }
static inline uint32_t f32_bits(float v) { uint32_t u; memcpy(&u, &v, 4); return u; }
static inline uint64_t f64_bits(double v) { uint64_t u; memcpy(&u, &v, 8); return u; }
#define nan_of(x) ((x) != (x))
static inline float f16_nan_value(uint32_t u) { return f32_value((u & 0x8000) << 16 | 0x7f800000 | (u & 0x3ff) << 13); }
static inline float f16_value(uint16_t u) { _Float16 v; memcpy(&v, &u, 2); return nan_of(v) ? f16_nan_value(u) : v; }
static inline uint16_t f16_nan(uint32_t u) { return u >> 16 & 0x8000 | 0x7c00 | (u >> 13 & 0x3ff ? u >> 13 & 0x3ff : 0x200); }
static inline uint16_t f16_rounded(double v) { _Float16 h = (_Float16)v; uint16_t u; memcpy(&u, &h, 2); return u; }
// A macro: a float that became a double would be a quiet NaN.
#define f16_bits(v) (nan_of(v) ? f16_nan(f32_bits(v)) : f16_rounded(v))
static inline float bf16_value(uint16_t u) { return f32_value((uint32_t)u << 16); }
static inline uint16_t bf16_nan(uint32_t u) { return u >> 16 | (u >> 16 & 0x7f ? 0 : 0x40); }
static inline uint16_t bf16_rounded(double v) {
  float f = (float)v; uint32_t u = f32_bits(f);
  if ((double)f != v) u = (u - (fabs((double)f) > fabs(v))) | 1; // rounds as the exact value does
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
#define bf16_bits(v) (nan_of(v) ? bf16_nan(f32_bits(v)) : bf16_rounded(v))
static inline double floor_mod(double a, double b) {
  double r = fmod(a, b);
  return r == 0 ? copysign(0.0, b) : (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t to_int(double v, int bits, int sign) {
  if (isnan(v)) return 0;
  double limit = ldexp(1.0, bits - sign);
  v = trunc(v);
  if (v >= limit) return (int64_t)(~(uint64_t)0 >> (64 - bits + sign));
  if (v < (sign ? -limit : 0)) return sign ? INT64_MIN >> (64 - bits) : 0;
  return sign ? (int64_t)v : (int64_t)(uint64_t)v;
}
static inline int64_t int_div(int64_t a, int64_t b, int sign) {
  if (b == 0) return 0;
  return !sign ? (int64_t)((uint64_t)a / (uint64_t)b) : b == -1 ? -a : a / b;
}
static inline int64_t int_rem(int64_t a, int64_t b, int sign) { return b == 0 ? 0 : a - int_div(a, b, sign) * b; }
static inline int64_t int_mod(int64_t a, int64_t b, int sign) {
  int64_t r = int_rem(a, b, sign);
  return sign && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t int_shl(int64_t a, int64_t b, int bits) { return (uint64_t)b >= bits ? 0 : a << b; }
static inline int64_t int_shr(int64_t a, int64_t b, int bits, int sign) {
  return (uint64_t)b >= bits ? 0 : sign ? a >> b : (int64_t)((uint64_t)a >> b);
}
static inline int64_t int_pow(int64_t base, int64_t exponent, int sign) {
  if (sign && exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (uint64_t left = (uint64_t)exponent; left; left >>= 1, base *= base)
    if (left & 1) result *= base;
  return result;
}
static inline int64_t index_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static inline int64_t index_mod(int64_t a, int64_t b) { return a - index_div(a, b) * b; }
static inline int64_t index_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t index_max(int64_t a, int64_t b) { return a > b ? a : b; }
#define least(a, b) (nan_of(a) || (a) < (b) ? (a) : (b))
#define most(a, b) (nan_of(a) || (a) > (b) ? (a) : (b))
)C";

/// The C type of a value, which for halves is not that of an element in memory.
inline std::string value_type(DType dtype) {
  if (is_f8(dtype)) ferrite::decline("floats of 8 bits are not computed with");
  if (is_float(dtype)) return dtype == DType::f64_ ? "double" : "float";
  if (dtype == DType::bool_) return "uint8_t";
  return concatenate(is_signed(dtype) ? "int" : "uint", bits_of(dtype), "_t");
}
inline bool is_half(DType dtype) { return is_float(dtype) && bits_of(dtype) == 16; }
inline std::string element_type(DType dtype) { return is_half(dtype) ? "uint16_t" : value_type(dtype); }
inline std::string from_bits(DType dtype, const std::string& text) {
  return is_float(dtype) ? concatenate(name_of(dtype), "_value(", text, ")") : text;
}
inline std::string to_bits(DType dtype, const std::string& text) {
  if (is_float(dtype)) return concatenate(name_of(dtype), "_bits(", text, ")");
  return concatenate("(uint", bits_of(dtype), "_t)", text);
}

/// What a primitive is in C, of floats and, where that differs, of integers. A, B, C: operands; W: width; S:
/// whether signed.
struct Form {
  Prim prim;
  const char *real, *integer = nullptr;
};
// clang-format off
inline constexpr Form forms[] = {
    {Prim::add_, "A + B"}, {Prim::sub_, "A - B"}, {Prim::mul_, "A * B"}, {Prim::neg_, "-A"}, {Prim::not_, "~A"},
    {Prim::eq_, "A == B"}, {Prim::ne_, "A != B"}, {Prim::lt_, "A < B"}, {Prim::le_, "A <= B"}, {Prim::gt_, "A > B"},
    {Prim::ge_, "A >= B"}, {Prim::and_, "A & B"}, {Prim::or_, "A | B"}, {Prim::xor_, "A ^ B"}, {Prim::where_, "A ? B : C"},
    {Prim::min_, "least(A, B)"}, {Prim::max_, "most(A, B)"}, {Prim::sign_, "A > 0 ? 1 : A < 0 ? -1 : A"},
    {Prim::div_, "A / B", "int_div(A, B, S)"}, {Prim::mod_, "floor_mod(A, B)", "int_mod(A, B, S)"},
    {Prim::rem_, "fmod(A, B)", "int_rem(A, B, S)"}, {Prim::abs_, "fabs(A)", "A < 0 ? -A : A"},
    {Prim::pow_, "pow(A, B)", "int_pow(A, B, S)"}, {Prim::shl_, "int_shl(A, B, W)"}, {Prim::shr_, "int_shr(A, B, W, S)"},
    {Prim::fma_, "fma(A, B, C)"}, {Prim::rsqrt_, "1 / sqrt(A)"}, {Prim::reciprocal_, "1 / A"},
    {Prim::round_, "nearbyint(A)"}, {Prim::isnan_, "nan_of(A)"}, {Prim::isinf_, "isinf(A) != 0"}};
// clang-format on

/// A source file with one function
///   void entry(void* const* buffers, int64_t begin, int64_t end, char* workspace, int64_t* error)
/// that computes the tasks from `begin` to `end`, as the listing of a result whose blob is to be made.
struct Printed : ferrite::CompileResult {
  double points = 0;  ///< of all statements, each times its operations
};

/// Prints kernels of map, reduce, scatter and serial statements over buffers that are not packed; declines
/// other ones.
class Printer {
 public:
  Printer(loop::Kernel kernel, std::string_view entry) : kernel_(std::move(kernel)), entry_(entry) {}

  Printed run() {
    Printed result;
    line("void ", entry_,
         "(void* const* buffers, int64_t begin, int64_t end, char* workspace, int64_t* error) {");
    size_t argument = 0;
    for (size_t b = 0; b < kernel_.buffers.size(); ++b) {
      const auto& buffer = kernel_.buffers[b];
      if (buffer.packing) ferrite::decline("packed buffers are not read");
      const auto type = element_type(buffer.dtype);
      if (buffer.kind != FE_BUFFER_LOCAL) {
        line(type, "* b", b, " = (", type, "*)buffers[", argument++, "];");
        continue;
      }
      line(type, "* b", b, " = (", type, "*)(workspace + ", result.workspace_bytes, ");");
      result.workspace_bytes += (buffer.bytes() + 63) / 64 * 64;
    }
    shared_loops(result);
    for (const auto& statement : kernel_.statements) print(statement);
    close(0);
    result.listing = prelude + std::move(text_);
    return result;
  }

 private:
  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += concatenate(parts..., "\n");
    if (text_.size() > most_text) ferrite::decline("the kernel is too large to print");
    if (text_[text_.size() - 2] == '{') ++depth_;
  }
  void close(size_t depth) {
    for (; depth_ > depth; --depth_) text_ += "}\n";
  }
  void open_loop(const loop::Var& var) {
    line("for (int64_t s", var.symbol, " = 0; s", var.symbol, " < ", var.extent, "; ++s", var.symbol, ") {");
  }

  /// The outermost shared loops, as many as make enough tasks, are split among threads; points that scatters
  /// meet at are not.
  void shared_loops(Printed& result) {
    if (kernel_.statements.empty()) return;
    const auto vars = std::span(kernel_.statements[0].vars).first(kernel_.shared);
    const bool meets =
        std::ranges::any_of(kernel_.statements, [](const auto& s) { return s.kind == FE_STATEMENT_SCATTER; });
    size_t split = 0;
    while (!meets && split < vars.size() &&
           (split == 0 || (result.tasks < enough_tasks && split + 1 < vars.size())))
      result.tasks *= vars[split++].extent;
    if (split == 1) {
      line("for (int64_t s", vars[0].symbol, " = begin; s", vars[0].symbol, " < end; ++s", vars[0].symbol,
           ") {");
    } else if (split > 1) {
      line("for (int64_t task = begin; task < end; ++task) {");
      line("int64_t rest = task;");
      for (size_t k = split; k-- > 0;)
        line("int64_t s", vars[k].symbol, " = rest % ", vars[k].extent, "; rest /= ", vars[k].extent, ";");
    }
    for (const auto& var : vars.subspan(split)) open_loop(var);
    for (const auto& statement : kernel_.statements) {
      auto points = static_cast<double>(statement.ops.size());
      for (const auto& var : statement.vars) points *= static_cast<double>(var.extent);
      result.points += points;
    }
    const double each = result.points / static_cast<double>(std::max<int64_t>(result.tasks, 1));
    result.grain = std::max<int64_t>(1, static_cast<int64_t>(points_a_worker / std::max(each, 1.0)));
  }

  // ---- index expressions

  std::string expr(index::Expr e) {
    auto& pool = kernel_.pool;
    if (auto value = pool.as_constant(e)) return concatenate("INT64_C(", *value, ")");
    if (auto symbol = pool.as_symbol(e)) return concatenate("s", *symbol);
    const auto left = pool.lhs(e), right = pool.rhs(e);
    const bool positive = pool.range(left).lo >= 0 && pool.range(right).lo > 0;
    const auto a = expr(left), b = expr(right), both = a + ", " + b + ")";
    if (a.size() + b.size() > most_text) ferrite::decline("an index expression is too large to print");
    switch (pool.op(e)) {
      case index::Op::add: return "(" + a + " + " + b + ")";
      case index::Op::mul: return "(" + a + " * " + b + ")";
      case index::Op::floordiv: return positive ? "(" + a + " / " + b + ")" : "index_div(" + both;
      case index::Op::mod: return positive ? "(" + a + " % " + b + ")" : "index_mod(" + both;
      case index::Op::min: return "index_min(" + both;
      default: return "index_max(" + both;
    }
  }
  std::string element(loop::BufferId id, std::span<const index::Expr> at) {
    const auto& buffer = kernel_.buffers[id];
    std::string text = concatenate("b", id, "[", buffer.offset);
    for (size_t d = 0; d < at.size(); ++d)
      if (buffer.strides[d] != 0) text += concatenate(" + ", buffer.strides[d], " * ", expr(at[d]));
    return text + "]";
  }

  // ---- statements

  void print(const loop::Statement& s) {
    const size_t outside = depth_;
    line("{");
    const auto place = loop::place(kernel_.pool, s);
    const size_t parallel = s.parallel_count();
    const bool serial = !s.carries.empty() || s.has(loop::VarKind::serial);
    auto print_ops = [&](int level) {
      for (size_t k = 0; k < s.ops.size(); ++k)
        if (level == (serial || place.inner[k] ? 1 : place.finish[k] ? 2 : 0))
          print(s, static_cast<loop::OpId>(k));
    };
    auto print_stores = [&](bool every_point) {
      for (size_t k = 0; k < s.stores.size(); ++k)
        if ((serial || place.every_point[k]) == every_point) print(s.stores[k]);
    };
    for (size_t v = kernel_.shared; v < parallel; ++v) open_loop(s.vars[v]);
    for (size_t k = 0; k < s.reductions.size(); ++k) begin(s.reductions[k], k);
    for (size_t k = 0; k < s.carries.size(); ++k)
      line(value_type(s.carries[k].dtype), " c", k, " = ",
           literal(s.carries[k].dtype, s.carries[k].init_bits), ";");
    print_ops(0);
    const size_t inside = depth_;
    line("{");
    for (size_t v = parallel; v < s.vars.size(); ++v) open_loop(s.vars[v]);
    print_ops(1);
    for (size_t k = 0; k < s.reductions.size(); ++k) accumulate(s.reductions[k], k);
    print_stores(true);
    for (size_t k = 0; k < s.carries.size(); ++k)
      line(value_type(s.carries[k].dtype), " n", k, " = v", s.carries[k].next, ";");
    for (size_t k = 0; k < s.carries.size(); ++k) line("c", k, " = n", k, ";");
    close(inside);
    print_ops(2);
    print_stores(false);
    close(outside);
  }

  /// Sums of floats are kept in double: one rounding an element is the most that a long sum can take.
  static std::string accumulator(const loop::Reduction& r) {
    const bool sums = r.kind == FE_REDUCE_SUM || r.kind == FE_REDUCE_PROD;
    return sums && is_float(r.accumulator) ? "double" : value_type(r.accumulator);
  }
  void begin(const loop::Reduction& r, size_t k) {
    const DType dtype = r.accumulator;
    std::string identity = r.kind == FE_REDUCE_PROD || r.kind == FE_REDUCE_ALL ? "1" : "0";
    const bool most = r.kind == FE_REDUCE_MAX, least = r.kind == FE_REDUCE_MIN;
    if (most || least)
      identity = dtype == DType::bool_ ? least ? "1" : "0"
                                       : cast(DType::f64_, dtype, most ? "-INFINITY" : "INFINITY");
    line(accumulator(r), " r", k, " = ", identity, ";");
    if (loop::is_arg_reduction(r.kind)) line("int64_t i", k, " = 0; int seen", k, " = 0;");
  }
  void accumulate(const loop::Reduction& r, size_t k) {
    static constexpr const char* updates[] = {
        "", "A += B", "A *= B", "A = most(A, B)", "A = least(A, B)", "A |= B", "A &= B"};
    const auto value = concatenate("v", r.element), to = concatenate("r", k);
    if (!loop::is_arg_reduction(r.kind))
      return line(expand(updates[r.kind], r.accumulator, {to, value}), ";");
    const char* beats = r.kind == FE_REDUCE_ARGMAX ? " > " : " < ";
    line("if (!seen", k, " || (!nan_of(", to, ") && (nan_of(", value, ") || ", value, beats, to, "))) { seen",
         k, " = 1; ", to, " = ", value, "; i", k, " = v", r.index, "; }");
  }

  void print(const loop::Store& store) {
    const DType dtype = kernel_.buffers[store.buffer].dtype;
    const auto at = element(store.buffer, store.index), a = read(dtype, at),
               b = concatenate("v", store.value);
    std::string value = b;
    if (store.mode == FE_STORE_ADD) value = a + " + " + b;
    if (store.mode == FE_STORE_MUL) value = a + " * " + b;
    if (store.mode == FE_STORE_MAX) value = "most(" + a + ", " + b + ")";
    if (store.mode == FE_STORE_MIN) value = "least(" + a + ", " + b + ")";
    const auto condition = store.mask == loop::none ? "" : concatenate("if (v", store.mask, ") ");
    line(condition, at, " = ", is_half(dtype) ? to_bits(dtype, value) : value, ";");
  }
  static std::string read(DType dtype, const std::string& text) {
    return is_half(dtype) ? from_bits(dtype, text) : text;
  }

  static std::string literal(DType dtype, uint64_t bits) {
    const auto text = concatenate("UINT64_C(", bits, ")");
    return is_float(dtype) ? from_bits(dtype, text) : concatenate("(", value_type(dtype), ")", text);
  }

  // ---- operations

  void print(const loop::Statement& s, loop::OpId id) {
    const auto& op = s.ops[id];
    if (op.code == FE_OP_INDIRECT) return print_indirect(s, op);
    line(value_type(op.dtype), " v", id, " = ", value(s, op), ";");
  }

  void print_indirect(const loop::Statement& s, const loop::BodyOp& op) {
    const auto name = concatenate("s", op.symbol), extent = concatenate("INT64_C(", op.bits, ")");
    const bool large = s.ops[op.a].dtype == DType::u64_;
    line("int64_t ", name, " = (int64_t)v", op.a, ";");
    if (op.flags == FE_INDIRECT_CLAMP)
      line("if (", large ? "(uint64_t)" : "", name, " >= ", extent, ") ", name, " = ", extent,
           " - 1; else if (", name, " < 0) ", name, " = 0;");
    if (op.flags == FE_INDIRECT_WRAP && !large) line("if (", name, " < 0) ", name, " += ", extent, ";");
    if (op.flags != FE_INDIRECT_ASSUME)
      line("if ((uint64_t)", name, " >= ", extent,
           ") { __atomic_store_n(error, 1, __ATOMIC_RELAXED); return; }");
  }

  std::string value(const loop::Statement& s, const loop::BodyOp& op) {
    const auto type = value_type(op.dtype);
    switch (op.code) {
      case FE_OP_LOAD: {
        const auto text = read(op.dtype, element(op.buffer, op.index));
        return op.a == loop::none ? text : concatenate("v", op.a, " ? ", text, " : v", op.b);
      }
      case FE_OP_CONSTANT: return literal(op.dtype, op.bits);
      case FE_OP_INDEX: return cast(ferrite::i64, op.dtype, expr(op.index[0]));
      case FE_OP_REDUCED:
        return concatenate("(", type, ")", loop::is_arg_reduction(s.reductions[op.bits].kind) ? "i" : "r",
                           op.bits);
      case FE_OP_CARRIED: return concatenate("c", op.bits);
      default: break;
    }
    auto operand = [](loop::OpId id) { return id == loop::none ? std::string() : concatenate("v", id); };
    const auto a = operand(op.a), b = operand(op.b), c = operand(op.c);
    const DType from = s.ops[op.c != loop::none ? op.c : op.b != loop::none ? op.b : op.a].dtype;
    if (op.prim() == Prim::cast_) return cast(from, op.dtype, a);
    if (op.prim() == Prim::bitcast_)
      return is_float(op.dtype) ? from_bits(op.dtype, to_bits(from, a))
                                : concatenate("(", type, ")", to_bits(from, a));
    return concatenate("(", type, ")(", formula(op.prim(), from, {a, b, c}), ")");
  }

  static std::string cast(DType from, DType to, const std::string& a) {
    if (to == DType::bool_) return a + " != 0";
    if (is_half(to)) return from_bits(to, to_bits(to, "(double)" + a));
    if (is_float(from) && !is_float(to))
      return concatenate("(", value_type(to), ")to_int(", a, ", ", bits_of(to), ", ", is_signed(to), ")");
    return concatenate("(", value_type(to), ")", a);
  }

  using Operands = std::array<std::string, 3>;
  static std::string expand(std::string_view form, DType dtype, const Operands& given) {
    const std::string operands[] = {given[0], given[1], given[2], std::to_string(bits_of(dtype)),
                                    is_signed(dtype) ? "1" : "0"};
    std::string text;
    for (char c : form) {
      const auto at = std::string_view("ABCWS").find(c);
      text += at == std::string_view::npos ? std::string(1, c) : operands[at];
    }
    return text;
  }
  static std::string formula(Prim prim, DType dtype, const Operands& operands) {
    const auto* form = std::ranges::find(forms, prim, &Form::prim);
    if (form == std::end(forms))  // the name of C's own function, which tgmath.h gives for float and double
      return concatenate(info_of(prim).name, "(", operands[0], operands[1].empty() ? "" : ", ", operands[1],
                         ")");
    if (prim == Prim::not_ && dtype == DType::bool_) return "!" + operands[0];
    return expand(is_float(dtype) || !form->integer ? form->real : form->integer, dtype, operands);
  }

  loop::Kernel kernel_;
  const std::string entry_;
  std::string text_;
  size_t depth_ = 0;
};

}  // namespace acme
