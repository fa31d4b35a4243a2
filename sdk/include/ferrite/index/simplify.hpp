// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The simplifier. Rules are written `this -> that`: a, b, c, g, k, m are constants, x, y, z, r expressions,
// `//` is floordiv and `%` mod. The file exceeds 600 lines because its rules define one canonical form
// together. Rules for `//` or `%` by a constant are stated for a positive constant.

#include "ferrite/index/pool.hpp"

namespace ferrite::inline v0::index {

// ----------------------------------------------------------------------------------------------------------
// sums

/// l += scale * e, unsorted.
inline void Pool::accumulate(Linear& l, Expr e, std::int64_t scale) const {
  const Node& n = node(e);
  if (n.op == Op::constant) {
    l.constant = detail::wrap_add(l.constant, detail::wrap_mul(n.value, scale));
  } else if (n.op == Op::add) {
    l.constant = detail::wrap_add(l.constant, detail::wrap_mul(n.value, scale));
    for (const Term& t : sum_terms(n)) l.terms.push({t.expr, detail::wrap_mul(t.coefficient, scale)});
  } else {
    l.terms.push({e, scale});
  }
}

/// Sorts the terms and merges equal ones.
inline void Pool::normalise(Linear& l) const {
  // a*x + b*x -> (a+b)*x
  // 0*x -> (nothing)
  std::sort(l.terms.begin(), l.terms.end(),
            [&](const Term& a, const Term& b) { return before(a.expr, b.expr); });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < l.terms.size();) {
    Term t = l.terms[i++];
    while (i < l.terms.size() && l.terms[i].expr == t.expr) {
      t.coefficient = detail::wrap_add(t.coefficient, l.terms[i++].coefficient);
    }
    if (t.coefficient != 0) l.terms[kept++] = t;
  }
  l.terms.resize_down(kept);
}

inline Pool::Bounds Pool::bounds(const Linear& l) const {
  constexpr Wide limit = static_cast<Wide>(1) << 90;  // 2^32 such addends stay inside 128 bits
  Bounds b{l.constant, l.constant, true};
  for (const Term& t : l.terms) {
    const Node& n = node(t.expr);
    const Wide at_lo = static_cast<Wide>(t.coefficient) * n.lo,
               at_hi = static_cast<Wide>(t.coefficient) * n.hi;
    const Wide lo = std::min(at_lo, at_hi), hi = std::max(at_lo, at_hi);
    if (lo < -limit || hi > limit)
      b.known = false;
    else
      b.lo += lo, b.hi += hi;
  }
  return b;
}

inline Expr Pool::finish(Linear& l) {
  normalise(l);
  return finish_sorted(l);
}

inline Expr Pool::finish_sorted(Linear& l) {
  constexpr int max_rounds = 64;
  for (int round = 0; round < max_rounds && recombine(l); ++round) normalise(l);
  if (l.terms.empty()) return constant(l.constant);
  // 1*x + 0 -> x
  if (l.terms.size() == 1 && l.constant == 0 && l.terms[0].coefficient == 1) return l.terms[0].expr;
  return intern_sum(l);
}

/// The coefficient of a term of a sorted list.
inline std::optional<std::int64_t> Pool::find_term(const Linear& l, Expr e) const {
  const Term* t = std::lower_bound(l.terms.begin(), l.terms.end(), e,
                                   [&](const Term& a, Expr b) { return before(a.expr, b); });
  if (t == l.terms.end() || t->expr != e) return std::nullopt;
  return t->coefficient;
}

/// The term of an expression that is an `op` (or, for Op::floordiv, that may contain one: a product).
inline std::optional<Term> Pool::pivot(Expr e, Op op) const {
  const auto matches = [&](Expr t) {
    return node(t).op == op || (op == Op::floordiv && node(t).op == Op::mul);
  };
  if (!is_sum(e)) return matches(e) ? std::optional<Term>({e, 1}) : std::nullopt;
  for (const Term& t : sum_terms(node(e))) {
    if (matches(t.expr)) return t;
  }
  return std::nullopt;
}

/// Whether the expression is this term or a sum that contains it.
inline bool Pool::holds_term(Expr e, const Term& term) const {
  if (!is_sum(e)) return e == term.expr && term.coefficient == 1;
  const std::span<const Term> terms = sum_terms(node(e));
  return std::find(terms.begin(), terms.end(), term) != terms.end();
}

/// Recombines expressions that division split; all rules hold modulo 2^64. Returns true if `l` changed; it is
/// then unsorted.
inline bool Pool::recombine(Linear& l) {
  std::size_t quotients = 0, products = 0, remainders = 0;
  for (const Term& t : l.terms) {
    const Op op = node(t.expr).op;
    quotients += op == Op::floordiv;
    products += op == Op::mul;
    remainders += op == Op::mod;
  }
  if (quotients == 0 && (remainders == 0 || remainders + products < 2)) return false;
  const Effort effort(*this, l.terms.size());
  if (effort.spent()) return false;
  for (std::size_t i = 0; i < l.terms.size(); ++i) {
    const Term t = l.terms[i];
    const Op op = node(t.expr).op;
    if (op != Op::floordiv && op != Op::mod) continue;
    const Expr z{node(t.expr).lhs}, d{node(t.expr).rhs};
    const std::int64_t c = as_constant(d).value_or(0);
    if (op == Op::mod && quotients + products + remainders > 1) {
      const std::int64_t s = t.coefficient;
      const Expr q = floordiv(z, d);
      // s*d*(z // d) + s*(z % d) -> s*z
      const Expr whole = mul(q, d);
      const std::optional<Term> p = pivot(whole, Op::floordiv);
      const std::optional<std::int64_t> found = p ? find_term(l, p->expr) : std::nullopt;
      if (found && *found == detail::wrap_mul(s, p->coefficient)) {
        accumulate(l, t.expr, detail::wrap_neg(s));
        accumulate(l, whole, detail::wrap_neg(s));
        accumulate(l, z, s);
        return true;
      }
      // s*c*((x + z // c) % k) + s*(z % c) -> s*((c*x + z) % (c*k))
      if (c > 0 && remainders > 1) {
        const std::optional<Term> part = pivot(q, Op::floordiv);
        for (std::size_t j = 0; part && j < l.terms.size(); ++j) {
          const Term u = l.terms[j];
          const Node n = node(u.expr);
          if (n.op != Op::mod || u.coefficient != detail::wrap_mul(s, c) || !holds_term(Expr{n.lhs}, *part))
            continue;
          const std::int64_t k = as_constant(Expr{n.rhs}).value_or(0);
          if (k <= 0 || !node(Expr{n.lhs}).exact || !detail::fits(static_cast<Wide>(c) * k)) continue;
          Linear inner;
          accumulate(inner, Expr{n.lhs}, c);
          accumulate(inner, t.expr, 1);
          if (!bounds(inner).exact()) continue;
          const Expr joined = mod(finish(inner), c * k);
          // The division may have split again at the same place.
          if (holds_term(joined, {t.expr, 1})) continue;
          accumulate(l, t.expr, detail::wrap_neg(s));
          accumulate(l, u.expr, detail::wrap_neg(u.coefficient));
          accumulate(l, joined, s);
          return true;
        }
      }
    }
    if (op == Op::floordiv && c > 0 && t.coefficient % c == 0) {
      const std::int64_t k = t.coefficient, s = k / c;
      // s*c*(z // c) -> s*z   where c divides z
      if (node(z).divisor % c == 0) {
        accumulate(l, t.expr, detail::wrap_neg(k));
        accumulate(l, z, s);
        return true;
      }
      // s*c*(z // c) + s*(z % c) -> s*z   if (z % c) was simplified to another form
      if (remainders > 0) {
        const Expr m = mod(z, d);
        const std::optional<Term> p = pivot(m, Op::mod);
        const std::optional<std::int64_t> found = p ? find_term(l, p->expr) : std::nullopt;
        if (found && *found == detail::wrap_mul(s, p->coefficient)) {
          accumulate(l, t.expr, detail::wrap_neg(k));
          accumulate(l, m, detail::wrap_neg(s));
          accumulate(l, z, s);
          return true;
        }
      }
      // s*z - s*c*(z // c) -> s*(z % c)
      const Term self{z, 1};
      const std::span<const Term> parts = is_sum(z) ? sum_terms(node(z)) : std::span<const Term>(&self, 1);
      const bool whole = std::all_of(parts.begin(), parts.end(), [&](const Term& part) {
        const std::optional<std::int64_t> found = find_term(l, part.expr);
        return found && *found == detail::wrap_neg(detail::wrap_mul(s, part.coefficient));
      });
      if (whole) {
        accumulate(l, t.expr, detail::wrap_neg(k));
        accumulate(l, z, s);
        accumulate(l, mod(z, d), detail::wrap_neg(s));
        return true;
      }
    }
  }
  return false;
}

/// a + scale * b by merging two sorted lists.
inline Expr Pool::add_scaled(Expr a, Expr b, std::int64_t scale) {
  const Node &na = node(a), &nb = node(b);
  const Term ta{a, 1}, tb{b, 1};
  const auto parts = [&](const Node& n, const Term& self) {
    if (n.op == Op::constant) return std::span<const Term>();
    return n.op == Op::add ? sum_terms(n) : std::span<const Term>(&self, 1);
  };
  const auto offset = [](const Node& n) { return n.op == Op::constant || n.op == Op::add ? n.value : 0; };
  const std::span<const Term> as = parts(na, ta), bs = parts(nb, tb);
  Linear l;
  l.constant = detail::wrap_add(offset(na), detail::wrap_mul(offset(nb), scale));
  std::size_t i = 0, j = 0;
  while (i < as.size() || j < bs.size()) {
    if (j == bs.size() || (i < as.size() && before(as[i].expr, bs[j].expr))) {
      l.terms.push(as[i++]);
      continue;
    }
    Term t{bs[j].expr, detail::wrap_mul(bs[j].coefficient, scale)};
    if (i < as.size() && as[i].expr == bs[j].expr) {
      t.coefficient = detail::wrap_add(t.coefficient, as[i++].coefficient);
    }
    ++j;
    if (t.coefficient != 0) l.terms.push(t);
  }
  return finish_sorted(l);
}

// x + 0 -> x
inline Expr Pool::add(Expr a, Expr b) {
  if (node(b).op == Op::constant && node(b).value == 0) return a;
  if (node(a).op == Op::constant && node(a).value == 0) return b;
  return add_scaled(a, b, 1);
}

// x - x -> 0
inline Expr Pool::sub(Expr a, Expr b) { return a == b ? constant(0) : add_scaled(a, b, -1); }

inline Expr Pool::neg(Expr a) { return mul(a, std::int64_t{-1}); }

inline Expr Pool::linear(std::int64_t constant, std::span<const Term> terms) {
  Linear l;
  l.constant = constant;
  for (const Term& t : terms) accumulate(l, t.expr, t.coefficient);
  return finish(l);
}

// ------------------------------------------------------------------------------------------------------
// products

// c*(k + a*x + b*y) -> c*k + c*a*x + c*b*y
inline Expr Pool::mul(Expr a, std::int64_t b) {
  if (b == 1) return a;
  Linear l;
  accumulate(l, a, b);
  if (b == 0) return constant(0);
  // An even factor can wrap a coefficient to zero.
  if (b % 2 == 0) normalise(l);
  return finish_sorted(l);
}

inline Expr Pool::mul(Expr a, Expr b) {
  if (const auto c = as_constant(b)) return mul(a, *c);
  if (const auto c = as_constant(a)) return mul(b, *c);
  if (!is_sum(a) && !is_sum(b)) return product(a, b);
  constexpr std::size_t max_distributed = 16;
  if (sum_size(a) * sum_size(b) > max_distributed) {
    return before(a, b) ? intern_binary(Op::mul, a, b) : intern_binary(Op::mul, b, a);
  }
  // (x + y) * z -> x*z + y*z
  Linear la, lb, l;
  accumulate(la, a, 1);
  accumulate(lb, b, 1);
  l.constant = detail::wrap_mul(la.constant, lb.constant);
  for (const Term& t : la.terms) accumulate(l, t.expr, detail::wrap_mul(t.coefficient, lb.constant));
  for (const Term& t : lb.terms) accumulate(l, t.expr, detail::wrap_mul(t.coefficient, la.constant));
  for (const Term& t : la.terms) {
    for (const Term& u : lb.terms) {
      accumulate(l, product(t.expr, u.expr), detail::wrap_mul(t.coefficient, u.coefficient));
    }
  }
  return finish(l);
}

/// The product of two terms, as a chain ((f0 * f1) * f2) ... of sorted factors.
inline Expr Pool::product(Expr a, Expr b) {
  // y * x -> x * y
  // x * (y * z) -> (x * y) * z
  constexpr std::size_t max_factors = 8;
  Expr factors[2 * max_factors];
  std::size_t count = 0;
  for (Expr e : {a, b}) {
    const std::size_t end = count + max_factors - 1;
    for (; node(e).op == Op::mul && count < end; e = Expr{node(e).lhs}) factors[count++] = Expr{node(e).rhs};
    factors[count++] = e;
  }
  if (count > max_factors) return before(a, b) ? intern_binary(Op::mul, a, b) : intern_binary(Op::mul, b, a);
  std::sort(factors, factors + count, [&](Expr x, Expr y) { return before(x, y); });
  Expr result = factors[0];
  for (std::size_t i = 1; i < count; ++i) {
    // The range of a partial product may be a single value.
    if (const auto c = as_constant(result))
      result = mul(factors[i], *c);
    else if (is_sum(result))
      result = mul(result, factors[i]);
    else
      result = intern_binary(Op::mul, result, factors[i]);
  }
  return result;
}

/// product / factor if the product contains the factor; else none.
inline Expr Pool::without_factor(Expr p, Expr factor) {
  if (p == factor) return constant(1);
  const Node n = node(p);
  if (n.op != Op::mul || !n.exact) return {};
  if (Expr{n.rhs} == factor) return Expr{n.lhs};
  const Expr rest = without_factor(Expr{n.lhs}, factor);
  return rest ? mul(rest, Expr{n.rhs}) : Expr{};
}

// ------------------------------------------------------------------------------------------------------
// division

/// Splits x = c * quotient + multiples + remainder, where c divides every value of `multiples` but not their
/// coefficients. Coefficients are truncated towards zero, so that a small negative one stays small. False if
/// a part may wrap.
inline bool Pool::split_constant(Expr x, std::int64_t c, Split& split) const {
  if (!node(x).exact) return false;
  Linear l;
  accumulate(l, x, 1);
  split.quotient.constant = detail::floor_div(l.constant, c);
  split.remainder.constant = detail::floor_mod(l.constant, c);
  for (const Term& t : l.terms) {
    const std::int64_t q = t.coefficient / c, r = t.coefficient % c;
    if (q != 0) split.quotient.terms.push({t.expr, q});
    if (r == 0) continue;
    const bool divides = static_cast<Wide>(r) * node(t.expr).divisor % c == 0;
    (divides ? split.multiples : split.remainder).terms.push({t.expr, r});
  }
  return bounds(split.remainder).exact() && bounds(split.multiples).exact();
}

/// Splits x = step * coarse + fine with 0 <= fine < step, for some step that divides c, 1 < step < c.
inline void Pool::find_grid(Expr x, std::int64_t c, Grid& grid) const {
  if (!node(x).exact) return;
  Linear l;
  accumulate(l, x, 1);
  constexpr std::size_t max_steps = 8;
  std::int64_t steps[max_steps];
  std::size_t count = 0;
  for (const Term& t : l.terms) {
    const std::int64_t g = std::gcd(detail::magnitude(t.coefficient), c);
    if (g == 1 || g == c || std::find(steps, steps + count, g) != steps + count) continue;
    // Try the largest step first.
    std::size_t at = count++;
    for (; at > 0 && steps[at - 1] < g; --at) steps[at] = steps[at - 1];
    steps[at] = g;
    if (count == max_steps) break;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t g = steps[i];
    Linear fine;
    fine.constant = detail::floor_mod(l.constant, g);
    for (const Term& t : l.terms) {
      if (t.coefficient % g != 0) fine.terms.push(t);
    }
    const Bounds b = bounds(fine);
    if (!b.exact()) continue;
    const Wide cell = detail::wide_floor_div(b.lo, g);
    if (cell != detail::wide_floor_div(b.hi, g)) continue;
    grid.step = g;
    grid.coarse.constant =
        detail::wrap_add(detail::floor_div(l.constant, g), static_cast<std::int64_t>(cell));
    grid.fine.constant = detail::wrap_add(
        fine.constant, detail::wrap_neg(detail::wrap_mul(g, static_cast<std::int64_t>(cell))));
    for (const Term& t : l.terms) {
      if (t.coefficient % g == 0)
        grid.coarse.terms.push({t.expr, t.coefficient / g});
      else
        grid.fine.terms.push(t);
    }
    return;
  }
}

inline Expr Pool::floordiv(Expr a, std::int64_t b) {
  if (const auto value = as_constant(a)) return constant(detail::floor_div(*value, b));
  // x // 0 -> 0
  if (b == 0) return constant(0);
  // x // 1 -> x
  if (b == 1) return a;
  // x // -c -> -x // c   where -x does not wrap
  if (b < 0) {
    if (b == detail::lowest || node(a).lo == detail::lowest)
      return intern_binary(Op::floordiv, a, constant(b));
    return floordiv(neg(a), -b);
  }
  return divide_constant(a, b);
}

inline Expr Pool::floordiv(Expr a, Expr b) {
  if (const auto c = as_constant(b)) return floordiv(a, *c);
  return divide_symbolic(a, b);
}

inline Expr Pool::divide_constant(Expr x, std::int64_t c) {
  if (c == 1) return x;
  const Effort effort(*this, sum_size(x));
  const Node n = node(x);
  // x // c -> k   where k*c <= x < (k+1)*c
  const std::int64_t low = detail::floor_div(n.lo, c);
  if (low == detail::floor_div(n.hi, c) && !n.computed) return constant(low);
  if (effort.spent()) return intern_binary(Op::floordiv, x, constant(c));
  const std::int64_t inner =
      n.op == Op::floordiv || n.op == Op::mod ? as_constant(Expr{n.rhs}).value_or(0) : 0;
  // (x // a) // b -> x // (a*b)
  if (n.op == Op::floordiv && inner > 0 && detail::fits(static_cast<Wide>(inner) * c)) {
    return divide_constant(Expr{n.lhs}, inner * c);
  }
  // (x % (a*b)) // a -> (x // a) % b
  if (n.op == Op::mod && inner > 0 && inner % c == 0) {
    return mod(divide_constant(Expr{n.lhs}, c), inner / c);
  }
  if (n.op == Op::add && n.exact) {
    // (c*x + y + r) // c -> x + y // c + r // c   where c divides y
    Split s;
    if (split_constant(x, c, s)) {
      if (s.remainder.terms.empty() && s.remainder.constant == 0) {
        for (const Term& t : s.multiples.terms) s.remainder.terms.push(t);
        s.multiples.terms.resize_down(0);
      }
      const bool changed =
          s.quotient.constant != 0 || !s.quotient.terms.empty() || !s.multiples.terms.empty();
      if (changed) {
        if (!s.multiples.terms.empty()) accumulate(s.quotient, divide_constant(finish(s.multiples), c), 1);
        const Bounds b = bounds(s.remainder);
        const Wide cell = detail::wide_floor_div(b.lo, c);
        if (cell == detail::wide_floor_div(b.hi, c)) {
          s.quotient.constant = detail::wrap_add(s.quotient.constant, static_cast<std::int64_t>(cell));
        } else {
          accumulate(s.quotient, divide_constant(finish(s.remainder), c), 1);
        }
        return finish(s.quotient);
      }
    }
    // (g*x + r) // (g*m) -> x // m   where 0 <= r < g
    Grid grid;
    find_grid(x, c, grid);
    if (grid.step != 0) return divide_constant(finish(grid.coarse), c / grid.step);
    // (x // a + y) // c -> (x + a*y) // (a*c)   where y has no quotient of coefficient 1
    std::optional<Term> quotient;
    std::size_t quotients = 0;
    for (const Term& t : sum_terms(n)) {
      if (t.coefficient != 1 || node(t.expr).op != Op::floordiv) continue;
      quotient = t;
      ++quotients;
    }
    const Node q = quotients == 1 ? node(quotient->expr) : Node{};
    const std::int64_t a = quotients == 1 ? as_constant(Expr{q.rhs}).value_or(0) : 0;
    if (a > 0 && detail::fits(static_cast<Wide>(a) * c) && node(Expr{q.lhs}).exact) {
      Linear whole;
      // The bounds of n, multiplied by a, cover a*n, and x differs from a*(x // a) by less than a.
      const bool exact =
          detail::fits(static_cast<Wide>(n.lo) * a) && detail::fits((static_cast<Wide>(n.hi) + 1) * a);
      bool scales = detail::fits(static_cast<Wide>(n.value) * a);
      for (const Term& t : sum_terms(n))
        scales = scales && detail::fits(static_cast<Wide>(t.coefficient) * a);
      if (exact && scales) {
        accumulate(whole, x, a);
        accumulate(whole, quotient->expr, -a);
        accumulate(whole, Expr{q.lhs}, 1);
        return divide_constant(finish(whole), detail::wrap_mul(a, c));
      }
    }
  }
  return intern_binary(Op::floordiv, x, constant(c));
}

inline Expr Pool::mod(Expr a, std::int64_t b) {
  if (const auto value = as_constant(a)) return constant(detail::floor_mod(*value, b));
  // x % 0 -> x
  if (b == 0) return a;
  // x % 1 -> 0
  if (b == 1) return constant(0);
  // x % -c -> -(-x % c)   where -x does not wrap
  if (b < 0) {
    if (b == detail::lowest || node(a).lo == detail::lowest) return intern_binary(Op::mod, a, constant(b));
    return neg(mod(neg(a), -b));
  }
  return modulo_constant(a, b);
}

inline Expr Pool::mod(Expr a, Expr b) {
  if (const auto c = as_constant(b)) return mod(a, *c);
  return modulo_symbolic(a, b);
}

inline Expr Pool::modulo_constant(Expr x, std::int64_t c) {
  if (c == 1) return constant(0);
  const Effort effort(*this, sum_size(x));
  const Node n = node(x);
  // x % c -> x - k*c   where k*c <= x < (k+1)*c
  const std::int64_t low = detail::floor_div(n.lo, c);
  if (low == detail::floor_div(n.hi, c)) return add(x, detail::wrap_neg(detail::wrap_mul(low, c)));
  // x % c -> 0   where c divides x
  if (n.divisor % c == 0) return constant(0);
  if (effort.spent()) return intern_binary(Op::mod, x, constant(c));
  // (x % (a*b)) % b -> x % b
  if (n.op == Op::mod) {
    const std::int64_t inner = as_constant(Expr{n.rhs}).value_or(0);
    if (inner > 0 && inner % c == 0) return modulo_constant(Expr{n.lhs}, c);
  }
  if (n.op == Op::add && n.exact) {
    // (c*x + y + r) % c -> r % c   where c divides y
    Split s;
    if (split_constant(x, c, s)) {
      const bool changed =
          s.quotient.constant != 0 || !s.quotient.terms.empty() || !s.multiples.terms.empty();
      if (changed) return modulo_constant(finish(s.remainder), c);
    }
    // (g*x + r) % (g*m) -> g*(x % m) + r   where 0 <= r < g
    Grid grid;
    find_grid(x, c, grid);
    if (grid.step != 0) {
      accumulate(grid.fine, modulo_constant(finish(grid.coarse), c / grid.step), grid.step);
      return finish(grid.fine);
    }
    // (k*(x % m) + r) % c -> (k*x + r) % c   where c divides k*m
    Linear l;
    l.constant = n.value;
    bool opened = false;
    for (const Term& t : sum_terms(n)) {
      const Node& o = node(t.expr);
      const std::int64_t m = o.op == Op::mod ? as_constant(Expr{o.rhs}).value_or(0) : 0;
      const bool opens = m > 0 && static_cast<Wide>(t.coefficient) * m % c == 0 && node(Expr{o.lhs}).exact;
      accumulate(l, opens ? Expr{o.lhs} : t.expr, t.coefficient);
      opened |= opens;
    }
    // The merged coefficients must be exact integers, so compute the bounds before anything can wrap.
    if (opened && bounds(l).exact()) return modulo_constant(finish(l), c);
  }
  return intern_binary(Op::mod, x, constant(c));
}

/// Splits x = d * quotient + remainder for a positive d that is not a constant. False if a part may wrap.
inline bool Pool::split_symbolic(Expr x, Expr d, Split& split) {
  if (node(d).lo <= 0 || !node(x).exact) return false;
  Linear l;
  accumulate(l, x, 1);
  split.remainder.constant = l.constant;
  for (const Term& t : l.terms) {
    if (const Expr factor = without_factor(t.expr, d))
      accumulate(split.quotient, factor, t.coefficient);
    else
      split.remainder.terms.push(t);
  }
  return (split.quotient.constant != 0 || !split.quotient.terms.empty()) && bounds(split.remainder).exact();
}

inline Expr Pool::divide_symbolic(Expr x, Expr d) {
  const Effort effort(*this, sum_size(x));
  const Node n = node(x), nd = node(d);
  // 0 // x -> 0
  if (n.lo == 0 && n.hi == 0) return x;
  // x // x -> 1   where x is not 0
  if (x == d && (nd.lo > 0 || nd.hi < 0)) return constant(1);
  if (effort.spent()) return intern_binary(Op::floordiv, x, d);
  // (d*x + r) // d -> x + r // d
  Split s;
  if (split_symbolic(x, d, s)) {
    accumulate(s.quotient, divide_symbolic(finish(s.remainder), d), 1);
    return finish(s.quotient);
  }
  // (x // a) // d -> x // (a*d)
  if (n.op == Op::floordiv && nd.lo > 0 && node(Expr{n.rhs}).lo > 0 &&
      detail::fits(static_cast<Wide>(node(Expr{n.rhs}).hi) * nd.hi)) {
    return floordiv(Expr{n.lhs}, mul(Expr{n.rhs}, d));
  }
  return intern_binary(Op::floordiv, x, d);
}

inline Expr Pool::modulo_symbolic(Expr x, Expr d) {
  const Effort effort(*this, sum_size(x));
  const Node n = node(x), nd = node(d);
  // x % x -> 0
  if (x == d) return constant(0);
  // x % d -> x   where 0 <= x < d
  if (n.lo >= 0 && n.hi < nd.lo) return x;
  // (x % d) % d -> x % d
  if (n.op == Op::mod && Expr{n.rhs} == d) return x;
  if (effort.spent()) return intern_binary(Op::mod, x, d);
  // (d*x + r) % d -> r % d
  Split s;
  if (split_symbolic(x, d, s)) return modulo_symbolic(finish(s.remainder), d);
  return intern_binary(Op::mod, x, d);
}

// -------------------------------------------------------------------------------------------------------
// extrema

inline std::optional<bool> Pool::less_equal(Expr a, Expr b) const {
  if (a == b || node(a).hi <= node(b).lo) return true;
  if (node(a).lo > node(b).hi) return false;
  // Sums that share terms: take the range of the difference, unless a side or a coefficient wraps.
  if (!(is_sum(a) || is_sum(b)) || !node(a).exact || !node(b).exact) return std::nullopt;
  constexpr std::int64_t limit = std::int64_t{1} << 61;
  Linear l;
  for (const auto& [e, sign] : {std::pair(a, std::int64_t{1}), std::pair(b, std::int64_t{-1})}) {
    Linear side;
    accumulate(side, e, 1);
    if (side.constant >= limit || side.constant <= -limit) return std::nullopt;
    for (const Term& t : side.terms) {
      if (t.coefficient >= limit || t.coefficient <= -limit) return std::nullopt;
    }
    accumulate(l, e, sign);
  }
  normalise(l);
  const Bounds difference = bounds(l);
  if (!difference.known) return std::nullopt;
  if (difference.hi <= 0) return true;
  if (difference.lo > 0) return false;
  return std::nullopt;
}

inline Expr Pool::extremum(Op op, Expr a, Expr b) {
  // min(x, y) -> x   where x <= y
  // max(x, y) -> y   where x <= y
  if (const auto ordered = less_equal(a, b)) return *ordered == (op == Op::min) ? a : b;
  if (const auto ordered = less_equal(b, a)) return *ordered == (op == Op::min) ? b : a;
  // min(y, x) -> min(x, y), constants last
  const bool constant_a = node(a).op == Op::constant, constant_b = node(b).op == Op::constant;
  if (constant_a != constant_b ? constant_a : before(b, a)) std::swap(a, b);
  for (const auto& [outer, other] : {std::pair(a, b), std::pair(b, a)}) {
    const Node n = node(outer);
    if (n.op != op) continue;
    // min(min(x, y), y) -> min(x, y)
    if (Expr{n.lhs} == other || Expr{n.rhs} == other) return outer;
    // min(min(x, a), b) -> min(x, min(a, b))
    const auto c = as_constant(Expr{n.rhs}), d = as_constant(other);
    if (c && d)
      return extremum(op, Expr{n.lhs}, constant(op == Op::min ? std::min(*c, *d) : std::max(*c, *d)));
  }
  return intern_binary(op, a, b);
}

inline Expr Pool::min(Expr a, Expr b) { return extremum(Op::min, a, b); }
inline Expr Pool::max(Expr a, Expr b) { return extremum(Op::max, a, b); }

}  // namespace ferrite::inline v0::index
