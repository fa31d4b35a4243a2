// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin whose description is fuzz_tables' to fill.
#include "ferrite/abi/plugin.h"

extern "C" {

__attribute__((visibility("default"))) fe_plugin_v0* ferrite_fuzz_description() {
  static fe_plugin_v0 description;
  return &description;
}

__attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t) {
  return ferrite_fuzz_description();
}
}
