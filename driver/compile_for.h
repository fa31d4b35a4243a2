// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The programs of a package: one graph, compiled for each of several targets.
#pragma once

#include <span>
#include <vector>

#include "driver/session.h"

namespace ferrite::core {

/// Options by which a program is compiled for the target and not loaded. FE-D24 for a name that is no target.
Result<CompileOptions> options_for(const TargetName& target, const CompileOptions& options,
                                   const plugin::Registry& registry);

/// A program for each of the targets, not loaded, or one for this machine where none is named; by what a run is estimated to take, and in
/// the order of their names where that is the same. Model::save() says what stands behind devices with memory of their own. FE-D24 for
/// names that are no targets, one twice, or too many of them; FE-K54 where a device has no code to keep.
Result<std::vector<Compilation>> compile_for(const graph::Graph& graph, const plugin::Registry& registry,
                                             const CompileOptions& options,
                                             std::span<const TargetName> targets);

}  // namespace ferrite::core
