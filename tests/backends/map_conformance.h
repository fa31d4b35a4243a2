// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The maps among the requirements on every backend: primitives, casts, and reading and storing elements.
// kernel_conformance.h has the rest.
#pragma once

#include <array>

#include "ferrite/analysis/moved_values.hpp"
#include "kernel_support.h"

namespace ferrite::kernel_test {
namespace {

const std::vector<int64_t> sizes = {1, 2, 7, 8, 9, 15, 16, 17, 63, 65, 500};

Builder exp_of_sum(DType dtype, int64_t n) {
  Builder b;
  auto x = b.input(dtype, {n}), y = b.input(dtype, {n}), out = b.output(dtype, {n});
  auto i = b.begin(FE_STATEMENT_MAP, {n});
  b.store(out, {i[0]}, b.prim(Prim::exp_, b.prim(Prim::add_, b.load(x, {i[0]}), b.load(y, {i[0]}))));
  return b;
}

TEST(Map, ExpOfSum) {
  for (auto dtype : {f32, f64, bf16, f16})
    for (int64_t n : sizes) {
      SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", n));
      check(exp_of_sum(dtype, n));
      if (HasFatalFailure()) return;
    }
}

TEST(Map, ManyTasks) {
  check(exp_of_sum(f32, 100003));
  Builder b;
  auto x = b.input(f32, {37, 5, 301}), row = b.input(f32, {301}), out = b.output(f32, {37, 5, 301});
  auto i = b.begin(FE_STATEMENT_MAP, {37, 5, 301});
  b.store(out, {i[0], i[1], i[2]}, b.prim(Prim::mul_, b.load(x, {i[0], i[1], i[2]}), b.load(row, {i[2]})));
  check(b);
}

constexpr DType dtypes[] = {boolean, i8,   i16, i32, i64,    u8,     u16,        u32,       u64,
                            f16,     bf16, f32, f64, f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz};

/// Every primitive on every dtype that it accepts.
TEST(Map, Primitives) {
  for (const auto& info : prim_table) {
    if (info.prim == Prim::bitcast_ || info.prim == Prim::cast_) continue;
    for (auto dtype : dtypes) {
      int kind = dtype == boolean ? FE_PRIM_BOOL : is_float(dtype) ? FE_PRIM_FLOAT : FE_PRIM_INT;
      if (!(info.classes & kind)) continue;
      SCOPED_TRACE(detail::concatenate(info.name, " ", name_of(dtype)));
      Builder b;
      const int64_t n = 83;
      auto result = info.gives_bool ? boolean : dtype;
      auto c = b.input(boolean, {n}), x = b.input(dtype, {n}), y = b.input(dtype, {n}),
           z = b.input(dtype, {n}), out = b.output(result, {n});
      auto i = b.begin(FE_STATEMENT_MAP, {n});
      std::vector<OpId> operands;
      for (auto from : {x, y, z}) operands.push_back(b.load(from, {i[0]}));
      if (info.prim == Prim::where_) operands[0] = b.load(c, {i[0]});
      operands.resize(3, none);
      for (size_t k = static_cast<size_t>(info.operands); k < 3; ++k) operands[k] = none;
      b.store(out, {i[0]}, b.prim(info.prim, operands[0], operands[1], operands[2]));
      Options options;
      // The vector math has its own tests for large arguments of trigonometric functions and pow.
      options.special = !(info.prim >= Prim::sin_ && info.prim <= Prim::tan_) && info.prim != Prim::pow_;
      options.tolerance = kind == FE_PRIM_FLOAT && info.max_ulp > 0 ? 2e-5 : 0;
      options.descriptions = {"", "cpu=x86-64-v2"};
      if (dtype == f16 || dtype == i16 || dtype == u16 || dtype == u64) options.descriptions.resize(1);
      if (is_float(dtype) && (info.prim == Prim::mod_ || info.prim == Prim::rem_)) options.special = false;
      check(b, options);
      if (HasFatalFailure()) return;
    }
  }
}

/// Random bits of floats, with many NaNs, among them signalling ones and ones with payloads.
inline void fill_with_bits(const loop::Buffer& buffer, char* data) {
  std::mt19937_64 random(3);
  const uint64_t infinity = float_bits(buffer.dtype, std::numeric_limits<double>::infinity());
  const auto width = static_cast<size_t>(bits_of(buffer.dtype)) / 8;
  for (int64_t k = 0; k < buffer.extent(); ++k) {
    const uint64_t bits = k % 2 == 0 ? random() : random() | infinity;
    std::memcpy(data + static_cast<size_t>(k) * width, &bits, width);
  }
}

/// Values that are only moved keep their bits, which a bitcast shows: in either order, by masked loads,
/// through a selection, and from point to point.
TEST(Map, MovedValuesKeepTheirBits) {
  for (const auto dtype : {f64, f32, f16, bf16, f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz}) {
    SCOPED_TRACE(name_of(dtype));
    const DType bits = loop::bits_type(dtype);
    const int64_t n = 83;
    Builder b;
    const auto c = b.input(boolean, {n}), x = b.input(dtype, {n}), y = b.input(dtype, {n}),
               mixed = b.output(bits, {n}), straight = b.output(dtype, {n}), backwards = b.output(bits, {n});
    const auto i = b.begin(FE_STATEMENT_MAP, {n});
    const auto reversed = b.add(b.mul(i[0], -1), n - 1);
    const auto mask = b.load(c, {i[0]});
    const auto own = b.load(x, {i[0]}), other = b.load(y, {reversed});
    const auto as_bits = [&](OpId value) { return b.prim(Prim::bitcast_, value, none, none, bits); };
    const auto round_trip = b.prim(Prim::bitcast_, as_bits(own), none, none, dtype);
    b.store(straight, {i[0]}, own);
    b.store(mixed, {i[0]}, as_bits(b.prim(Prim::where_, mask, round_trip, other)));
    b.store(backwards, {reversed}, as_bits(b.load(y, {i[0]}, mask, b.constant(dtype, -0.5))));
    Options options;
    options.set = [&](loop::BufferId buffer, char* data) {
      if (buffer == x || buffer == y) fill_with_bits(b.kernel.buffers[buffer], data);
    };
    check(b, options);
    if (HasFatalFailure()) return;
    Builder serial;
    const auto flags = serial.input(boolean, {9, 31}), from = serial.input(dtype, {9, 31}),
               last = serial.output(bits, {9, 31});
    const auto v = serial.begin(FE_STATEMENT_SERIAL, {9}, {}, {31});
    const auto carried = serial.carry(dtype, 1.0);
    const auto next = serial.prim(Prim::where_, serial.load(flags, v), serial.load(from, v), carried);
    serial.statement().carries[0].next = next;
    serial.store(last, v, serial.prim(Prim::bitcast_, next, none, none, bits));
    options.set = [&](loop::BufferId buffer, char* data) {
      if (buffer == from) fill_with_bits(serial.kernel.buffers[buffer], data);
    };
    check(serial, options);
    if (HasFatalFailure()) return;
  }
}

TEST(Map, Casts) {
  for (auto from : dtypes)
    for (auto to : dtypes) {
      SCOPED_TRACE(detail::concatenate(name_of(from), " to ", name_of(to)));
      Builder b;
      auto x = b.input(from, {75}), out = b.output(to, {75});
      auto i = b.begin(FE_STATEMENT_MAP, {75});
      b.store(out, {i[0]}, b.cast(b.load(x, {i[0]}), to));
      check(b, {.special = true, .descriptions = {""}});
      if (HasFatalFailure()) return;
    }
  for (auto [from, to] : {std::pair(f32, i32), std::pair(i32, f32), std::pair(bf16, u16), std::pair(i16, f16),
                          std::pair(f64, u64)}) {
    Builder b;
    auto x = b.input(from, {75}), out = b.output(to, {75});
    auto i = b.begin(FE_STATEMENT_MAP, {75});
    b.store(out, {i[0]}, b.prim(Prim::bitcast_, b.load(x, {i[0]}), none, none, to));
    check(b);
  }
}

/// Every value of an 8-bit float to f32; and from f32 and f64, values, midpoints between two values, and
/// neighbours of both: exactly as the interpreter.
TEST(Map, FloatsOf8Bits) {
  for (auto dtype : {f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz})
    for (auto wide : {f32, f64}) {
      SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", name_of(wide)));
      std::vector<double> edges;
      for (unsigned bits = 0; bits < 256; ++bits) {
        const double value = float_value(dtype, bits), next = float_value(dtype, (bits + 1) & 0xff);
        for (double at : {value, (value + next) / 2})
          for (double x :
               {at, at * (1 - 0x1p-23), at * (1 + 0x1p-23), at * (1 - 0x1p-52), at * (1 + 0x1p-52)})
            edges.push_back(x);
      }
      Builder b;
      const auto count = static_cast<int64_t>(edges.size());
      auto x = b.input(dtype, {256}), widened = b.output(wide, {256}), y = b.input(wide, {count}),
           narrowed = b.output(dtype, {count}), back = b.output(wide, {count});
      auto i = b.begin(FE_STATEMENT_MAP, {256});
      b.store(widened, {i[0]}, b.cast(b.load(x, {i[0]}), wide));
      auto j = b.begin(FE_STATEMENT_MAP, {count});
      auto rounded = b.cast(b.load(y, {j[0]}), dtype);
      b.store(narrowed, {j[0]}, rounded);
      b.store(back, {j[0]}, b.cast(rounded, wide));
      Options options;
      options.exact = true;
      options.set = [&](loop::BufferId buffer, char* data) {
        const auto width = static_cast<size_t>(bits_of(wide)) / 8;
        for (size_t k = 0; k < 256 && buffer == x; ++k) data[k] = static_cast<char>(k);
        for (size_t k = 0; k < edges.size() && buffer == y; ++k) {
          const uint64_t bits = Builder::bits(wide, edges[k]);
          std::memcpy(data + k * width, &bits, width);
        }
      };
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

TEST(Map, StridesAndTransposes) {
  for (auto [m, n] : {std::pair<int64_t, int64_t>(1, 1), {3, 5}, {17, 33}, {64, 64}, {130, 7}}) {
    SCOPED_TRACE(detail::concatenate(m, "x", n));
    Builder b;
    auto x = b.input(f32, {n, m}), y = b.buffer(f32, FE_BUFFER_INPUT, {m, n}, {2 * n + 3, 2}, 5),
         z = b.input(f32, {m, 1});
    auto reversed = b.buffer(f32, FE_BUFFER_INPUT, {m, n}, {n, 1});
    auto out = b.buffer(f32, FE_BUFFER_OUTPUT, {m, n}, {n + 3, 1}, 2);
    auto i = b.begin(FE_STATEMENT_MAP, {m, n});
    auto sum = b.prim(Prim::add_, b.load(x, {i[1], i[0]}), b.load(y, {i[0], i[1]}));
    sum = b.prim(Prim::add_, sum, b.load(z, {i[0], b.kernel.pool.constant(0)}));
    sum = b.prim(Prim::add_, sum, b.load(reversed, {i[0], b.add(b.mul(i[1], -1), n - 1)}));
    b.store(out, {i[0], i[1]}, sum);
    check(b);
    if (HasFatalFailure()) return;
  }
}

TEST(Map, ReversedBytes) {
  for (auto prim : {Prim::xor_, Prim::sub_})
    for (int64_t n : {7, 83, 130}) {
      Builder b;
      auto x = b.input(i8, {n}), y = b.input(i8, {n}), out = b.output(i8, {n});
      auto i = b.begin(FE_STATEMENT_MAP, {n});
      auto from = b.add(b.mul(i[0], -1), n - 1);
      b.store(out, {i[0]}, b.prim(prim, b.load(x, {from}), b.load(y, {from})));
      check(b);
      if (HasFatalFailure()) return;
    }
}

TEST(Map, PermutedStoreAndDivMod) {
  Builder b;
  auto x = b.input(f32, {6, 35}), out = b.output(f32, {5, 6, 7}), numbers = b.output(i64, {6, 35});
  auto i = b.begin(FE_STATEMENT_MAP, {6, 35});
  auto& pool = b.kernel.pool;
  b.store(out, {pool.floordiv(i[1], 7), i[0], pool.mod(i[1], 7)}, b.load(x, {i[0], i[1]}));
  b.store(numbers, {i[0], i[1]}, b.index_value(pool.mod(pool.add(pool.mul(i[0], -3), i[1]), 4)));
  check(b);
}

TEST(Map, MaskedLoads) {
  for (int64_t n : {1, 4, 9, 16, 40}) {
    Builder b;
    auto x = b.input(f32, {3, n}), out = b.output(f32, {5, n + 4});
    auto i = b.begin(FE_STATEMENT_MAP, {5, n + 4});
    auto inside = [&](Expr at, int64_t extent) {
      auto value = b.index_value(at);
      return b.prim(Prim::and_, b.prim(Prim::ge_, value, b.constant(i64, 0)),
                    b.prim(Prim::lt_, value, b.constant(i64, static_cast<double>(extent))));
    };
    auto r = b.add(i[0], -1), c = b.add(i[1], -2);
    auto mask = b.prim(Prim::and_, inside(r, 3), inside(c, n));
    b.store(out, {i[0], i[1]}, b.load(x, {r, c}, mask, b.constant(f32, -7)));
    check(b);
    if (HasFatalFailure()) return;
  }
}

/// Elements with a stride, repeated elements, and both, from the first element of each buffer to its last;
/// for all elements or for those in a mask.
Builder in_steps(DType dtype, int64_t n, bool masked) {
  Builder b;
  auto& pool = b.kernel.pool;
  const auto out = b.output(dtype, {n}), some = b.input(boolean, {n});
  std::vector<std::pair<loop::BufferId, std::function<Expr(Expr)>>> reads;
  for (int64_t step : {2, 3, 4, 5})
    reads.emplace_back(b.input(dtype, {(n - 1) * step + 1}), [=, &b](Expr i) { return b.mul(i, step); });
  for (int64_t times : {2, 3, 4, 16})
    reads.emplace_back(b.input(dtype, {(n - 1) / times + 1}),
                       [=, &pool](Expr i) { return pool.floordiv(i, times); });
  reads.emplace_back(b.input(dtype, {(3 * n - 1) / 4 + 1}),
                     [&](Expr i) { return pool.floordiv(b.add(b.mul(i, 3), 2), 4); });
  reads.emplace_back(b.input(dtype, {n + 6}),
                     [&](Expr i) { return pool.sub(b.add(i, 6), b.mul(pool.mod(i, 4), 2)); });
  const auto i = b.begin(FE_STATEMENT_MAP, {n});
  const auto mask = masked ? b.load(some, {i[0]}) : none;
  OpId all = none;
  for (const auto& [buffer, at] : reads) {
    const auto read = b.load(buffer, {at(i[0])}, mask, masked ? b.constant(dtype, 1) : none);
    all = all == none ? read : b.prim(dtype == boolean ? Prim::xor_ : Prim::max_, all, read);
  }
  b.store(out, {i[0]}, all);
  return b;
}

TEST(Map, ElementsInSteps) {
  for (auto dtype : {f32, f64, bf16, f16, f8e5m2, i8, boolean})
    for (int64_t n : {1, 4, 17, 70})
      for (bool masked : {false, true}) {
        if (masked && n < 17) continue;
        SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", n, " ", masked));
        check(in_steps(dtype, n, masked));
        if (HasFatalFailure()) return;
      }
}

TEST(Map, ConcatenationByPartialStores) {
  Builder b;
  auto x = b.input(f32, {4, 9}), y = b.input(f32, {4, 20}), out = b.output(f32, {4, 29});
  auto i = b.begin(FE_STATEMENT_MAP, {4, 9});
  b.store(out, {i[0], i[1]}, b.load(x, {i[0], i[1]}));
  auto j = b.begin(FE_STATEMENT_MAP, {4, 20});
  b.store(out, {j[0], b.add(j[1], 9)}, b.load(y, {j[0], j[1]}));
  check(b);
  b.kernel.shared = 1;
  check(b);
}

TEST(Map, Indirect) {
  for (auto mode : {FE_INDIRECT_WRAP, FE_INDIRECT_CLAMP, FE_INDIRECT_CHECK, FE_INDIRECT_ASSUME})
    for (auto [rows, n] : {std::pair<int64_t, int64_t>{11, 1}, {11, 5}, {11, 40}, {1, 5}, {1, 40}})
      for (bool inner : {false, true}) {
        Builder b;
        auto table = b.input(f32, {rows, n}), ids = b.input(i64, {inner ? n : 13}),
             out = b.output(f32, {13, n});
        auto i = b.begin(FE_STATEMENT_MAP, {13, n});
        auto row = b.indirect(b.load(ids, {inner ? i[1] : i[0]}), rows, mode);
        b.store(out, {i[0], i[1]}, b.load(table, {row, i[1]}));
        Options options;
        options.set = [&](loop::BufferId buffer, char* data) {
          if (buffer != ids) return;
          for (int64_t k = 0; k < b.kernel.buffers[ids].dims[0]; ++k) {
            int64_t value = (k * 7) % rows;
            if (mode == FE_INDIRECT_WRAP && k % 3 == 0) value -= rows;
            if (mode == FE_INDIRECT_CLAMP && k % 3 == 0) value = k % 2 ? -100 : 100;
            std::memcpy(data + k * 8, &value, 8);
          }
        };
        check(b, options);
        if (HasFatalFailure()) return;
      }
}

TEST(Map, IndirectOutOfRange) {
  for (auto mode : {FE_INDIRECT_WRAP, FE_INDIRECT_CHECK})
    for (auto [rows, inner] : {std::pair{11, false}, {11, true}, {1, false}, {1, true}}) {
      Builder b;
      auto table = b.input(f32, {rows, 40}), ids = b.input(i32, {40}), out = b.output(f32, {13, 40});
      auto i = b.begin(FE_STATEMENT_MAP, {13, 40});
      auto row = b.indirect(b.load(ids, {inner ? i[1] : i[0]}), rows, mode);
      b.store(out, {i[0], i[1]}, b.load(table, {row, i[1]}));
      Options options;
      options.expected_error = 1;
      options.set = [&](loop::BufferId buffer, char* data) {
        if (buffer != ids) return;
        std::memset(data, 0, 160);
        int32_t bad = rows;
        std::memcpy(data + 4 * 5, &bad, 4);
      };
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

/// Philox4x32-10 as the random ops emit it: products of two 32-bit words, of which both halves are used, and
/// one of four words by the element's number. All bits equal the interpreter's, and so do the numbers in [0,
/// 1) made from them.
struct Draws {
  Builder b;
  loop::BufferId seed = 0;

  OpId whole(DType dtype, uint64_t value) {
    const auto constant = b.constant(dtype, 0);
    b.statement().ops[constant].bits = value;
    return constant;
  }
  OpId upper(OpId wide) { return b.cast(b.prim(Prim::shr_, wide, whole(u64, 32)), u32); }
  std::array<OpId, 2> halves(OpId wide) { return {b.cast(wide, u32), upper(wide)}; }
  OpId exclusive_or(OpId x, OpId y, OpId z) { return b.prim(Prim::xor_, b.prim(Prim::xor_, x, y), z); }
  std::array<OpId, 4> block(Expr number) {
    const auto word = [&](int64_t k) { return halves(b.load(seed, {b.kernel.pool.constant(k)})); };
    auto key = word(0);
    const auto stream = word(1), place = halves(b.cast(b.index_value(number), u64));
    std::array<OpId, 4> counter = {place[0], place[1], stream[0], stream[1]};
    for (int round = 0; round < 10; ++round) {
      const auto product = [&](OpId word, uint64_t factor) {
        return halves(b.prim(Prim::mul_, b.cast(word, u64), whole(u64, factor)));
      };
      const auto first = product(counter[0], 0xd2511f53), second = product(counter[2], 0xcd9e8d57);
      counter = {exclusive_or(second[1], counter[1], key[0]), second[0],
                 exclusive_or(first[1], counter[3], key[1]), first[0]};
      key = {b.prim(Prim::add_, key[0], whole(u32, 0x9e3779b9)),
             b.prim(Prim::add_, key[1], whole(u32, 0xbb67ae85))};
    }
    return counter;
  }
  OpId fraction(OpId word) {
    return b.prim(Prim::mul_, b.cast(b.prim(Prim::shr_, word, whole(u32, 8)), f32), b.constant(f32, 0x1p-24));
  }
};

TEST(Map, Draws) {
  for (int64_t n : {1, 7, 500}) {
    Draws uniform, normal;
    auto& b = uniform.b;
    uniform.seed = b.input(u64, {2});
    const auto bits = b.output(u32, {n}), numbers = b.output(f32, {n});
    const auto i = b.begin(FE_STATEMENT_MAP, {n});
    auto& pool = b.kernel.pool;
    const auto words = uniform.block(pool.floordiv(i[0], 4));
    const auto which = b.index_value(pool.mod(i[0], 4));
    auto word = words[3];
    for (int w = 2; w >= 0; --w)
      word = b.prim(Prim::where_, b.prim(Prim::eq_, which, b.constant(i64, w)), words[static_cast<size_t>(w)],
                    word);
    b.store(bits, {i[0]}, word);
    b.store(numbers, {i[0]}, uniform.fraction(word));
    // By Box and Muller's method.
    auto& c = normal.b;
    normal.seed = c.input(u64, {2});
    const auto out = c.output(f32, {n});
    const auto j = c.begin(FE_STATEMENT_MAP, {n});
    const auto pair = normal.block(j[0]);
    const auto positive = c.prim(Prim::add_, normal.fraction(pair[0]), c.constant(f32, 0x1p-24));
    const auto radius =
        c.prim(Prim::sqrt_, c.prim(Prim::mul_, c.prim(Prim::log_, positive), c.constant(f32, -2)));
    const auto angle = c.prim(Prim::mul_, normal.fraction(pair[1]), c.constant(f32, 6.283185307179586));
    c.store(out, {j[0]}, c.prim(Prim::mul_, radius, c.prim(Prim::cos_, angle)));
    for (const auto& seed :
         {std::array<uint64_t, 2>{0, 0}, {0x299f31d0a4093822, 0x0370734413198a2e}, {~uint64_t{0}, 7}}) {
      SCOPED_TRACE(detail::concatenate(n, " of ", seed[0]));
      Options options;
      options.set = [&](loop::BufferId buffer, char* data) {
        if (buffer == uniform.seed) std::memcpy(data, seed.data(), sizeof seed);
      };
      options.exact = true;
      check(uniform.b, options);
      if (HasFatalFailure()) return;
      options.exact = false;
      options.tolerance = 2e-4;  // near zero, where the cosine is small; numbers are up to 6
      check(normal.b, options);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Map, ZeroSize) {
  Builder b;
  auto x = b.input(f32, {0, 4}), out = b.output(f32, {0, 4});
  auto i = b.begin(FE_STATEMENT_MAP, {0, 4});
  b.store(out, {i[0], i[1]}, b.load(x, {i[0], i[1]}));
  check(b);
}

TEST(Map, LongBody) {
  Builder b;
  auto x = b.input(f32, {70}), out = b.output(f32, {70});
  auto i = b.begin(FE_STATEMENT_MAP, {70});
  auto value = b.load(x, {i[0]});
  for (int k = 0; k < 3000; ++k)
    value = b.prim(k % 2 ? Prim::add_ : Prim::max_, value, b.constant(f32, k % 2 ? 1e-3 : -1));
  b.store(out, {i[0]}, value);
  check(b, {.tolerance = 1e-3, .descriptions = {""}});
}

}  // namespace
}  // namespace ferrite::kernel_test
