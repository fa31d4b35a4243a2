// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The subcommands of `ferrite plugin`, one file each.
#pragma once

#include "tools/cli/common.h"

namespace ferrite::cli {

Run add_plugin_list(CLI::App& command);
Run add_plugin_order(CLI::App& command);
Run add_plugin_lock(CLI::App& command);
Run add_plugin_new(CLI::App& command);
Run add_plugin_schema(CLI::App& command);
Run add_plugin_check(CLI::App& command);

}  // namespace ferrite::cli
