// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exports functions under names that LLVM's library has: a plugin that were bound to them would end the
// process.
#include <cstdlib>

#include "tests/plugins/fixtures/description.h"

#define EXPORTED_AS(name) __asm__(name) __attribute__((visibility("default"), used))

void context_made() EXPORTED_AS("_ZN4llvm11LLVMContextC1Ev");
void context_gone() EXPORTED_AS("_ZN4llvm11LLVMContextD1Ev");
void c_context_made() EXPORTED_AS("LLVMContextCreate");
void target_made() EXPORTED_AS("LLVMInitializeX86Target");
void target_info_made() EXPORTED_AS("LLVMInitializeX86TargetInfo");

void context_made() { std::abort(); }
void context_gone() { std::abort(); }
void c_context_made() { std::abort(); }
void target_made() { std::abort(); }
void target_info_made() { std::abort(); }

FERRITE_TEST_ENTRY {
  static fe_plugin_v0 plugin = ferrite::test_plugins::description_of("test.adversarial");
  return &plugin;
}
