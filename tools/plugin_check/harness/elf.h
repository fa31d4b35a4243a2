// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the file of a shared library without loading it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin_check {

struct ElfLibrary {
  uint16_t machine = 0;  ///< EM_*
  bool executable_stack = false;
  bool text_relocations = false;      ///< relocations write to its code when it is loaded
  std::vector<std::string> needed;    ///< DT_NEEDED
  std::vector<std::string> exported;  ///< defined symbols to which other libraries can bind, sorted
  std::string interpreter;            ///< for programs: the dynamic loader that starts them

  /// FE-P40 for bytes that are no ELF file of this machine's word size and byte order, or a damaged one; no
  /// offset in the file is trusted.
  static Result<ElfLibrary> parse(std::span<const std::byte> bytes);
  /// FE-P40 also where the file cannot be read.
  static Result<ElfLibrary> read(const std::string& path);
};

/// "x86-64" and so on.
std::string machine_name(uint16_t machine);

}  // namespace ferrite::core::plugin_check
