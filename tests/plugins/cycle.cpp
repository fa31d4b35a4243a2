// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two passes that each want to run behind the other.
#include "ferrite/plugin.hpp"

namespace {
bool nothing(ferrite::Graph&) { return false; }
}  // namespace

FERRITE_PLUGIN("test.cycle", "1.0.0",
               ferrite::pass("pre_grad", "test.cycle.a", nothing).run_after("test.cycle.b"),
               ferrite::pass("pre_grad", "test.cycle.b", nothing).run_after("test.cycle.a"))
