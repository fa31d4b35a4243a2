// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A program as a graph to be drawn: boxes that hold operations, and edges between them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ferrite::core::graph {
class Graph;
}
namespace ferrite::core::schedule {
struct Schedule;
}

namespace ferrite::core::observe {

struct GraphView {
  struct Operation {
    std::string op;
    std::string names;  ///< of the model's nodes; may be empty
  };
  /// A node of the graph, or a kernel of the schedule.
  struct Box {
    std::vector<Operation> operations;  ///< of a kernel each node once, in order
    std::string type;                   ///< of a node: that of its first result
    bool at_load = false;               ///< a kernel that runs once, when the program is loaded
  };
  std::string stage;
  std::vector<Box> boxes;  ///< in an order of execution
  std::vector<std::pair<uint32_t, uint32_t>>
      edges;  ///< from a box to a later one that reads a result, each once
};

/// Constants are no boxes.
GraphView view_of(const graph::Graph& graph);
/// A box for each group.
GraphView view_of(const schedule::Schedule& schedule);

}  // namespace ferrite::core::observe
