// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin that exports more than its entry, needs a function that there is nowhere, and asks for an
// executable stack (CMakeLists.txt).
#include "ferrite/abi/plugin.h"

int function_that_is_missing(void);

__attribute__((visibility("default"))) int helper_that_leaks(void) { return function_that_is_missing(); }

static int32_t create(void* self, fe_call* call, const fe_create_args* args, fe_create_out* out) {
  (void)self, (void)call, (void)args, (void)out;
  return FE_OK;
}
static int32_t destroy(void* self, fe_call* call, const fe_destroy_args* args, fe_none* out) {
  (void)self, (void)call, (void)args, (void)out;
  return FE_OK;
}

__attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t host_minor) {
  static const fe_plugin_v0 plugin = {.size = sizeof(fe_plugin_v0),
                                      .major = FE_ABI_MAJOR,
                                      .minor = FE_ABI_MINOR,
                                      .id = {"check.leaky", 11},
                                      .version = {"1.0.0", 5},
                                      .create = create,
                                      .destroy = destroy};
  (void)host_minor;
  return &plugin;
}
