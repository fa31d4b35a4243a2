// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The standard passes. Each is one function or one list of rules in a file of its own; plugin.cpp orders
// them.
#pragma once

#include <vector>

#include "ferrite/graph.hpp"
#include "ferrite/plugin.hpp"

namespace ferrite::passes {

/// Turns nodes whose operands are constants into constants, where the result has at most 64 KiB. Larger ones
/// stay and are computed once at load.
bool fold_constants(Graph& graph);
/// Turns nodes that compute the same from the same values into one.
bool merge_common(Graph& graph);
/// Drops nodes whose results nobody reads.
bool drop_dead(Graph& graph);
/// Turns chains of views into one, and views that change nothing into their operand.
bool compose_views(Graph& graph);
/// Turns concatenations of concatenations into one, parts that follow each other in one value into one part, and
/// many short parts of one value into a gather.
bool merge_concats(Graph& graph);
/// Turns a convolution and the batch_norm that follows into a convolution with other weights. Channels that would overflow
/// or underflow there stay apart, as those of fold_channel_affine do.
bool fold_batch_norm(Graph& graph);
/// Turns a convolution and a constant per channel that is multiplied with or added to its result into a
/// convolution.
bool fold_channel_affine(Graph& graph);
/// Turns a scatter upon a constant that puts one update on each line into a choice at each element, which needs no
/// tensor to scatter into and goes into what reads it.
bool scatter_into_constant(Graph& graph);

RuleSet simplify();
RuleSet recognise_activations();
RuleSet recognise_attention();
RuleSet recognise_gelu();
RuleSet recognise_layer_norm();
RuleSet recognise_rms_norm();
RuleSet recognise_simplified_layer_norm();

}  // namespace ferrite::passes
