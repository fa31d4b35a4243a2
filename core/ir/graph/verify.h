// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a graph is one: what every pass must leave behind.
#pragma once

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"

namespace ferrite::core::graph {

/// Of every node: operands live, defined before it and listed as uses; op known, with the operands and attributes that
/// it wants; result types those that its rule infers (layout and device aside). Of the signature: outputs live,
/// aliases inputs of the same type, mutations of the input's type. FE-G13 to FE-G16 as in infer.h, else FE-G50 and on.
Result<void> verify(const Graph& graph, const OpRegistry& registry);

/// The same for what was touched, and for the users of the values touched. The signature is always checked.
Result<void> verify(const Graph& graph, const OpRegistry& registry, const Graph::Touched& touched);

}  // namespace ferrite::core::graph
