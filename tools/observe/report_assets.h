// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The style sheet and the script of the report's page, which are part of it.
#pragma once

#include <string>
#include <string_view>

namespace ferrite::observe::html {

extern const std::string_view style;
/// The script sorts and folds the table of kernels, and unfolds and zooms the pictures of the graph. Without
/// it the page shows the same contents.
extern const std::string_view script;

/// The source expression with which a Content-Security-Policy allows only this script: "sha256-..." (CSP
/// level 3).
std::string policy_source(std::string_view text);

}  // namespace ferrite::observe::html
