// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Words of commands that are shown to people.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::core {

/// A word as a shell reads it back: as it is where nothing in it means anything to one, else in single quotes.
std::string shell_word(std::string_view word);

}  // namespace ferrite::core
