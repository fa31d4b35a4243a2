// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same hooks as test.hooks, a second time: nothing says an order between the two, so ids do, except at post_grad_post.
#include "double_negation.h"

namespace {

using namespace ferrite;

void add_passes(PluginBuilder& builder, const PluginContext&) {
  for (const char* phase : {"pre_grad", "joint_pre", "joint_post", "post_grad_pre", "post_grad", "pre_lower"})
    builder.add(pass(phase, std::string("test.hooks2.") + phase, test_plugins::double_negation));
  builder.add(pass("post_grad_post", "test.hooks2.post_grad_post", test_plugins::double_negation)
                  .run_before("test.hooks.post_grad_post"));
  builder.add(loop_pass("test.hooks2.pre_fusion", [](const fe_loop_api&) { return false; }));
  builder.add(schedule_pass("test.hooks2.post_fusion", [](const fe_schedule_api&) { return false; }));
}

}  // namespace

FERRITE_PLUGIN("test.hooks2", "1.0.0", add_passes)
