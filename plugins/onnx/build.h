// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The build loop: the nodes of an ONNX graph, in order, through their handlers.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "declared.h"
#include "ferrite/graph.hpp"
#include "proto.h"
#include "tensors.h"
#include "wire.h"

namespace ferrite::from_onnx {

/// Adds what `proto` computes from the inputs and gives its outputs in order. Initializers are added when first used.
/// Errors: FE-I20 unknown op, FE-I21 a version of an op that is not known, FE-I25 names that nothing or two things define,
/// or a cycle, FE-I27 of DeclaredTypes, whose warnings `warn` takes, and what handlers and the host refuse,
/// with the node's name and op put before it.
std::vector<Value> build_graph(Graph& graph, const ModelFile& file, const onnx::GraphProto& proto,
                               std::span<const RawRange> raw, const std::map<std::string, int64_t>& opsets,
                               std::span<const std::pair<std::string, Value>> inputs, const Warn& warn);

}  // namespace ferrite::from_onnx
