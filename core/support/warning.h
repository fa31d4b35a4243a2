// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Warnings that the user sees without enabling a log channel: a plugin that is left out, a rule that was
// never tried,
// a warning that a plugin logs.
#pragma once

#include "core/support/log.h"

namespace ferrite::core::log {

/// From now on warn() also prints warnings whose channel is off. Programs that embed Ferrite stay silent
/// unless they call it. Call before threads are started.
void show_warnings();

/// Writes one line: "[channel] text" if the channel is on, else "ferrite: warning: text" if warnings are
/// shown.
/// Any-thread.
void warn(std::string_view channel, std::string_view text);

}  // namespace ferrite::core::log
