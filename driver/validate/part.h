// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of a graph as graphs of their own.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "core/support/error.h"

namespace ferrite::core::validate {

/// A part: the nodes on which `outputs` depend, down to `inputs`, whatever computes these in the whole graph,
/// and to constants.
struct Part {
  std::vector<graph::ValueId>
      inputs;  ///< inputs of the part in this order, used or not; constants may be among them
  std::vector<graph::ValueId> outputs;
  std::map<int64_t, int64_t> sizes;  ///< replaces these sizes of inputs
};

/// The part, its nodes inferred again, with names, origins and constants (by value) of the whole graph.
/// FE-R35 where it depends on an input of the whole that is not among its inputs; else the ops' errors for
/// other sizes.
Result<graph::Graph> extract(const graph::Graph& whole, const graph::OpRegistry& registry, const Part& part);

/// The inputs of the whole graph, and the values of `cut`, at which the paths up from `roots` end, in the
/// order in which they are met; `cut` has none of the roots.
std::vector<graph::ValueId> ends_of(const graph::Graph& whole, std::span<const graph::ValueId> roots,
                                    const std::set<graph::ValueId>& cut);

}  // namespace ferrite::core::validate
