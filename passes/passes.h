// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The standard passes. Each is one function or one list of rules in a file of its own; plugin.cpp orders
// them.
#pragma once

#include <vector>

#include "ferrite/graph.hpp"
#include "ferrite/plugin.hpp"

namespace ferrite::passes {

/// Turns nodes with constant operands into constants if the result has at most 64 KiB. Larger ones stay and
/// are computed once at load.
bool fold_constants(Graph& graph);
/// Merges nodes that compute the same function of the same values.
bool merge_common(Graph& graph);
/// Removes nodes whose results nothing reads.
bool drop_dead(Graph& graph);
/// Turns chains of views into one view, and views that change nothing into their operand.
bool compose_views(Graph& graph);
/// Flattens concatenations of concatenations, joins parts that are adjacent in one value, and turns many
/// short parts of one value into a gather.
bool merge_concats(Graph& graph);
/// Turns a convolution and the batch_norm after it into a convolution with other weights. Channels that would
/// overflow or underflow there stay apart, as in fold_channel_affine.
bool fold_batch_norm(Graph& graph);
/// Turns a convolution whose result is multiplied with or added to a constant per channel into a single
/// convolution.
bool fold_channel_affine(Graph& graph);
/// Turns a scatter into a constant with one update per line into an elementwise selection. That needs no
/// tensor to scatter into and can be fused with its readers.
bool scatter_into_constant(Graph& graph);
/// Multiplies a product of widened floats by the factors of its operands, so that it is one of narrow floats.
bool unscale_products(Graph& graph);

RuleSet simplify();
RuleSet recognise_activations();
RuleSet recognise_attention();
RuleSet recognise_gelu();
RuleSet recognise_layer_norm();
RuleSet recognise_rms_norm();
RuleSet recognise_simplified_layer_norm();

}  // namespace ferrite::passes
