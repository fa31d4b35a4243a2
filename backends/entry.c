// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin of one backend in a self-contained build: its code lies in the library of all backends, as
// FERRITE_BACKEND_ENTRY.
#include "ferrite/abi/plugin.h"

const fe_plugin_v0* FERRITE_BACKEND_ENTRY(uint32_t host_minor);

__attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t host_minor) {
  return FERRITE_BACKEND_ENTRY(host_minor);
}
