// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The omissions of a comparison, and their reasons: a report of "no difference" also reports how much was not
// compared.
#pragma once

#include <cstddef>
#include <string>

#include "core/support/error.h"

namespace ferrite::core::validate {

class Uncompared {
 public:
  void too_large() { ++too_large_; }
  /// The interpreter cannot lower or run the graph, or its types cannot be compared.
  void failed(const Error& fault) {
    if (failed_++ == 0) fault_ = fault.message();
  }
  size_t count() const { return too_large_ + failed_; }

  /// "2 too large for the interpreter, 1 that it cannot run (FE-R34 …)"; only the first error is given. Empty
  /// where nothing was left out.
  std::string text() const {
    std::string text;
    if (too_large_ > 0) text = fmt::format("{} too large for the interpreter", too_large_);
    if (failed_ > 0)
      text += fmt::format("{}{} that {} cannot run ({})", text.empty() ? "" : ", ", failed_,
                          text.empty() ? "the interpreter" : "it", fault_);
    return text;
  }
  /// ", 3 not compared: …", to be appended to a summary; empty where nothing was left out.
  std::string and_text() const {
    return count() == 0 ? "" : fmt::format(", {} not compared: {}", count(), text());
  }

 private:
  size_t too_large_ = 0, failed_ = 0;
  std::string fault_;
};

}  // namespace ferrite::core::validate
