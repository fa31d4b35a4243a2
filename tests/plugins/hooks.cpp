// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass at every hook. Settings: forbid, force (a pair of statements each), split (bool).
#include "double_negation.h"

namespace {

using namespace ferrite;

void add_passes(PluginBuilder& builder, const PluginContext& context) {
  for (const char* phase :
       {"pre_grad", "joint_pre", "joint_post", "post_grad_pre", "post_grad", "post_grad_post", "pre_lower"})
    builder.add(pass(phase, std::string("test.hooks.") + phase, test_plugins::double_negation));
  // Sorted by id alone this one would come before test.hooks.pre_grad.
  builder.add(
      pass("pre_grad", "test.hooks.a_late", test_plugins::double_negation).run_after("test.hooks.pre_grad"));
  // And this one behind it.
  builder.add(pass("pre_grad", "test.hooks.z_early", test_plugins::double_negation)
                  .run_before("test.hooks.pre_grad"));

  auto pair_of = [&](const char* name) {
    auto numbers = context.config.has(name) ? context.config.integers(name) : std::span<const int64_t>();
    return std::vector<int64_t>(numbers.begin(), numbers.end());
  };
  builder.add(loop_pass("test.hooks.pre_fusion",
                        [forbid = pair_of("forbid"), force = pair_of("force")](const fe_loop_api& api) {
                          auto out = sized<fe_none>();
                          auto ask = [&](auto slot, const std::vector<int64_t>& pair) {
                            if (pair.size() != 2) return;
                            auto args = sized<fe_pair_args>();
                            args.a = static_cast<uint32_t>(pair[0]);
                            args.b = static_cast<uint32_t>(pair[1]);
                            call_host(api, slot, args, out);
                          };
                          ask(api.forbid_fusion, forbid);
                          ask(api.force_fusion, force);
                          return !forbid.empty() || !force.empty();
                        }));
  const bool split = context.config.has("split") && context.config.boolean("split");
  builder.add(schedule_pass("test.hooks.post_fusion", [split](const fe_schedule_api& api) {
    auto none = sized<fe_none>();
    auto program = sized<fe_program_view>();
    call_host(api, api.program, none, program);
    if (!split) return false;
    uint32_t previous = FE_NONE32;
    for (uint32_t k = 0; k < program.statement_count; ++k) {
      auto args = sized<fe_statement_args>();
      args.statement = k;
      auto statement = sized<fe_statement_view>();
      call_host(api, api.statement, args, statement);
      if (statement.group == FE_NONE32) continue;
      if (statement.group == previous) {
        auto where = sized<fe_group_args>();
        where.group = statement.group;
        where.at = k;
        call_host(api, api.split_group, where, none);
        return true;
      }
      previous = statement.group;
    }
    return false;
  }));
}

}  // namespace

FERRITE_PLUGIN("test.hooks", "1.0.0", add_passes)
