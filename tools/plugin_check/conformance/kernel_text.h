// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the text of one case of the conformance list.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ir/loop/scalar.h"
#include "core/ir/text/print_loops.h"
#include "ferrite/dtype.hpp"

namespace ferrite::core::plugin_check {

using Dims = std::vector<int64_t>;

/// The text of one program: buffers are declared in the order of their numbers.
class Text {
 public:
  std::string input(DType dtype, const Dims& dims) {
    declare(dtype, dims, fmt::format("input {}", inputs_++));
    return fmt::format("@{}", buffers_++);
  }
  std::string output(DType dtype, const Dims& dims) {
    declare(dtype, dims, fmt::format("output {}", outputs_++));
    return fmt::format("@{}", buffers_++);
  }
  std::string temporary(DType dtype, const Dims& dims) {
    declare(dtype, dims, "temporary");
    return fmt::format("@{}", buffers_++);
  }
  void version(const std::string& buffer) { tables_ += fmt::format("buffer {}.1\n", buffer); }
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += fmt::format(format, std::forward<Args>(args)...) + "\n";
  }
  std::string finish(const std::string& result) const {
    return fmt::format("ferrite loops 0\n{}outputs {}\n{}", tables_, result, body_);
  }

 private:
  void declare(DType dtype, const Dims& dims, std::string_view role) {
    tables_ += fmt::format("buffer @{} : {}[{}] {}\n", buffers_, name_of(dtype), fmt::join(dims, ", "), role);
  }
  std::string tables_, body_;
  int inputs_ = 0, outputs_ = 0, buffers_ = 0;
};

/// A constant in the form of texts.
inline std::string number(DType dtype, double value) {
  const uint64_t bits = is_float(dtype) ? loop::scalar::float_bits(dtype, value)
                                        : loop::scalar::int_bits(dtype, static_cast<int64_t>(value));
  return loop::format_bits(dtype, bits);
}

}  // namespace ferrite::core::plugin_check
