// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Channels of diagnostic text: --log graph,loops,... or FERRITE_LOG.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "core/support/error.h"

namespace ferrite::core::log {

/// Turns channels on: a comma-separated list of graph, loops, schedule, kernels, output_code, plugins,
/// passes, launches.
/// FE-C03 names an unknown one. Call before threads are started.
Result<void> enable(std::string_view channels);
bool enabled(std::string_view channel);
/// The enabled channels, in the form that enable() takes.
std::string enabled_channels();
/// Writes "[channel] text" to standard error, one whole line at a time. Any-thread.
void write(std::string_view channel, std::string_view text);

template <class... Args>
void print(std::string_view channel, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(channel)) write(channel, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ferrite::core::log
