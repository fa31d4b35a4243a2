// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random graphs from all registered ops, on which passes and rules are tried.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"
#include "driver/validate/samples/tensors.h"

namespace ferrite::core::plugin_check {

/// Grows graphs node by node from the nodes of all ops' sample graphs. Attributes and constants stay as they
/// are; operands are matching values of the graph, else new inputs or constants. It has no knowledge of ops:
/// the type rule decides whether a node is valid. Ops that are random or have side effects are left out.
class Sampler {
 public:
  /// The same ops and seed give the same graphs.
  Sampler(const graph::OpRegistry& ops, uint64_t seed);

  bool empty() const { return patterns_.empty(); }
  /// The next graph: 4 to 16 nodes, some of which are duplicates or unused, so that passes have something to
  /// do.
  graph::Graph next();

 private:
  struct Operand {
    bool absent = false;
    graph::TensorType type;
    std::vector<std::byte> constant;  ///< its elements; empty: no constant
  };
  struct Pattern {
    std::string op;
    std::vector<graph::Attribute> attributes;
    std::vector<Operand> operands;
  };
  static constexpr int64_t most_elements = 4096;  // of a value

  void add_pattern(const graph::Graph& sample, graph::NodeId node);
  graph::ValueId operand_for(graph::Graph& graph, const Operand& wanted, bool any_shape,
                             graph::ValueId previous);
  bool grow(graph::Graph& graph);
  bool repeat_node(graph::Graph& graph);
  bool make(graph::Graph& graph, graph::NodeSpec spec);

  const graph::OpRegistry& ops_;
  validate::Random random_;
  std::map<std::string, std::vector<Pattern>> patterns_;  // by op
  std::vector<graph::ValueId> values_;                    // of the current graph
  const Pattern* last_ = nullptr;                         // that of the last node
  uint64_t number_ = 0;
};

}  // namespace ferrite::core::plugin_check
