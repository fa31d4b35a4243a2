// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A softmax between two products on emulated grids: types, sizes with remainders, memory orders, masks, and
// completely masked rows.
#include <limits>

#include "backends/cuda/target.h"
#include "backends/llvm/gpu/attention/gpu_attention.h"
#include "emulated_grid.h"
#include "tests/backends/kernel_support.h"

namespace ferrite::kernel_test {

inline std::vector<std::string> targets_of(const Options&) { return {"sm_90a"}; }

inline Compiled compile(const loop::Kernel& kernel, const std::string& description) {
  auto made = emulate_on_grid(kernel, cuda::target_of(cuda::parse_device(description)));
  Compiled compiled{.tasks = made.blocks, .text = std::move(made.text), .run = {}};
  if (made.run)
    compiled.run = [run = std::move(made.run)](void* const* arguments, int64_t* error, bool low) {
      ASSERT_EQ(run(arguments, error, low), "");
    };
  else
    ADD_FAILURE() << compiled.text;
  return compiled;
}

namespace {

enum class Mask { none, added, causal };

struct Attention {
  DType dtype = f16;
  int64_t batch = 1, heads = 2, rows = 64, columns = 64, depth = 64, features = 64;
  Mask mask = Mask::none;
  bool heads_inside = false;        // memory order is [batch, rows, heads, depth]
  bool columns_transposed = false;  // [batch, heads, depth, columns]
  bool values_transposed = false;   // [batch, heads, features, columns]
  DType scores = f32;               // type in which they are stored between the statements
  bool divided = false;             // by the sum, else multiplied by its reciprocal
  bool log_sum = false;             // of the exponentials is a result, too
  bool nan_as_zero = false;
};

struct Built {
  Builder builder;
  loop::BufferId rows, columns, values, mask = none, out;
};

Built attention(const Attention& shape) {
  Built built;
  auto& b = built.builder;
  const int64_t batch = shape.batch, heads = shape.heads, rows = shape.rows, columns = shape.columns;
  const auto dims = [&](int64_t outer, int64_t inner, bool transposed) {
    if (transposed) return std::vector<int64_t>{batch, heads, inner, outer};
    return shape.heads_inside ? std::vector<int64_t>{batch, outer, heads, inner}
                              : std::vector<int64_t>{batch, heads, outer, inner};
  };
  const auto at = [&](Expr n, Expr h, Expr outer, Expr inner, bool transposed) {
    if (transposed) return std::vector<Expr>{n, h, inner, outer};
    return shape.heads_inside ? std::vector<Expr>{n, outer, h, inner} : std::vector<Expr>{n, h, outer, inner};
  };
  built.rows = b.input(shape.dtype, dims(rows, shape.depth, false));
  built.columns = b.input(shape.dtype, dims(columns, shape.depth, shape.columns_transposed));
  built.values = b.input(shape.dtype, dims(columns, shape.features, shape.values_transposed));
  if (shape.mask == Mask::added) built.mask = b.input(f32, {batch, columns});
  built.out = b.output(shape.dtype, dims(rows, shape.features, false));
  const auto log_sum = shape.log_sum ? b.output(f32, {batch, heads, rows}) : none;
  const auto local = [&](DType dtype, bool of_row) {
    return of_row ? b.buffer(dtype, FE_BUFFER_LOCAL, {batch, heads, rows, columns}, {0, 0, 0, 1})
                  : b.buffer(dtype, FE_BUFFER_LOCAL, {batch, heads, rows}, {0, 0, 0});
  };
  const auto scores = local(shape.scores, true), most = local(f32, false), powers = local(f32, true),
             sum = local(f32, false), weights = local(shape.dtype, true);

  auto v = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, rows, columns}, {shape.depth});
  auto score = b.contract(b.load(built.rows, at(v[0], v[1], v[2], v[4], false)),
                          b.load(built.columns, at(v[0], v[1], v[3], v[4], shape.columns_transposed)));
  score = b.prim(Prim::mul_, score, b.constant(f32, 0.03125));
  if (shape.mask == Mask::added) score = b.prim(Prim::add_, score, b.load(built.mask, {v[0], v[3]}));
  if (shape.mask == Mask::causal)
    score = b.prim(Prim::where_, b.prim(Prim::ge_, b.index_value(v[2]), b.index_value(v[3])), score,
                   b.constant(f32, -std::numeric_limits<double>::infinity()));
  b.store(scores, {v[0], v[1], v[2], v[3]}, score);

  const auto widened = [&](OpId value) {
    return b.statement().ops[value].dtype == f32 ? value : b.cast(value, f32);
  };
  v = b.begin(FE_STATEMENT_REDUCE, {batch, heads, rows}, {columns});
  b.store(most, {v[0], v[1], v[2]},
          b.reduce(FE_REDUCE_MAX, widened(b.load(scores, {v[0], v[1], v[2], v[3]}))));

  v = b.begin(FE_STATEMENT_REDUCE, {batch, heads, rows}, {columns});
  auto power =
      b.prim(Prim::sub_, widened(b.load(scores, {v[0], v[1], v[2], v[3]})), b.load(most, {v[0], v[1], v[2]}));
  power = b.prim(Prim::exp_, power);
  b.store(powers, {v[0], v[1], v[2], v[3]}, power);
  b.store(sum, {v[0], v[1], v[2]}, b.reduce(FE_REDUCE_SUM, power));

  v = b.begin(FE_STATEMENT_MAP, {batch, heads, rows, columns});
  auto weight = b.load(powers, {v[0], v[1], v[2], v[3]});
  auto total = b.load(sum, {v[0], v[1], v[2]});
  weight = shape.divided ? b.prim(Prim::div_, weight, total)
                         : b.prim(Prim::mul_, weight, b.prim(Prim::reciprocal_, total));
  if (shape.nan_as_zero)
    weight = b.prim(Prim::where_, b.prim(Prim::isnan_, weight), b.constant(f32, 0), weight);
  b.store(weights, {v[0], v[1], v[2], v[3]}, weight);

  if (shape.log_sum) {
    v = b.begin(FE_STATEMENT_MAP, {batch, heads, rows});
    const std::vector<Expr> row = {v[0], v[1], v[2]};
    const auto log = b.prim(Prim::add_, b.prim(Prim::log_, b.load(sum, row)), b.load(most, row));
    b.store(log_sum, row, log);
  }

  v = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, rows, shape.features}, {columns});
  auto result = b.contract(b.load(weights, {v[0], v[1], v[2], v[4]}),
                           b.load(built.values, at(v[0], v[1], v[4], v[3], shape.values_transposed)));
  b.store(built.out, at(v[0], v[1], v[2], v[3], false), result);
  b.kernel.shared = 3;
  return built;
}

/// `taken`: the kernel uses key/value tiles.
void check_attention(const Attention& shape, bool taken = true, const Options& given = {}) {
  SCOPED_TRACE(detail::concatenate(name_of(shape.dtype), " ", shape.rows, " x ", shape.columns, " x ",
                                   shape.depth, " x ", shape.features));
  const auto built = attention(shape);
  auto planned = built.builder.kernel;
  const auto target = cuda::target_of(cuda::parse_device("sm_90a"));
  EXPECT_EQ(emitter::plan_gpu_attention(target, planned).has_value(), taken);
  auto options = given;
  // No value is negative, so that results are not small differences of large numbers.
  options.set = [&](loop::BufferId buffer, char* data) {
    if (given.set) given.set(buffer, data);
    if (buffer != built.values || shape.dtype == f32) return;
    auto* bits = reinterpret_cast<uint16_t*>(data);
    for (int64_t k = 0; k < built.builder.kernel.buffers[buffer].extent(); ++k) bits[k] &= 0x7fff;
  };
  check(built.builder, options);
}

TEST(GpuAttention, Types) {
  for (const auto dtype : {f16, bf16}) {
    check_attention({.dtype = dtype});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, SizesWithRests) {
  for (const auto& [rows, columns] : {std::pair{16, 8}, {1, 200}, {70, 61}, {65, 128}}) {
    check_attention({.heads = 1, .rows = rows, .columns = columns, .depth = 32, .features = 32});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, LengthsOfRows) {
  for (const auto& [depth, features] : {std::pair{8, 128}, {40, 8}, {80, 80}, {128, 72}}) {
    check_attention({.heads = 1, .rows = 33, .columns = 72, .depth = depth, .features = features});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, OrdersInMemory) {
  for (int k = 0; k < 4; ++k) {
    check_attention({.dtype = k < 2 ? f16 : bf16,
                     .batch = 2,
                     .heads = 2,
                     .rows = 20,
                     .columns = 72,
                     .depth = 24,
                     .features = 40,
                     .heads_inside = true,
                     .columns_transposed = k % 2 == 1,
                     .values_transposed = k == 1 || k == 2});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, Masks) {
  for (const auto mask : {Mask::added, Mask::causal})
    for (const int64_t columns : {64, 77}) {
      check_attention({.batch = 2,
                       .heads = 1,
                       .rows = 77,
                       .columns = columns,
                       .depth = 16,
                       .features = 16,
                       .mask = mask});
      if (HasFatalFailure()) return;
    }
}

/// With a mask of [batch, columns] that `fill` writes.
template <class Fill>
void check_masked(int64_t columns, int64_t batch, Fill&& fill, bool log_sum = false) {
  const Attention shape{.batch = batch,
                        .heads = 1,
                        .rows = 18,
                        .columns = columns,
                        .depth = 16,
                        .features = 16,
                        .mask = Mask::added,
                        .log_sum = log_sum,
                        .nan_as_zero = log_sum};
  Options options;
  options.set = [&, mask = attention(shape).mask](loop::BufferId buffer, char* data) {
    if (buffer == mask) fill(reinterpret_cast<float*>(data));
  };
  check_attention(shape, true, options);
}

TEST(GpuAttention, RowsOfWhichNothingIsLeft) {
  const auto infinity = -std::numeric_limits<float>::infinity();
  for (const bool log_sum : {false, true}) {
    const int64_t columns = log_sum ? 64 : 150;
    // All of the first batch entry, the beginning of the second, the end of the third.
    check_masked(
        columns, 3,
        [&](float* values) {
          for (int64_t k = 0; k < columns; ++k) {
            values[k] = infinity;
            values[columns + k] = k < columns - 3 ? infinity : 0;
            values[2 * columns + k] = k < 5 ? 1 : infinity;
          }
        },
        log_sum);
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, LeastNumbersAsMasks) {
  constexpr auto least = std::numeric_limits<float>::lowest();
  constexpr int64_t columns = 150;
  // The first key/value tile of the first batch entry, and all of the second, whose rows then are means.
  check_masked(columns, 2, [&](float* values) {
    for (int64_t k = 0; k < columns; ++k) {
      values[k] = k < 70 ? least : 0;
      values[columns + k] = least;
    }
  });
}

TEST(GpuAttention, LogarithmsOfSums) {
  for (const auto mask : {Mask::none, Mask::added, Mask::causal}) {
    check_attention({.batch = 2,
                     .heads = 2,
                     .rows = 70,
                     .columns = 61,
                     .depth = 16,
                     .features = 16,
                     .mask = mask,
                     .log_sum = true});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuAttention, SpecialValues) {
  check_attention({.heads = 1, .rows = 40, .columns = 40, .depth = 8, .features = 8}, true,
                  {.special = true});
}

TEST(GpuAttention, ScoresOfTheirOwnType) {
  check_attention({.depth = 32, .features = 32, .scores = f16, .divided = true}, true, {.tolerance = 5e-3});
}

TEST(GpuAttention, WhatDoesNotFitIsDoneOtherwise) {
  const std::vector<Attention> shapes = {
      {.dtype = f32, .rows = 16, .columns = 16, .depth = 16, .features = 16},
      {.rows = 16, .columns = 16, .depth = 12, .features = 16},
      {.rows = 16, .columns = 16, .depth = 16, .features = 136},
      {.rows = 16, .columns = 12, .depth = 16, .features = 16, .values_transposed = true}};
  for (const auto& shape : shapes) {
    check_attention(shape, false, {.tolerance = 1e-5});
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ferrite::kernel_test
