// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Copies a part of a graph to a graph of its own.
#pragma once

#include <map>
#include <string>

#include "core/ir/graph/graph.h"

namespace ferrite::core::joint {

/// The part of `whole` that has been copied to `part`. Constants are copied when a node first reads them, and
/// share their contents; names, attributes and provenance are kept. Add inputs, then nodes in the order of
/// the whole, then outputs. Both graphs must outlive it.
class Subgraph {
 public:
  Subgraph(const graph::Graph& whole, graph::Graph& part) : whole_(whole), part_(part) {}

  bool has(graph::ValueId value) const { return images_.contains(value); }
  /// The value in the part; none if it was not copied.
  graph::ValueId image(graph::ValueId value) const {
    return has(value) ? images_.at(value) : graph::ValueId();
  }
  /// The value's input of the part is named `name`; if that is empty, as in the whole, or "inK" where the
  /// whole has no name.
  Result<void> add_input(graph::ValueId value, std::string name);
  /// `image` is the value in the part.
  void set_image(graph::ValueId value, graph::ValueId image) { images_[value] = image; }
  /// FE-G03 if an operand is neither a constant nor copied.
  Result<void> add_node(graph::NodeId node);
  Result<void> add_output(graph::ValueId value, std::string name);

 private:
  Result<graph::ValueId> copied(graph::ValueId value);

  const graph::Graph& whole_;
  graph::Graph& part_;
  std::map<graph::ValueId, graph::ValueId> images_;
};

}  // namespace ferrite::core::joint
