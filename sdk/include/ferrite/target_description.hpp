// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses target descriptions: "NAME clock=1980000".
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/error.hpp"

namespace ferrite::inline v0 {

/// The words of a description. Immutable.
class TargetDescription {
 public:
  struct Word {
    std::string_view key;  ///< empty: a value without a key
    std::string_view value;
  };

  /// Keeps a view of the text. `code` is the code of the errors it throws.
  TargetDescription(std::string_view text, std::string_view code);

  const std::vector<Word>& words() const { return words_; }

  /// The value as a positive number. Throws Failure otherwise.
  int64_t positive(const Word& word) const;
  /// Throws Failure; `known` lists the valid keys, for people.
  [[noreturn]] void refuse(const Word& word, std::string_view known) const;

 private:
  std::string code_;
  std::vector<Word> words_;
};

inline TargetDescription::TargetDescription(std::string_view text, std::string_view code) : code_(code) {
  for (constexpr std::string_view blanks = " \t\r\n";;) {
    const auto start = text.find_first_not_of(blanks);
    if (start == std::string_view::npos) return;
    text.remove_prefix(start);
    const auto word = text.substr(0, text.find_first_of(blanks));
    text.remove_prefix(word.size());
    const auto equal = word.find('=');
    if (equal == std::string_view::npos)
      words_.push_back({{}, word});
    else
      words_.push_back({word.substr(0, equal), word.substr(equal + 1)});
  }
}

inline int64_t TargetDescription::positive(const Word& word) const {
  int64_t value = 0;
  const auto text = word.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0)
    fail(code_, "'", word.key, "=", text, "' of the target description is no positive number");
  return value;
}

inline void TargetDescription::refuse(const Word& word, std::string_view known) const {
  fail(code_, "unknown key '", word.key, "' in the target description; known: ", known);
}

}  // namespace ferrite::inline v0
