// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/support/log.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "core/support/printable.h"
#include "core/support/split.h"

namespace ferrite::core::log {
namespace {

constexpr std::array<std::string_view, 8> channel_names = {"graph",       "loops",   "schedule", "kernels",
                                                           "output_code", "plugins", "passes",   "launches"};
// Process-wide state by design: the enabled channels. The command line sets it once; every module reads it.
std::atomic<uint32_t> enabled_mask{0};

size_t position(std::string_view channel) {
  return static_cast<size_t>(std::find(channel_names.begin(), channel_names.end(), channel) -
                             channel_names.begin());
}

}  // namespace

Result<void> enable(std::string_view channels) {
  for (const auto name : split(channels, ',')) {
    if (name.empty()) continue;
    size_t k = position(name);
    if (k == channel_names.size())
      return error(FE_EINVALID, "FE-C03", "there is no log channel '{}'; the channels are {}", name,
                   fmt::join(channel_names, ", "));
    enabled_mask |= 1u << k;
  }
  return {};
}

bool enabled(std::string_view channel) {
  uint32_t mask = enabled_mask.load(std::memory_order_relaxed);
  if (mask == 0) return false;
  size_t k = position(channel);
  return k < channel_names.size() && (mask >> k & 1u) != 0;
}

std::string enabled_channels() {
  std::string result;
  for (const auto name : channel_names)
    if (enabled(name)) result += fmt::format("{}{}", result.empty() ? "" : ",", name);
  return result;
}

void write(std::string_view channel, std::string_view text) {
  static std::mutex mutex;
  const std::string shown = printable(text);
  text = shown;
  std::lock_guard lock(mutex);
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    std::fprintf(stderr, "[%.*s] %.*s\n", static_cast<int>(channel.size()), channel.data(),
                 static_cast<int>(line.size()), line.data());
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
}

}  // namespace ferrite::core::log
