// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report's pictures of the program by stage: boxes in layers by depth, edges from a result to its
// readers.
#pragma once

#include <span>
#include <string>

#include "core/observe/graph_view.h"
#include "tools/observe/report_kernels.h"

namespace ferrite::cli::html {

/// The section. Kernels of the schedule have their row's number and time.
std::string graphs(std::span<const core::observe::GraphView> views, const KernelTimes& kernels);

}  // namespace ferrite::cli::html
