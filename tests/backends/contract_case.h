// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a contract kernel on guarded memory and compares it with the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "contract_kernels.h"
#include "guarded.h"
#include "packed.h"

namespace ferrite::contract_test {

inline double tolerance(DType dtype, int64_t depth) {
  const double scale = std::sqrt(static_cast<double>(depth) + 1);
  if (is_f8(dtype)) return std::ldexp(1.0, -f8_format(dtype).mantissa);
  return dtype == f64 ? 1e-14 * scale : dtype == f32 ? 4e-7 * scale : dtype == f16 ? 2e-3 : 1.2e-2;
}

/// A kernel, its data, and the interpreter's results.
class Case {
 public:
  /// `change`: modifies the first buffer, the image of a convolution.
  explicit Case(const kernel_test::Builder& built, const std::function<void(DType, char*)>& change = {})
      : kernel_(built.kernel) {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<char*> pointers;
    for (const auto& buffer : kernel_.buffers) {
      data_.emplace_back(static_cast<size_t>(buffer.bytes()));
      const double from = buffer.dtype == u8 ? 128 : 0, span = is_float(buffer.dtype) ? 1 : 127;
      if (buffer.kind != FE_BUFFER_LOCAL)
        for (int64_t e = 0; e < buffer.extent(); ++e)
          write(buffer.dtype, data_.back().data(), e, from + span * uniform(random));
    }
    if (change) change(kernel_.buffers[0].dtype, data_[0].data());
    expected_ = data_;
    for (auto& bytes : expected_) pointers.push_back(bytes.data());
    Interpreter(kernel_, pointers).run();
    for (const auto& var : kernel_.statements[0].vars)
      if (var.kind == loop::VarKind::reduction) depth_ *= var.extent;
  }

  /// `winograd`: tests the candidate with Winograd blocks.
  void check(const emitter::Target& target, bool packed, bool winograd = false) const {
    const emitter::GemmConfig config{.winograd = winograd};
    loop::Kernel kernel = kernel_;
    std::vector<std::unique_ptr<kernel_test::Guarded>> memory;
    std::vector<char*> data;
    for (const auto& bytes : data_) {
      memory.push_back(std::make_unique<kernel_test::Guarded>(bytes.size()));
      std::copy(bytes.begin(), bytes.end(), memory.back()->data);
      data.push_back(memory.back()->data);
    }
    std::vector<char*> actual = data;
    if (packed)
      for (const auto& layout : wanted_layouts(target, kernel, winograd)) {
        loop::Packing packing;
        auto bytes = kernel_test::pack(layout, kernel.buffers[layout.buffer], data[layout.buffer], packing,
                                       kernel.pool);
        // The emitter may rely on the alignment of the base address.
        bytes.resize((bytes.size() + 63) / 64 * 64);
        memory.push_back(std::make_unique<kernel_test::Guarded>(bytes.size()));
        std::copy(bytes.begin(), bytes.end(), memory.back()->data);
        actual[layout.buffer] = memory.back()->data;
        auto& buffer = kernel.buffers[layout.buffer];
        buffer.packing = packing;
        buffer.strides.clear();
        buffer.offset = 0;
      }
    std::vector<void*> arguments;
    for (size_t b = 0; b < kernel.buffers.size(); ++b)
      if (kernel.buffers[b].kind != FE_BUFFER_LOCAL) arguments.push_back(actual[b]);

    ASSERT_TRUE(emitter::can_emit_gemm(target, kernel, config));
    auto compiled = compile(target, kernel, false, config);
    // Workers whose workspace holds NaN run the tasks in three ranges, the last one first.
    const int64_t tasks = compiled.tasks;
    const int64_t cuts[] = {0, tasks / 3, tasks / 2, tasks};
    for (int range = 2; range >= 0; --range) {
      kernel_test::Guarded workspace(static_cast<size_t>((compiled.workspace + 63) / 64 * 64));
      int64_t error = 0;
      if (cuts[range] < cuts[range + 1])
        compiled.entry(arguments.data(), cuts[range], cuts[range + 1], range, workspace.data, &error);
      ASSERT_EQ(error, 0);
    }
    for (size_t b = 0; b < kernel.buffers.size(); ++b)
      if (kernel.buffers[b].kind == FE_BUFFER_OUTPUT)
        compare(kernel.buffers[b], expected_[b].data(), data[b]);
  }

  /// In results [height][width][channels], those at most two positions away from here need not be numbers.
  void let_spread(int64_t y, int64_t x, int64_t width, int64_t channels) {
    may_spread_ = [=](int64_t e) {
      const int64_t position = e / channels;
      return std::max(std::abs(position / width - y), std::abs(position % width - x)) <= 2;
    };
  }

 private:
  void compare(const loop::Buffer& buffer, const char* expected, const char* got) const {
    const double allowed = tolerance(buffer.dtype, depth_);
    for (int64_t e = 0; e < buffer.extent(); ++e) {
      const double wanted = read(buffer.dtype, expected, e), value = read(buffer.dtype, got, e);
      if (!std::isfinite(wanted) || !std::isfinite(value)) {
        ASSERT_FALSE(std::isfinite(value)) << "element " << e << " is " << value;
        ASSERT_TRUE(!std::isfinite(wanted) || (may_spread_ && may_spread_(e)))
            << "element " << e << " is " << value << ", not " << wanted;
        continue;
      }
      ASSERT_LE(std::abs(value - wanted), allowed * (1 + std::abs(wanted)))
          << "element " << e << ": " << value << ", not " << wanted;
    }
  }

  loop::Kernel kernel_;
  std::vector<std::vector<char>> data_, expected_;
  int64_t depth_ = 1;
  std::function<bool(int64_t)> may_spread_;
};

}  // namespace ferrite::contract_test
