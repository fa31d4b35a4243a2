// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The graph verifier. Every pass must leave a graph that it accepts.
#pragma once

#include "core/ir/graph/graph.h"
#include "core/ir/graph/op_registry.h"

namespace ferrite::core::graph {

/// Checks each node: operands are live, defined before it and listed as uses; the op is known and its
/// operands and attributes are valid; the result types equal those of the shape rule (ignoring layout and
/// device). Checks the signature: outputs are live; an alias is an input of the same type; a mutation has the
/// input's type. FE-G13 to FE-G16 as in infer.h, else FE-G50 and up.
Result<void> verify(const Graph& graph, const OpRegistry& registry);

/// Checks only the touched nodes and the users of the touched values, and always the signature.
Result<void> verify(const Graph& graph, const OpRegistry& registry, const Graph::Touched& touched);

}  // namespace ferrite::core::graph
