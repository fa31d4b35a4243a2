// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Support for the kernel tests of backends: kernels are built by hand, compiled, run on guarded memory, and
// compared with the interpreter. The test that defines targets_of() and compile() selects the backend.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/ir/loop/interpreter.h"
#include "ferrite/abi/error_words.h"
#include "ferrite/error.hpp"
#include "guarded.h"
#include "kernel_builder.h"

namespace ferrite::kernel_test {

/// Fills memory with values that suit the dtype; `special` adds NaN, infinities, zeros and the ends of
/// integer ranges.
class Filler {
 public:
  explicit Filler(unsigned seed, bool special) : random_(seed), special_(special) {}
  void fill(DType dtype, char* data, int64_t count) {
    const auto bytes = static_cast<size_t>(bits_of(dtype)) / 8;
    for (int64_t k = 0; k < count; ++k) {
      uint64_t bits = is_float(dtype) ? Builder::bits(dtype, real()) : integer(dtype);
      std::memcpy(data + static_cast<size_t>(k) * bytes, &bits, bytes);
    }
  }

 private:
  double real() {
    static constexpr double odd[] = {std::numeric_limits<double>::quiet_NaN(),
                                     std::numeric_limits<double>::infinity(),
                                     -std::numeric_limits<double>::infinity(),
                                     0.0,
                                     -0.0,
                                     1e10,
                                     -1e20,
                                     0.5,
                                     -1.5,
                                     2.5};
    if (special_ && random_() % 4 == 0) return odd[random_() % std::size(odd)];
    return static_cast<double>(static_cast<int>(random_() % 2001) - 1000) / 256.0;
  }
  uint64_t integer(DType dtype) {
    if (dtype == boolean) return random_() % 2;
    if (special_ && random_() % 4 == 0) {
      const uint64_t odd[] = {0, ~uint64_t{0}, uint64_t{1} << (bits_of(dtype) - 1),
                              (uint64_t{1} << (bits_of(dtype) - 1)) - 1};
      return odd[random_() % 4];
    }
    return static_cast<uint64_t>(static_cast<int64_t>(random_() % 15) - (is_signed(dtype) ? 7 : 0));
  }
  std::mt19937 random_;
  bool special_;
};

struct Options {
  bool special = false;
  double tolerance = 0;  ///< relative, in addition to that of the dtype
  bool exact = false;    ///< all bits must agree, except those of a NaN
  unsigned seed = 1;
  std::function<void(loop::BufferId, char*)> set = {};  ///< changes the random contents
  int64_t expected_error = 0;                           ///< first error word
  std::vector<std::string> descriptions = {};  ///< targets; empty = this machine and its narrower relatives
};

/// A kernel that can be run with all its tasks, given one pointer per non-local buffer. `low`: its workspace
/// lies after an inaccessible page instead of before one.
struct Compiled {
  bool is_declined = false;  ///< the backend documents that it declines types of the kernel
  int64_t tasks = 0;
  std::string text;
  std::function<void(void* const* arguments, int64_t* error, bool low)> run;
};

/// The targets for a kernel, from Options::descriptions or of the backend; empty: the kernel is not in the
/// sample.
inline std::vector<std::string> targets_of(const Options& options);
inline Compiled compile(const loop::Kernel& kernel, const std::string& target);

inline double tolerance_of(DType dtype) {
  if (is_f8(dtype)) return std::ldexp(1.0, -f8_format(dtype).mantissa);
  return dtype == f32 ? 2e-6 : dtype == f64 ? 1e-13 : dtype == bf16 ? 1e-2 : dtype == f16 ? 2e-3 : 0;
}

/// Compiles and runs the kernel with its tasks in two ranges, and compares every output with the
/// interpreter's.
inline void check_one(const loop::Kernel& kernel, const Options& options, const std::string& description,
                      bool low) {
  SCOPED_TRACE(description.substr(0, 60));
  auto compiled = compile(kernel, description);
  if (compiled.is_declined) return;
  ASSERT_TRUE(compiled.run);
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<std::vector<std::byte>> expected;
  std::vector<void*> arguments;
  Filler filler(options.seed, options.special);
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const auto& buffer = kernel.buffers[b];
    const auto bytes = static_cast<size_t>(buffer.bytes());
    memory.push_back(std::make_unique<Guarded>(bytes, low));
    auto* data = memory.back()->data;
    if (buffer.kind != FE_BUFFER_LOCAL) filler.fill(buffer.dtype, data, buffer.extent());
    if (options.set) options.set(static_cast<loop::BufferId>(b), data);
    expected.emplace_back(bytes);
    if (bytes) std::memcpy(expected.back().data(), data, bytes);
    if (buffer.kind != FE_BUFFER_LOCAL) arguments.push_back(data);
  }
  if (options.expected_error == 0) {
    std::vector<core::loop::Memory> spans;
    for (auto& bytes : expected) spans.emplace_back(bytes);
    auto result = core::loop::evaluate(kernel, spans);
    ASSERT_TRUE(result) << result.error().message();
  }
  fe_error_words error = {};
  compiled.run(arguments.data(), error, low);
  ASSERT_EQ(error[0], options.expected_error);
  if (options.expected_error != 0) return;
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const auto& buffer = kernel.buffers[b];
    if (buffer.kind == FE_BUFFER_LOCAL) continue;
    const auto width = static_cast<size_t>(bits_of(buffer.dtype)) / 8;
    for (int64_t e = 0; e < buffer.extent(); ++e) {
      const auto at = static_cast<size_t>(e) * width;
      const auto* wanted = reinterpret_cast<const char*>(expected[b].data()) + at;
      const auto* got = memory[b]->data + at;
      if (std::memcmp(wanted, got, width) == 0) continue;
      double want = read(buffer.dtype, wanted), have = read(buffer.dtype, got);
      if (std::isnan(want) && std::isnan(have)) continue;
      double allowed = tolerance_of(buffer.dtype) + options.tolerance;
      const bool near = want == have || std::abs(want - have) <= allowed * (std::abs(want) + 1e-2);
      ASSERT_TRUE(near && !options.exact)
          << "buffer " << b << " element " << e << ": " << have << " instead of " << want;
    }
  }
}

inline void check(const Builder& built, const Options& options = {}) {
  const auto descriptions = targets_of(options);
  for (size_t k = 0; k < descriptions.size(); ++k) {
    check_one(built.kernel, options, descriptions[k], k % 2 == 1);
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace ferrite::kernel_test
