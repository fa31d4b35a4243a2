// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Targets that there is no code generator for, and what this machine says of itself.
#include "ferrite/emitter/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "ferrite/error.hpp"
#include "target.h"

namespace ferrite::emitter {
namespace {

TEST(Machine, RefusesATargetThatNobodyKnows) {
  Target target;
  target.triple = "nothing-of-the-kind";
  try {
    Machines machines;
    const Machine machine(machines, target);
    FAIL() << "it is taken";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), "FE-K40");
    EXPECT_NE(std::string(failure.what()).find("nothing-of-the-kind"), std::string::npos) << failure.what();
  }
}

// Making one takes as long as the code of a small kernel: who compiles next gets the one that is free, made for the same code.
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

// A small part of a large machine reports the large machine's last cache.
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
