// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The standard passes as a plugin. Constants and common subexpressions are searched twice: among composite
// ops, and among the primitive ops of their decompositions.
#include "passes.h"

namespace {

namespace passes = ferrite::passes;
using ferrite::pass;

void add_passes(ferrite::PluginBuilder& builder, const ferrite::PluginContext&) {
  builder.add(passes::recognise_activations());
  builder.add(passes::recognise_attention());
  builder.add(passes::recognise_gelu());
  builder.add(passes::recognise_layer_norm());
  builder.add(passes::recognise_rms_norm());
  builder.add(passes::recognise_simplified_layer_norm());

  // Shape arithmetic must be constant before rules match against constants.
  builder.add(pass("pre_grad", "passes.fold_constants_early", passes::fold_constants));

  builder.add(
      pass("post_grad", "passes.fold_constants", passes::fold_constants).run_before("passes.simplify"));
  builder.add(passes::simplify());
  builder.add(pass("post_grad", "passes.compose_views", passes::compose_views).run_after("passes.simplify"));
  builder.add(pass("post_grad", "passes.merge_concats", passes::merge_concats)
                  .run_after("passes.compose_views")
                  .run_before("passes.cse"));
  // Fold a separate bias or scale first, so that the batch norm after it finds the convolution.
  builder.add(pass("post_grad", "passes.fold_channel_affine", passes::fold_channel_affine)
                  .run_after("passes.compose_views"));
  builder.add(pass("post_grad", "passes.fold_batch_norm", passes::fold_batch_norm)
                  .run_after("passes.fold_channel_affine"));
  builder.add(pass("post_grad", "passes.scatter_into_constant", passes::scatter_into_constant)
                  .run_after("passes.compose_views")
                  .run_before("passes.cse"));
  builder.add(pass("post_grad", "passes.unscale_products", passes::unscale_products)
                  .run_after("passes.compose_views")
                  .run_before("passes.cse"));
  builder.add(pass("post_grad", "passes.cse", passes::merge_common).run_after("passes.fold_batch_norm"));
  builder.add(pass("post_grad", "passes.dead_code", passes::drop_dead).run_after("passes.cse"));

  builder.add(pass("pre_lower", "passes.fold_constants_late", passes::fold_constants));
  builder.add(pass("pre_lower", "passes.compose_views_late", passes::compose_views)
                  .run_after("passes.fold_constants_late"));
  builder.add(pass("pre_lower", "passes.merge_concats_late", passes::merge_concats)
                  .run_after("passes.compose_views_late"));
  builder.add(
      pass("pre_lower", "passes.cse_late", passes::merge_common).run_after("passes.merge_concats_late"));
  builder.add(pass("pre_lower", "passes.dead_code_late", passes::drop_dead).run_after("passes.cse_late"));
}

}  // namespace

FERRITE_PLUGIN("ferrite.passes", "0.1.0", add_passes)
