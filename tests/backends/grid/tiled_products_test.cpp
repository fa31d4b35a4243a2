// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two kernels of attention's gradient on emulated grids: types, sizes with remainders, memory orders, and
// hidden keys.
#include "backends/cuda/target.h"
#include "backends/llvm/gpu/attention/gpu_tiled_products.h"
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

struct Gradient {
  bool of_queries = false;  // else of keys and values
  DType dtype = f16;
  int64_t batch = 1, heads = 2, queries = 64, keys = 64, depth = 64, features = 64;
  bool causal = false;
  bool heads_inside = false;     // memory order is [batch, queries, heads, depth]
  bool keys_transposed = false;  // [batch, heads, depth, keys]
  bool same_values = true;       // the products read the operands that made the matrices
};

struct Built {
  Builder builder;
  std::vector<loop::BufferId> operands;  // of 16 bits
  loop::BufferId delta;
};

Built gradient(const Gradient& shape) {
  Built built;
  auto& b = built.builder;
  const int64_t batch = shape.batch, heads = shape.heads, queries = shape.queries, keys = shape.keys;
  const auto dims = [&](int64_t outer, int64_t inner, bool transposed) {
    if (transposed) return std::vector<int64_t>{batch, heads, inner, outer};
    return shape.heads_inside ? std::vector<int64_t>{batch, outer, heads, inner}
                              : std::vector<int64_t>{batch, heads, outer, inner};
  };
  const auto at = [&](Expr n, Expr h, Expr outer, Expr inner, bool transposed = false) {
    if (transposed) return std::vector<Expr>{n, h, inner, outer};
    return shape.heads_inside ? std::vector<Expr>{n, outer, h, inner} : std::vector<Expr>{n, h, outer, inner};
  };
  const auto operand = [&](int64_t outer, int64_t inner, bool transposed = false) {
    built.operands.push_back(b.input(shape.dtype, dims(outer, inner, transposed)));
    return built.operands.back();
  };
  const auto q = operand(queries, shape.depth), k = operand(keys, shape.depth, shape.keys_transposed),
             v = operand(keys, shape.features), g = operand(queries, shape.features);
  const auto other_q = shape.same_values ? q : operand(queries, shape.depth);
  const auto log = b.input(f32, {batch, heads, queries}), delta = b.input(f32, {batch, heads, queries});
  built.delta = delta;
  const auto dv = shape.of_queries ? none : b.output(shape.dtype, dims(keys, shape.features, false));
  const auto d = b.output(shape.dtype, dims(shape.of_queries ? queries : keys, shape.depth, false));
  const auto local = [&](DType dtype) {
    return b.buffer(dtype, FE_BUFFER_LOCAL, {batch, heads, queries, keys}, {0, 0, keys, 1});
  };
  const auto scores = local(f32), powers = local(f32), products = local(f32), gradients = local(shape.dtype);
  const auto rounded = shape.of_queries ? none : local(shape.dtype);
  constexpr double scale = 1.0 / 128;

  auto i = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, queries, keys}, {shape.depth});
  const auto matrix = [&] { return std::vector<Expr>{i[0], i[1], i[2], i[3]}; };
  const auto product = b.contract(b.load(q, at(i[0], i[1], i[2], i[4])),
                                  b.load(k, at(i[0], i[1], i[3], i[4], shape.keys_transposed)));
  b.store(scores, matrix(), product);

  i = b.begin(FE_STATEMENT_MAP, {batch, heads, queries, keys});
  auto score = b.prim(Prim::mul_, b.load(scores, matrix()), b.constant(f32, scale));
  auto power = b.prim(Prim::exp_, b.prim(Prim::sub_, score, b.load(log, {i[0], i[1], i[2]})));
  if (shape.causal)
    power = b.prim(Prim::where_, b.prim(Prim::ge_, b.index_value(i[2]), b.index_value(i[3])), power,
                   b.constant(f32, 0));
  b.store(powers, matrix(), power);
  if (!shape.of_queries) b.store(rounded, matrix(), b.cast(power, shape.dtype));

  if (!shape.of_queries) {
    i = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, keys, shape.features}, {queries});
    const auto sum =
        b.contract(b.load(rounded, {i[0], i[1], i[4], i[2]}), b.load(g, at(i[0], i[1], i[4], i[3])));
    b.store(dv, at(i[0], i[1], i[2], i[3]), sum);
  }

  i = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, queries, keys}, {shape.features});
  const auto second =
      b.contract(b.load(g, at(i[0], i[1], i[2], i[4])), b.load(v, at(i[0], i[1], i[3], i[4])));
  b.store(products, matrix(), second);

  i = b.begin(FE_STATEMENT_MAP, {batch, heads, queries, keys});
  const auto off = b.prim(Prim::sub_, b.load(products, matrix()), b.load(delta, {i[0], i[1], i[2]}));
  const auto of_score =
      b.prim(Prim::mul_, b.prim(Prim::mul_, b.load(powers, matrix()), off), b.constant(f32, scale));
  b.store(gradients, matrix(), b.cast(of_score, shape.dtype));

  const int64_t kept = shape.of_queries ? queries : keys, walked = shape.of_queries ? keys : queries;
  i = b.begin(FE_STATEMENT_CONTRACT, {batch, heads, kept, shape.depth}, {walked});
  const auto weight = shape.of_queries ? b.load(gradients, {i[0], i[1], i[2], i[4]})
                                       : b.load(gradients, {i[0], i[1], i[4], i[2]});
  const auto value = shape.of_queries ? b.load(k, at(i[0], i[1], i[4], i[3], shape.keys_transposed))
                                      : b.load(other_q, at(i[0], i[1], i[4], i[3]));
  b.store(d, at(i[0], i[1], i[2], i[3]), b.contract(weight, value));
  b.kernel.shared = 2;
  return built;
}

/// `taken`: the kernel keeps tiles of the matrices in registers.
void check_gradient(const Gradient& shape, bool taken = true) {
  for (const bool of_queries : {false, true}) {
    auto one = shape;
    one.of_queries = of_queries;
    SCOPED_TRACE(detail::concatenate(of_queries ? "queries " : "keys ", name_of(shape.dtype), " ",
                                     shape.queries, " x ", shape.keys, " x ", shape.depth, " x ",
                                     shape.features));
    const auto built = gradient(one);
    auto planned = built.builder.kernel;
    const auto target = cuda::target_of(cuda::parse_device("sm_90a"));
    EXPECT_EQ(emitter::plan_gpu_tiled_products(target, planned).has_value(), taken)
        << loop::find_tiled_products(planned.pool, planned).reason;
    Options options{.tolerance = taken ? Options().tolerance : 1e-5};
    // No sum has terms of both signs, so that results are not small differences of large numbers.
    options.set = [&](loop::BufferId buffer, char* data) {
      const int64_t count = built.builder.kernel.buffers[buffer].extent();
      if (std::ranges::find(built.operands, buffer) != built.operands.end())
        for (int64_t k = 0; k < count; ++k)
          if (shape.dtype == f32)
            reinterpret_cast<uint32_t*>(data)[k] &= 0x7fff'ffff;
          else
            reinterpret_cast<uint16_t*>(data)[k] &= 0x7fff;
      if (buffer == built.delta)
        for (int64_t k = 0; k < count; ++k) reinterpret_cast<uint32_t*>(data)[k] |= 0x8000'0000;
    };
    check(built.builder, options);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(GpuTiledProducts, Types) {
  for (const auto dtype : {f16, bf16}) {
    check_gradient({.dtype = dtype});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuTiledProducts, SizesWithRests) {
  for (const auto& [queries, keys] : {std::pair{16, 8}, {72, 61}, {65, 128}, {130, 3}}) {
    check_gradient({.heads = 1, .queries = queries, .keys = keys, .depth = 32, .features = 32});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuTiledProducts, LengthsOfRows) {
  for (const auto& [depth, features] : {std::pair{8, 128}, {40, 8}, {80, 80}, {128, 72}}) {
    check_gradient({.heads = 1, .queries = 33, .keys = 72, .depth = depth, .features = features});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuTiledProducts, OrdersInMemory) {
  for (int k = 0; k < 4; ++k) {
    check_gradient({.dtype = k < 2 ? f16 : bf16,
                    .batch = 2,
                    .queries = 20,
                    .keys = 72,
                    .depth = 24,
                    .features = 40,
                    .heads_inside = k % 2 == 0,
                    .keys_transposed = k > 1,
                    .same_values = k % 2 == 1});
    if (HasFatalFailure()) return;
  }
}

TEST(GpuTiledProducts, HiddenKeys) {
  check_gradient(
      {.batch = 2, .heads = 1, .queries = 77, .keys = 77, .depth = 16, .features = 16, .causal = true});
}

TEST(GpuTiledProducts, WhatDoesNotFitIsDoneOtherwise) {
  const std::vector<Gradient> shapes = {
      {.dtype = f32, .queries = 16, .keys = 16, .depth = 16, .features = 16},
      {.queries = 16, .keys = 16, .depth = 12, .features = 16},
      {.queries = 16, .keys = 16, .depth = 16, .features = 136}};
  for (const auto& shape : shapes) {
    check_gradient(shape, false);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ferrite::kernel_test
