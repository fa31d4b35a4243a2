// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of an ELF header and its program headers that decide how the loader maps the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/support/error.h"

namespace ferrite::core {

struct ElfSegments {
  uint16_t machine = 0;  ///< EM_* of the header
  bool executable_stack = false;
  std::string interpreter;  ///< programs only: the dynamic loader that starts them (PT_INTERP)

  /// FE-P40 if the bytes are no shared library of this machine's word size and byte order, or if the file
  /// ends inside a segment: the loader would map such a file, and the first access to a missing page would
  /// kill the process.
  static Result<ElfSegments> parse(std::span<const std::byte> bytes);
};

}  // namespace ferrite::core
