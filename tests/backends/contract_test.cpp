// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contract kernels against a naive loop in double precision. Every buffer ends at an inaccessible page.
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "contract_case.h"
#include "convolution_kernel.h"

namespace ferrite::contract_test {
namespace {

using kernel_test::conv, kernel_test::Conv;

void check(const kernel_test::Builder& built,
           const std::vector<std::string>& levels = {"native", "avx2", "sse"}, int64_t l2_bytes = 2 << 20) {
  const Case one(built);
  for (const auto& level : levels)
    for (bool packed : {true, false}) {
      SCOPED_TRACE(testing::Message() << level << (packed ? ", packed" : ""));
      auto target = host_target(level);
      target.l2_bytes = l2_bytes;
      one.check(target, packed);
      if (testing::Test::HasFatalFailure()) return;
    }
}

struct Gemm {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false, constant_b = true, shared_b = false;
  DType dtype = f32;
  enum Epilogue { plain, bias_relu, residual, gelu } epilogue = plain;
  bool heads = false;  // output is [m, heads of 8]
};

Builder gemm(const Gemm& shape) {
  Builder b;
  auto dims = [&](bool transposed, int64_t rows, int64_t columns) {
    return transposed ? std::vector<int64_t>{shape.batch, columns, rows}
                      : std::vector<int64_t>{shape.batch, rows, columns};
  };
  auto x = b.buffer(shape.dtype, FE_BUFFER_INPUT, dims(shape.transpose_a, shape.m, shape.k));
  auto w = b.buffer(shape.dtype, shape.constant_b ? FE_BUFFER_CONSTANT : FE_BUFFER_INPUT,
                    dims(shape.transpose_b, shape.k, shape.n));
  auto bias = b.buffer(shape.dtype, FE_BUFFER_CONSTANT, {shape.n});
  auto residual = b.buffer(shape.dtype, FE_BUFFER_INPUT, {shape.batch, shape.m, shape.n});
  auto out = b.buffer(shape.dtype, FE_BUFFER_OUTPUT, {shape.batch, shape.m, shape.n});
  auto v = b.begin(FE_STATEMENT_CONTRACT, {shape.batch, shape.m, shape.n}, {shape.k});
  auto at = [&](bool transposed, Expr batch, Expr row, Expr column) {
    return transposed ? std::vector<Expr>{batch, column, row} : std::vector<Expr>{batch, row, column};
  };
  auto left = b.load(x, at(shape.transpose_a, v[0], v[1], v[3]));
  auto right = b.load(w, at(shape.transpose_b, v[0], v[3], v[2]));
  auto sum = b.contract(left, right);
  auto widen = [&](OpId value) {
    auto type = compute_type(shape.dtype);
    return b.statement().ops[value].dtype == type ? value : b.prim(Prim::cast_, value, none, none, type);
  };
  const auto type = compute_type(shape.dtype);
  if (shape.epilogue == Gemm::bias_relu) {
    sum = b.prim(Prim::max_, b.prim(Prim::add_, sum, widen(b.load(bias, {v[2]}))), b.constant(type, 0));
  } else if (shape.epilogue == Gemm::residual) {
    sum = b.prim(Prim::add_, sum, widen(b.load(residual, {v[0], v[1], v[2]})));
  } else if (shape.epilogue == Gemm::gelu) {
    auto scaled = b.prim(Prim::mul_, sum, b.constant(type, 0.70710678118654752));
    auto gate = b.prim(Prim::add_, b.prim(Prim::erf_, scaled), b.constant(type, 1));
    sum = b.prim(Prim::mul_, b.prim(Prim::mul_, sum, gate), b.constant(type, 0.5));
  }
  b.store(out, {v[0], v[1], v[2]}, sum);
  return b;
}

TEST(Contract, GemmOfOddSizes) {
  const std::vector<std::string> all{"native", "avx2", "sse"}, wide{"native"};
  for (int64_t m : {1, 7, 8, 13, 33})
    for (int64_t n : {2, 15, 16, 17, 49, 97})
      for (int64_t k : {1, 3, 64}) {
        SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
        check(gemm({.m = m, .n = n, .k = k}), k == 3 ? all : wide);
        if (HasFatalFailure()) return;
      }
}

TEST(Contract, GemmOfManyTasks) {
  check(gemm({.m = 131, .n = 203, .k = 301}));
  check(gemm({.m = 70, .n = 300, .k = 130, .constant_b = false}));
  check(gemm({.m = 70, .n = 300, .k = 130, .transpose_b = true, .constant_b = false}));
}

TEST(Contract, TransposedAndBatched) {
  for (int64_t batch : {1, 3})
    for (bool a : {false, true})
      for (bool transpose_b : {false, true})
        for (bool constant : {false, true}) {
          SCOPED_TRACE(testing::Message() << batch << a << transpose_b << constant);
          check(gemm({.batch = batch,
                      .m = 37,
                      .n = 53,
                      .k = 29,
                      .transpose_a = a,
                      .transpose_b = transpose_b,
                      .constant_b = constant}));
          if (HasFatalFailure()) return;
        }
}

/// Several passes over the depth, the last one shorter; operands with large strides along the depth.
TEST(Contract, DeepProductsOnASmallCache) {
  constexpr int64_t l2_bytes = 32 << 10;
  for (int64_t k : {512, 700})
    for (bool constant : {false, true})
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(testing::Message() << k << constant << transposed);
        check(gemm({.batch = constant ? 1 : 2,
                    .m = 45,
                    .n = 261,
                    .k = k,
                    .transpose_b = transposed,
                    .constant_b = constant,
                    .epilogue = Gemm::bias_relu}),
              {"native", "avx2", "sse"}, l2_bytes);
        if (HasFatalFailure()) return;
      }
  check(gemm({.m = 260,
              .n = 70,
              .k = 401,
              .transpose_a = true,
              .constant_b = false,
              .epilogue = Gemm::residual}),
        {"native", "sse"}, l2_bytes);
  check(gemm({.m = 50, .n = 530, .k = 390, .constant_b = false, .dtype = f64}), {"native", "sse"}, l2_bytes);
  check(gemm({.m = 50, .n = 530, .k = 390, .constant_b = false, .dtype = bf16}), {"native", "sse"}, l2_bytes);
}

/// Panels of columns that come from memory are prefetched: while the previous panel is multiplied if there
/// are enough row blocks; a few kilobytes ahead for a single block.
TEST(Contract, PanelsFromMemoryAreAskedFor) {
  const auto asks = [](int64_t m, int64_t l2_bytes) {
    auto target = host_target();
    target.l2_bytes = l2_bytes;
    auto kernel = gemm({.m = m, .n = 256, .k = 96}).kernel;  // 96 KiB of columns
    const auto layouts = wanted_layouts(target, kernel);
    EXPECT_EQ(layouts.size(), 1u);
    for (const auto& layout : layouts) {
      auto& buffer = kernel.buffers[layout.buffer];
      const std::vector<char> data(static_cast<size_t>(buffer.bytes()));
      loop::Packing packing;
      kernel_test::pack(layout, buffer, data.data(), packing, kernel.pool);
      buffer.packing = packing;
      buffer.strides.clear();
    }
    const auto text = compile(target, kernel, true).text;
    return text.find("i32 0, i32 2, i32 1)") != std::string::npos;  // read, second level, data
  };
  EXPECT_TRUE(asks(128, 128 << 10));
  EXPECT_FALSE(asks(128, 1 << 20));
  EXPECT_TRUE(asks(4, 128 << 10));
  EXPECT_FALSE(asks(4, 1 << 20));
  for (const auto epilogue : {Gemm::bias_relu, Gemm::gelu})
    for (const int64_t m : {3, 131})
      check(gemm({.m = m, .n = 267, .k = 96, .epilogue = epilogue}), {"native", "avx2", "sse"}, 128 << 10);
  for (const bool channels_last : {false, true})
    check(conv({.channels = 32, .filters = 40, .height = 14, .width = 13, .channels_last = channels_last}),
          {"native", "avx2", "sse"}, 64 << 10);
}

/// Operands with large strides are packed panel by panel even if one pass over the depth suffices.
TEST(Contract, FarApartOperandsOnASmallCache) {
  for (int64_t n : {256, 270}) {
    check(gemm({.m = 40, .n = n, .k = 70, .constant_b = false}), {"native", "avx2", "sse"}, 32 << 10);
    check(gemm({.m = n, .n = 44, .k = 70, .transpose_a = true, .constant_b = false}),
          {"native", "avx2", "sse"}, 32 << 10);
  }
}

/// Rows whole pages apart are packed if there are many columns: their lines would map to one cache set.
TEST(Contract, RowsPagesApart) {
  const auto shape = [](int64_t n, int64_t k) {
    return gemm({.m = 40, .n = n, .k = k, .constant_b = false, .dtype = f64, .epilogue = Gemm::bias_relu});
  };
  for (const int64_t k : {512, 520}) check(shape(1030, k));
  const auto workspace = [&](int64_t n, int64_t k) {
    return compile(host_target(), shape(n, k).kernel).workspace;
  };
  EXPECT_GE(workspace(1030, 512), workspace(1030, 520) + 32 * 512 * 8);
  EXPECT_LT(workspace(260, 512), workspace(260, 520) + 32 * 512 * 8);
}

/// Too few rows to amortise packing: dot products along the depth if the columns are transposed, long runs if
/// their depth steps are far apart. Memory ends after each operand, so that reads past it fail.
TEST(Contract, FewRowsInPlace) {
  const std::vector<std::string> all{"native", "avx2", "sse"}, converting{"native", "avx2"};
  for (const auto dtype : {f32, f64, bf16, f16})
    for (const int64_t m : {1, 2, 5, 31})
      for (const bool transposed : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << m << " rows, transposed " << transposed);
        const int64_t elements = 8 / (bits_of(dtype) / 8);
        check(gemm({.batch = m == 2 ? 2 : 1,
                    .m = m,
                    .n = transposed ? 139 : 130 * elements + 7,
                    .k = 85,
                    .transpose_b = transposed,
                    .constant_b = false,
                    .dtype = dtype,
                    .epilogue = m == 5 ? Gemm::gelu : Gemm::bias_relu}),
              dtype == f16 ? converting : all, 32 << 10);
        if (HasFatalFailure()) return;
      }
}

TEST(Contract, EmptyDepthGivesTheFinishOfZero) {
  check(gemm({.m = 9, .n = 20, .k = 0, .epilogue = Gemm::bias_relu}));
}

TEST(Contract, NoRowsOrColumnsIsDeclined) {
  EXPECT_FALSE(emitter::can_emit_gemm(host_target(), gemm({.m = 0, .n = 20, .k = 5}).kernel));
  EXPECT_FALSE(emitter::can_emit_gemm(host_target(), gemm({.m = 5, .n = 0, .k = 5}).kernel));
}

TEST(Contract, Epilogues) {
  for (auto epilogue : {Gemm::bias_relu, Gemm::residual, Gemm::gelu})
    for (int64_t n : {48, 45}) check(gemm({.m = 21, .n = n, .k = 40, .epilogue = epilogue}));
}

TEST(Contract, ElementTypes) {
  for (auto dtype : {f64, bf16, f16, f8e4m3, f8e5m2fnuz})
    for (bool constant : {false, true})
      for (bool transposed : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << constant << transposed);
        check(gemm({.m = 19,
                    .n = 43,
                    .k = 37,
                    .transpose_b = transposed,
                    .constant_b = constant,
                    .dtype = dtype,
                    .epilogue = Gemm::bias_relu}));
        if (HasFatalFailure()) return;
      }
}

/// Depths and packings that machines with AMX multiply in tile registers; on other machines they are ordinary
/// products.
TEST(Contract, Bf16OfWholeRegisters) {
  for (int64_t m : {8, 19, 32, 77})
    for (int64_t n : {5, 16, 43, 96})
      for (int64_t k : {32, 96}) {
        SCOPED_TRACE(testing::Message() << m << " x " << n << " x " << k);
        check(gemm({.m = m, .n = n, .k = k, .dtype = bf16, .epilogue = Gemm::bias_relu}), {"native"});
        if (HasFatalFailure()) return;
      }
  check(gemm({.batch = 2, .m = 40, .n = 50, .k = 64, .dtype = bf16, .epilogue = Gemm::residual}), {"native"});
}

/// An operand that is computed from stored values: scaled, moved, or only cast. Parameters are one number, or
/// lie along the rows (for the columns: the columns) or along the depth.
struct Stored {
  enum Along { nothing, tensor, own, depth } along = nothing;
  DType dtype = f32;
  bool transposed = false;
};

struct Prologue {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  Stored a = {}, b = {};
};

Builder prologue(const Prologue& shape) {
  Builder b;
  struct Side {
    loop::BufferId data = 0, zero = 0, scale = 0;
  };
  const auto buffers = [&](const Stored& stored, int64_t own, std::vector<int64_t> dims) {
    const int64_t count = stored.along == Stored::own ? own : stored.along == Stored::depth ? shape.k : 1;
    if (stored.transposed) std::swap(dims[1], dims[2]);
    return Side{b.buffer(stored.dtype, FE_BUFFER_INPUT, std::move(dims)),
                b.buffer(stored.dtype, FE_BUFFER_CONSTANT, {count}), b.buffer(f32, FE_BUFFER_INPUT, {count})};
  };
  const auto rows = buffers(shape.a, shape.m, {shape.batch, shape.m, shape.k}),
             columns = buffers(shape.b, shape.n, {shape.batch, shape.k, shape.n});
  auto out = b.buffer(f32, FE_BUFFER_OUTPUT, {shape.batch, shape.m, shape.n});
  auto v = b.begin(FE_STATEMENT_CONTRACT, {shape.batch, shape.m, shape.n}, {shape.k});
  const auto element = [&](const Stored& stored, const Side& side, Expr own, std::vector<Expr> at) {
    if (stored.transposed) std::swap(at[1], at[2]);
    const bool real = is_float(stored.dtype);
    const DType type = real ? f32 : i32;
    const auto wide = [&](OpId value) {
      return b.statement().ops[value].dtype == type ? value : b.cast(value, type);
    };
    auto value = wide(b.load(side.data, std::move(at)));
    const auto where = stored.along == Stored::own     ? own
                       : stored.along == Stored::depth ? v[3]
                                                       : b.kernel.pool.constant(0);
    if (stored.along != Stored::nothing) value = b.prim(Prim::sub_, value, wide(b.load(side.zero, {where})));
    if (!real) value = b.prim(Prim::mul_, b.cast(value, f32), b.constant(f32, 1.0 / 128));
    if (stored.along == Stored::nothing) return value;
    return b.prim(Prim::mul_, value, b.load(side.scale, {where}));
  };
  const auto left = element(shape.a, rows, v[1], {v[0], v[1], v[3]}),
             right = element(shape.b, columns, v[2], {v[0], v[3], v[2]});
  b.store(out, {v[0], v[1], v[2]}, b.contract(left, right));
  return b;
}

TEST(Contract, ComputedOperands) {
  for (const auto dtype : {f32, bf16, f16, i8, u8})
    for (const auto along : {Stored::nothing, Stored::tensor, Stored::own, Stored::depth})
      for (const bool transposed : {false, true}) {
        const Stored stored{along, dtype, transposed};
        SCOPED_TRACE(testing::Message()
                     << name_of(dtype) << " along " << along << " transposed " << transposed);
        check(prologue({.m = 13, .n = 45, .k = 37, .a = stored}));
        check(prologue({.m = 13, .n = 45, .k = 37, .b = stored}));
        check(prologue({.batch = 2, .m = 6, .n = 17, .k = 9, .a = stored, .b = stored}), {"native"});
        if (HasFatalFailure()) return;
      }
}

/// Whole vectors and panels, one row more than a block, less than a vector, several tasks, and several passes
/// over the depth.
TEST(Contract, ComputedOperandsOfOtherSizes) {
  const Stored scaled{Stored::own, i8, false}, transposed{Stored::tensor, u8, true},
      half{Stored::nothing, f16, false}, brain{Stored::nothing, bf16, true};
  for (int64_t n : {2, 3, 8, 64, 163})
    for (int64_t k : {1, 7, 16, 130})
      for (const auto& stored : {scaled, transposed, half, brain}) {
        SCOPED_TRACE(testing::Message() << n << " x " << k << " of " << name_of(stored.dtype));
        check(prologue({.m = 33, .n = n, .k = k, .a = stored}), {"native"});
        check(prologue({.m = 33, .n = n, .k = k, .b = stored}), {"native"});
        if (HasFatalFailure()) return;
      }
  for (const auto& stored : {scaled, transposed, half, brain}) {
    check(prologue({.m = 45, .n = 133, .k = 401, .a = stored, .b = stored}), {"native", "sse"}, 32 << 10);
    check(prologue({.m = 2, .n = 300, .k = 130, .b = stored}), {"native", "sse"});
    if (HasFatalFailure()) return;
  }
}

TEST(Contract, Convolutions) {
  const Conv shapes[] = {
      {},
      {.channels = 5, .filters = 19, .kernel = 1, .pad = 0},
      {.channels = 4, .filters = 9, .kernel = 1, .stride = 2, .pad = 0},
      {.batch = 2, .channels = 7, .filters = 12, .height = 7, .width = 7},
      {.batch = 3,
       .channels = 6,
       .filters = 10,
       .height = 16,
       .width = 16,
       .kernel = 5,
       .stride = 2,
       .pad = 2},
      {.channels = 3, .filters = 33, .height = 40, .width = 50, .kernel = 7, .stride = 2, .pad = 3},
      {.batch = 2, .channels = 4, .filters = 6, .height = 13, .width = 12, .dilation = 2, .pad = 2},
      {.batch = 2, .channels = 8, .filters = 12, .height = 10, .width = 9, .groups = 2},
      {.channels = 6, .filters = 20, .height = 20, .width = 21, .kernel = 3, .pad = 0},
  };
  for (auto shape : shapes)
    for (bool last : {false, true})
      for (bool map : {false, true}) {
        shape.channels_last = last;
        shape.then_map = map;
        SCOPED_TRACE(testing::Message() << shape.channels << " -> " << shape.filters << ", " << shape.height
                                        << " x " << shape.width << " kernel " << shape.kernel << " stride "
                                        << shape.stride << " last " << last << " map " << map);
        check(conv(shape),
              map ? std::vector<std::string>{"native"} : std::vector<std::string>{"native", "avx2", "sse"});
        if (HasFatalFailure()) return;
      }
}

TEST(Contract, ConvolutionsOfOtherOrders) {
  for (int64_t kernel : {1, 3}) {
    const int64_t pad = kernel / 2;
    check(conv(
        {.channels = 5, .filters = 18, .height = 12, .kernel = kernel, .pad = pad, .output_last = true}));
    check(conv({.batch = 2, .channels = 5, .filters = 18, .kernel = kernel, .pad = pad, .flipped = true}));
    check(conv({.channels = 5,
                .filters = 18,
                .kernel = kernel,
                .pad = pad,
                .channels_last = true,
                .flipped = true}));
  }
}

/// Windows whose positions machines with AMX copy unchanged and multiply in tile registers: lines with one
/// result more, fewer results and as many results as a tile has rows, with and without padding lines.
TEST(Contract, Bf16ConvolutionsOfWholeRegisters) {
  const Conv shapes[] = {
      {.dtype = bf16, .channels = 32, .filters = 16, .height = 9, .width = 16},
      {.dtype = bf16, .batch = 2, .channels = 64, .filters = 40, .height = 7, .width = 7},
      {.dtype = bf16, .channels = 32, .filters = 33, .height = 6, .width = 45},
      {.dtype = bf16, .channels = 96, .filters = 20, .height = 15, .width = 29, .stride = 2},
      {.dtype = bf16, .channels = 64, .filters = 48, .height = 11, .width = 40, .kernel = 5, .pad = 0},
      {.dtype = bf16, .channels = 48, .filters = 32, .height = 8, .width = 20},
  };
  for (auto shape : shapes)
    for (bool map : {false, true}) {
      shape.channels_last = true;
      shape.then_map = map;
      SCOPED_TRACE(testing::Message()
                   << shape.channels << " -> " << shape.filters << ", " << shape.height << " x "
                   << shape.width << " kernel " << shape.kernel << " map " << map);
      check(conv(shape), {"native", "avx2"});
      if (HasFatalFailure()) return;
    }
}

/// Uses the same error bound as other convolutions.
void check_winograd(Conv shape, int64_t l2_bytes) {
  shape.channels_last = true;
  const Case one(conv(shape));
  for (const char* level : {"native", "avx2", "sse"}) {
    SCOPED_TRACE(testing::Message() << shape.channels << " -> " << shape.filters << ", " << shape.height
                                    << " x " << shape.width << ", " << level);
    auto target = host_target(level);
    target.l2_bytes = l2_bytes;
    one.check(target, true, true);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Contract, WinogradConvolutions) {
  const Conv shapes[] = {
      {.channels = 32, .filters = 48, .height = 16, .width = 12},
      {.channels = 20, .filters = 19, .height = 9, .width = 11},
      {.batch = 3, .channels = 33, .filters = 40, .height = 7, .width = 7},
      {.channels = 64, .filters = 64, .height = 13, .width = 30, .pad = 0},
      {.batch = 2, .channels = 48, .filters = 66, .height = 10, .width = 9, .groups = 2},
      {.channels = 17, .filters = 130, .height = 3, .width = 4},
      {.dtype = f64, .channels = 18, .filters = 21, .height = 11, .width = 14},
      {.channels = 19, .filters = 35, .height = 12, .width = 15, .flipped = true},
      {.channels = 16, .filters = 32, .height = 12, .width = 15, .then_map = true},
      {.channels = 8, .filters = 16, .height = 2, .width = 3},
      {.batch = 2, .channels = 20, .filters = 19, .height = 9, .width = 11, .weights = FE_BUFFER_INPUT},
  };
  for (const auto& shape : shapes) {
    check_winograd(shape, 1 << 20);
    if (HasFatalFailure()) return;
  }
  // One line of Winograd blocks exceeds the cache.
  check_winograd({.channels = 16, .filters = 16, .height = 6, .width = 90}, 160 << 10);
}

/// NaN and infinity reach everything that they reach without Winograd blocks, and at most one position more.
TEST(Contract, WinogradBlocksSpreadInfinitiesAndNan) {
  constexpr int64_t height = 12, width = 10, channels = 16, filters = 24;
  const auto shape =
      Conv{.channels = channels, .filters = filters, .height = height, .width = width, .channels_last = true};
  for (const double special :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
    for (const auto& [y, x] : {std::pair<int64_t, int64_t>{0, 0}, {5, 4}, {6, 9}}) {
      SCOPED_TRACE(testing::Message() << special << " at " << y << ", " << x);
      Case one(conv(shape), [&](DType dtype, char* image) {
        write(dtype, image, (y * width + x) * channels + 3, special);
      });
      one.let_spread(y, x, width, filters);
      for (const char* level : {"native", "avx2", "sse"}) one.check(host_target(level), true, true);
      if (HasFatalFailure()) return;
    }
}

TEST(Contract, UnsuitableConvolutionsHaveNoWinogradBlocks) {
  const Conv usual{.channels = 32, .filters = 32, .height = 14, .width = 14, .channels_last = true};
  const auto has_winograd = [](const Conv& shape) {
    const auto options = emitter::gemm_options(host_target("native"), conv(shape).kernel, true);
    return !options.empty() && options.back().config.winograd;
  };
  EXPECT_TRUE(has_winograd(usual));
  const auto other = [&](auto&& change) {
    auto shape = usual;
    change(shape);
    return has_winograd(shape);
  };
  EXPECT_FALSE(other([](Conv& shape) { shape.stride = 2; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.dilation = 2; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.kernel = 5; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.kernel = 1; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.groups = 32; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.channels_last = false; }));
  EXPECT_FALSE(other([](Conv& shape) { shape.dtype = bf16; }));
  // Weights that are no constant are packed in each run.
  EXPECT_TRUE(other([](Conv& shape) { shape.weights = FE_BUFFER_INPUT; }));
}

/// Many channels amortise the input and output transforms; few do not.
TEST(Contract, WinogradPaysWithManyChannels) {
  const auto time = [](int64_t channels, uint32_t weights = FE_BUFFER_CONSTANT) {
    const Conv shape{.channels = channels,
                     .filters = channels,
                     .height = 28,
                     .width = 28,
                     .channels_last = true,
                     .weights = weights};
    const auto options = emitter::gemm_options(host_target("native"), conv(shape).kernel, true);
    return options.back().config.winograd ? options.back().time : 2;
  };
  EXPECT_LT(time(128), 0.7);
  EXPECT_LT(time(64), 0.8);
  EXPECT_GT(time(4), 1);
  // Weights that are packed in each run have to serve many results.
  EXPECT_GT(time(64, FE_BUFFER_INPUT), time(64));
  EXPECT_LT(time(64, FE_BUFFER_INPUT), 1);
}

TEST(Contract, WhatIsNotOursIsDeclined) {
  auto target = host_target();
  auto depthwise = conv({.channels = 8, .filters = 8, .groups = 8});
  EXPECT_FALSE(emitter::can_emit_gemm(target, depthwise.kernel));
  EXPECT_TRUE(wanted_layouts(target, depthwise.kernel).empty());
  Builder integers;
  auto x = integers.buffer(i32, FE_BUFFER_INPUT, {8, 8}), y = integers.buffer(i32, FE_BUFFER_INPUT, {8, 8});
  auto z = integers.buffer(i32, FE_BUFFER_OUTPUT, {8, 8});
  auto v = integers.begin(FE_STATEMENT_CONTRACT, {8, 8}, {8});
  integers.store(z, {v[0], v[1]},
                 integers.contract(integers.load(x, {v[0], v[2]}), integers.load(y, {v[2], v[1]})));
  EXPECT_FALSE(emitter::can_emit_gemm(target, integers.kernel));
  // A layout that was not requested.
  auto foreign = gemm({.m = 8, .n = 32, .k = 8});
  loop::Packing packing;
  packing.dims = {1, 8, 32, 1};
  foreign.kernel.buffers[1].packing = packing;
  foreign.kernel.buffers[1].strides.clear();
  EXPECT_FALSE(emitter::can_emit_gemm(target, foreign.kernel));
}

/// The columns are split into heads, and the heads are gathered again as the depth of the next product.
TEST(Contract, SplitHeads) {
  Builder split;
  auto x = split.buffer(f32, FE_BUFFER_INPUT, {2, 12, 40});
  auto w = split.buffer(f32, FE_BUFFER_CONSTANT, {40, 96});
  auto out = split.buffer(f32, FE_BUFFER_OUTPUT, {2, 3, 12, 32});
  auto v = split.begin(FE_STATEMENT_CONTRACT, {2, 12, 96}, {40});
  auto& pool = split.kernel.pool;
  auto sum = split.contract(split.load(x, {v[0], v[1], v[3]}), split.load(w, {v[3], v[2]}));
  split.store(out, {v[0], pool.floordiv(v[2], 32), v[1], pool.mod(v[2], 32)}, sum);
  check(split);

  Builder join;
  auto heads = join.buffer(f32, FE_BUFFER_INPUT, {2, 3, 12, 32});
  auto weights = join.buffer(f32, FE_BUFFER_CONSTANT, {96, 50});
  auto joined = join.buffer(f32, FE_BUFFER_OUTPUT, {2, 12, 50});
  auto u = join.begin(FE_STATEMENT_CONTRACT, {2, 12, 50}, {96});
  auto& other = join.kernel.pool;
  auto total = join.contract(join.load(heads, {u[0], other.floordiv(u[3], 32), u[1], other.mod(u[3], 32)}),
                             join.load(weights, {u[3], u[2]}));
  join.store(joined, {u[0], u[1], u[2]}, total);
  check(join);
}

/// The output is stored with rows varying fastest.
TEST(Contract, TransposedOutput) {
  Builder b;
  auto x = b.buffer(f32, FE_BUFFER_INPUT, {23, 31});
  auto w = b.buffer(f32, FE_BUFFER_CONSTANT, {31, 45});
  auto out = b.buffer(f32, FE_BUFFER_OUTPUT, {45, 23});
  auto v = b.begin(FE_STATEMENT_CONTRACT, {23, 45}, {31});
  b.store(out, {v[1], v[0]}, b.contract(b.load(x, {v[0], v[2]}), b.load(w, {v[2], v[1]})));
  check(b);
}

}  // namespace
}  // namespace ferrite::contract_test
