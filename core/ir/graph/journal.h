// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The undo journal of a graph: the inverse of each edit, undone last first. Only Graph uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/ir/graph/graph.h"

namespace ferrite::core::graph {

class Journal {
 public:
  struct Entry {
    NodeId node;    ///< made or changed; none: an edit of the signature
    ValueId value;  ///< likewise
    std::function<void(Graph&)> undo;
  };

  std::vector<Entry> entries;
  uint64_t epoch = 0;
  // Erased since the last commit. They are dead but keep their contents, so that undo can restore them.
  std::vector<uint32_t> erased_nodes, erased_values;
};

}  // namespace ferrite::core::graph
