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

/// Which part: what `outputs` depend on, down to `inputs`, whatever makes those in the whole, and to constants.
struct Part {
  std::vector<graph::ValueId>
      inputs;  ///< inputs of the part in this order, used or not; constants may be among them
  std::vector<graph::ValueId> outputs;
  std::map<int64_t, int64_t> sizes;  ///< inputs have these sizes instead
};

/// The part, its nodes inferred anew, with names, origins and constants (by value) of the whole. FE-R35 where an input
/// of the whole is reached that is not among the part's; else what the ops say of other sizes.
Result<graph::Graph> extract(const graph::Graph& whole, const graph::OpRegistry& registry, const Part& part);

/// The inputs of the whole, and of `cut`, at which the ways up from `roots` end; `cut` holds none of the roots. In the
/// order in which they are met.
std::vector<graph::ValueId> ends_of(const graph::Graph& whole, std::span<const graph::ValueId> roots,
                                    const std::set<graph::ValueId>& cut);

}  // namespace ferrite::core::validate
