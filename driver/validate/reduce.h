// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The smallest graph on which an edit still changes the result.
#pragma once

#include "driver/validate/compare.h"

namespace ferrite::core::validate {

/// Delta debugging (Zeller and Hildebrandt, 2002) over nodes, constants and sizes. The edit changes the
/// results of `graph`, and of the returned graph. That one has a single output, inputs in place of subgraphs
/// and constants, and small sizes. Deterministic; at most `most_tries` graphs are tried.
graph::Graph reduce(graph::Graph graph, const Edit& edit, const plugin::Registry& registry,
                    std::span<const Contents> contents, size_t most_tries = 600);

}  // namespace ferrite::core::validate
