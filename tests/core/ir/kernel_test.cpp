// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat container: round trips, canonical bytes, hostile bytes.
#include "ferrite/kernel.hpp"

#include <random>

#include "core/ir/kernel/flatten.h"
#include "core/ir/kernel/legalise.h"
#include "core/ir/text/print_loops.h"
#include "tests/core/ir/loop_samples.h"

namespace ferrite::core::loop::test {
namespace {

/// Memory for all buffers of a kernel, filled from a seed; indices stay small.
struct KernelMemory {
  std::vector<std::vector<std::byte>> data;
  std::vector<Memory> memory;
  KernelMemory(const Kernel& kernel, const std::vector<BufferId>& identity) {
    for (size_t k = 0; k < kernel.buffers.size(); ++k) {
      std::mt19937 random(identity[k]);
      auto& bytes = data.emplace_back(static_cast<size_t>(kernel.buffers[k].bytes()));
      for (auto& byte : bytes)
        byte = static_cast<std::byte>(kernel.buffers[k].dtype == i64 ? 0 : random() & 0x3f);
    }
    for (auto& bytes : data) memory.push_back(bytes);
  }
};

std::vector<BufferId> identity(const Kernel& kernel) {
  std::vector<BufferId> ids;
  for (BufferId id = 0; id < kernel.buffers.size(); ++id) ids.push_back(id);
  return ids;
}

TEST(FlatKernel, RoundTripsAndIsCanonical) {
  for (const auto& sample : samples(false)) {
    const Kernel kernel = kernel_of(sample->program);
    auto flat = kernel::flatten(kernel);
    ASSERT_TRUE(flat) << flat.error().message();
    EXPECT_EQ(flat->entry.size(), 34u);
    std::string error;
    auto read = read_kernel(flat->bytes, &error);
    ASSERT_TRUE(read) << error << "\n" << print(kernel);
    auto again = kernel::flatten(*read);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->bytes, flat->bytes);
    EXPECT_EQ(again->entry, flat->entry);
    // Through text, which has another pool and keeps names, too.
    auto parsed = parse_kernel(print(kernel), "kernel.fe");
    ASSERT_TRUE(parsed) << parsed.error().message();
    auto third = kernel::flatten(*parsed, "said in the provenance");
    ASSERT_TRUE(third);
    EXPECT_EQ(third->entry, flat->entry);
    EXPECT_NE(third->bytes, flat->bytes);
    EXPECT_TRUE(read_kernel(third->bytes));
  }
}

TEST(FlatKernel, ComputesTheSame) {
  for (const auto& sample : samples(false)) {
    const Kernel kernel = kernel_of(sample->program);
    auto flat = kernel::flatten(kernel);
    ASSERT_TRUE(flat);
    auto read = read_kernel(flat->bytes);
    ASSERT_TRUE(read);
    KernelMemory a(kernel, identity(kernel)), b(*read, flat->buffers);
    auto first = evaluate(kernel, a.memory), second = evaluate(*read, b.memory);
    ASSERT_TRUE(first) << first.error().message();
    ASSERT_TRUE(second) << second.error().message();
    for (size_t k = 0; k < read->buffers.size(); ++k) EXPECT_EQ(b.data[k], a.data[flat->buffers[k]]);
  }
}

TEST(FlatKernel, KeepsAnIndexIntoADimOfSizeOne) {
  Recording r;
  r.buffer(Role::input, i64, {3});
  r.buffer(Role::input, f32, {1});
  r.buffer(Role::output, f32, {3});
  r.bind();
  auto i = r.begin({3});
  r.store(3, i, r.load(2, {r.indirect(r.load(1, i), 1)}));
  ASSERT_EQ(r.end(), FE_OK) << r.text;
  r.finish();
  const std::string text = print(kernel_of(r.program));
  EXPECT_NE(text.find("[$1]"), std::string::npos) << text;
  auto parsed = parse_kernel(text, "one.fe");
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(print(*parsed), text);
  auto flat = kernel::flatten(*parsed);
  ASSERT_TRUE(flat) << flat.error().message();
  auto read = read_kernel(flat->bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(ferrite::loop::is_indirect(read->pool, read->statements[0], read->statements[0].ops[2].index));
  auto again = kernel::flatten(*read);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->bytes, flat->bytes);
}

TEST(FlatKernel, OrderOfOperationsAndNamesDoNotMatter) {
  auto record = [](bool swapped) {
    Recording r;
    const BufferId x = r.buffer(Role::input, f32, {7});
    r.program.buffers[x].name = swapped ? "left" : "x";
    r.buffer(Role::input, f32, {7});
    r.buffer(Role::output, f32, {7});
    for (int k = 0; swapped && k < 5; ++k) r.program.pool.new_symbol({0, 9});
    r.bind();
    auto i = r.begin({7});
    uint32_t a = 0, b = 0;
    if (swapped)
      b = r.prim(Prim::exp_, r.load(2, i)), a = r.prim(Prim::neg_, r.load(1, i));
    else
      a = r.prim(Prim::neg_, r.load(1, i)), b = r.prim(Prim::exp_, r.load(2, i));
    r.store(3, i, r.prim(Prim::add_, a, b));
    r.end();
    r.finish();
    return kernel::flatten(kernel_of(r.program))->entry;
  };
  EXPECT_EQ(record(false), record(true));
}

TEST(FlatKernel, SharedLoopsWithLocalBuffers) {
  // Two statements under one loop over rows: a row's sum in a local of stride 0, then the row divided by it.
  Recording r;
  r.buffer(Role::input, f32, {5, 9});
  r.buffer(Role::output, f32, {5, 9});
  r.bind();
  const auto total = r.temp(f32, {5});
  auto i = r.begin({5}, {9});
  r.store(total, {i[0]}, r.reduce(FE_REDUCE_SUM, r.load(1, i)));
  r.end();
  i = r.begin({5, 9});
  r.store(2, i, r.prim(Prim::div_, r.load(1, i), r.load(total, {i[0]})));
  r.end();
  r.finish();
  Kernel kernel = kernel_of(r.program);
  kernel.shared = 1;
  kernel.buffers[2].strides = {0};
  auto flat = kernel::flatten(kernel);
  ASSERT_TRUE(flat) << flat.error().message();
  std::string error;
  auto read = read_kernel(flat->bytes, &error);
  ASSERT_TRUE(read) << error;
  EXPECT_EQ(read->statements[0].vars[0].symbol, read->statements[1].vars[0].symbol);
  auto parsed = parse_kernel(print(*read), "kernel.fe");
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(print(*parsed), print(*read));
  std::vector<float> x(45), y(45);
  for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k + 1);
  std::vector<Memory> memory(read->buffers.size());
  for (size_t k = 0; k < memory.size(); ++k) {
    if (flat->buffers[k] == 0) memory[k] = std::as_writable_bytes(std::span(x));
    if (flat->buffers[k] == 1) memory[k] = std::as_writable_bytes(std::span(y));
  }
  auto result = evaluate(*read, memory);
  ASSERT_TRUE(result) << result.error().message();
  for (size_t row = 0; row < 5; ++row) {
    float sum = 0;
    for (size_t k = 0; k < 9; ++k) sum += x[row * 9 + k];
    for (size_t k = 0; k < 9; ++k) EXPECT_FLOAT_EQ(y[row * 9 + k], x[row * 9 + k] / sum);
  }
}

void expect_round_trip(const Kernel& kernel) {
  auto flat = kernel::flatten(kernel);
  ASSERT_TRUE(flat) << flat.error().message();
  std::string error;
  auto read = read_kernel(flat->bytes, &error);
  ASSERT_TRUE(read) << error;
  auto again = kernel::flatten(*read);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->bytes, flat->bytes);
  auto parsed = parse_kernel(print(*read), "kernel.fe");
  ASSERT_TRUE(parsed) << parsed.error().message() << print(*read);
  EXPECT_EQ(print(*parsed), print(*read));
  EXPECT_EQ(kernel::flatten(*parsed)->entry, flat->entry);
}

TEST(FlatKernel, PackedBuffersRoundTrip) {
  Recording r;
  record_contract(r);
  r.finish();
  Kernel kernel = kernel_of(r.program);
  auto& weights = kernel.buffers[1];
  auto& packing = weights.packing.emplace();
  const auto symbol = [&](int64_t extent) {
    packing.symbols.push_back(kernel.pool.new_symbol({0, extent - 1}));
  };
  auto p = [&](size_t k) { return kernel.pool.symbol(packing.symbols[k]); };
  const auto by_three = [&](index::Expr tap) {
    return std::pair(kernel.pool.floordiv(tap, 3), kernel.pool.mod(tap, 3));
  };
  weights.strides.clear();
  // [4, 3, 3, 3] stored as [1, 27, 4].
  packing.dims = {1, 27, 4};
  for (int64_t dim : packing.dims) symbol(dim);
  packing.logical = {p(2), kernel.pool.floordiv(p(1), 9), kernel.pool.mod(kernel.pool.floordiv(p(1), 3), 3),
                     kernel.pool.mod(p(1), 3)};
  expect_round_trip(kernel);
  // As five sums of nine terms for each channel and filter.
  packing = {.dims = {5, 3, 4}, .terms = 9, .symbols = {}, .logical = {}};
  for (int64_t dim : packing.dims) symbol(dim);
  symbol(packing.terms);
  const auto [y, x] = by_three(p(3));
  packing.logical = {p(2), p(1), y, x};
  expect_round_trip(kernel);
  const auto flat = kernel::flatten(kernel);
  packing.terms = 0;
  packing.symbols.pop_back();
  packing.logical = {p(2), p(1), kernel.pool.constant(0), kernel.pool.constant(0)};
  EXPECT_NE(kernel::flatten(kernel)->entry, flat->entry);
}

TEST(Legalise, ContractBecomesReduce) {
  Recording r;
  record_contract(r);
  r.finish();
  Kernel kernel = kernel_of(r.program), legal = kernel;
  ASSERT_EQ(kernel.statements[0].kind, FE_STATEMENT_CONTRACT);
  ASSERT_TRUE(kernel::legalise(legal, kernel::required_kinds, 0));
  EXPECT_EQ(legal.statements[0].kind, FE_STATEMENT_REDUCE);
  ASSERT_TRUE(verify(legal));
  KernelMemory a(kernel, identity(kernel)), b(legal, identity(legal));
  ASSERT_TRUE(evaluate(kernel, a.memory));
  ASSERT_TRUE(evaluate(legal, b.memory));
  EXPECT_EQ(a.data, b.data);
}

TEST(Legalise, NamesAKindThatCannotBeRemoved) {
  Recording r;
  record_serial(r);
  r.finish();
  Kernel kernel = kernel_of(r.program);
  auto result = kernel::legalise(kernel, kernel::kind_bit(FE_STATEMENT_MAP), 0);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, "FE-K07");
  EXPECT_EQ(result.error().status, FE_EUNSUPPORTED);
}

TEST(FlatKernel, HostileBytesAreRefusedOrRead) {
  std::mt19937 random(6);
  size_t refused = 0, accepted = 0;
  for (const auto& sample : samples(false)) {
    auto flat = kernel::flatten(kernel_of(sample->program));
    ASSERT_TRUE(flat);
    for (size_t size = 0; size < flat->bytes.size(); size += 1 + size / 16) {
      std::string error;
      EXPECT_FALSE(read_kernel(std::span(flat->bytes).first(size), &error));
      EXPECT_FALSE(error.empty());
    }
    for (int k = 0; k < 1500; ++k) {
      auto bytes = flat->bytes;
      const int count = 1 + static_cast<int>(random() % 3);
      for (int j = 0; j < count; ++j) {
        const size_t at = random() % bytes.size();
        const uint32_t values[] = {static_cast<uint32_t>(random()) & 0xff, 0, 0xff, 0x7f, 1, 0x80};
        bytes[at] = static_cast<std::byte>(values[random() % 6]);
        if (random() % 8 == 0)
          for (size_t b = at / 8 * 8; b < at / 8 * 8 + 8 && b < bytes.size(); ++b)
            bytes[b] = static_cast<std::byte>(0xff);
      }
      std::string error;
      auto read = read_kernel(bytes, &error);
      if (!read) {
        EXPECT_FALSE(error.empty());
        ++refused;
        continue;
      }
      ++accepted;
      print(*read);
      auto again = kernel::flatten(*read);
      EXPECT_TRUE(!again || read_kernel(again->bytes, &error)) << error;
    }
  }
  EXPECT_GT(refused, accepted / 10);
}

}  // namespace
}  // namespace ferrite::core::loop::test
