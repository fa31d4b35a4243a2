// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin of another major version of the ABI.
#include "description.h"

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.wrong_major");
  plugin.major = FE_ABI_MAJOR + 1;
  return &plugin;
}
