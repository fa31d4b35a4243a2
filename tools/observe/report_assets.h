// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The style sheet and the script of the report's page, which are part of it.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::cli::html {

extern const std::string_view style;
/// Sorts and folds the table of kernels, and unfolds and zooms the pictures of the graph. The page shows the
/// same without it.
extern const std::string_view script;

/// The source by which a Content-Security-Policy allows one script alone: "sha256-..." (CSP level 3).
std::string policy_source(std::string_view text);

}  // namespace ferrite::cli::html
