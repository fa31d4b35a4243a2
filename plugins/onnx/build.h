// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The build loop: reads the nodes of an ONNX graph in order.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/graph.hpp"
#include "ferrite/import.hpp"
#include "format/declared.h"
#include "format/proto.h"
#include "format/tensors.h"
#include "format/wire.h"
#include "functions.h"

namespace ferrite::from_onnx {

/// The input of an import; everything outlives the import.
struct Source {
  const ModelFile& file;
  const onnx::GraphProto& graph;
  std::span<const RawRange> raw;  ///< raw data of the graph's initializers
  const Opsets& opsets;
  const Functions& functions;
  const PluginOps& plugins;
  const Warn& warn;  ///< receives the warnings of DeclaredTypes
};

/// Adds the model's computation to the graph and returns its outputs in order. Initializers are added when
/// they are first used. Calls of functions that the model defines are inlined.
/// Errors: FE-I20 unknown ops, FE-I21 unknown versions of ops, FE-I25 names that nothing or two things
/// define, or a cycle, FE-I27 of DeclaredTypes, FE-I40 a function that calls itself, FE-I43 of Expansion.
/// Errors of handlers, plugins and the host are preceded by the node's name and op.
std::vector<Value> build_graph(Graph& graph, const Source& source,
                               std::span<const std::pair<std::string, Value>> inputs);

}  // namespace ferrite::from_onnx
