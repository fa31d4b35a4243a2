// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The build loop: the nodes of an ONNX graph, in order, through those that read them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "format/declared.h"
#include "ferrite/graph.hpp"
#include "ferrite/import.hpp"
#include "functions.h"
#include "format/proto.h"
#include "format/tensors.h"
#include "format/wire.h"

namespace ferrite::from_onnx {

/// What an import works with; all of it outlives the import.
struct Source {
  const ModelFile& file;
  const onnx::GraphProto& graph;
  std::span<const RawRange> raw;  ///< of the graph's initializers
  const Opsets& opsets;
  const Functions& functions;
  const PluginOps& plugins;
  const Warn& warn;  ///< takes the warnings of DeclaredTypes
};

/// Adds what the model computes from the inputs and gives its outputs in order. Initializers are added when first used. Calls of
/// functions that the model defines become what the functions compute.
/// Errors: FE-I20 unknown ops, FE-I21 versions of ops that are not known, FE-I25 names that nothing or two things define,
/// or a cycle, FE-I27 of DeclaredTypes, FE-I40 a function that calls itself, FE-I43 of Expansion, and what handlers, plugins and the host refuse, with the node's name and op
/// put before it.
std::vector<Value> build_graph(Graph& graph, const Source& source,
                               std::span<const std::pair<std::string, Value>> inputs);

}  // namespace ferrite::from_onnx
