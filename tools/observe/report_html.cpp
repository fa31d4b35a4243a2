// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ferrite/counted.hpp"
#include "tools/observe/report_assets.h"
#include "tools/observe/wording.h"

namespace ferrite::observe::html {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";
constexpr size_t longest_text = 300'000;  // in bytes, so that the page opens quickly

/// The length in bytes of the character at the start of `text`; 0 if it is not valid UTF-8.
size_t character(std::string_view text) {
  const auto byte = [&](size_t k) { return static_cast<unsigned char>(text[k]); };
  const unsigned lead = byte(0);
  const size_t length = lead < 0x80                    ? 1
                        : lead >= 0xC2 && lead <= 0xDF ? 2
                        : lead >= 0xE0 && lead <= 0xEF ? 3
                        : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                       : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k)
    if ((byte(k) & 0xC0) != 0x80) return 0;
  // Not UTF-8: an overlong encoding, a surrogate, or a number above the last code point.
  if (length == 3 && ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0))) return 0;
  if (length == 4 && ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90))) return 0;
  return length;
}

/// Maps values to coordinates along an axis.
struct Axis {
  double least, most, from, to;
  double operator()(double value) const { return from + (value - least) / (most - least) * (to - from); }
};

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return fmt::format(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kind, x1, y1,
                     x2, y2);
}
std::string label(double x, double y, std::string_view anchor, std::string_view text,
                  std::string_view kind = "tick") {
  return fmt::format(R"(<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>)", kind, x, y,
                     anchor, escape(text));
}

}  // namespace

std::string escape(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const size_t length = character(text);
    const auto lead = static_cast<unsigned char>(text.front());
    if (length == 0 || lead == 0x7F || (lead < 0x20 && lead != '\n' && lead != '\t')) {
      safe += replacement;
    } else if (lead == '&') {
      safe += "&amp;";
    } else if (lead == '<') {
      safe += "&lt;";
    } else if (lead == '>') {
      safe += "&gt;";
    } else if (lead == '"') {
      safe += "&quot;";
    } else if (lead == '\'') {
      safe += "&#39;";
    } else {
      safe += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return safe;
}

std::string head(std::string_view title) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src '{}'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n",
      policy_source(script), escape(title), style);
}

std::string tail() { return fmt::format("<script>{}</script>\n</body>\n</html>\n", script); }

std::string folded(std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  std::string shown = escape(text.substr(0, longest_text));
  if (text.size() > longest_text)
    shown += fmt::format("\n... {} more are left out", size_text(text.size() - longest_text));
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", escape(title), shown);
}

std::string roofline(std::span<const RooflinePoint> points, const core::observe::Peaks& peaks) {
  constexpr double width = 900, height = 420, left = 70, right = 20, top = 20, bottom = 50;
  const double slow = peaks.bandwidth.back().per_second, fast = peaks.bandwidth.front().per_second;
  double least_x = std::log10(peaks.operations / fast) - 1, most_x = std::log10(peaks.operations / slow) + 1;
  double least_y = std::log10(peaks.operations) - 3, most_y = std::log10(peaks.operations) + 0.3;
  for (const auto& point : points) {
    if (point.intensity <= 0 || point.rate <= 0) continue;
    least_x = std::min(least_x, std::log10(point.intensity) - 0.3);
    most_x = std::max(most_x, std::log10(point.intensity) + 0.3);
    least_y = std::min(least_y, std::log10(point.rate) - 0.3);
    most_y = std::max(most_y, std::log10(point.rate) + 0.3);
  }
  const Axis x{least_x, most_x, left, width - right}, y{least_y, most_y, height - bottom, top};
  auto text = fmt::format(
      R"(<figure><svg viewBox="0 0 {} {}" role="img" aria-label="Roofline of the kernels">)", width, height);
  for (int power = static_cast<int>(std::ceil(least_x)); power <= most_x; ++power) {
    text += line("axis", x(power), top, x(power), height - bottom);
    text += label(x(power), height - bottom + 18, "middle", count_text(std::pow(10, power)));
  }
  for (int power = static_cast<int>(std::ceil(least_y)); power <= most_y; ++power) {
    text += line("axis", left, y(power), width - right, y(power));
    text += label(left - 8, y(power) + 4, "end", count_text(std::pow(10, power)));
  }
  text += label((left + width - right) / 2, height - 10, "middle", "operations a byte");
  text += label(left, top - 6, "start", "operations a second");
  const double peak = std::log10(peaks.operations);
  for (const auto& [rate, name] : {std::pair{fast, "cache"}, std::pair{slow, "memory"}}) {
    // The line of each bandwidth starts at the picture's edge and ends at the line of the peak rate.
    const double knee = peak - std::log10(rate), start = std::max(least_x, least_y - std::log10(rate));
    text += line("roof", x(start), y(start + std::log10(rate)), x(knee), y(peak));
    text += label(x(start) + 30, y(start + std::log10(rate)) + 8, "start",
                  fmt::format("{} {:.0f} GB/s", name, rate * 1e-9));
    if (rate == fast) text += line("roof", x(knee), y(peak), width - right, y(peak));
    if (fast == slow) break;
  }
  text += label(width - right, y(peak) - 6, "end", fmt::format("{:.0f} GFLOP/s", peaks.operations * 1e-9));
  for (const auto& point : points) {
    if (point.intensity <= 0 || point.rate <= 0) continue;
    const double px = x(std::log10(point.intensity)), py = y(std::log10(point.rate));
    const double radius = 4 + 18 * std::sqrt(point.share);
    text +=
        fmt::format(R"(<circle class="point" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}</title></circle>)",
                    px, py, radius, escape(fmt::format("{}: {}", point.number, point.name)));
    if (point.share >= 0.02) text += label(px, py + 4, "middle", std::to_string(point.number), "label");
  }
  return text + "</svg></figure>\n";
}

std::string memory_map(const core::observe::Observation& seen) {
  constexpr double width = 900, height = 380, left = 80, right = 20, top = 20, bottom = 46;
  constexpr std::array<std::string_view, 6> colours = {"#4e8fd0", "#d9904a", "#59a66b",
                                                       "#b36bb0", "#c9655a", "#8a8f3c"};
  constexpr std::string_view workspace = "#9a9a9a";
  const auto steps = static_cast<double>(std::max<size_t>(seen.groups, 1));
  const auto bytes = static_cast<double>(std::max<int64_t>(seen.arena_bytes, 1));
  const Axis x{0, steps, left, width - right}, y{0, bytes, height - bottom, top};
  auto text = fmt::format(
      R"(<figure><svg viewBox="0 0 {} {}" role="img" aria-label="Memory plan over the launches">)", width,
      height);
  for (int part = 0; part <= 4; ++part) {
    const double here = bytes * part / 4;
    text += line("axis", left, y(here), width - right, y(here));
    text += label(left - 8, y(here) + 4, "end", size_text(static_cast<uint64_t>(std::llround(here))));
  }
  const size_t every = std::max<size_t>(1, (seen.groups + 9) / 10);
  for (size_t step = 0; step < seen.groups; step += every)
    text += label(x(static_cast<double>(step) + 0.5), height - bottom + 18, "middle", std::to_string(step));
  text += label((left + width - right) / 2, height - 8, "middle", "launch, in the order of the run");
  for (size_t k = 0; k < seen.memory.size(); ++k) {
    const auto& buffer = seen.memory[k];
    const double from = x(static_cast<double>(buffer.first)), to = x(static_cast<double>(buffer.last) + 1);
    const double upper = y(static_cast<double>(buffer.offset + buffer.bytes)),
                 lower = y(static_cast<double>(buffer.offset));
    text +=
        fmt::format(R"(<rect class="buffer" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" )"
                    R"(fill="{}"><title>{}</title></rect>)",
                    from, upper, std::max(to - from, 0.5), std::max(lower - upper, 0.5),
                    buffer.workers > 0 ? workspace : colours[k % colours.size()],
                    escape(fmt::format(
                        "{}: {} at offset {}, launches {} to {}",
                        buffer.workers > 0 ? fmt::format("workspace of {}", counted(buffer.workers, "worker"))
                        : buffer.packed    ? std::string("packed operand")
                                           : fmt::format("@{}", buffer.buffer),
                        size_text(static_cast<uint64_t>(buffer.bytes)),
                        size_text(static_cast<uint64_t>(buffer.offset)), buffer.first, buffer.last)));
  }
  return text + "</svg></figure>\n";
}

}  // namespace ferrite::observe::html
