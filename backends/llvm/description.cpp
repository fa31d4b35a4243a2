// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/description.h"

#include <charconv>

#include "ferrite/error.hpp"

namespace ferrite::emitter {

Description::Description(std::string_view text, std::string_view code) : code_(code) {
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

int64_t Description::positive(const Word& word) const {
  int64_t value = 0;
  const auto text = word.value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0)
    fail(code_, "'", word.key, "=", text, "' of the target description is no positive number");
  return value;
}

void Description::refuse(const Word& word, std::string_view known) const {
  fail(code_, "unknown key '", word.key, "' in the target description; known: ", known);
}

}  // namespace ferrite::emitter
