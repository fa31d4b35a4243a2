// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names the plugin to blame if its callback crashes, ends the process or does not return, and then ends the
// process.
#pragma once

#include <chrono>

namespace ferrite::core::plugin {

/// Installs handlers for crash signals (SEGV, BUS, FPE, ILL, ABRT) and for exit() and quick_exit(), and
/// watches how long callbacks take. For Ferrite's own programs only: a library must leave signals to its host
/// program, so nothing calls this implicitly. Call once, before threads are started.
///
/// If one of these happens in a plugin's callback, one line on standard error names plugin and callback, and
/// the process ends with exit status 70: FE-P60 a crash, FE-P64 an exit, FE-P65 a callback that has not
/// returned after `limit` (0: no limit). A crash elsewhere goes to the previous handler. _exit() and signals
/// that cannot be caught are not detected; a plugin with isolation = "process" cannot end the program by
/// those either.
void install_watchdog(std::chrono::milliseconds limit);

}  // namespace ferrite::core::plugin
