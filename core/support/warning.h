// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the user of a program should see without asking: a plugin that is left out, a rule that nobody tried,
// a warning that a plugin logs.
#pragma once

#include "core/support/log.h"

namespace ferrite::core::log {

/// From now on warn() is heard where its channel is off. Programs that embed Ferrite are silent unless they call it. Call before
/// threads are started.
void show_warnings();

/// Writes "[channel] text" where the channel is on, else "ferrite: warning: text", in one line, where warnings are shown.
/// Any-thread.
void warn(std::string_view channel, std::string_view text);

}  // namespace ferrite::core::log
