// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/interpret_primitive.h"

#include <cmath>

#include "core/ir/loop/scalar.h"

namespace ferrite::core::loop::eval {
namespace {

template <class F>
void lanes(size_t n, F&& f) {
  for (size_t l = 0; l < n; ++l) f(l);
}

void run_float(const Instruction& in, Register* r, size_t n) {
  const double* a = r[in.a].f;
  const double* b = in.b == none ? nullptr : r[in.b].f;
  const double* c = in.c == none ? nullptr : r[in.c].f;
  double* to = r[in.to].f;
  int64_t* flag = r[in.to].i;
  auto map = [&](auto f) { lanes(n, [&](size_t l) { to[l] = f(a[l]); }); };
  auto map2 = [&](auto f) { lanes(n, [&](size_t l) { to[l] = f(a[l], b[l]); }); };
  auto test = [&](auto f) { lanes(n, [&](size_t l) { flag[l] = f(a[l], b[l]); }); };
  switch (in.prim) {
    case Prim::add_: return map2([](double x, double y) { return x + y; });
    case Prim::sub_: return map2([](double x, double y) { return x - y; });
    case Prim::mul_: return map2([](double x, double y) { return x * y; });
    case Prim::div_: return map2([](double x, double y) { return x / y; });
    case Prim::mod_: return map2([](double x, double y) { return scalar::mod(x, y); });
    case Prim::rem_: return map2([](double x, double y) { return std::fmod(x, y); });
    case Prim::neg_: return map([](double x) { return -x; });
    case Prim::abs_: return map([](double x) { return std::fabs(x); });
    case Prim::sign_: return map([](double x) { return scalar::sign(x); });
    case Prim::min_: return map2([](double x, double y) { return scalar::min(x, y); });
    case Prim::max_: return map2([](double x, double y) { return scalar::max(x, y); });
    case Prim::fma_: return lanes(n, [&](size_t l) { to[l] = std::fma(a[l], b[l], c[l]); });
    case Prim::eq_: return test([](double x, double y) { return x == y; });
    case Prim::ne_: return test([](double x, double y) { return x != y; });
    case Prim::lt_: return test([](double x, double y) { return x < y; });
    case Prim::le_: return test([](double x, double y) { return x <= y; });
    case Prim::gt_: return test([](double x, double y) { return x > y; });
    case Prim::ge_: return test([](double x, double y) { return x >= y; });
    case Prim::exp_: return map([](double x) { return std::exp(x); });
    case Prim::exp2_: return map([](double x) { return std::exp2(x); });
    case Prim::expm1_: return map([](double x) { return std::expm1(x); });
    case Prim::log_: return map([](double x) { return std::log(x); });
    case Prim::log2_: return map([](double x) { return std::log2(x); });
    case Prim::log1p_: return map([](double x) { return std::log1p(x); });
    case Prim::sqrt_: return map([](double x) { return std::sqrt(x); });
    case Prim::rsqrt_: return map([](double x) { return 1 / std::sqrt(x); });
    case Prim::reciprocal_: return map([](double x) { return 1 / x; });
    case Prim::sin_: return map([](double x) { return std::sin(x); });
    case Prim::cos_: return map([](double x) { return std::cos(x); });
    case Prim::tan_: return map([](double x) { return std::tan(x); });
    case Prim::asin_: return map([](double x) { return std::asin(x); });
    case Prim::acos_: return map([](double x) { return std::acos(x); });
    case Prim::atan_: return map([](double x) { return std::atan(x); });
    case Prim::sinh_: return map([](double x) { return std::sinh(x); });
    case Prim::cosh_: return map([](double x) { return std::cosh(x); });
    case Prim::tanh_: return map([](double x) { return std::tanh(x); });
    case Prim::asinh_: return map([](double x) { return std::asinh(x); });
    case Prim::acosh_: return map([](double x) { return std::acosh(x); });
    case Prim::atanh_: return map([](double x) { return std::atanh(x); });
    case Prim::erf_: return map([](double x) { return std::erf(x); });
    case Prim::pow_: return map2([](double x, double y) { return std::pow(x, y); });
    case Prim::atan2_: return map2([](double x, double y) { return std::atan2(x, y); });
    case Prim::floor_: return map([](double x) { return std::floor(x); });
    case Prim::ceil_: return map([](double x) { return std::ceil(x); });
    case Prim::round_: return map([](double x) { return std::nearbyint(x); });
    case Prim::trunc_: return map([](double x) { return std::trunc(x); });
    case Prim::isnan_: return lanes(n, [&](size_t l) { flag[l] = std::isnan(a[l]); });
    case Prim::isinf_: return lanes(n, [&](size_t l) { flag[l] = std::isinf(a[l]); });
    default: return;  // and, or, xor, not, shl, shr take no floats; run_prim handles where, cast and bitcast
  }
}

void run_int(const Instruction& in, Register* r, size_t n) {
  const DType type = in.from;
  const int64_t* a = r[in.a].i;
  const int64_t* b = in.b == none ? nullptr : r[in.b].i;
  int64_t* to = r[in.to].i;
  auto map = [&](auto f) { lanes(n, [&](size_t l) { to[l] = scalar::wrap(type, f(a[l])); }); };
  auto map2 = [&](auto f) { lanes(n, [&](size_t l) { to[l] = scalar::wrap(type, f(a[l], b[l])); }); };
  auto test = [&](auto f) { lanes(n, [&](size_t l) { to[l] = f(a[l], b[l]); }); };
  const bool signed_ = is_signed(type);
  switch (in.prim) {
    case Prim::add_: return map2(scalar::add);
    case Prim::sub_: return map2(scalar::sub);
    case Prim::mul_: return map2(scalar::mul);
    case Prim::div_: return map2([=](int64_t x, int64_t y) { return scalar::div(type, x, y); });
    case Prim::mod_: return map2([=](int64_t x, int64_t y) { return scalar::mod(type, x, y); });
    case Prim::rem_: return map2([=](int64_t x, int64_t y) { return scalar::rem(type, x, y); });
    case Prim::neg_: return map([](int64_t x) { return scalar::sub(0, x); });
    case Prim::abs_: return map([=](int64_t x) { return signed_ && x < 0 ? scalar::sub(0, x) : x; });
    case Prim::sign_: return map([=](int64_t x) { return int64_t{x != 0} * (signed_ && x < 0 ? -1 : 1); });
    case Prim::min_: return map2([=](int64_t x, int64_t y) { return scalar::less(type, y, x) ? y : x; });
    case Prim::max_: return map2([=](int64_t x, int64_t y) { return scalar::less(type, x, y) ? y : x; });
    case Prim::eq_: return test([](int64_t x, int64_t y) { return x == y; });
    case Prim::ne_: return test([](int64_t x, int64_t y) { return x != y; });
    case Prim::lt_: return test([=](int64_t x, int64_t y) { return scalar::less(type, x, y); });
    case Prim::le_: return test([=](int64_t x, int64_t y) { return !scalar::less(type, y, x); });
    case Prim::gt_: return test([=](int64_t x, int64_t y) { return scalar::less(type, y, x); });
    case Prim::ge_: return test([=](int64_t x, int64_t y) { return !scalar::less(type, x, y); });
    case Prim::and_: return map2([](int64_t x, int64_t y) { return x & y; });
    case Prim::or_: return map2([](int64_t x, int64_t y) { return x | y; });
    case Prim::xor_: return map2([](int64_t x, int64_t y) { return x ^ y; });
    case Prim::not_:
      if (type == DType::bool_) return map([](int64_t x) { return int64_t{x == 0}; });
      return map([](int64_t x) { return ~x; });
    case Prim::shl_: return map2([=](int64_t x, int64_t y) { return scalar::shl(type, x, y); });
    case Prim::shr_: return map2([=](int64_t x, int64_t y) { return scalar::shr(type, x, y); });
    case Prim::pow_: return map2([=](int64_t x, int64_t y) { return scalar::pow(type, x, y); });
    default: return;  // the other primitives take floats only; run_prim handles where, cast and bitcast
  }
}

void run_cast(const Instruction& in, Register* r, size_t n) {
  const DType from = in.from, to = in.dtype;
  const Register& a = r[in.a];
  Register& result = r[in.to];
  if (is_float(from) && is_float(to))
    return lanes(n, [&](size_t l) { result.f[l] = scalar::round_to(to, a.f[l]); });
  if (is_float(from)) return lanes(n, [&](size_t l) { result.i[l] = scalar::float_to_int(to, a.f[l]); });
  if (is_float(to)) return lanes(n, [&](size_t l) { result.f[l] = scalar::int_to_float(from, to, a.i[l]); });
  lanes(n, [&](size_t l) { result.i[l] = scalar::int_to_int(to, a.i[l]); });
}

void run_bitcast(const Instruction& in, Register* r, size_t n) {
  const DType from = in.from, to = in.dtype;
  lanes(n, [&](size_t l) {
    const uint64_t bits =
        is_float(from) ? scalar::float_bits(from, r[in.a].f[l]) : scalar::int_bits(from, r[in.a].i[l]);
    if (is_float(to))
      r[in.to].f[l] = scalar::float_value(to, bits);
    else
      r[in.to].i[l] = scalar::int_value(to, bits);
  });
}

}  // namespace

void run_prim(const Instruction& in, Register* r, size_t n) {
  switch (in.prim) {
    case Prim::cast_: return run_cast(in, r, n);
    case Prim::bitcast_: return run_bitcast(in, r, n);
    case Prim::where_:
      if (is_float(in.dtype))
        return lanes(n, [&](size_t l) { r[in.to].f[l] = r[in.a].i[l] ? r[in.b].f[l] : r[in.c].f[l]; });
      return lanes(n, [&](size_t l) { r[in.to].i[l] = r[in.a].i[l] ? r[in.b].i[l] : r[in.c].i[l]; });
    default: return is_float(in.from) ? run_float(in, r, n) : run_int(in, r, n);
  }
}

}  // namespace ferrite::core::loop::eval
