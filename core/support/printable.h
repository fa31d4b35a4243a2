// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text of others on its way to a terminal.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::core {

/// The text with the control characters that it has (C0 but for tab and line break, DEL, and C1 in UTF-8) as \xNN: names come from
/// files, and a terminal obeys what it is sent.
std::string printable(std::string_view text);

}  // namespace ferrite::core
