// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/warning.h"

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "core/support/printable.h"

namespace ferrite::core::log {
namespace {

// Process-wide, as the log channels are; the command line sets it once.
std::atomic<bool> shown{false};

}  // namespace

void show_warnings() { shown = true; }

void warn(std::string_view channel, std::string_view text) {
  if (enabled(channel)) return write(channel, text);
  if (!shown) return;
  std::string line = printable(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  std::fprintf(stderr, "ferrite: warning: %s\n", line.c_str());
}

}  // namespace ferrite::core::log
