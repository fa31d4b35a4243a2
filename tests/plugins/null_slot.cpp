// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An op without the function that gives its result types, behind a pass that is all right.
#include "description.h"

namespace {

fe_pass pass_table = {};
fe_op_def op_table = {};
fe_contribution contributions[] = {{FE_CONTRIBUTION_PASS, 0, &pass_table},
                                   {FE_CONTRIBUTION_OP, 0, &op_table}};

int32_t create(void*, fe_call*, const fe_create_args*, fe_create_out* out) {
  pass_table = ferrite::sized<fe_pass>();
  pass_table.rev = 1;
  pass_table.name = ferrite::to_abi("test.null_slot.pass");
  pass_table.phase = ferrite::to_abi("pre_grad");
  pass_table.run = [](void*, fe_call*, const fe_pass_args*, fe_pass_out*) -> int32_t { return FE_OK; };
  op_table = ferrite::sized<fe_op_def>();
  op_table.rev = 1;
  op_table.results = 1;
  op_table.name = ferrite::to_abi("test.null_slot");
  out->contributions = ferrite::to_array(contributions, 2);
  return FE_OK;
}

}  // namespace

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.null_slot");
  plugin.create = create;
  return &plugin;
}
