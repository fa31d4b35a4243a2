// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/report_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "driver/observe/metrics.h"
#include "ferrite/counted.hpp"

namespace ferrite::cli::html {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";
constexpr size_t longest_text = 300'000;  // bytes: a page should open at once

/// Bytes of the character at the start of `text`; 0 where that is no UTF-8.
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
  // Longer than it need be, a surrogate, or beyond the last character.
  if (length == 3 && ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) >= 0xA0))) return 0;
  if (length == 4 && ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) >= 0x90))) return 0;
  return length;
}

constexpr std::string_view style = R"(
:root{color-scheme:light dark;--text:#1b1f24;--soft:#5a6470;--line:#d7dce2;--back:#fff;--card:#f5f7f9;--accent:#0b63b6;
--bar:#9cc3ea;--good:#1a7f4b;--bad:#b3402a}
@media(prefers-color-scheme:dark){:root{--text:#e4e8ec;--soft:#9aa5b1;--line:#39424c;--back:#14181d;--card:#1c2228;
--accent:#6cb2f5;--bar:#2d5f92;--good:#5cc48f;--bad:#ef8a73}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:76rem;padding:1rem 1.25rem 4rem;background:var(--back);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:.5rem 0 0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.5rem 0 .25rem;padding-top:.5rem;border-top:1px solid var(--line)}
p{margin:.25rem 0 .75rem;max-width:60rem;color:var(--soft)}
p b{color:var(--text)}
nav{margin:.75rem 0;display:flex;flex-wrap:wrap;gap:.25rem 1rem}
a{color:var(--accent)}
.tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(10.5rem,1fr));gap:.75rem;margin:1rem 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:.6rem .8rem}
.tile b{display:block;font-size:1.25rem;font-weight:600}
.tile span{color:var(--soft);font-size:.85rem}
.wide{overflow-x:auto;border:1px solid var(--line);border-radius:6px}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.35rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{background:var(--card);font-weight:600;white-space:nowrap}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
td.name{min-width:13rem;max-width:30rem;overflow-wrap:anywhere}
tr.more td{padding-top:0}
tr.first td{border-bottom:none}
tbody tr:last-child td{border-bottom:none}
.share{display:block;min-width:5rem;height:.55rem;margin-top:.4rem;background:var(--card);border-radius:3px}
.share i{display:block;height:100%;background:var(--bar);border-radius:3px}
details{margin:.15rem 0}
summary{cursor:pointer;color:var(--accent)}
pre{margin:.4rem 0;padding:.6rem .8rem;max-height:28rem;overflow:auto;background:var(--card);border:1px solid var(--line);
border-radius:6px;font:12px/1.45 ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
figure{margin:.75rem 0;overflow-x:auto}
svg{display:block;width:100%;min-width:34rem;height:auto}
svg text{font-size:12px;fill:var(--soft)}
svg .axis{stroke:var(--line);stroke-width:1}
svg .roof{stroke:var(--bad);stroke-width:1.5;fill:none}
svg .point{fill:var(--bar);stroke:var(--accent);fill-opacity:.75}
svg .label{fill:var(--text)}
svg .peak{stroke:var(--bad);stroke-dasharray:5 4}
svg .buffer{stroke:var(--back);stroke-width:.6}
.note{background:var(--card);border-left:3px solid var(--accent);padding:.5rem .8rem;margin:.75rem 0}
code{font:.9em ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace}
)";

/// From a value to a place on an axis.
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
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>\n",
      escape(title), style);
}

std::string tail() { return "</body>\n</html>\n"; }

std::string folded(std::string_view title, std::string_view text) {
  if (text.empty()) return {};
  std::string shown = escape(text.substr(0, longest_text));
  if (text.size() > longest_text)
    shown += fmt::format("\n... {} more bytes are left out", text.size() - longest_text);
  return fmt::format("<details><summary>{}</summary><pre>{}</pre></details>\n", escape(title), shown);
}

std::string time_text(double seconds) {
  if (seconds == 0) return "0";
  if (seconds < 999.5e-9) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 999.5e-6) return fmt::format("{:.{}f} µs", seconds * 1e6, seconds < 99.95e-6 ? 1 : 0);
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 99.95e-3 ? 2 : 0);
  return fmt::format("{:.2f} s", seconds);
}

std::string count_text(double count) {
  for (const char* unit : {"", " k", " M", " G"}) {
    if (std::abs(count) < 999.5) return fmt::format("{:.3g}{}", count, unit);
    count /= 1000;
  }
  return fmt::format("{:.3g} T", count);
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
    // The slope ends where it meets the flat roof, and begins at the edge of the picture.
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
    text += label(left - 8, y(here) + 4, "end", core::observe::bytes_text(std::llround(here)));
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
    text += fmt::format(
        R"(<rect class="buffer" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" fill="{}"><title>{}</title></rect>)",
        from, upper, std::max(to - from, 0.5), std::max(lower - upper, 0.5),
        buffer.workers > 0 ? workspace : colours[k % colours.size()],
        escape(
            fmt::format("{}: {} at {}, launches {} to {}",
                        buffer.workers > 0 ? fmt::format("workspace of {}", counted(buffer.workers, "worker"))
                                           : fmt::format("@{}", buffer.buffer),
                        core::observe::bytes_text(buffer.bytes), buffer.offset, buffer.first, buffer.last)));
  }
  return text + "</svg></figure>\n";
}

}  // namespace ferrite::cli::html
