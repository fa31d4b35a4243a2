// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program does when a plugin's callback crashes, ends the process or does not return: says whose it was, and ends.
#pragma once

#include <chrono>

namespace ferrite::core::plugin {

/// Takes over the process's signals of crashes (SEGV, BUS, FPE, ILL, ABRT), its ends by exit() and quick_exit(), and watches how
/// long callbacks take. For programs that belong to Ferrite; a library must leave all this to the program that it is in, so
/// nothing does it unasked. Call once, before threads are started.
///
/// In a callback of a plugin, each of these writes one line to standard error that names plugin and callback and ends the process
/// with exit status 70: FE-P60 a crash, FE-P64 an end, FE-P65 a callback that has not returned after `limit` (0: there is no
/// limit). A crash anywhere else goes its way as before. _exit() and signals that cannot be caught are not seen; a plugin with
/// isolation = "process" cannot end the program by those either.
void install_watchdog(std::chrono::milliseconds limit);

}  // namespace ferrite::core::plugin
