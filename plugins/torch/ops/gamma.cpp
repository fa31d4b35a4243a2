// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gamma function and its relatives: all are computed in f64, because their formulas are differences of
// large terms.
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "special.h"

namespace ferrite::from_torch {
namespace {

constexpr int shifts = 7;
/// Of x by the greatest whole number that is not further from 0.
Value fraction(Context& c, Value x) { return binary(c, "remainder_trunc", x, number_like(c, x, 1)); }
/// 1 - x below 0.5, where the reflection formulas hold.
Value reflected(Context& c, Value x) { return select(c, binary(c, "lt", x, 0.5), one_less(c, x), x); }
/// x itself where asymptotic series are exact enough, else x + shifts.
Value shifted(Context& c, Value x, Value near) { return select(c, near, add(c, x, shifts), x); }

Value lgamma(Context& c, Value x) {
  const Value z = reflected(c, x), near = binary(c, "lt", z, 8);
  Value product = z;
  for (int k = 1; k < shifts; ++k) product = mul(c, product, add(c, z, k));
  const Value w = shifted(c, z, near), reciprocal = inverse_of(c, w);
  const Value series = polynomial(c,
                                  {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360,
                                   1.0 / 156, -3617.0 / 122400},
                                  square_of(c, reciprocal));
  const Value main = mul(c, add(c, w, -0.5), add(c, unary(c, "log", w), -1));
  const Value stirling = add(c, add(c, main, 0.5 * std::log(2 * pi) - 0.5), mul(c, series, reciprocal));
  const Value value = select(c, near, sub(c, stirling, unary(c, "log", product)), stirling);
  const Value part = unary(c, "abs", fraction(c, x)), nearest = binary(c, "minimum", part, one_less(c, part));
  const Value sine = unary(c, "sin", mul(c, nearest, pi));
  const Value mirrored = sub(c, sub(c, number_like(c, x, std::log(pi)), unary(c, "log", sine)), value);
  const Value both = select(c, binary(c, "lt", x, 0.5), mirrored, value);
  return choose(c, unary(c, "isinf", x), infinity, both);
}
Value digamma(Context& c, Value x) {
  const Value z = reflected(c, x), near = binary(c, "lt", z, 8);
  Value sum = inverse_of(c, z);
  for (int k = 1; k < shifts; ++k) sum = add(c, sum, inverse_of(c, add(c, z, k)));
  const Value w = shifted(c, z, near), reciprocal = inverse_of(c, w), square = square_of(c, reciprocal);
  const Value series = polynomial(
      c, {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12, -3617.0 / 8160},
      square);
  const Value far = sub(c, sub(c, unary(c, "log", w), mul(c, reciprocal, 0.5)), mul(c, series, square));
  const Value value = select(c, near, sub(c, far, sum), far);
  const Value part = fraction(c, x);
  const Value mirrored = sub(c, value, inverse_of(c, unary(c, "tan", mul(c, part, pi)), pi));
  const Value pole = c.make("logical_and", {binary(c, "lt", x, 0), binary(c, "eq", part, 0)});
  return choose(c, pole, nan, select(c, binary(c, "lt", x, 0.5), mirrored, value));
}
Value trigamma(Context& c, Value x) {
  const Value z = reflected(c, x), near = binary(c, "lt", z, 8);
  Value sum = square_of(c, inverse_of(c, z));
  for (int k = 1; k < shifts; ++k) sum = add(c, sum, square_of(c, inverse_of(c, add(c, z, k))));
  const Value w = shifted(c, z, near), reciprocal = inverse_of(c, w), square = square_of(c, reciprocal);
  const Value series = polynomial(
      c, {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510}, square);
  const Value far =
      add(c, add(c, reciprocal, mul(c, square, 0.5)), mul(c, mul(c, series, square), reciprocal));
  const Value value = select(c, near, add(c, far, sum), far);
  const Value sine = inverse_of(c, unary(c, "sin", mul(c, fraction(c, x), pi)), pi);
  return select(c, binary(c, "lt", x, 0.5), sub(c, square_of(c, sine), value), value);
}

// ---- Hurwitz's zeta function

/// The sum of (q + k)^-x over all k >= 0: the first terms, and the rest by the formula of Euler and
/// Maclaurin. q > -least_terms, unless x is no integer.
Value zeta(Context& c, Value x, Value q) {
  constexpr int terms = 30;  // q + terms > 9, from where the series below is exact, down to q = -21
  // Bernoulli's numbers B(2k) / (2k)!, k = 1, 2, ...
  constexpr std::array numbers = {1.0 / 12,
                                  -1.0 / 720,
                                  1.0 / 30240,
                                  -1.0 / 1209600,
                                  1.0 / 47900160,
                                  -691.0 / 1307674368000,
                                  1.0 / 74724249600,
                                  -3617.0 / 10670622842880000,
                                  43867.0 / 5109094217170944000};
  const Value power = unary(c, "neg", x);
  const auto term = [&](Value base) { return binary(c, "pow", base, power); };
  Value sum = term(q);
  for (int k = 1; k < terms; ++k) sum = add(c, sum, term(add(c, q, k)));
  const Value end = add(c, q, terms), last = term(end), square = square_of(c, inverse_of(c, end));
  sum = add(c, sum, div(c, mul(c, last, end), add(c, x, -1)));
  sum = add(c, sum, mul(c, last, 0.5));
  // The derivatives: x (x + 1) ... (x + 2k) / end^(x + 2k + 1).
  Value factor = mul(c, div(c, x, end), last);
  for (size_t k = 0; k < numbers.size(); ++k) {
    sum = add(c, sum, mul(c, factor, numbers[k]));
    const double next = 2.0 * static_cast<double>(k) + 1;
    factor = mul(c, mul(c, factor, mul(c, add(c, x, next), add(c, x, next + 1))), square);
  }
  const auto both = [&](Value a, Value b) { return c.make("logical_and", {a, b}); };
  const Value below = binary(c, "le", q, 0);
  const Value whole = binary(c, "eq", q, unary(c, "floor", q)),
              even = binary(c, "eq", x, unary(c, "floor", x));
  sum = choose(c, both(below, c.make("logical_not", {even})), nan, sum);
  sum = choose(c, both(below, whole), infinity, sum);
  sum = choose(c, binary(c, "lt", x, 1), nan, sum);
  sum = choose(c, binary(c, "eq", x, 1), infinity, sum);
  // The first term alone is a number where the others are none.
  const Value is_nan = c.make("logical_or", {unary(c, "isnan", x), unary(c, "isnan", q)});
  return choose(c, is_nan, nan, sum);
}

void give_zeta(Context& c) {
  c.give(cast_to(c, zeta(c, c.operand("self", f64), c.operand("other", f64)), c.result().dtype));
}

void polygamma(Context& c) {
  const int64_t order = c.integer("n");
  if (order < 2) return give_wide(c, order == 0 ? digamma : trigamma, f64);
  constexpr int64_t greatest_order = 170;  // whose factorial is a number
  if (order > greatest_order) c.unsupported("derivatives of digamma beyond number ", greatest_order);
  const Value x = c.operand("self", f64);
  const double factor = (order % 2 ? 1 : -1) * std::tgamma(static_cast<double>(order) + 1);
  const Value sum = zeta(c, number_like(c, x, static_cast<double>(order) + 1), x);
  c.give(cast_to(c, mul(c, sum, factor), c.result().dtype));
}

// ---- the incomplete gamma functions

/// Nodes and weights of the rule of Gauss and Legendre on [0, 1].
std::vector<std::pair<double, double>> quadrature(int count) {
  std::vector<std::pair<double, double>> rule;
  for (int k = 0; k < count; ++k) {
    double x = std::cos(pi * (k + 0.75) / (count + 0.5)), slope = 0;
    for (int step = 0; step < 100; ++step) {
      double before = 1, value = x;
      for (int n = 2; n <= count; ++n)
        before = std::exchange(value, ((2 * n - 1) * x * value - (n - 1) * before) / n);
      slope = count * (x * value - before) / (x * x - 1);
      x -= value / slope;
    }
    rule.emplace_back((1 + x) / 2, 1 / ((1 - x * x) * slope * slope));
  }
  return rule;
}

/// The lower and the upper incomplete gamma function of a and x, divided by gamma(a), for a > 0 and x > 0:
/// a series or a continued fraction, and the integral itself where a is large and both would be long (Press
/// et al., Numerical Recipes, 2007, section 6.2).
std::pair<Value, Value> gamma_parts(Context& c, Value a, Value x) {
  constexpr int terms = 80, nodes = 36;
  constexpr double large = 64;
  const Value far = binary(c, "ge", a, large);
  const Value log = lgamma(c, a);
  const Value scale = unary(c, "exp", sub(c, sub(c, mul(c, a, unary(c, "log", x)), x), log));
  Value term = inverse_of(c, a), series = term;
  for (int n = 1; n < terms; ++n) {
    term = div(c, mul(c, term, x), add(c, a, n));
    series = add(c, series, term);
  }
  const Value lower = mul(c, scale, series), difference = sub(c, x, a);
  Value fraction = add(c, difference, 2 * terms + 1);
  for (int n = terms; n > 0; --n) {
    const Value step = mul(c, sub(c, number_like(c, a, n), a), n);
    fraction = sub(c, add(c, difference, 2 * n - 1), div(c, step, fraction));
  }
  const Value upper = div(c, scale, fraction);

  // The integrand has its peak at a - 1, and its width is the root of that.
  const Value peak = add(c, binary(c, "maximum", a, number_like(c, a, 2)), -1),
              width = unary(c, "sqrt", peak);
  const Value above = binary(c, "gt", x, peak);
  const auto away = [&](Value from, double widths) { return add(c, from, mul(c, width, widths)); };
  const Value high = binary(c, "maximum", away(peak, 13), away(x, 8));
  const Value low =
      binary(c, "maximum", binary(c, "minimum", away(peak, -11), away(x, -8)), number_like(c, x, 0));
  const Value range = sub(c, select(c, above, high, low), x), log_peak = unary(c, "log", peak);
  Value sum;
  for (const auto& [node, weight] : quadrature(nodes)) {
    const Value t = add(c, x, mul(c, range, node));
    const Value exponent = sub(c, mul(c, peak, sub(c, unary(c, "log", t), log_peak)), sub(c, t, peak));
    const Value part = mul(c, unary(c, "exp", exponent), weight);
    sum = sum ? add(c, sum, part) : part;
  }
  const Value height = unary(c, "exp", sub(c, mul(c, peak, add(c, log_peak, -1)), log));
  const Value integral = mul(c, mul(c, sum, range), height);
  const Value beyond = select(c, above, integral, add(c, integral, 1));
  const Value within = select(c, above, one_less(c, integral), unary(c, "neg", integral));
  const Value before = binary(c, "lt", x, add(c, a, 1));
  return {select(c, far, within, select(c, before, lower, one_less(c, upper))),
          select(c, far, beyond, select(c, before, one_less(c, lower), upper))};
}

template <bool is_upper>
void incomplete_gamma(Context& c) {
  const Value a = c.operand("self", f64), x = c.operand("other", f64);
  const auto [lower, upper] = gamma_parts(c, a, x);
  const auto both = [&](Value p, Value q) { return c.make("logical_and", {p, q}); };
  const auto either = [&](Value p, Value q) { return c.make("logical_or", {p, q}); };
  const auto is = [&](Value value, double number) { return binary(c, "eq", value, number); };
  constexpr double none = is_upper ? 1 : 0, all = is_upper ? 0 : 1;
  Value result = is_upper ? upper : lower;
  result = choose(c, either(unary(c, "isnan", a), unary(c, "isnan", x)), nan, result);
  result = choose(c, is(x, infinity), all, result);
  result = choose(c, either(is(x, 0), is(a, infinity)), none, result);
  result = choose(c, both(is(a, 0), binary(c, "gt", x, 0)), all, result);
  const Value no_part = both(is(a, 0), c.make("logical_not", {binary(c, "gt", x, 0)}));
  const Value undefined = either(no_part, both(is(a, infinity), is(x, infinity)));
  result = choose(c, either(undefined, either(binary(c, "lt", a, 0), binary(c, "lt", x, 0))), nan, result);
  c.give(cast_to(c, result, c.result().dtype));
}

template <Value (*function)(Context& c, Value x)>
void of_one(Context& c) {
  give_wide(c, function, f64);
}

constexpr OpEntry gamma_entries[] = {
    {"aten.lgamma.default", "self", of_one<lgamma>},
    {"aten.digamma.default", "self", of_one<digamma>},
    {"aten.polygamma.default", "n self", polygamma},
    {"aten.special_zeta.default", "self other", give_zeta},
    {"aten.special_zeta.self_scalar", "self other", give_zeta},
    {"aten.special_zeta.other_scalar", "self other", give_zeta},
    {"aten.igamma.default", "self other", incomplete_gamma<false>},
    {"aten.igammac.default", "self other", incomplete_gamma<true>},
};

}  // namespace

std::span<const OpEntry> gamma_ops() { return gamma_entries; }

}  // namespace ferrite::from_torch
