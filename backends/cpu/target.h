// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPUs as the emitter sees them.
#pragma once

#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"

namespace ferrite::cpu {

/// Initialises LLVM's code generators once; any-thread.
void initialise_llvm();

/// Whether this process may use matrix tiles: asks the system, which keeps room for their contents for those that ask only.
bool allow_matrix_tiles();

/// "triple=... cpu=... features=+a,-b l1=... l2=... l3=... last=...", and "clock=..." in Hz, as this machine has it; what it does not say of itself is left out.
std::string describe_host();

/// The target that a description names; what it leaves out has the defaults of the triple (without one: of this machine's
/// architecture) and cpu. So "cpu=x86-64-v3", or "x86-64-v3" alone, and "triple=aarch64-linux-gnu" are descriptions. Throws Failure
/// on unknown keys, triples and cpus.
emitter::Target parse_target(std::string_view description);

/// Why code for that target does not run on this machine: the features that it lacks, or another architecture. Empty where it
/// does. Throws as parse_target() does.
std::string missing_here(std::string_view description);

}  // namespace ferrite::cpu
