// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "did you mean": the known name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// The known name nearest to `wrong`, counting insertions, deletions, replacements and swaps of neighbours.
/// Ties go to the name that shares the longest prefix with `wrong`, then to the first one. If more than a
/// quarter of the letters differ, and more than one, the result is the only name that begins with `wrong`,
/// provided that `wrong` has four letters or more; else it is empty.
std::string suggest(std::string_view wrong, std::span<const std::string_view> known);

/// "; did you mean 'x'?", or an empty string. Error texts append it.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> known);

}  // namespace ferrite::core
