// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One of many small plugins: a pass that does nothing. NUMBER is given by the build.
#include <string.h>

#include "ferrite/abi/plugin.h"

#define TEXT_(number) #number
#define TEXT(number) TEXT_(number)
#define ID "bench.startup_" TEXT(NUMBER)

static fe_string text(const char* data) {
  fe_string string = {data, strlen(data)};
  return string;
}

static int32_t run(void* self, fe_call* call, const fe_pass_args* args, fe_pass_out* out) {
  (void)self;
  (void)call;
  (void)args;
  (void)out;
  return FE_OK;
}

static fe_pass pass;
static fe_contribution contribution;

static int32_t create(void* self, fe_call* call, const fe_create_args* args, fe_create_out* out) {
  (void)self;
  (void)call;
  (void)args;
  pass.size = sizeof pass;
  pass.rev = 1;
  pass.name = text(ID ".pass");
  pass.phase = text("post_grad");
  pass.run = run;
  contribution.kind = FE_CONTRIBUTION_PASS;
  contribution.table = &pass;
  out->contributions.data = &contribution;
  out->contributions.count = 1;
  out->contributions.stride = sizeof contribution;
  return FE_OK;
}

static int32_t destroy(void* self, fe_call* call, const fe_destroy_args* args, fe_none* out) {
  (void)self;
  (void)call;
  (void)args;
  (void)out;
  return FE_OK;
}

__attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t host_minor) {
  static fe_plugin_v0 plugin;
  (void)host_minor;
  plugin.size = sizeof plugin;
  plugin.major = FE_ABI_MAJOR;
  plugin.minor = FE_ABI_MINOR;
  plugin.id = text(ID);
  plugin.version = text("1.0.0");
  plugin.create = create;
  plugin.destroy = destroy;
  return &plugin;
}
