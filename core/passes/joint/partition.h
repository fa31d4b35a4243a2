// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Divides a joint graph, which holds forward and backward computation, into a graph for each.
#pragma once

#include "core/passes/joint/saved_values.h"
#include "core/support/ledger.h"

namespace ferrite::core::joint {

struct Partition {
  graph::Graph forward, backward;
};

/// The forward graph has the joint graph's forward outputs and then the saved values that are neither its
/// inputs nor among these outputs, named "saved.0", ..., with their dims in the order in which they are
/// stored; the backward graph has the other outputs. Each has those inputs of the joint graph that it reads,
/// under their names; the saved values are inputs of the backward graph, under their names as outputs, and
/// those named "saved.0", ... are donated if the options say so. A value that was computed again is in both.
/// The ledger gets a record for each saved value, and one for the whole. FE-G58 if the graph is not joint,
/// its forward outputs depend on tangents, it changes inputs, or the options do not fit it.
Result<Partition> partition(const graph::Graph& joint, const plugin::Registry& registry,
                            std::string_view device, const PartitionOptions& options, Ledger& ledger);

}  // namespace ferrite::core::joint
