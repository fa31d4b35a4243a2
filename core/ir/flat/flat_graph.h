// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph as flat bytes (abi/flat_graph.h), for other processes and for plugins that read whole regions.
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
  /// The largest constant in memory, in bytes, whose contents are included; literals always are. The contents
  /// of larger constants are omitted. Constants in files are written as references.
  uint64_t max_data = max_printed_data;
  /// If set, receives the bytes of each constant that is no literal, from memory or a file, and returns the
  /// offset at which it stored them. The flat form then names no files.
  std::function<uint64_t(std::span<const std::byte>)> keep;
};

/// The weights that FlatOptions::keep stored.
struct KeptWeights {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// The flat bytes, and which node and value each of their numbers stands for.
struct FlatBytes {
  std::vector<std::byte> bytes;
  std::vector<NodeId> nodes;
  std::vector<ValueId> values;
};

/// Writes the whole graph. FE-P33 if a node reads a value that no earlier node makes, or if a number exceeds
/// 32 bits or an expression nests too deep.
Result<FlatBytes> write_flat(const Graph& graph, const FlatOptions& options = {});

/// Writes some nodes, in the graph's order. Values that they read but do not make become inputs or constants.
/// Results that other nodes read become outputs, under the value's name or one that tells its origin. FE-G03
/// for a node that does not exist; else as above.
Result<FlatBytes> write_flat(const Graph& graph, std::span<const NodeId> nodes,
                             const FlatOptions& options = {});

/// A graph read from flat bytes, and the handles that its numbers became.
struct FlatRead {
  Graph graph;
  std::vector<NodeId> nodes;
  std::vector<ValueId> values;
};

/// Reads a flat graph. The result prints like the written graph. Safe for untrusted bytes: FE-P34 for bytes
/// that are no flat graph, FE-G codes for contents that no graph can have; memory use is at most a constant
/// times the number of bytes. Ops and types are not checked against a registry (verify.h does that).
Result<FlatRead> read_flat(std::span<const std::byte> bytes, const std::string& weight_folder);
/// Reads a graph written with FlatOptions::keep. Also FE-P34 if a weight exceeds `weights` or is in a file.
Result<FlatRead> read_flat(std::span<const std::byte> bytes, const KeptWeights& weights);

}  // namespace ferrite::core::graph
