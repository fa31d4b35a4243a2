// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Targets that there is no code generator for.
#include "ferrite/emitter/machine.h"

#include <gtest/gtest.h>

#include "ferrite/error.hpp"

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

}  // namespace
}  // namespace ferrite::emitter
