// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/wording.h"

#include <fmt/format.h>

#include <cmath>

#include "core/support/split.h"

namespace ferrite::observe {
namespace {

/// Bytes of UTF-8 that begin a character: as many as columns, but for wide and combining characters.
size_t columns_of(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  return count;
}

/// The first so many characters, or the last ones.
std::string_view first_of(std::string_view text, size_t characters) {
  size_t end = 0;
  for (size_t seen = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && seen++ == characters) break;
  return text.substr(0, end);
}
std::string_view last_of(std::string_view text, size_t characters) {
  const size_t all = columns_of(text);
  return all <= characters ? text : text.substr(first_of(text, all - characters).size());
}

}  // namespace

std::string time_text(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds < 999.5e-9) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 999.5e-6) return fmt::format("{:.{}f} us", seconds * 1e6, seconds < 99.95e-6 ? 1 : 0);
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 99.95e-3 ? 2 : 0);
  return fmt::format("{:.2f} s", seconds);
}

std::string range_text(double low, double high) {
  const auto from = time_text(low), to = time_text(high);
  const auto unit_of = [](std::string_view text) { return text.substr(text.find(' ')); };
  return unit_of(from) == unit_of(to) ? fmt::format("{} to {}", from.substr(0, from.find(' ')), to)
                                      : fmt::format("{} to {}", from, to);
}

std::string size_text(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto size = static_cast<double>(bytes);
  for (const char* unit : {"KiB", "MiB", "GiB"}) {
    size /= 1024;
    if (size < 1023.95) return fmt::format("{:.1f} {}", size, unit);
  }
  return fmt::format("{:.1f} TiB", size / 1024);
}

std::string count_text(double count) {
  for (const char* unit : {"", " k", " M", " G"}) {
    if (std::abs(count) < 999.5) return fmt::format("{:.3g}{}", count, unit);
    count /= 1000;
  }
  return fmt::format("{:.3g} T", count);
}

std::string bandwidth_text(double bytes, double seconds) {
  return seconds > 0 ? fmt::format("{:.1f} GB/s", bytes / seconds * 1e-9) : "-";
}

std::string operations_text(double operations, double seconds) {
  return seconds > 0 ? fmt::format("{:.1f} GFLOP/s", operations / seconds * 1e-9) : "-";
}

std::string share_text(double part, double whole) {
  return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0.0);
}

std::vector<std::string_view> names_in(std::string_view list) {
  std::vector<std::string_view> names;
  for (auto name : core::split(list, ',')) {
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::string shortened_names(std::string_view list, size_t columns) {
  const auto names = names_in(list);
  std::string text;
  for (size_t k = 0; k < names.size(); ++k) {
    const size_t left = names.size() - k - 1;
    const auto rest = left > 0 ? fmt::format(" and {} more", left) : std::string();
    const size_t before = k > 0 ? columns_of(text) + 2 : 0;
    if (before + columns_of(names[k]) + columns_of(rest) > columns) {
      if (k > 0) return text + fmt::format(" and {} more", left + 1);
      const size_t room = columns > rest.size() + 3 ? columns - rest.size() - 3 : 1;
      return fmt::format("{}...{}{}", first_of(names[k], room / 2), last_of(names[k], room - room / 2), rest);
    }
    text += fmt::format("{}{}", k > 0 ? ", " : "", names[k]);
  }
  return text;
}

std::string shortened_end(std::string_view text, size_t columns) {
  return columns_of(text) <= columns ? std::string(text) : fmt::format("{}...", first_of(text, columns - 3));
}

std::string wrapped(std::string_view text, size_t columns, size_t indent) {
  std::string lines;
  size_t used = 0;
  while (!text.empty()) {
    size_t end = text.find_first_of(",;:");
    while (end != std::string_view::npos && end + 1 < text.size() && text[end + 1] != ' ')
      end = text.find_first_of(",;:", end + 1);
    auto part = text.substr(0, end == std::string_view::npos ? end : end + 1);
    text.remove_prefix(part.size());
    if (used > 0 && used + columns_of(part) > columns) {
      lines += "\n" + std::string(indent, ' ');
      used = indent;
      part.remove_prefix(part.find_first_not_of(' '));
    }
    lines += part;
    used += columns_of(part);
  }
  return lines;
}

}  // namespace ferrite::observe
