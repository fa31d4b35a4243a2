// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/report_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ferrite/counted.hpp"
#include "tools/observe/graph_drawing.h"
#include "tools/observe/report_html.h"
#include "tools/observe/wording.h"

namespace ferrite::observe::html {
namespace {

using core::observe::GraphView;

constexpr size_t most_boxes = 1500;                    // in a picture, so that the page opens quickly
constexpr size_t few_boxes = 150, folded_boxes = 120;  // a picture with more than few_boxes is folded
constexpr size_t most_operations = 6, most_characters = 28;
constexpr double character_width = 7, line_height = 15, padding = 8, least_width = 56;

/// A box as it is drawn.
struct Label {
  std::vector<std::string> lines;
  std::string title;
  std::optional<size_t> row;  ///< of the table of kernels
  double share = 0;           ///< of the time of a run
};

std::string cut(std::string_view text) { return shortened_end(text, most_characters); }

std::string title_of(const GraphView::Box& box) {
  std::string text;
  for (const auto& [op, names] : box.operations)
    text += fmt::format("{}{}{}{}", text.empty() ? "" : "\n", op, names.empty() ? "" : ": ",
                        fmt::join(names_in(names), ", "));
  return box.type.empty() ? text : text + "\n" + box.type;
}

Label label_of(const GraphView::Box& box, std::optional<size_t> row, const KernelTimes& kernels) {
  Label label{{}, title_of(box), row, 0};
  if (row) {
    const double seconds = kernels.rows[*row].time.median;
    label.share = kernels.seconds > 0 ? seconds / kernels.seconds : 0;
    const auto launches = static_cast<double>(kernels.rows[*row].names.size());
    label.lines.push_back(fmt::format("{}: {}", *row + 1, time_text(seconds / launches)));
  }
  for (size_t k = 0; k < box.operations.size() && k < most_operations; ++k)
    label.lines.push_back(cut(box.operations[k].op));
  if (box.operations.size() > most_operations)
    label.lines.push_back(fmt::format("and {} more", box.operations.size() - most_operations));
  if (!box.type.empty()) label.lines.push_back(cut(box.type));
  if (label.lines.empty()) label.lines.emplace_back("?");
  return label;
}

std::string edge_text(const std::vector<DrawnPoint>& points) {
  const auto &from = points.front(), &to = points.back();
  const double bend = (from.y + to.y) / 2;
  return fmt::format(
      R"(<path class="edge" d="M{0:.1f} {1:.1f}C{0:.1f} {4:.1f} {2:.1f} {4:.1f} {2:.1f} {3:.1f}"/>)", from.x,
      from.y, to.x, to.y, bend);
}

std::string box_text(const DrawnBox& box, const Label& label) {
  auto text =
      fmt::format(R"(<rect class="box{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="4" )"
                  R"(fill-opacity="{:.2f}"/>)",
                  label.row ? " timed" : "", box.x, box.y, box.width, box.height,
                  label.row ? 0.12 + 0.88 * std::min(1.0, 4 * label.share) : 1.0);
  for (size_t k = 0; k < label.lines.size(); ++k)
    text +=
        fmt::format(R"(<text x="{:.1f}" y="{:.1f}" text-anchor="middle"{}>{}</text>)", box.x + box.width / 2,
                    box.y + padding + line_height * (static_cast<double>(k) + 0.75),
                    k == 0 ? " class=\"label\"" : "", escape(label.lines[k]));
  text = fmt::format("<g>{}<title>{}</title></g>", text, escape(label.title));
  return label.row ? fmt::format(R"(<a href="#kernel-{}">{}</a>)", *label.row + 1, text) : text;
}

/// The boxes to draw: at most most_boxes, without those that run at load.
struct Shown {
  std::vector<size_t> boxes;
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  size_t at_load = 0, left_out = 0;
};

Shown shown_of(const GraphView& view) {
  Shown shown;
  std::vector<std::optional<uint32_t>> places(view.boxes.size());
  for (size_t b = 0; b < view.boxes.size(); ++b) {
    if (view.boxes[b].at_load) {
      ++shown.at_load;
    } else if (shown.boxes.size() == most_boxes) {
      ++shown.left_out;
    } else {
      places[b] = static_cast<uint32_t>(shown.boxes.size());
      shown.boxes.push_back(b);
    }
  }
  for (const auto& [from, to] : view.edges)
    if (places[from] && places[to]) shown.edges.emplace_back(*places[from], *places[to]);
  return shown;
}

/// The height of a folded picture: it ends after the last layer that keeps it within folded_boxes.
double folded_height(const Drawing& drawing, size_t& boxes) {
  std::vector<size_t> of_layers(drawing.layer_ends.size());
  for (const auto& box : drawing.boxes) ++of_layers[box.layer];
  size_t layer = 0;
  boxes = drawing.boxes.size();
  if (boxes <= few_boxes) return drawing.height;
  boxes = of_layers[0];
  while (layer + 1 < of_layers.size() && boxes + of_layers[layer + 1] <= folded_boxes)
    boxes += of_layers[++layer];
  return layer + 1 == of_layers.size() ? drawing.height : drawing.layer_ends[layer] + 10;
}

/// The text with its first letter in upper case.
std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

/// The x coordinate to which the picture scrolls at first: of the boxes in the first layer, the centre that
/// is nearest to the median centre of all boxes.
double first_x(const Drawing& drawing) {
  std::vector<double> middles;
  for (const auto& box : drawing.boxes) middles.push_back(box.x + box.width / 2);
  auto sorted = middles;
  std::ranges::sort(sorted);
  const double most = sorted[sorted.size() / 2];
  double nearest = -drawing.width;
  for (size_t b = 0; b < middles.size(); ++b)
    if (drawing.boxes[b].layer == 0 && std::abs(middles[b] - most) < std::abs(nearest - most))
      nearest = middles[b];
  return nearest;
}

std::string picture(const GraphView& view, std::string_view noun, const KernelTimes& kernels) {
  const auto shown = shown_of(view);
  if (shown.boxes.empty()) return fmt::format("<p class=\"note\">There is no {} here.</p>\n", noun);
  const bool timed =
      view.stage == "link" && shown.boxes.size() + shown.left_out == kernels.rows_of_launches.size();
  std::vector<Label> labels;
  std::vector<DrawnBox> boxes;
  for (size_t k = 0; k < shown.boxes.size(); ++k) {
    const auto row = timed ? std::optional(kernels.rows_of_launches[k]) : std::nullopt;
    const auto& label = labels.emplace_back(label_of(view.boxes[shown.boxes[k]], row, kernels));
    size_t longest = 0;
    for (const auto& line : label.lines) longest = std::max(longest, line.size());
    boxes.push_back({std::max(least_width, static_cast<double>(longest) * character_width + 2 * padding),
                     static_cast<double>(label.lines.size()) * line_height + 2 * padding});
  }
  const auto drawing = draw_layers(std::move(boxes), shown.edges);
  size_t in_folded = 0;
  const double height = folded_height(drawing, in_folded);
  std::string note;
  if (in_folded < shown.boxes.size())
    note += fmt::format("{} of {} are shown", in_folded, counted(shown.boxes.size() + shown.left_out, noun));
  if (shown.left_out > 0)
    note += fmt::format("{}{} are in no picture", note.empty() ? "" : "; ", counted(shown.left_out, noun));
  if (shown.at_load > 0)
    note += fmt::format("{}without {} at load", note.empty() ? "" : "; ", counted(shown.at_load, noun));
  auto text = note.empty() ? std::string() : fmt::format("<p class=\"note\">{}.</p>\n", capital(note));
  text +=
      fmt::format(R"(<div class="frame" tabindex="0" role="group" aria-label="{0}">)"
                  R"(<svg class="graph" role="img" aria-label="{0}" )"
                  R"(width="{1:.0f}" height="{2:.0f}" viewBox="0 0 {1:.0f} {2:.0f}" data-height="{3:.0f}" )"
                  R"(data-boxes="{4}" data-x="{5:.0f}">)",
                  escape(counted(shown.boxes.size(), noun)), drawing.width, height, drawing.height,
                  shown.boxes.size(), first_x(drawing));
  for (const auto& edge : drawing.edges) text += edge_text(edge);
  for (size_t k = 0; k < labels.size(); ++k) text += box_text(drawing.boxes[k], labels[k]);
  return text + "</svg></div>\n";
}

}  // namespace

std::string graphs(std::span<const GraphView> views, const KernelTimes& kernels) {
  std::string text =
      "<h2 id=\"graph\">Graph</h2>\n<p>The program at three stages, from top to bottom: a box reads results "
      "of "
      "the boxes above it. A box of the schedule is a kernel with the operations that were fused into it, "
      "its "
      "number in the table above and the time of one launch; the stronger its colour, the more of the run "
      "its "
      "launches take. Constants are not drawn.</p>\n";
  for (const auto& view : views) {
    const bool schedule = view.stage == "link";
    const std::string_view noun = schedule ? "kernel" : "node";
    const auto title = view.stage == "import" ? "Graph at import"
                       : schedule             ? "Schedule"
                                              : "Graph after the passes";
    const auto count = std::ranges::count(view.boxes, false, &GraphView::Box::at_load);
    text += fmt::format("<details class=\"picture\"{}><summary>{}: {}</summary>\n{}</details>\n",
                        schedule ? " open" : "", title, counted(count, noun), picture(view, noun, kernels));
  }
  return text;
}

}  // namespace ferrite::observe::html
