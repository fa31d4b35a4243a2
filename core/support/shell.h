// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quoting words of shell commands that messages show.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::core {

/// The word as a shell must read it: unchanged if it has no character that is special to a shell, else in
/// single quotes.
std::string shell_word(std::string_view word);

}  // namespace ferrite::core
