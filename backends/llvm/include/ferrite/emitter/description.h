// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptions of targets as text: "NAME clock=1980000".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::emitter {

/// The words of a description. Immutable.
class Description {
 public:
  struct Word {
    std::string_view key;  ///< empty: the value stands alone
    std::string_view value;
  };

  /// Keeps a view of the text. `code` is of what it throws.
  Description(std::string_view text, std::string_view code);

  const std::vector<Word>& words() const { return words_; }

  /// The value as a number. Throws Failure where it is none above 0.
  int64_t positive(const Word& word) const;
  /// Throws Failure; `known` is the list of keys for people.
  [[noreturn]] void refuse(const Word& word, std::string_view known) const;

 private:
  std::string code_;
  std::vector<Word> words_;
};

}  // namespace ferrite::emitter
