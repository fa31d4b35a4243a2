// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The table of services that the host process provides to plugins.
#pragma once

#include <memory>

#include "ferrite/abi/plugin.h"

namespace ferrite::core::plugin {

/// Logging to standard error, and the process's one pool of workers. Must outlive the plugins created with
/// it. Any-thread.
std::unique_ptr<fe_host> make_host();

}  // namespace ferrite::core::plugin
