// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Says that it contributes two things and gives no array of them.
#include "description.h"

namespace {

int32_t create(void*, fe_call*, const fe_create_args*, fe_create_out* out) {
  out->contributions.count = 2;
  return FE_OK;
}

}  // namespace

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.null_array");
  plugin.create = create;
  return &plugin;
}
