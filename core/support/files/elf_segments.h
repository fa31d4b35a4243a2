// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the header and the program headers of an ELF file say: what the loader maps it by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/support/error.h"

namespace ferrite::core {

struct ElfSegments {
  uint16_t machine = 0;  ///< EM_*
  bool executable_stack = false;
  std::string interpreter;  ///< programs: the dynamic loader that starts them

  /// FE-P40 for bytes that are no shared library of this machine's word size and byte order, or of which a segment is cut
  /// off: the loader would map it all the same, and the first access to what is missing would end the process.
  static Result<ElfSegments> parse(std::span<const std::byte> bytes);
};

}  // namespace ferrite::core
