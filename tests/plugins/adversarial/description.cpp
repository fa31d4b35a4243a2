// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A description whose size is ADVERSARIAL_SIZE.
#include "tests/plugins/fixtures/description.h"

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.adversarial");
  plugin.size = ADVERSARIAL_SIZE;
  return &plugin;
}
