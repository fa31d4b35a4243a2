// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin that contributes another pass each time it is created, and prints.
#include <cstdio>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;

void add_pass(PluginBuilder& builder, const PluginContext&) {
  static int created = 0;
  std::puts("created once more");
  std::fflush(stdout);
  builder.add(pass("pre_grad", "check.fickle." + std::to_string(created++), [](Graph&) { return false; }));
}

}  // namespace

FERRITE_PLUGIN("check.fickle", "1.0.0", add_pass)
