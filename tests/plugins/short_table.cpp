// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A pass table that is shorter than the ABI's first version of it.
#include "description.h"

namespace {

fe_pass pass_table = {};
fe_contribution contribution = {FE_CONTRIBUTION_PASS, 0, &pass_table};

int32_t create(void*, fe_call*, const fe_create_args*, fe_create_out* out) {
  pass_table.size = offsetof(fe_pass, run);
  out->contributions = ferrite::to_array(&contribution, 1);
  return FE_OK;
}

}  // namespace

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.short_table");
  plugin.create = create;
  return &plugin;
}
