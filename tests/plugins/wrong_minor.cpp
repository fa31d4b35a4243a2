// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin of another minor version of the ABI, which must match exactly before version 1.
#include "description.h"

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.wrong_minor");
  plugin.minor = FE_ABI_MINOR + 1;
  return &plugin;
}
