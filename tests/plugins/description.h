// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's description filled by hand, for plugins that are wrong on purpose.
#pragma once

#include "ferrite/plugin.hpp"

#define FERRITE_TEST_ENTRY \
  extern "C" __attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t)

namespace ferrite::test_plugins {

/// A plugin that contributes nothing; `out.contributions` is the caller's to set in a create of its own.
inline fe_plugin_v0 description_of(std::string_view id) {
  auto plugin = sized<fe_plugin_v0>();
  plugin.major = FE_ABI_MAJOR;
  plugin.minor = FE_ABI_MINOR;
  plugin.id = to_abi(id);
  plugin.version = to_abi("1.0.0");
  plugin.create = [](void*, fe_call*, const fe_create_args*, fe_create_out*) -> int32_t { return FE_OK; };
  plugin.destroy = [](void*, fe_call*, const fe_destroy_args*, fe_none*) -> int32_t { return FE_OK; };
  return plugin;
}

}  // namespace ferrite::test_plugins
