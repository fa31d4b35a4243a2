// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph as flat bytes (abi/flat_graph.h), for other processes and for plugins that look at whole regions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/graph/print.h"

namespace ferrite::core::graph {

struct FlatOptions {
  /// Constants in memory go by value up to here (literals always); what larger ones hold is not in the bytes. Those in files are
  /// references.
  uint64_t max_data = max_printed_data;
  /// Where not empty: takes the bytes of each constant that is no literal, wherever it lies, and gives the offset at which they are
  /// kept. The flat form then names no files.
  std::function<uint64_t(std::span<const std::byte>)> keep;
};

/// The weights that FlatOptions::keep took.
struct KeptWeights {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// The bytes, and what stands for which of their numbers.
struct FlatBytes {
  std::vector<std::byte> bytes;
  std::vector<NodeId> nodes;
  std::vector<ValueId> values;
};

/// The whole graph. FE-P33 where a node reads a value that no node before it makes, or something exceeds the form's 32-bit
/// numbers or its nesting of expressions.
Result<FlatBytes> write_flat(const Graph& graph, const FlatOptions& options = {});

/// Some of its nodes, in the graph's order: what they read and do not make are inputs or constants, what others read of them are
/// outputs under the value's name, or one that says where it comes from. FE-G03 for a node that is not there; else as above.
Result<FlatBytes> write_flat(const Graph& graph, std::span<const NodeId> nodes,
                             const FlatOptions& options = {});

/// A graph that was read, and what its numbers became.
struct FlatRead {
  Graph graph;
  std::vector<NodeId> nodes;
  std::vector<ValueId> values;
};

/// Of a written graph, one that prints the same. Any bytes are answered: FE-P34 for what is no flat graph, FE-G codes for what
/// no graph can hold; no more memory is taken than a constant times their number. Ops and types are not checked against a
/// registry (verify.h does).
Result<FlatRead> read_flat(std::span<const std::byte> bytes, const std::string& weight_folder);
/// The same of one that was written with FlatOptions::keep: FE-P34 too where a weight does not lie in `weights`, or in a file.
Result<FlatRead> read_flat(std::span<const std::byte> bytes, const KeptWeights& weights);

}  // namespace ferrite::core::graph
