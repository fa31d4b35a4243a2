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
    const Machine machine(target);
    FAIL() << "it is taken";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), "FE-K40");
    EXPECT_NE(std::string(failure.what()).find("nothing-of-the-kind"), std::string::npos) << failure.what();
  }
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
