// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels that bring constants into a provider's layout, run by the interpreter.
#include "core/select/pack.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "core/ir/loop/interpreter.h"

namespace ferrite::core::select {
namespace {

/// Symbol `number`.
fe_flat_expr coordinate(int64_t number) {
  fe_flat_expr expr{};
  expr.op = 1;
  expr.value = number;
  return expr;
}

loop::Buffer constant(DType dtype, std::vector<int64_t> dims) {
  loop::Buffer buffer;
  buffer.dtype = dtype;
  buffer.kind = FE_BUFFER_CONSTANT;
  buffer.strides = ferrite::loop::contiguous_strides(dims);
  buffer.dims = std::move(dims);
  return buffer;
}

template <class T>
std::vector<T> packed(const loop::Buffer& source, const OperandLayout& layout) {
  auto kernel = make_pack_kernel(source, layout);
  EXPECT_TRUE(kernel) << (kernel ? "" : kernel.error().message());
  std::vector<T> from(static_cast<size_t>(source.elements())),
      to(static_cast<size_t>(kernel->buffers[1].elements()));
  std::iota(from.begin(), from.end(), T{1});
  const loop::Memory memory[] = {std::as_writable_bytes(std::span(from)),
                                 std::as_writable_bytes(std::span(to))};
  const auto done = loop::evaluate(*kernel, memory);
  EXPECT_TRUE(done) << (done ? "" : done.error().message());
  return to;
}

/// [2, 3] stored as [4, 2] transposed: the last line is past the end.
OperandLayout transposed() { return {0, {4, 2}, {coordinate(0), coordinate(1)}, {1, 0}, 0, 0, {}}; }

/// For each row of [2, 3]: the sum of its elements, twice the last less the first, and nothing.
OperandLayout sums() {
  return {0, {2, 3}, {coordinate(0), coordinate(2)}, {0, 1}, 3, 1, {1, 1, 1, -1, 0, 2, 0, 0, 0}};
}

TEST(Pack, ElementsGoWhereTheLayoutSays) {
  EXPECT_EQ(packed<float>(constant(f32, {2, 3}), transposed()), (std::vector<float>{1, 4, 2, 5, 3, 6, 0, 0}));
}

TEST(Pack, SumsOfTerms) {
  EXPECT_EQ(packed<float>(constant(f32, {2, 3}), sums()), (std::vector<float>{6, 5, 0, 15, 8, 0}));
  EXPECT_EQ(packed<double>(constant(f64, {2, 3}), sums()), (std::vector<double>{6, 5, 0, 15, 8, 0}));
  // The third term of each sum lies past the end.
  EXPECT_EQ(packed<float>(constant(f32, {2, 2}), sums()), (std::vector<float>{3, -1, 0, 7, -3, 0}));
}

TEST(Pack, MalformedSumsAreRefused) {
  const auto source = constant(f32, {2, 3});
  const auto code_of = [&](auto&& change) {
    auto layout = sums();
    change(layout);
    const auto kernel = make_pack_kernel(source, layout);
    return kernel ? std::string() : kernel.error().code;
  };
  EXPECT_EQ(code_of([](OperandLayout&) {}), "");
  EXPECT_EQ(code_of([](OperandLayout& layout) { layout.factors.pop_back(); }), "FE-K21");
  EXPECT_EQ(code_of([](OperandLayout& layout) { layout.factor_dim = 2; }), "FE-K21");
  EXPECT_EQ(code_of([](OperandLayout& layout) { layout.factor_dim = 0; }), "FE-K21");
  EXPECT_EQ(code_of([](OperandLayout& layout) { layout.exprs[1] = coordinate(1); }), "FE-K21");
  EXPECT_EQ(code_of([](OperandLayout& layout) { layout.exprs[1] = coordinate(3); }), "FE-K21");
  EXPECT_EQ(
      code_of([](OperandLayout& layout) { layout.factors[0] = std::numeric_limits<double>::infinity(); }),
      "FE-K21");
  EXPECT_EQ(code_of([](OperandLayout& layout) {
              layout.terms = FE_MOST_TERMS + 1;
              layout.factors.resize(size_t{3} * layout.terms);
            }),
            "FE-K21");
}

TEST(Pack, SumsAreOfFloats) {
  loop::Kernel kernel;
  kernel.buffers.push_back(constant(i32, {2, 3}));
  const auto done = lay_out(kernel, sums());
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "FE-K21");
}

}  // namespace
}  // namespace ferrite::core::select
