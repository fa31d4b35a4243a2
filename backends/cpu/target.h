// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CPUs as targets of the emitter.
#pragma once

#include <string>
#include <string_view>

#include "ferrite/emitter/target.h"

namespace ferrite::cpu {

/// Initialises LLVM's code generators once. Callable from any thread.
void initialise_llvm();

/// Whether this process may use AMX tile registers. Requests them from the system, which reserves state for
/// them only on request.
bool allow_amx();

/// This machine as "triple=... cpu=... features=+a,-b l1=... l2=... l3=... last=...", without values that it
/// does not report; a description may also have "clock=..." in Hz.
std::string describe_host();

/// The target that a description names. Missing values have the defaults of the cpu and the triple; without a
/// triple, of this machine's architecture. So "cpu=x86-64-v3", or "x86-64-v3" alone, and
/// "triple=aarch64-linux-gnu" are descriptions. Throws Failure on unknown keys, triples and cpus.
emitter::Target parse_target(std::string_view description);

/// The reason why code for that target does not run on this machine: missing features, or another
/// architecture. Empty if it runs. Throws like parse_target().
std::string missing_here(std::string_view description);

}  // namespace ferrite::cpu
