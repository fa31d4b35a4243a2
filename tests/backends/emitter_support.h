// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The shared emitter as a backend for the kernel tests.
#pragma once

#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/machine.h"
#include "jit.h"
#include "kernel_support.h"
#include "target.h"

namespace ferrite::kernel_test {

inline const std::string& this_machine() {
  static const std::string text = cpu::describe_host();
  return text;
}

inline std::vector<std::string> targets_of(const Options& options) {
  if (options.descriptions.empty()) return {this_machine(), "cpu=x86-64-v3", "cpu=x86-64-v2"};
  auto targets = options.descriptions;
  std::replace(targets.begin(), targets.end(), std::string(), this_machine());
  return targets;
}

/// Runs the tasks in two ranges, the second one first.
inline Compiled compile(const loop::Kernel& kernel, const std::string& description) {
  auto target = cpu::parse_target(description);
  emitter::Machines machines;
  emitter::Machine machine(machines, target);
  llvm::LLVMContext context;
  Compiled compiled;
  auto shape = emitter::emit_kernel(context, target, kernel, "kernel");
  auto& module = *shape.module;
  std::string problem;
  llvm::raw_string_ostream stream(problem);
  bool broken = llvm::verifyModule(module, &stream);
  EXPECT_FALSE(broken) << problem << emitter::listing_of(module);
  if (broken) return compiled;
  machine.optimise(module);
  compiled.tasks = shape.tasks;
  compiled.text = emitter::listing_of(module);
  auto object = machine.object(module);
  auto jit = std::make_shared<cpu::Jit>();
  const std::span<const std::byte> bytes[] = {std::as_bytes(std::span(object))};
  using Entry = void (*)(void* const*, int64_t, int64_t, int64_t, char*, int64_t*);
  auto entry = reinterpret_cast<Entry>(jit->find(jit->load(bytes, "test"), "kernel"));
  compiled.run = [jit, entry, tasks = shape.tasks, workspace_bytes = shape.workspace_bytes](
                     void* const* arguments, int64_t* error, bool low) {
    const int64_t cuts[] = {0, tasks / 3, tasks};
    for (int range = 1; range >= 0; --range) {
      if (cuts[range] == cuts[range + 1]) continue;
      Guarded workspace(static_cast<size_t>((workspace_bytes + 63) / 64 * 64), low);
      entry(arguments, cuts[range], cuts[range + 1], range, workspace.data, error);
    }
  };
  return compiled;
}

}  // namespace ferrite::kernel_test
