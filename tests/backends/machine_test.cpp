// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Targets without a code generator, and the description of this machine.
#include "ferrite/emitter/machine.h"

#include <gtest/gtest.h>
#include <llvm/IR/LLVMContext.h>
#include <unistd.h>

#include <functional>

#include "ferrite/error.hpp"
#include "target.h"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ferrite::emitter {
namespace {

TEST(Machine, RefusesATargetThatNobodyKnows) {
  Target target;
  target.triple = "nothing-of-the-kind";
  Machines machines;
  // It fails the second time, too: no failed machine is kept.
  for (int time = 0; time < 2; ++time) {
    try {
      const Machine machine(machines, target);
      FAIL() << "it is taken";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), "FE-K40");
      EXPECT_NE(std::string(failure.what()).find("nothing-of-the-kind"), std::string::npos) << failure.what();
    }
  }
}

// Creating a machine takes as long as compiling a small kernel, so a free machine for the same target is
// reused.
TEST(Machines, AreTakenByOneAfterTheOther) {
  cpu::initialise_llvm();
  Machines machines;
  const auto target = cpu::parse_target("");
  auto other = target;
  other.features += ",+sse2";
  auto first = machines.take(target), second = machines.take(target);
  const auto* const made = first.get();
  EXPECT_NE(made, second.get());
  machines.give_back(target, std::move(first));
  EXPECT_NE(machines.take(other).get(), made);
  EXPECT_EQ(machines.take(target).get(), made);
}

/// Whether the machine that `use` gets is the one that is taken afterwards. Its address proves nothing: a new
/// machine may have the old one's address.
bool is_kept(const Target& target, const std::function<void(Machines&)>& use) {
  const std::string mark = "the first one";
  Machines machines;
  auto first = machines.take(target);
  first->Options.ObjectFilenameForDebug = mark;
  machines.give_back(target, std::move(first));
  use(machines);
  return machines.take(target)->Options.ObjectFilenameForDebug == mark;
}

TEST(Machines, AreNotKeptWhereGeneratingCodeFailed) {
  LLVMInitializeNVPTXTargetInfo();
  LLVMInitializeNVPTXTarget();
  LLVMInitializeNVPTXTargetMC();
  LLVMInitializeNVPTXAsmPrinter();
  Target target;  // its code is text
  target.triple = "nvptx64-nvidia-cuda";
  target.cpu = "sm_80";
  EXPECT_TRUE(is_kept(target, [&](Machines& machines) { const Machine machine(machines, target); }));
  EXPECT_FALSE(is_kept(target, [&](Machines& machines) {
    llvm::LLVMContext context;
    llvm::Module module("module", context);
    Machine machine(machines, target);
    try {
      machine.object(module);
      ADD_FAILURE() << "it has objects";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), "FE-K41");
    }
  }));
}

// LLVM 22's machines keep types of the modules that they compiled, whose context no longer exists then.
TEST(Machines, AreNotKeptWhereCodeIsOptimisedLater) {
  cpu::initialise_llvm();
  auto target = cpu::parse_target("");
  const auto use = [&](Machines& machines) { const Machine machine(machines, target); };
  EXPECT_TRUE(is_kept(target, use));
  target.optimised_later = true;
  EXPECT_FALSE(is_kept(target, use));
}

// A small part of a large machine reports the large machine's last-level cache.
TEST(Machine, HasNoLargerLastCacheThanItsCoresFill) {
  constexpr int64_t most_of_core = 32 << 20;
  const auto target = cpu::parse_target("");
  EXPECT_GE(target.l3_bytes_per_core, 1 << 20);
  EXPECT_LE(target.l3_bytes_per_core, most_of_core);
  EXPECT_LE(target.last_level_bytes, most_of_core * sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(target.last_level_bytes, target.l3_bytes_per_core);
}

}  // namespace
}  // namespace ferrite::emitter
