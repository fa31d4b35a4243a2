// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string>

namespace ferrite::core {

/// Explains why a file or folder cannot be created, opened or written, and what to do: "there is no folder
/// 'out'; make it, or correct the path". `number` is the errno of the failed call, 0 if the system gave none.
std::string file_fault(const std::string& path, int number);

}  // namespace ferrite::core
