// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L1: the plugin is loaded, created and destroyed.
#pragma once

#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

/// Loads the plugin, compares it with its descriptor, creates a second instance beside the first one, and a
/// third after both are destroyed.
void check_loading(const CheckOptions& options, Runner& runner);

}  // namespace ferrite::core::plugin_check
