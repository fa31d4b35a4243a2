// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The requirements on every backend: maps, reductions, rows, scatters and serial loops, by statement,
// primitive and type, compared with the interpreter on memory between guard pages. A test program includes
// this after its backend's compile().
#pragma once

#include <tuple>

#include "ferrite/abi/error_words.h"
#include "map_conformance.h"

namespace ferrite::kernel_test {
namespace {

// ---- reductions

const uint32_t reduce_kinds[] = {FE_REDUCE_SUM, FE_REDUCE_PROD, FE_REDUCE_MAX,    FE_REDUCE_MIN,
                                 FE_REDUCE_ANY, FE_REDUCE_ALL,  FE_REDUCE_ARGMAX, FE_REDUCE_ARGMIN};

/// Reduces the axes in the set `axes` of a 3-dimensional tensor.
Builder reduction(uint32_t kind, DType dtype, std::vector<int64_t> dims, unsigned axes) {
  Builder b;
  std::vector<int64_t> kept, reduced;
  for (unsigned k = 0; k < dims.size(); ++k) (axes >> k & 1 ? reduced : kept).push_back(dims[k]);
  bool by_index = kind == FE_REDUCE_ARGMAX || kind == FE_REDUCE_ARGMIN;
  if (kind == FE_REDUCE_ANY || kind == FE_REDUCE_ALL) dtype = boolean;
  auto x = b.input(dtype, dims), out = b.output(by_index ? i64 : dtype, kept);
  auto v = b.begin(FE_STATEMENT_REDUCE, kept, reduced);
  std::vector<Expr> at, target;
  size_t p = 0, r = kept.size();
  auto position = b.kernel.pool.constant(0);
  for (unsigned k = 0; k < dims.size(); ++k) {
    at.push_back(axes >> k & 1 ? v[r++] : v[p++]);
    if (axes >> k & 1) position = b.kernel.pool.add(b.kernel.pool.mul(position, dims[k]), at.back());
  }
  for (size_t k = 0; k < kept.size(); ++k) target.push_back(v[k]);
  auto element = b.load(x, at);
  auto index = by_index ? b.index_value(position) : none;
  b.store(out, target, b.reduce(kind, element, index));
  return b;
}

TEST(Reduce, KindsAndAxes) {
  for (auto kind : reduce_kinds)
    for (auto dtype : {f32, i32})
      for (const auto& dims : {std::vector<int64_t>{3, 5, 67}, {33, 2, 16}})
        for (unsigned axes = 1; axes < 8; ++axes) {
          SCOPED_TRACE(
              detail::concatenate("kind ", kind, " ", name_of(dtype), " axes ", axes, " last ", dims[2]));
          Options options;
          options.special = kind != FE_REDUCE_SUM && kind != FE_REDUCE_PROD;
          options.tolerance = 1e-4;
          options.descriptions = {dims[0] == 3 ? "" : "cpu=x86-64-v3"};
          check(reduction(kind, dtype, dims, axes), options);
          if (HasFatalFailure()) return;
        }
}

TEST(Reduce, DTypes) {
  for (auto dtype : {i8, i16, i64, u8, u16, u32, u64, f16, bf16, f64, f8e4m3, f8e5m2fnuz})
    for (auto kind : {FE_REDUCE_SUM, FE_REDUCE_MAX, FE_REDUCE_MIN, FE_REDUCE_ARGMAX})
      for (unsigned axes : {1u, 4u}) {
        SCOPED_TRACE(detail::concatenate("kind ", kind, " ", name_of(dtype)));
        Options options;
        options.special = kind != FE_REDUCE_SUM;
        check(reduction(kind, dtype, {37, 2, 85}, axes), options);
        if (HasFatalFailure()) return;
      }
}

TEST(Reduce, Sizes) {
  for (int64_t n : sizes)
    for (unsigned axes : {1u, 2u, 3u}) {
      SCOPED_TRACE(n);
      check(reduction(FE_REDUCE_SUM, f32, {3, n}, axes), {.tolerance = 1e-4, .descriptions = {""}});
      check(reduction(FE_REDUCE_MAX, f32, {n, 3}, axes), {.special = true, .descriptions = {""}});
      if (HasFatalFailure()) return;
    }
}

/// Rows longer than all threads or lanes process together, with remainders; and few columns of many rows.
TEST(Reduce, LongRows) {
  for (auto kind : {FE_REDUCE_SUM, FE_REDUCE_MAX, FE_REDUCE_ARGMAX})
    for (auto [rows, columns, axes] : {std::tuple<int64_t, int64_t, unsigned>(1, 20000, 3u),
                                       {2, 70001, 2u},
                                       {6000, 3, 1u},
                                       {5000, 8, 1u}}) {
      SCOPED_TRACE(detail::concatenate("kind ", kind, " ", rows, " x ", columns));
      Options options;
      options.special = kind != FE_REDUCE_SUM;
      options.tolerance = 1e-2;  // terms of up to 4 cancel
      options.descriptions = {""};
      check(reduction(kind, f32, {rows, columns}, axes), options);
      if (HasFatalFailure()) return;
    }
}

TEST(Reduce, NothingGivesTheIdentity) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (auto [kind, identity] : {std::pair(FE_REDUCE_SUM, 0.0),
                                {FE_REDUCE_PROD, 1.0},
                                {FE_REDUCE_MAX, -infinity},
                                {FE_REDUCE_MIN, infinity}}) {
    const auto targets = targets_of({});
    if (targets.empty()) continue;
    auto compiled = compile(reduction(kind, f32, {3, 0}, 2).kernel, targets[0]);
    float nothing = 7, out[3] = {7, 7, 7};
    void* arguments[] = {&nothing, out};
    fe_error_words error = {};
    compiled.run(arguments, error, false);
    for (float value : out) EXPECT_EQ(value, static_cast<float>(identity));
  }
  check(reduction(FE_REDUCE_SUM, f32, {0, 3}, 2));
}

TEST(Reduce, Epilogue) {
  Builder b;
  auto x = b.input(f32, {9, 50}), bias = b.input(f32, {9}), out = b.output(bf16, {9}),
       squares = b.output(f32, {9, 50});
  auto v = b.begin(FE_STATEMENT_REDUCE, {9}, {50});
  auto element = b.load(x, {v[0], v[1]});
  auto square = b.prim(Prim::mul_, element, element);
  b.store(squares, {v[0], v[1]}, square);
  auto sum = b.reduce(FE_REDUCE_SUM, square);
  auto most = b.reduce(FE_REDUCE_MAX, element);
  auto total = b.prim(Prim::add_, b.prim(Prim::div_, sum, most), b.load(bias, {v[0]}));
  b.store(out, {v[0]}, b.prim(Prim::tanh_, total));
  check(b);
}

TEST(Reduce, Windows) {
  for (int64_t stride : {1, 2, 3})
    for (int64_t width : {7, 16, 33, 70})
      for (bool average : {false, true}) {
        Builder b;
        const int64_t out_width = (width + 2 - 3) / stride + 1;
        auto x = b.input(f32, {2, 3, 9, width}), weight = b.input(f32, {3, 3, 3}),
             out = b.output(f32, {2, 3, 9, out_width});
        auto v = b.begin(FE_STATEMENT_REDUCE, {2, 3, 9, out_width}, {3, 3});
        auto h = b.add(b.kernel.pool.add(v[2], v[4]), -1),
             w = b.add(b.kernel.pool.add(b.mul(v[3], stride), v[5]), -1);
        auto inside = [&](Expr at, int64_t extent) {
          auto value = b.index_value(at);
          return b.prim(Prim::and_, b.prim(Prim::ge_, value, b.constant(i64, 0)),
                        b.prim(Prim::lt_, value, b.constant(i64, static_cast<double>(extent))));
        };
        auto mask = b.prim(Prim::and_, inside(h, 9), inside(w, width));
        auto element = b.load(x, {v[0], v[1], h, w}, mask,
                              b.constant(f32, average ? 0 : -std::numeric_limits<double>::infinity()));
        OpId result;
        if (average) {
          result = b.reduce(FE_REDUCE_SUM, b.prim(Prim::mul_, element, b.load(weight, {v[1], v[4], v[5]})));
        } else {
          result = b.reduce(FE_REDUCE_MAX, element);
        }
        b.store(out, {v[0], v[1], v[2], v[3]}, result);
        check(b, {.tolerance = 1e-4});
        if (HasFatalFailure()) return;
      }
}

// ---- several statements

Builder softmax(int64_t rows, int64_t n, DType dtype) {
  Builder b;
  auto x = b.input(dtype, {rows, n}), out = b.output(dtype, {rows, n});
  auto most = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0}), sum = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0});
  auto row = b.buffer(f32, FE_BUFFER_LOCAL, {rows, n}, {0, 1});
  b.kernel.shared = 1;
  auto v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
  b.store(most, {v[0]}, b.reduce(FE_REDUCE_MAX, b.load(x, {v[0], v[1]})));
  v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
  auto e = b.prim(Prim::exp_, b.prim(Prim::sub_, b.cast(b.load(x, {v[0], v[1]}), f32), b.load(most, {v[0]})));
  b.store(row, {v[0], v[1]}, e);
  b.store(sum, {v[0]}, b.reduce(FE_REDUCE_SUM, e));
  v = b.begin(FE_STATEMENT_MAP, {rows, n});
  b.store(out, {v[0], v[1]},
          b.cast(b.prim(Prim::div_, b.load(row, {v[0], v[1]}), b.load(sum, {v[0]})), dtype));
  return b;
}

TEST(Rows, Softmax) {
  for (auto dtype : {f32, bf16, f64})
    for (int64_t n : sizes) {
      SCOPED_TRACE(n);
      check(softmax(5, n, dtype), {.tolerance = 1e-5});
      if (HasFatalFailure()) return;
    }
}

Builder layer_norm(int64_t batch, int64_t rows, int64_t n) {
  Builder b;
  auto x = b.input(f32, {batch, rows, n}), scale = b.input(f32, {n}), shift = b.input(f32, {n}),
       out = b.output(f32, {batch, rows, n});
  auto mean = b.buffer(f32, FE_BUFFER_LOCAL, {batch, rows}, {0, 0}),
       deviation = b.buffer(f32, FE_BUFFER_LOCAL, {batch, rows}, {0, 0});
  b.kernel.shared = 2;
  auto v = b.begin(FE_STATEMENT_REDUCE, {batch, rows}, {n});
  auto count = [&] { return b.constant(f32, static_cast<double>(n)); };
  b.store(mean, {v[0], v[1]},
          b.prim(Prim::div_, b.reduce(FE_REDUCE_SUM, b.load(x, {v[0], v[1], v[2]})), count()));
  v = b.begin(FE_STATEMENT_REDUCE, {batch, rows}, {n});
  auto centred = b.prim(Prim::sub_, b.load(x, {v[0], v[1], v[2]}), b.load(mean, {v[0], v[1]}));
  auto variance = b.prim(Prim::div_, b.reduce(FE_REDUCE_SUM, b.prim(Prim::mul_, centred, centred)), count());
  b.store(deviation, {v[0], v[1]}, b.prim(Prim::sqrt_, b.prim(Prim::add_, variance, b.constant(f32, 1e-5))));
  v = b.begin(FE_STATEMENT_MAP, {batch, rows, n});
  auto value =
      b.prim(Prim::div_, b.prim(Prim::sub_, b.load(x, {v[0], v[1], v[2]}), b.load(mean, {v[0], v[1]})),
             b.load(deviation, {v[0], v[1]}));
  b.store(out, {v[0], v[1], v[2]},
          b.prim(Prim::add_, b.prim(Prim::mul_, value, b.load(scale, {v[2]})), b.load(shift, {v[2]})));
  return b;
}

TEST(Rows, LayerNorm) {
  for (int64_t n : {1, 17, 64, 384}) {
    check(layer_norm(3, 4, n), {.tolerance = 1e-4});
    if (HasFatalFailure()) return;
  }
}

/// The first loop of the statement, which is that of the first statement.
Expr first_loop(Builder& b) {
  const auto symbol = b.kernel.statements[0].vars[0].symbol;
  b.statement().vars[0].symbol = symbol;
  return b.kernel.pool.symbol(symbol);
}

// Later statements read results of rows, and one element by its number; rows are padded.
TEST(Rows, Statistics) {
  for (auto dtype : {f32, bf16})
    for (int64_t n : {1, 64, 269}) {
      Builder b;
      constexpr int64_t rows = 5, alignment = 64;
      auto x = b.buffer(dtype, FE_BUFFER_INPUT, {rows, n}, {(n + alignment - 1) / alignment * alignment, 1});
      auto ids = b.input(i64, {rows});
      auto most = b.output(f32, {rows}), logarithm = b.output(f32, {rows}), chosen = b.output(f32, {rows});
      b.kernel.shared = 1;
      auto v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
      b.store(most, {v[0]}, b.reduce(FE_REDUCE_MAX, b.cast(b.load(x, {v[0], v[1]}), f32)));
      v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
      auto row = first_loop(b);
      auto below = [&](Expr column) {
        return b.prim(Prim::sub_, b.cast(b.load(x, {row, column}), f32), b.load(most, {row}));
      };
      auto sum = b.prim(Prim::log_, b.reduce(FE_REDUCE_SUM, b.prim(Prim::exp_, below(v[1]))));
      b.store(logarithm, {row}, sum);
      auto at = b.indirect(b.load(ids, {row}), n, FE_INDIRECT_CLAMP);
      b.store(chosen, {row}, b.prim(Prim::sub_, below(at), sum));
      check(b, {.tolerance = 1e-4});
      if (HasFatalFailure()) return;
    }
}

// Results overwrite operands: each thread reads what it overwrites, or all threads wait for the readers.
TEST(Rows, InThePlaceOfOperands) {
  for (const bool others_read : {false, true})
    for (int64_t n : {1, 40, 600}) {
      Builder b;
      constexpr int64_t rows = 3;
      auto x = b.output(f32, {rows, n}), most = b.output(f32, {rows});
      auto mean = b.buffer(f32, FE_BUFFER_LOCAL, {rows}, {0});
      b.kernel.shared = 1;
      auto v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
      auto sum = b.reduce(FE_REDUCE_SUM, b.load(x, {v[0], v[1]}));
      if (others_read) sum = b.prim(Prim::sub_, sum, b.load(x, {v[0], b.kernel.pool.constant(0)}));
      b.store(mean, {v[0]}, sum);
      v = b.begin(FE_STATEMENT_MAP, {rows, n});
      auto row = first_loop(b);
      b.store(x, {row, v[1]}, b.prim(Prim::sub_, b.load(x, {row, v[1]}), b.load(mean, {row})));
      v = b.begin(FE_STATEMENT_REDUCE, {rows}, {n});
      row = first_loop(b);
      b.store(most, {row}, b.reduce(FE_REDUCE_MAX, b.load(x, {row, v[1]})));
      check(b, {.tolerance = 1e-4});
      if (HasFatalFailure()) return;
    }
}

/// Multiples of 1/4 up to 2: sums of a few dozen of them are equal in every order, and products are rounded,
/// also in 16 bits.
void fill_for_every_order(const loop::Buffer& buffer, char* data) {
  const auto width = static_cast<size_t>(bits_of(buffer.dtype)) / 8;
  for (int64_t k = 0; k < buffer.extent(); ++k) {
    const uint64_t bits = Builder::bits(buffer.dtype, 0.25 * static_cast<double>(k * 7 % 17 - 8));
    std::memcpy(data + static_cast<size_t>(k) * width, &bits, width);
  }
}

TEST(Scatter, Modes) {
  for (auto mode : {FE_STORE_SET, FE_STORE_ADD, FE_STORE_MUL, FE_STORE_MAX, FE_STORE_MIN})
    for (auto dtype : {f32, i32, bf16, f16, i8, u16, f8e4m3}) {
      SCOPED_TRACE(detail::concatenate("mode ", mode, " ", name_of(dtype)));
      Builder b;
      auto ids = b.input(i64, {23}), updates = b.input(dtype, {23, 37}), out = b.output(dtype, {9, 37});
      auto i = b.begin(FE_STATEMENT_SCATTER, {23, 37});
      auto row = b.indirect(b.load(ids, {i[0]}), 9, FE_INDIRECT_WRAP);
      b.store(out, {row, i[1]}, b.load(updates, {i[0], i[1]}), mode);
      Options options;
      const bool narrow = is_float(dtype) && bits_of(dtype) < 32;
      options.tolerance = narrow ? 5e-2 : 1e-4;
      options.set = [&](loop::BufferId buffer, char* data) {
        if (narrow && buffer != ids) fill_for_every_order(b.kernel.buffers[buffer], data);
        for (int64_t k = 0; buffer == ids && k < 23; ++k) {
          int64_t value = (k * 5) % 9 - (k % 2 ? 9 : 0);
          std::memcpy(data + k * 8, &value, 8);
        }
      };
      check(b, options);
      if (HasFatalFailure()) return;
    }
}

TEST(Scatter, Elements) {
  for (auto dtype : {f32, f16, i8}) {
    Builder b;
    auto ids = b.input(i32, {100}), updates = b.input(dtype, {100}), out = b.output(dtype, {9});
    auto i = b.begin(FE_STATEMENT_SCATTER, {100});
    auto at = b.indirect(b.load(ids, {i[0]}), 9, FE_INDIRECT_CLAMP);
    b.store(out, {at}, b.load(updates, {i[0]}), FE_STORE_ADD);
    Options options{.tolerance = 1e-4};
    options.set = [&](loop::BufferId buffer, char* data) {
      if (dtype == f16 && buffer != ids) fill_for_every_order(b.kernel.buffers[buffer], data);
    };
    check(b, options);
    if (HasFatalFailure()) return;
  }
}

TEST(Serial, CumulativeSum) {
  for (auto dtype : {f32, i64})
    for (int64_t n : {1, 20}) {
      Builder b;
      auto x = b.input(dtype, {4, 13, n}), out = b.output(dtype, {4, 13, n});
      auto v = b.begin(FE_STATEMENT_SERIAL, {4, n}, {}, {13});
      auto total = b.carry(dtype, 0);
      auto next = b.prim(Prim::add_, total, b.load(x, {v[0], v[2], v[1]}));
      b.statement().carries[0].next = next;
      b.store(out, {v[0], v[2], v[1]}, next);
      check(b, {.tolerance = 1e-4});
      if (HasFatalFailure()) return;
    }
}

/// States along long rows: several kinds together, from the end, and without the element of the current step.
TEST(Serial, RunningStates) {
  for (auto dtype : {f32, f16, i64, i8})
    for (int64_t n : {33, 260, 4100})
      for (bool backwards : {false, true}) {
        SCOPED_TRACE(detail::concatenate(name_of(dtype), " ", n, backwards ? " backwards" : ""));
        Builder b;
        auto x = b.input(dtype, {3, n}), sums = b.output(dtype, {3, n}), before = b.output(dtype, {3, n}),
             most = b.output(dtype, {3, n});
        auto v = b.begin(FE_STATEMENT_SERIAL, {3}, {}, {n});
        auto& pool = b.kernel.pool;
        const auto at = backwards ? pool.sub(pool.constant(n - 1), v[1]) : v[1];
        const auto type = compute_type(dtype);
        auto total = b.carry(type, 2), top = b.carry(type, 1);
        auto element = b.load(x, {v[0], at});
        if (type != dtype) element = b.prim(Prim::cast_, element, none, none, type);
        b.statement().carries[0].next = b.prim(Prim::add_, total, element);
        b.statement().carries[1].next = b.prim(Prim::max_, element, top);
        b.store(sums, {v[0], at}, b.statement().carries[0].next);
        b.store(before, {v[0], at}, total);
        b.store(most, {v[0], at}, b.statement().carries[1].next);
        // The order of the sums differs, and terms of up to 4 cancel.
        check(b, {.tolerance = is_float(dtype) ? 1e-2 : 0});
        if (HasFatalFailure()) return;
      }
}

/// Each step is a product with the previous value, so only one order is right.
TEST(Serial, Recurrence) {
  Builder b;
  const int64_t n = 100;
  auto x = b.input(f32, {3, n}), out = b.output(f32, {3, n});
  auto v = b.begin(FE_STATEMENT_SERIAL, {3}, {}, {n});
  auto state = b.carry(f32, 1);
  auto next = b.prim(Prim::fma_, state, b.constant(f32, 0.5), b.load(x, {v[0], v[1]}));
  b.statement().carries[0].next = next;
  b.store(out, {v[0], v[1]}, next);
  check(b, {.tolerance = 1e-4});
}

/// Steps whose reads depend on the carried value, also past the end, and whose last stores are masked.
TEST(Serial, Merge) {
  Builder b;
  const int64_t n = 21, size = 8, chunks = 6;
  auto x = b.input(i64, {3, n}), y = b.input(i64, {3, n}), out = b.output(i64, {3, 2 * n});
  auto v = b.begin(FE_STATEMENT_SERIAL, {3, chunks}, {}, {size});
  const auto at = b.kernel.pool.add(b.mul(v[1], size), v[2]);
  auto taken = b.carry(i64, 0);
  auto place = b.index_value(at), limit = b.constant(i64, n), last = b.constant(i64, 1000);
  const auto element = [&](loop::BufferId from, loop::OpId number) {
    auto inside = b.prim(Prim::lt_, number, limit);
    return b.load(from, {v[0], b.indirect(number, n, FE_INDIRECT_CLAMP)}, inside, last);
  };
  auto first = element(x, taken), second = element(y, b.prim(Prim::sub_, place, taken));
  auto goes = b.cast(b.prim(Prim::lt_, first, second), i64);
  b.statement().carries[0].next = b.prim(Prim::add_, taken, goes);
  auto exists = b.prim(Prim::lt_, place, b.constant(i64, 2 * n));
  b.store(out, {v[0], at}, b.prim(Prim::min_, first, second), FE_STORE_SET, exists);
  check(b);
}

}  // namespace
}  // namespace ferrite::kernel_test
