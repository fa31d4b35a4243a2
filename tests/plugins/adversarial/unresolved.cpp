// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Needs a function that nobody has.
#include "tests/plugins/fixtures/description.h"

extern "C" void ferrite_test_function_that_nobody_has();

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.adversarial");
  ferrite_test_function_that_nobody_has();
  return &plugin;
}
