// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report's pictures of the program by stage: boxes in layers by depth, edges from a result to its
// readers.
#pragma once

#include <span>
#include <string>

#include "core/observe/graph_view.h"
#include "tools/observe/report_kernels.h"

namespace ferrite::observe::html {

/// The section of the page. Each kernel of the schedule shows its row number in the table and its time.
std::string graphs(std::span<const core::observe::GraphView> views, const KernelTimes& kernels);

}  // namespace ferrite::observe::html
