// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses the values of a joint graph that its forward part keeps for its backward part.
//
// The choice is a minimum cut, as in PyTorch's partitioner (min_cut_rematerialization_partition): each value
// can be kept, which costs its bytes, or be computed again from others. Dinic's algorithm finds the cut. Of
// the cuts of fewest bytes it takes the one that computes least again. Values that
// fusion computes within the kernels that read them are free to compute again. Results of matrix products,
// convolutions, reductions and scatters are not, and are kept unless the memory budget asks for less.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"

namespace ferrite::core::joint {

/// How an input of a joint graph counts. The values are those of FERRITE_INPUT_*.
enum class InputKind : uint8_t {
  transient,  ///< to keep it costs its bytes
  held,       ///< it stays in memory in any case, as weights do
  tangent     ///< the gradient of a forward output: only the backward part has it
};

/// The order in which the dims of saved values lie in memory.
struct SavedOrder {
  std::vector<int64_t> dims;   ///< of the values
  std::vector<int64_t> order;  ///< [rank]: by position, the dim that is stored there; the last is contiguous
};

struct PartitionOptions {
  std::vector<InputKind> inputs;  ///< by input of the joint graph
  /// Between the fewest bytes that can be saved (0) and the bytes that are saved where nothing expensive is
  /// computed again (1).
  double memory_budget = 1;
  /// Names of the model's nodes, as in graph::Node::origin: those whose results are not computed again, and
  /// those whose results are never saved.
  std::set<std::string, std::less<>> saved, recomputed;
  std::vector<SavedOrder> orders{};  ///< without one, values are saved row by row
  std::string reorder_op{};          ///< for `orders`: has one operand, and its dims as the attribute "perm"
  bool donate_saved = false;  ///< the backward graph may overwrite saved values that no other output is
};

struct SavedValues {
  std::vector<graph::ValueId> values;  ///< inputs first, then results in the order of the graph
  int64_t bytes = 0;                   ///< without held inputs
};

/// Whether a node of the joint graph depends on a tangent, by node. Errors: see partition().
Result<std::set<graph::NodeId>> backward_nodes(const graph::Graph& joint,
                                               const std::vector<InputKind>& inputs);

/// The bytes never grow as the budget falls. `backward`: of backward_nodes(). Errors: see partition().
Result<SavedValues> choose_saved_values(const graph::Graph& joint, const plugin::Registry& registry,
                                        std::string_view device, const PartitionOptions& options,
                                        const std::set<graph::NodeId>& backward);

/// The nodes that the values depend on, down to `given`.
std::set<graph::NodeId> nodes_before(const graph::Graph& graph, const std::vector<graph::ValueId>& values,
                                     const std::set<graph::ValueId>& given);

}  // namespace ferrite::core::joint
