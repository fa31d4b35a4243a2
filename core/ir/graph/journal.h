// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The journal of a graph: how to undo each edit, last first. Only Graph uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ir/graph/graph.h"

namespace ferrite::core::graph {

class Journal {
 public:
  struct Entry {
    NodeId node;    ///< made or changed; none: something of the signature
    ValueId value;  ///< likewise
    std::function<void(Graph&)> undo;
  };

  std::vector<Entry> entries;
  uint64_t epoch = 0;
  // Erased since the last commit: dead, but with their contents, so that undo can bring them back.
  std::vector<uint32_t> erased_nodes, erased_values;
};

}  // namespace ferrite::core::graph
