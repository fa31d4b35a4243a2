// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes foreign text safe to print on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::core {

/// The text with control characters written as \xNN (C0 except tab and line break, DEL, and C1 in UTF-8).
/// Names come from files, and a terminal would obey escape sequences in them.
std::string printable(std::string_view text);

}  // namespace ferrite::core
