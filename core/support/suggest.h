// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// "did you mean": the known name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace ferrite::core {

/// The known name that is nearest to `wrong` in insertions, deletions, replacements and swaps of neighbours; of
/// equals the one with the longest beginning in common with it, then the first. Where none is near enough to be meant (more than a quarter of the letters differ), the one name that begins with
/// `wrong`, if that has four letters or more; else empty.
std::string suggest(std::string_view wrong, std::span<const std::string_view> known);

/// "; did you mean 'x'?", or nothing: what an error text ends with.
std::string did_you_mean(std::string_view wrong, std::span<const std::string_view> known);

}  // namespace ferrite::core
