// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of an ELF file's dynamic section that says which libraries it needs and where they lie.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace ferrite::core {

struct ElfNeeds {
  std::vector<std::string> libraries;  ///< names of libraries: DT_NEEDED
  std::string folders;                 ///< colons between them: DT_RUNPATH, or DT_RPATH where there is none

  /// Of a file that ElfSegments::parse() took. Empty if the dynamic section is damaged: the loader reports
  /// that.
  static ElfNeeds parse(std::span<const std::byte> bytes);

  /// The files that the loader would open for a library in `folder`, where a path begins with $ORIGIN. In the
  /// order of `libraries`; those that do not exist are left out.
  std::vector<std::string> files_below_origin(const std::string& folder) const;
};

}  // namespace ferrite::core
