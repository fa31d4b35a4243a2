// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Special functions, and the parts of floats. Bessel functions and the error function's tails are polynomials
// that are fitted here, in the precision of the dtype; what differences of large terms make is computed in
// f64.
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <utility>

#include "special.h"

namespace ferrite::from_torch {
namespace {

constexpr double root_of_two = 1.41421356237309504880, root_of_pi = 1.77245385090551602730;

/// Of f64, PyTorch's own results have about seven digits: exact ones would not equal eager mode's.
template <Function function>
void special_f32(Context& c) {
  if (c.result().dtype == f64) c.unsupported("Bessel functions of the first and the second kind of f64");
  special<function>(c);
}

// ---- polynomials

/// A function on [low, high], to the precision of x: the interpolation at Chebyshev's points, without the
/// terms that are too small to matter, in powers of y = 2 (x - low) / (high - low) - 1.
Value fitted(Context& c, Value x, double low, double high, const std::function<double(double)>& f) {
  constexpr int points = 48;
  const auto angle = [](int k) { return pi * (k + 0.5) / points; };
  std::vector<double> values, terms;
  for (int k = 0; k < points; ++k) values.push_back(f(low + (high - low) * (1 + std::cos(angle(k))) / 2));
  double greatest = 0;
  for (int j = 0; j < points; ++j) {
    double sum = 0;
    for (int k = 0; k < points; ++k) sum += values[static_cast<size_t>(k)] * std::cos(j * angle(k));
    terms.push_back(sum * (j ? 2 : 1) / points);
    greatest = std::max(greatest, std::abs(terms.back()));
  }
  const double least = greatest * (x.dtype() == f64 ? 4e-17 : 1e-8);
  while (terms.size() > 2 && std::abs(terms.back()) < least) terms.pop_back();
  // T(0) = 1, T(1) = y, T(k + 1) = 2 y T(k) - T(k - 1).
  std::vector<double> sum(terms.size()), last(terms.size()), current(terms.size());
  last[0] = current[1] = 1;
  sum[0] = terms[0];
  for (size_t j = 1; j < terms.size(); ++j) {
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += terms[j] * current[k];
    std::vector<double> next(terms.size());
    for (size_t k = 0; k < sum.size(); ++k) next[k] = (k ? 2 * current[k - 1] : 0) - last[k];
    last = std::exchange(current, next);
  }
  return polynomial(c, sum, mul(c, add(c, x, -(low + high) / 2), 2 / (high - low)));
}

// ---- the error function's complement, and inverses

/// exp(x^2) erfc(x) for x >= 0, by Laplace's continued fraction where erfc would be small.
double scaled_erfc(double x) {
  if (x < 3) return std::exp(x * x) * std::erfc(x);
  double tail = x;
  for (int k = 80; k > 0; --k) tail = x + 0.5 * k / tail;
  return 1 / (root_of_pi * tail);
}
/// The same of a tensor, to full relative precision.
Value tail_of(Context& c, Value x) {
  const Value t = inverse_of(c, add(c, x, 2), 2);
  const Value logarithm = fitted(c, t, 0, 1, [](double t) { return std::log(scaled_erfc(2 / t - 2) / t); });
  return mul(c, t, unary(c, "exp", logarithm));
}
Value erfc(Context& c, Value x) {
  const Value tail =
      mul(c, unary(c, "exp", unary(c, "neg", square_of(c, x))), tail_of(c, unary(c, "abs", x)));
  return select(c, binary(c, "lt", x, 0), sub(c, number_like(c, x, 2), tail), tail);
}
Value erfcx(Context& c, Value x) {
  const Value tail = tail_of(c, unary(c, "abs", x));
  return select(c, binary(c, "lt", x, 0), sub(c, mul(c, unary(c, "exp", square_of(c, x)), 2), tail), tail);
}
/// z >= 0 with erf(z) = x and erfc(z) = rest, where x + rest = 1: Winitzki's formula, and Newton's steps,
/// which follow erf in the middle and the logarithm of erfc in the tail.
Value erf_inverse(Context& c, Value x, Value rest) {
  constexpr double a = 0.147;
  const Value middle = binary(c, "lt", x, 0.5);
  const Value u = select(c, middle, unary(c, "log1p", unary(c, "neg", square_of(c, x))),
                         unary(c, "log", mul(c, rest, add(c, x, 1))));
  const Value h = add(c, mul(c, u, 0.5), 2 / (pi * a)), v = mul(c, u, -1 / a);
  const Value root = unary(c, "sqrt", add(c, square_of(c, h), v));
  Value z = unary(c, "sqrt", select(c, binary(c, "gt", h, 0), div(c, v, add(c, root, h)), sub(c, root, h)));
  const Value logarithm = unary(c, "log", rest);
  for (int step = 0; step < (x.dtype() == f64 ? 4 : 2); ++step) {
    const Value square = square_of(c, z), tail = tail_of(c, z);
    const Value by_middle = mul(c, sub(c, x, unary(c, "erf", z)), unary(c, "exp", square));
    const Value by_tail = mul(c, sub(c, sub(c, unary(c, "log", tail), square), logarithm), tail);
    z = add(c, z, mul(c, select(c, middle, by_middle, by_tail), root_of_pi / 2));
  }
  z = choose(c, binary(c, "eq", rest, 0), infinity, z);
  return choose(c, binary(c, "lt", rest, 0), nan, z);
}
Value erfinv(Context& c, Value x) {
  const Value size = unary(c, "abs", x), z = erf_inverse(c, size, one_less(c, size));
  return select(c, binary(c, "lt", x, 0), unary(c, "neg", z), z);
}
/// The inverse of the normal distribution.
Value ndtri(Context& c, Value p) {
  const Value rest = mul(c, binary(c, "minimum", p, one_less(c, p)), 2);
  const Value z = mul(c, erf_inverse(c, one_less(c, rest), rest), root_of_two);
  return select(c, binary(c, "lt", p, 0.5), unary(c, "neg", z), z);
}

// ---- Bessel functions of order 0 and 1

/// The two sums of Hankel's expansion for large x: the even terms, and the odd ones, with signs that
/// alternate in each sum or do not.
std::pair<double, double> hankel(int order, double x, bool alternates) {
  double term = 1, even = 1, odd = 0;
  for (int k = 1; k < 60; ++k) {
    const double next = term * (4.0 * order * order - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * x);
    if (std::abs(next) > std::abs(term)) break;
    term = next;
    (k % 2 ? odd : even) += alternates && k / 2 % 2 ? -term : term;
  }
  return {even, odd};
}
constexpr double far = 30;  // from here on the expansion is exact

/// exp(-|x|) I(|x|), for order 1 with the sign of x.
template <int order>
Value scaled_i(Context& c, Value x) {
  constexpr double bound = 8;
  const Value size = unary(c, "abs", x), within = binary(c, "minimum", size, bound);
  Value low = fitted(c, within, 0, bound, [](double x) {
    const double value = std::exp(-x) * std::cyl_bessel_i(order, x);
    return order ? value / x : value;
  });
  if (order) low = mul(c, low, within);
  const Value beyond = binary(c, "maximum", size, bound);
  const Value high = fitted(c, inverse_of(c, beyond), 0, 1 / bound, [](double u) {
    const double x = 1 / u;
    if (x < far) return std::sqrt(x) * std::exp(-x) * std::cyl_bessel_i(order, x);
    const auto [even, odd] = hankel(order, x, false);
    return (even - odd) / std::sqrt(2 * pi);
  });
  const Value value = select(c, binary(c, "le", size, bound), low, mul(c, high, unary(c, "rsqrt", beyond)));
  return order ? select(c, binary(c, "lt", x, 0), unary(c, "neg", value), value) : value;
}
template <int order>
Value bessel_i(Context& c, Value x) {
  // In two steps: exp alone would be infinite before the function is.
  const Value half = unary(c, "exp", mul(c, unary(c, "abs", x), 0.5));
  return mul(c, mul(c, half, scaled_i<order>(c, x)), half);
}

/// K(x), or exp(x) K(x).
template <int order, bool scaled>
Value bessel_k(Context& c, Value x) {
  constexpr double bound = 2;
  const Value within = binary(c, "minimum", x, bound), beyond = binary(c, "maximum", x, bound);
  // K0 = A - log(x/2) I0, K1 = A/x + log(x/2) I1, with A a series in x^2.
  Value low = fitted(c, square_of(c, within), 0, bound * bound, [](double square) {
    const double x = std::sqrt(square), product = std::log(x / 2) * std::cyl_bessel_i(order, x);
    const double value = std::cyl_bessel_k(order, x);
    return order ? x * (value - product) : value + product;
  });
  const Value product = mul(c, unary(c, "log", mul(c, within, 0.5)), bessel_i<order>(c, within));
  low = order ? add(c, div(c, low, within), product) : sub(c, low, product);
  if (scaled) low = mul(c, low, unary(c, "exp", within));
  Value high = fitted(c, inverse_of(c, beyond), 0, 1 / bound, [](double u) {
    const double x = 1 / u;
    if (x < far) return std::sqrt(x) * std::exp(x) * std::cyl_bessel_k(order, x);
    const auto [even, odd] = hankel(order, x, false);
    return (even + odd) * std::sqrt(pi / 2);
  });
  high = mul(c, high, unary(c, "rsqrt", beyond));
  if (!scaled) high = mul(c, high, unary(c, "exp", unary(c, "neg", beyond)));
  const Value value =
      choose(c, binary(c, "eq", x, 0), infinity, select(c, binary(c, "le", x, bound), low, high));
  return choose(c, binary(c, "lt", x, 0), nan, value);
}

/// J(x) of |x| <= 8, without the factor x of order 1.
double entire_j(int order, double square) {
  const double x = std::sqrt(square), value = std::cyl_bessel_j(order, x);
  return order ? value / x : value;
}
constexpr double first_bound = 8;
/// sqrt(2 / (pi x)) (even cos(a) - odd sin(a)) for J and (even sin(a) + odd cos(a)) for Y, with
/// a = x - (order / 2 + 1 / 4) pi.
Value oscillating(Context& c, Value x, int order, bool second) {
  const Value u = inverse_of(c, x), square = square_of(c, u);
  const auto sums = [order](double square) {
    const double x = 1 / std::sqrt(square);
    if (x >= far) return hankel(order, x, true);
    const double a = x - (order / 2.0 + 0.25) * pi, scale = std::sqrt(pi * x / 2);
    const double j = std::cyl_bessel_j(order, x), y = std::cyl_neumann(order, x);
    return std::pair(scale * (j * std::cos(a) + y * std::sin(a)),
                     scale * (y * std::cos(a) - j * std::sin(a)));
  };
  constexpr double most = 1 / (first_bound * first_bound);
  const Value even = fitted(c, square, 0, most, [&](double square) { return sums(square).first; });
  const Value odd =
      mul(c, u,
          fitted(c, square, 0, most, [&](double square) { return sums(square).second / std::sqrt(square); }));
  // The angle itself would lose digits of x.
  const Value sine = unary(c, "sin", x), cosine = unary(c, "cos", x);
  const Value sum = add(c, cosine, sine), difference = sub(c, sine, cosine);
  const Value cos_a = order ? difference : sum, sin_a = order ? unary(c, "neg", sum) : difference;
  const Value wave = second ? add(c, mul(c, even, sin_a), mul(c, odd, cos_a))
                            : sub(c, mul(c, even, cos_a), mul(c, odd, sin_a));
  return mul(c, wave, unary(c, "rsqrt", mul(c, x, pi)));
}
template <int order>
Value bessel_j(Context& c, Value x) {
  const Value size = unary(c, "abs", x), within = binary(c, "minimum", size, first_bound);
  Value low = fitted(c, square_of(c, within), 0, first_bound * first_bound,
                     [](double square) { return entire_j(order, square); });
  if (order) low = mul(c, low, within);
  const Value high = oscillating(c, binary(c, "maximum", size, first_bound), order, false);
  const Value value = select(c, binary(c, "le", size, first_bound), low, high);
  return order ? select(c, binary(c, "lt", x, 0), unary(c, "neg", value), value) : value;
}
template <int order>
Value bessel_y(Context& c, Value x) {
  const Value within = binary(c, "minimum", x, first_bound);
  // Y0 = 2/pi log(x) J0 + A, Y1 = 2/pi (log(x) J1 - 1/x) + x A, with A a series in x^2.
  Value low = fitted(c, square_of(c, within), 0, first_bound * first_bound, [](double square) {
    const double x = std::sqrt(square);
    const double rest = std::cyl_neumann(order, x) - 2 / pi * std::log(x) * std::cyl_bessel_j(order, x);
    return order ? (rest + 2 / (pi * x)) / x : rest;
  });
  const Value product = mul(c, mul(c, unary(c, "log", within), bessel_j<order>(c, within)), 2 / pi);
  low = order ? sub(c, add(c, product, mul(c, low, within)), inverse_of(c, within, 2 / pi))
              : add(c, product, low);
  const Value high = oscillating(c, binary(c, "maximum", x, first_bound), order, true);
  const Value value = select(c, binary(c, "le", x, first_bound), low, high);
  return choose(c, binary(c, "lt", x, 0), nan, choose(c, binary(c, "eq", x, 0), -infinity, value));
}
/// sin(x) / x
Value spherical_j0(Context& c, Value x) {
  const Value near =
      polynomial(c, {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800}, square_of(c, x));
  const Value value =
      select(c, binary(c, "lt", unary(c, "abs", x), 0.5), near, div(c, unary(c, "sin", x), x));
  return choose(c, unary(c, "isinf", x), 0, value);
}

// ---- the parts of floats

DType raw_of(DType dtype) { return bits_of(dtype) == 64 ? i64 : bits_of(dtype) == 32 ? i32 : i16; }
Value as(Context& c, Value x, DType dtype) { return c.make("bitcast", {x}, attr("dtype", dtype)); }

/// The next float from a towards b: the bits of floats of one sign are in the order of their sizes.
void next_after(Context& c) {
  const DType dtype = c.result().dtype, raw = raw_of(dtype);
  const Value a = c.operand("self", dtype), b = c.operand("other", dtype);
  const Value away = binary(c, "eq", binary(c, "gt", b, a), binary(c, "gt", a, 0));
  const auto number = [&](int64_t value) { return integer_scalar(c, raw, value); };
  const Value moved = as(c, add(c, as(c, a, raw), select(c, away, number(1), number(-1))), dtype);
  const int64_t sign = std::numeric_limits<int64_t>::min() >> (64 - bits_of(dtype));
  const Value least = as(c, select(c, binary(c, "gt", b, 0), number(1), number(sign + 1)), dtype);
  const Value next = select(c, binary(c, "eq", a, b), b, select(c, binary(c, "eq", a, 0), least, moved));
  c.give(select(c, unary(c, "isnan", a), a, select(c, unary(c, "isnan", b), b, next)));
}
/// x = mantissa * 2^exponent with a mantissa of [0.5, 1).
void parts_of_float(Context& c) {
  const DType wide = accumulated(c.result().dtype), raw = raw_of(wide);
  const int digits = wide == f64 ? 52 : 23, bias = wide == f64 ? 1022 : 126;
  const double least = std::ldexp(1, -bias);  // smaller ones are brought into the range of normal ones
  const Value x = c.operand("self", wide), size = unary(c, "abs", x), small = binary(c, "lt", size, least);
  const Value bits = as(c, select(c, small, mul(c, x, std::ldexp(1, digits + 2)), x), raw);
  const auto number = [&](int64_t value) { return integer_scalar(c, raw, value); };
  const int64_t exponent_bits = (int64_t{2} * bias + 3) << digits;
  const Value biased = binary(c, "bitwise_and", binary(c, "shift_right", bits, number(digits)),
                              number(exponent_bits >> digits));
  const Value offset = select(c, small, number(bias + digits + 2), number(bias));
  const Value kept = binary(c, "bitwise_and", bits, number(~exponent_bits));
  const Value mantissa = as(c, binary(c, "bitwise_or", kept, number(int64_t{bias} << digits)), wide);
  const Value finite = binary(c, "lt", size, infinity);
  const Value usual = c.make("logical_and", {finite, binary(c, "ne", x, 0)});
  c.give(0, cast_to(c, select(c, usual, mantissa, x), c.result(0).dtype));
  const Value exponent = select(c, usual, sub(c, biased, offset), number(0));
  if (c.wants(1)) c.give(1, cast_to(c, exponent, c.result(1).dtype));
}
/// As PyTorch defines it.
Value cube_root(Context& c, Value x) {
  const Value root = binary(c, "pow", unary(c, "abs", x), 1.0 / 3);
  return select(c, binary(c, "lt", x, 0), unary(c, "neg", root), root);
}

constexpr OpEntry special_entries[] = {
    {"aten.erfc.default", "self", special<erfc>},
    {"aten.special_erfcx.default", "self", special<erfcx>},
    {"aten.erfinv.default", "self", special<erfinv>},
    {"aten.special_ndtri.default", "self", special<ndtri>},
    {"aten.i0.default", "self", special<bessel_i<0>>},
    {"aten.special_i0e.default", "self", special<scaled_i<0>>},
    {"aten.special_i1.default", "self", special<bessel_i<1>>},
    {"aten.special_i1e.default", "self", special<scaled_i<1>>},
    {"aten.special_modified_bessel_i0.default", "self", special<bessel_i<0>>},
    {"aten.special_modified_bessel_i1.default", "self", special<bessel_i<1>>},
    {"aten.special_modified_bessel_k0.default", "self", special<bessel_k<0, false>>},
    {"aten.special_modified_bessel_k1.default", "self", special<bessel_k<1, false>>},
    {"aten.special_scaled_modified_bessel_k0.default", "x", special<bessel_k<0, true>>},
    {"aten.special_scaled_modified_bessel_k1.default", "x", special<bessel_k<1, true>>},
    {"aten.special_bessel_j0.default", "self", special_f32<bessel_j<0>>},
    {"aten.special_bessel_j1.default", "self", special_f32<bessel_j<1>>},
    {"aten.special_bessel_y0.default", "self", special_f32<bessel_y<0>>},
    {"aten.special_bessel_y1.default", "self", special_f32<bessel_y<1>>},
    {"aten.special_spherical_bessel_j0.default", "x", special<spherical_j0>},
    {"prims.cbrt.default", "self", special<cube_root>},

    {"aten.nextafter.default", "self other", next_after},
    {"aten.frexp.Tensor", "self", parts_of_float},
};

}  // namespace

std::span<const OpEntry> special_ops() { return special_entries; }

}  // namespace ferrite::from_torch
