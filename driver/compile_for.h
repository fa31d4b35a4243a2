// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The programs of a package: one graph, compiled for each of several targets.
#pragma once

#include <span>
#include <vector>

#include "driver/session.h"

namespace ferrite::core {

/// Options that compile a program for the target without loading it. FE-D24 for a name that is no target.
Result<CompileOptions> options_for(const TargetName& target, const CompileOptions& options,
                                   const plugin::Registry& registry);

/// One program for each target, not loaded, or one for this machine where no target is named. They are sorted
/// by the estimated time of a run, equal ones by name. Model::save() documents the fallback of devices with
/// memory of their own. FE-D24 for names that are no targets, duplicates, or too many of them; FE-K54 where a
/// device has no code that can be saved.
Result<std::vector<Compilation>> compile_for(const graph::Graph& graph, const plugin::Registry& registry,
                                             const CompileOptions& options,
                                             std::span<const TargetName> targets);

}  // namespace ferrite::core
