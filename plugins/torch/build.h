// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The build loop: converts a program's calls to nodes of a graph, in order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ferrite/graph.hpp"
#include "ferrite/import.hpp"
#include "format/program.h"

namespace ferrite::from_torch {

/// Adds the program's computation to the graph, whose inputs are given, says what becomes of the memory of
/// the inputs, and returns the outputs in order. Errors: FE-I50 overloads that nothing reads, all of them in
/// one message; FE-I52 and FE-I53 of handlers; FE-I54 a result of another type than PyTorch inferred. Errors
/// of the host are preceded by the node's name and overload.
std::vector<Value> build_graph(Graph& graph, const Program& program, const PluginOps& plugins,
                               std::vector<Value> inputs);

/// Tries each node by itself. Returns a line "<node's number>\t<overload>\t<code>\t<reason>" for each that
/// cannot be imported; its results become inputs of the graph, so that the nodes after it can be tried.
std::string unsupported_nodes(Graph& graph, const Program& program, const PluginOps& plugins,
                              std::vector<Value> inputs);

}  // namespace ferrite::from_torch
