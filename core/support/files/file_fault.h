// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace ferrite::core {

/// Why a file or folder cannot be made, opened or written, by the system's `number` of it (errno), and what to do: "there is no
/// folder 'out'; make it, or correct the path". Where the number is 0 the system said nothing.
std::string file_fault(const std::string& path, int number);

}  // namespace ferrite::core
