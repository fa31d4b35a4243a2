// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/index.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace {

namespace ix = ferrite::index;
using ix::Expr;
using ix::Op;
using ix::Pool;
using ix::Range;

constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t highest = std::numeric_limits<std::int64_t>::max();

struct IndexTest : testing::Test {
  Pool pool;
  Expr variable(const char* name, std::int64_t lo, std::int64_t hi, std::int64_t divisor = 1) {
    return pool.symbol(pool.new_symbol({lo, hi}, divisor, name));
  }
  std::string text(Expr e) { return pool.print(e); }
};

TEST_F(IndexTest, SumsAreLinearCombinations) {
  const Expr a = variable("a", 0, 9), b = variable("b", 0, 9), x = variable("x", -5, 5);
  EXPECT_EQ(pool.sub(pool.add(a, b), a), b);
  EXPECT_EQ(pool.add(pool.mul(x, 2), pool.mul(x, 3)), pool.mul(x, 5));
  EXPECT_EQ(pool.add(a, b), pool.add(b, a));
  EXPECT_EQ(pool.sub(x, x), pool.constant(0));
  EXPECT_EQ(pool.mul(pool.add(a, 3), b), pool.add(pool.mul(b, a), pool.mul(b, 3)));
  EXPECT_EQ(text(pool.add(pool.sub(pool.mul(a, 2), b), -7)), "a*2 - b - 7");
}

TEST_F(IndexTest, SingleValuedIsConstant) {
  EXPECT_EQ(pool.as_constant(variable("one", 0, 0)), 0);
  EXPECT_EQ(pool.as_constant(variable("empty", 0, -1)), 0);
  EXPECT_EQ(pool.range(variable("rounded", 1, 30, 8)), (Range{8, 24}));
}

TEST_F(IndexTest, ComputedSymbolsStay) {
  const ix::Symbol symbol = pool.new_computed_symbol({0, 0});
  const Expr s = pool.symbol(symbol), i = variable("i", 0, 3);
  const Expr row = pool.add(pool.mul(s, 4), i);
  for (const Expr e : {s, pool.mul(s, 4), pool.add(s, 2), pool.mul(s, s), pool.floordiv(row, 4), row}) {
    EXPECT_FALSE(pool.as_constant(e));
    EXPECT_TRUE(pool.depends_on(e, symbol));
  }
  EXPECT_EQ(pool.range(pool.add(s, 2)), (Range{2, 2}));
  EXPECT_EQ(pool.floordiv(row, 4), s);
  EXPECT_EQ(pool.as_symbol(pool.symbol(pool.new_computed_symbol({0, 7}))), symbol + 2);
  std::vector<ix::Record> records;
  const std::vector<Expr> roots = {pool.mul(s, 4), row};
  const auto positions = pool.write_records(roots, records);
  std::vector<Expr> read;
  ASSERT_TRUE(pool.read_records(records, read));
  for (std::size_t k = 0; k < roots.size(); ++k) EXPECT_EQ(read[positions[k]], roots[k]);
}

TEST_F(IndexTest, DivisionTakesSumsApart) {
  const Expr s = variable("s", 0, 127), h = variable("h", 0, 11), d = variable("d", 0, 31);
  const Expr flat = pool.linear(0, std::vector<ix::Term>{{s, 384}, {h, 32}, {d, 1}});
  EXPECT_EQ(pool.mod(pool.floordiv(flat, 384), 128), s);
  EXPECT_EQ(pool.floordiv(pool.mod(flat, 384), 32), h);
  EXPECT_EQ(pool.mod(pool.floordiv(flat, 32), 12), h);
  EXPECT_EQ(pool.mod(flat, 32), d);
  EXPECT_EQ(pool.floordiv(flat, 96), pool.add(pool.mul(s, 4), pool.floordiv(h, 3)));
  EXPECT_EQ(pool.mod(flat, 96), pool.add(pool.mul(pool.mod(h, 3), 32), d));
  EXPECT_EQ(pool.floordiv(pool.add(flat, 384), 384), pool.add(s, 1));
}

TEST_F(IndexTest, QuotientAndRemainderRecombine) {
  const Expr x = variable("x", 0, 99999), y = variable("y", -50, 50);
  for (const Expr e : {x, y, pool.add(pool.mul(x, 5), y), pool.add(x, 7), pool.sub(y, x)}) {
    for (const std::int64_t c : {2, 3, 4, 32, 100}) {
      const Expr q = pool.floordiv(e, c), r = pool.mod(e, c);
      EXPECT_EQ(pool.add(pool.mul(q, c), r), e);
      EXPECT_EQ(pool.add(pool.add(pool.mul(r, 6), y), pool.mul(q, 6 * c)), pool.add(pool.mul(e, 6), y));
      EXPECT_EQ(pool.sub(e, pool.mul(q, c)), r) << text(e) << " by " << c;
    }
  }
  const Expr middle = pool.mod(pool.floordiv(x, 32), 32);
  EXPECT_EQ(pool.add(pool.mul(middle, 32), pool.mod(x, 32)), pool.mod(x, 1024));
  EXPECT_EQ(pool.add(pool.mul(pool.floordiv(x, 1024), 32), middle), pool.floordiv(x, 32));
}

TEST_F(IndexTest, NestedDivisions) {
  const Expr x = variable("x", 0, 1 << 20), e = variable("e", 0, 800, 8), b = variable("b", 0, 7);
  EXPECT_EQ(pool.floordiv(pool.floordiv(x, 4), 8), pool.floordiv(x, 32));
  EXPECT_EQ(pool.mod(pool.mod(x, 32), 8), pool.mod(x, 8));
  EXPECT_EQ(pool.floordiv(pool.mod(x, 32), 8), pool.mod(pool.floordiv(x, 8), 4));
  EXPECT_EQ(pool.floordiv(pool.mul(x, 6), 15), pool.floordiv(pool.mul(x, 2), 5));
  EXPECT_EQ(pool.mod(pool.mul(x, 6), 15), pool.mul(pool.mod(pool.mul(x, 2), 5), 3));
  EXPECT_EQ(pool.mod(pool.add(e, b), 8), b);
  EXPECT_EQ(pool.floordiv(pool.add(e, b), 8), pool.floordiv(e, 8));
  EXPECT_EQ(pool.mul(pool.floordiv(e, 8), 8), e);
  EXPECT_EQ(pool.mod(pool.add(pool.mod(pool.add(x, 3), 12), 5), 12), pool.mod(pool.add(x, 8), 12));
  EXPECT_EQ(pool.floordiv(x, -4), pool.floordiv(pool.neg(x), 4));
  EXPECT_EQ(pool.floordiv(pool.add(pool.floordiv(x, 4), 3), 8), pool.floordiv(pool.add(x, 12), 32));
}

TEST_F(IndexTest, SymbolicSizes) {
  const Expr n = variable("n", 1, 4096), i = variable("i", 0, 4095), j = variable("j", 0, 4095);
  const Expr flat = pool.add(pool.mul(i, n), j);
  const Expr q = pool.floordiv(flat, n), r = pool.mod(flat, n);
  EXPECT_EQ(q, pool.add(i, pool.floordiv(j, n)));
  EXPECT_EQ(r, pool.mod(j, n));
  EXPECT_EQ(pool.add(pool.mul(q, n), r), flat);
  EXPECT_EQ(pool.as_constant(pool.floordiv(n, n)), 1);
  EXPECT_EQ(pool.floordiv(pool.floordiv(j, n), n), pool.floordiv(j, pool.mul(n, n)));
}

TEST_F(IndexTest, Extrema) {
  const Expr x = variable("x", 0, 10), y = variable("y", 5, 20);
  EXPECT_EQ(pool.min(x, pool.add(x, 1)), x);
  EXPECT_EQ(pool.max(x, pool.add(x, 1)), pool.add(x, 1));
  EXPECT_EQ(pool.min(x, pool.constant(10)), x);
  EXPECT_EQ(pool.min(x, y), pool.min(y, x));
  EXPECT_EQ(pool.min(pool.min(x, y), y), pool.min(x, y));
  EXPECT_EQ(pool.min(pool.min(x, pool.constant(7)), pool.constant(3)), pool.min(x, pool.constant(3)));
  EXPECT_EQ(pool.range(pool.max(x, y)), (Range{5, 20}));
  EXPECT_EQ(pool.less_equal(pool.add(x, y), y), std::nullopt);
  EXPECT_EQ(pool.less_equal(y, pool.add(x, y)), true);
}

TEST_F(IndexTest, WrappingIsNeverAssumedAway) {
  const Expr x = variable("x", lowest, highest), y = variable("y", 0, highest);
  const Expr wide = pool.floordiv(pool.mul(x, 4), 4);
  EXPECT_NE(wide, x);
  const std::int64_t big[] = {std::int64_t{1} << 62, 0};
  EXPECT_EQ(pool.eval(wide, big), 0);
  EXPECT_EQ(pool.range(pool.add(y, 1)), (Range{lowest, highest}));
  EXPECT_EQ(pool.add(pool.constant(highest), 1), pool.constant(lowest));
  EXPECT_EQ(pool.floordiv(pool.constant(lowest), -1), pool.constant(lowest));
  EXPECT_EQ(pool.floordiv(x, std::int64_t{0}), pool.constant(0));
  EXPECT_EQ(pool.mod(x, std::int64_t{0}), x);
}

TEST_F(IndexTest, Analysis) {
  const Expr i = variable("i", 0, 9), j = variable("j", 0, 9);
  const Expr e = pool.add(pool.add(pool.mul(i, 40), pool.floordiv(j, 3)), 2);
  EXPECT_EQ(pool.coefficient(e, 0), 40);
  EXPECT_EQ(pool.coefficient(e, 1), std::nullopt);
  EXPECT_EQ(pool.coefficient(i, 1), 0);
  EXPECT_TRUE(pool.depends_on(e, 1));
  EXPECT_FALSE(pool.depends_on(i, 1));
  std::vector<ix::Symbol> symbols;
  pool.collect_symbols(e, symbols);
  EXPECT_EQ(symbols, (std::vector<ix::Symbol>{0, 1}));
  const ix::Affine affine = pool.affine(e);
  EXPECT_EQ(affine.constant, 2);
  ASSERT_EQ(affine.terms.size(), 1u);
  EXPECT_EQ(affine.terms[0], (std::pair<ix::Symbol, std::int64_t>{0, 40}));
  ASSERT_EQ(affine.rest.size(), 1u);
  EXPECT_EQ(pool.divisor(pool.add(pool.mul(i, 12), pool.mul(j, 18))), 6);
  const std::vector<std::pair<ix::Symbol, Expr>> swap{{0, j}, {1, i}};
  EXPECT_EQ(pool.substitute(e, swap), pool.add(pool.add(pool.mul(j, 40), pool.floordiv(i, 3)), 2));
}

TEST_F(IndexTest, BinaryViewRebuildsTheExpression) {
  const Expr i = variable("i", 0, 9), j = variable("j", 0, 9);
  const Expr e = pool.add(pool.add(pool.mul(i, 40), pool.floordiv(j, 3)), 2);
  EXPECT_EQ(pool.op(e), Op::add);
  EXPECT_EQ(pool.as_constant(pool.rhs(e)), 2);
  const Expr inner = pool.lhs(e);
  EXPECT_EQ(pool.add(pool.lhs(inner), pool.rhs(inner)), inner);
  const Expr scaled = pool.mul(i, 40);
  EXPECT_EQ(pool.op(scaled), Op::mul);
  EXPECT_EQ(pool.lhs(scaled), i);
  EXPECT_EQ(pool.as_constant(pool.rhs(scaled)), 40);
}

/// A random factorisation of `size`.
std::vector<std::int64_t> random_shape(std::mt19937_64& random, std::int64_t size) {
  std::vector<std::int64_t> shape;
  while (size > 1) {
    std::vector<std::int64_t> divisors;
    for (std::int64_t d = 2; d <= size; ++d) {
      if (size % d == 0) divisors.push_back(d);
    }
    shape.push_back(divisors[random() % divisors.size()]);
    size /= shape.back();
  }
  return shape;
}

TEST(IndexProperty, ReshapeChainsBackToTheStartAreTheIdentity) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    Pool pool;
    const std::int64_t size = std::int64_t{24} * (1 + static_cast<std::int64_t>(random() % 60));
    const std::vector<std::int64_t> first = random_shape(random, size);
    std::vector<Expr> start;
    for (const std::int64_t extent : first) start.push_back(pool.symbol(pool.new_symbol({0, extent - 1})));
    std::vector<Expr> indices = start;
    std::vector<std::int64_t> shape = first;
    for (int step = 0; step < 4; ++step) {
      Expr flat = pool.constant(0);
      for (std::size_t i = 0; i < shape.size(); ++i) flat = pool.add(pool.mul(flat, shape[i]), indices[i]);
      shape = step == 3 ? first : random_shape(random, size);
      indices.assign(shape.size(), {});
      std::int64_t stride = 1;
      for (std::size_t i = shape.size(); i-- > 0; stride *= shape[i]) {
        indices[i] = pool.mod(pool.floordiv(flat, stride), shape[i]);
      }
    }
    for (std::size_t i = 0; i < start.size(); ++i) {
      EXPECT_EQ(indices[i], start[i]) << "round " << round << ": " << pool.print(indices[i]);
    }
  }
}

struct Tree {
  Op op;
  std::int64_t value = 0;
  std::size_t lhs = 0, rhs = 0;
};

struct Sample {
  std::vector<Range> ranges;
  std::vector<std::int64_t> divisors;
  std::vector<Tree> nodes;
};

std::int64_t random_constant(std::mt19937_64& random, bool extreme) {
  if (extreme && random() % 8 == 0) {
    const std::int64_t ends[] = {lowest, highest, lowest + 1, std::int64_t{1} << 62,
                                 -(std::int64_t{1} << 40)};
    return ends[random() % 5];
  }
  const std::int64_t usual[] = {1, 2, 3, 4, 6, 8, 12, 24, 32, 96, -1, -2, -4, 5, 7, 0};
  return usual[random() % 16];
}

Sample random_sample(std::mt19937_64& random, bool extreme) {
  Sample sample;
  for (int i = 0; i < 4; ++i) {
    std::int64_t lo = static_cast<std::int64_t>(random() % 40) - (random() % 3 == 0 ? 20 : 0);
    std::int64_t hi = lo + static_cast<std::int64_t>(random() % 100);
    if (random() % 2 == 0) lo = 0, hi = static_cast<std::int64_t>(random() % 32);
    if (extreme && random() % 4 == 0) lo = lowest + static_cast<std::int64_t>(random() % 2);
    if (extreme && random() % 4 == 0) hi = highest;
    sample.ranges.push_back({lo, std::max(lo, hi)});
    sample.divisors.push_back(random() % 4 == 0 ? 4 : 1);
  }
  const std::size_t size = 8 + random() % 24;
  for (std::size_t i = 0; i < size; ++i) {
    if (i < 5) {
      sample.nodes.push_back(i < 4 ? Tree{Op::symbol, static_cast<std::int64_t>(i)} : Tree{Op::constant, 3});
      continue;
    }
    Tree tree{static_cast<Op>(random() % 8)};
    if (tree.op == Op::symbol) tree.op = Op::add;
    tree.lhs = random() % 2 == 0 ? i - 1 : random() % i;
    tree.rhs = random() % i;
    if (tree.op == Op::constant) tree.value = random_constant(random, extreme);
    sample.nodes.push_back(tree);
    // Most products and divisors are constants.
    const bool scales = tree.op == Op::mul || tree.op == Op::floordiv || tree.op == Op::mod;
    if (scales && random() % 5 != 0) {
      sample.nodes.back() = {Op::constant, random_constant(random, extreme)};
      tree.rhs = i;
      sample.nodes.push_back(tree);
      ++i;
    }
  }
  return sample;
}

std::int64_t reference_operation(Op op, std::int64_t a, std::int64_t b) {
  const auto wide = [](std::int64_t v) { return static_cast<std::uint64_t>(v); };
  std::int64_t quotient = 0, remainder = a;
  if (b == -1) {
    quotient = static_cast<std::int64_t>(0 - wide(a)), remainder = 0;
  } else if (b != 0) {
    quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) --quotient, remainder += b;
  }
  switch (op) {
    case Op::add: return static_cast<std::int64_t>(wide(a) + wide(b));
    case Op::mul: return static_cast<std::int64_t>(wide(a) * wide(b));
    case Op::floordiv: return quotient;
    case Op::mod: return remainder;
    case Op::min: return std::min(a, b);
    default: return std::max(a, b);
  }
}

void check_sample(std::mt19937_64& random, const Sample& sample) {
  Pool pool;
  std::vector<Expr> exprs;
  for (std::size_t i = 0; i < sample.ranges.size(); ++i)
    pool.new_symbol(sample.ranges[i], sample.divisors[i]);
  for (const Tree& t : sample.nodes) {
    Expr e;
    switch (t.op) {
      case Op::constant: e = pool.constant(t.value); break;
      case Op::symbol: e = pool.symbol(static_cast<ix::Symbol>(t.value)); break;
      case Op::add: e = pool.add(exprs[t.lhs], exprs[t.rhs]); break;
      case Op::mul: e = pool.mul(exprs[t.lhs], exprs[t.rhs]); break;
      case Op::floordiv: e = pool.floordiv(exprs[t.lhs], exprs[t.rhs]); break;
      case Op::mod: e = pool.mod(exprs[t.lhs], exprs[t.rhs]); break;
      case Op::min: e = pool.min(exprs[t.lhs], exprs[t.rhs]); break;
      case Op::max: e = pool.max(exprs[t.lhs], exprs[t.rhs]); break;
    }
    exprs.push_back(e);
  }
  Pool other;
  for (std::size_t i = 0; i < sample.ranges.size(); ++i)
    other.new_symbol(sample.ranges[i], sample.divisors[i]);
  const Expr copy = other.import(pool, exprs.back(), [&](ix::Symbol s) { return other.symbol(s); });
  const ix::Evaluator evaluator(pool, exprs);
  std::vector<std::int64_t> scratch(evaluator.scratch_size()), results(exprs.size());
  for (int point = 0; point < 12; ++point) {
    std::vector<std::int64_t> values;
    for (ix::Symbol s = 0; s < pool.symbol_count(); ++s) {
      const Range r = pool.symbol_range(s);
      const std::int64_t d = r.lo == r.hi ? 1 : pool.symbol_divisor(s);
      const std::uint64_t steps = (static_cast<std::uint64_t>(r.hi) - static_cast<std::uint64_t>(r.lo)) /
                                  static_cast<std::uint64_t>(d);
      std::uint64_t step = steps == ~std::uint64_t{0} ? random() : random() % (steps + 1);
      if (point == 0) step = 0;
      if (point == 1) step = steps;
      values.push_back(
          static_cast<std::int64_t>(static_cast<std::uint64_t>(r.lo) + step * static_cast<std::uint64_t>(d)));
    }
    evaluator.eval(values, results, scratch);
    std::vector<std::int64_t> expected;
    for (std::size_t i = 0; i < sample.nodes.size(); ++i) {
      const Tree& t = sample.nodes[i];
      if (t.op == Op::constant)
        expected.push_back(t.value);
      else if (t.op == Op::symbol)
        expected.push_back(values[static_cast<std::size_t>(t.value)]);
      else
        expected.push_back(reference_operation(t.op, expected[t.lhs], expected[t.rhs]));
      const std::int64_t actual = pool.eval(exprs[i], values);
      ASSERT_EQ(actual, expected[i]) << pool.print(exprs[i]) << " at node " << i;
      ASSERT_EQ(results[i], expected[i]);
      const Range range = pool.range(exprs[i]);
      ASSERT_TRUE(range.lo <= actual && actual <= range.hi) << pool.print(exprs[i]);
      const std::int64_t divisor = pool.divisor(exprs[i]);
      ASSERT_TRUE(divisor == 0 ? actual == 0 : actual % divisor == 0) << pool.print(exprs[i]);
    }
    ASSERT_EQ(other.eval(copy, values), expected.back()) << pool.print(exprs.back());
  }
}

TEST(IndexProperty, SimplifiedEqualsUnsimplified) {
  std::mt19937_64 random(1234);
  for (int round = 0; round < 6000 && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    check_sample(random, random_sample(random, false));
  }
}

TEST(IndexProperty, SimplifiedEqualsUnsimplifiedAtTheEndsOfTheRange) {
  std::mt19937_64 random(99);
  for (int round = 0; round < 6000 && !testing::Test::HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    check_sample(random, random_sample(random, true));
  }
}

TEST_F(IndexTest, RecordsRoundTrip) {
  const Expr x = variable("x", 0, 999), y = variable("y", 1, 9);
  const std::vector<Expr> roots{pool.add(pool.mul(pool.floordiv(x, 7), 3), pool.mod(x, y)),
                                pool.min(pool.mul(x, y), pool.sub(x, y)), pool.constant(-5)};
  std::vector<ix::Record> records;
  const std::vector<std::uint32_t> positions = pool.write_records(roots, records);
  std::vector<Expr> exprs;
  ASSERT_TRUE(pool.read_records(records, exprs));
  for (std::size_t i = 0; i < roots.size(); ++i) EXPECT_EQ(exprs[positions[i]], roots[i]);

  // The bytes do not depend on the pool's history.
  Pool other;
  other.new_symbol({0, 999});
  other.new_symbol({1, 9});
  other.max(other.symbol(1), other.floordiv(other.symbol(0), 5));
  ASSERT_TRUE(other.read_records(records, exprs));
  std::vector<Expr> copies;
  for (const std::uint32_t p : positions) copies.push_back(exprs[p]);
  std::vector<ix::Record> again;
  other.write_records(copies, again);
  ASSERT_EQ(again.size(), records.size());
  EXPECT_EQ(std::memcmp(again.data(), records.data(), records.size() * sizeof(ix::Record)), 0);
}

TEST_F(IndexTest, HostileRecordsAreRefused) {
  variable("x", 0, 999);
  std::vector<Expr> exprs;
  const auto record = [](int op, std::int64_t value, std::uint32_t lhs, std::uint32_t rhs) {
    ix::Record r;
    r.op = static_cast<std::uint8_t>(op);
    r.value = value, r.lhs = lhs, r.rhs = rhs;
    return r;
  };
  const auto fault = [&](std::vector<ix::Record> records) { return pool.read_records(records, exprs).fault; };
  EXPECT_EQ(fault({record(8, 0, 0, 0)}), ix::RecordFault::unknown_op);
  EXPECT_EQ(fault({record(1, 1, 0, 0)}), ix::RecordFault::symbol);
  EXPECT_EQ(fault({record(1, -1, 0, 0)}), ix::RecordFault::symbol);
  EXPECT_EQ(fault({record(2, 0, 0, 0)}), ix::RecordFault::operand);
  EXPECT_EQ(fault({record(0, 1, 0, 0), record(2, 0, 0, 7)}), ix::RecordFault::operand);
  EXPECT_EQ(fault({record(0, 1, 3, 0)}), ix::RecordFault::unused_field);
  EXPECT_EQ(fault({record(1, 0, 0, 0), record(4, 0, 0, 0)}), ix::RecordFault::zero_divisor);
  EXPECT_EQ(fault(std::vector<ix::Record>(Pool::max_records + 1)), ix::RecordFault::too_many);
  EXPECT_TRUE(exprs.empty());
}

TEST_F(IndexTest, HostileRecordsStayBounded) {
  for (int i = 0; i < 2000; ++i) pool.new_symbol({-1000, 1000});
  std::mt19937_64 random(5);
  std::vector<Expr> exprs;
  for (int round = 0; round < 20; ++round) {
    std::vector<ix::Record> records;
    for (std::uint32_t i = 0; i < 8000; ++i) {
      ix::Record r;
      if (i < 1000 || random() % 4 == 0) {
        r.op = random() % 2 == 0;
        r.value = r.op == 1 ? static_cast<std::int64_t>(random() % 2000)
                            : static_cast<std::int64_t>(1 + random() % 60);
      } else {
        r.op = static_cast<std::uint8_t>(2 + random() % 6);
        r.lhs = i - 1 - static_cast<std::uint32_t>(random() % (round + 1));
        r.rhs = r.op == 4 || r.op == 5 ? static_cast<std::uint32_t>(random() % 1000) : i - 1 - random() % 40;
      }
      records.push_back(r);
    }
    for (auto& r : records) {
      if ((r.op == 4 || r.op == 5) && records[r.rhs].op != 0) r.op = 2;
    }
    pool.read_records(records, exprs);
  }
  // A tower of squares and sums doubles its tree with each record.
  Expr e = pool.symbol(0);
  for (int i = 0; i < 3000; ++i) e = pool.max(pool.mod(pool.mul(e, e), 1000003), pool.floordiv(e, 2));
  EXPECT_LT(pool.print(e).size(), 200000u);
  const std::vector<std::int64_t> values(2000, 17);
  pool.eval(e, values);
  EXPECT_TRUE(pool.depends_on(e, 0));
}

}  // namespace
