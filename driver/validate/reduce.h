// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest graph on which an edit still changes what is computed.
#pragma once

#include "driver/validate/compare.h"

namespace ferrite::core::validate {

/// Delta debugging (Zeller and Hildebrandt, 2002) over nodes, constants and sizes. `graph` is one that the edit changes;
/// so is the result: one output, values that are made from much replaced by inputs, constants by inputs, sizes made
/// small. Deterministic; at most `most_tries` graphs are tried.
graph::Graph reduce(graph::Graph graph, const Edit& edit, const plugin::Registry& registry,
                    std::span<const Contents> contents, size_t most_tries = 600);

}  // namespace ferrite::core::validate
