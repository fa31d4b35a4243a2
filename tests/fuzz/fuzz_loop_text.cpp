// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any text as a loop program and as a kernel: refused with a code and a place, or printed, read back and
// printed the same.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/ir/text/print_loops.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

template <class Parse>
void round_trip(std::string_view text, Parse parse) {
  const auto read = parse(text, "fuzz");
  if (!read) {
    require(read.error().code.starts_with("FE-") && !read.error().where.empty());
    return;
  }
  const std::string printed = ferrite::core::loop::print(*read);
  const auto again = parse(printed, "printed");
  require(again.has_value() && ferrite::core::loop::print(*again) == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  round_trip(text, ferrite::core::loop::parse_program);
  round_trip(text, ferrite::core::loop::parse_kernel);
  return 0;
}
