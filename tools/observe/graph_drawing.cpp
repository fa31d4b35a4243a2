// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/observe/graph_drawing.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace ferrite::observe {
namespace {

constexpr double margin = 12, gap_x = 18, gap_y = 26, point_width = 4, point_weight = 0.02;
constexpr int sweeps = 4;
constexpr size_t no_box = ~size_t{0};

/// A box, or a point through which a long edge passes.
struct Item {
  size_t box = no_box;
  size_t layer = 0;
  double width = point_width, x = 0;  // x: of the centre
  std::vector<size_t> above, below;   // items of the layers beside it
};

class Layers {
 public:
  Layers(std::vector<DrawnBox> boxes, std::span<const std::pair<uint32_t, uint32_t>> edges)
      : boxes_(std::move(boxes)), readers_(boxes_.size()) {
    for (const auto& [from, to] : edges) readers_[from].push_back(to);
    find_depths();
    make_items();
    order();
    place();
  }

  Drawing drawing() {
    Drawing drawing;
    double left = std::numeric_limits<double>::max(), right = 0;
    for (const auto& item : items_) left = std::min(left, item.x - item.width / 2);
    for (auto& item : items_) {
      item.x += margin - left;
      right = std::max(right, item.x + item.width / 2);
    }
    std::vector<double> tops;
    double y = margin;
    for (const auto& layer : layers_) {
      double height = 0;
      for (const size_t i : layer)
        if (items_[i].box != no_box) height = std::max(height, boxes_[items_[i].box].height);
      tops.push_back(y);
      drawing.layer_ends.push_back(y + height);
      y += height + gap_y;
    }
    drawing.width = right + margin;
    drawing.height = y - gap_y + margin;
    const auto lower_end = [&](const Item& item) {
      return item.box == no_box ? drawing.layer_ends[item.layer] : tops[item.layer] + boxes_[item.box].height;
    };
    for (const auto& item : items_) {
      if (item.box != no_box) {
        auto& box = boxes_[item.box];
        box.x = item.x - box.width / 2;
        box.y = tops[item.layer];
      } else {
        drawing.edges.push_back({{item.x, tops[item.layer]}, {item.x, drawing.layer_ends[item.layer]}});
      }
      for (const size_t next : item.below)
        drawing.edges.push_back({{item.x, lower_end(item)}, {items_[next].x, tops[items_[next].layer]}});
    }
    drawing.boxes = std::move(boxes_);
    return drawing;
  }

 private:
  /// A box's layer is one below the deepest box that it reads; a box that reads none is in the layer just
  /// above its first reader.
  void find_depths() {
    std::vector<bool> reads(boxes_.size());
    for (size_t b = 0; b < boxes_.size(); ++b)
      for (const size_t reader : readers_[b]) {
        reads[reader] = true;
        boxes_[reader].layer = std::max(boxes_[reader].layer, boxes_[b].layer + 1);
      }
    for (size_t b = 0; b < boxes_.size(); ++b) {
      if (reads[b] || readers_[b].empty()) continue;
      size_t first = std::numeric_limits<size_t>::max();
      for (const size_t reader : readers_[b]) first = std::min(first, boxes_[reader].layer);
      boxes_[b].layer = first - 1;
    }
  }

  size_t add(Item item) {
    layers_.resize(std::max(layers_.size(), item.layer + 1));
    layers_[item.layer].push_back(items_.size());
    items_.push_back(std::move(item));
    return items_.size() - 1;
  }

  void connect(size_t upper, size_t lower) {
    items_[upper].below.push_back(lower);
    items_[lower].above.push_back(upper);
  }

  /// The long edges that leave one box pass through the same points.
  void make_items() {
    for (size_t b = 0; b < boxes_.size(); ++b) add({b, boxes_[b].layer, boxes_[b].width, 0, {}, {}});
    for (size_t b = 0; b < boxes_.size(); ++b) {
      size_t last = b;
      auto readers = readers_[b];
      std::ranges::sort(readers, {}, [&](size_t reader) { return boxes_[reader].layer; });
      for (const size_t reader : readers) {
        while (items_[last].layer + 1 < boxes_[reader].layer) {
          const size_t point = add({no_box, items_[last].layer + 1, point_width, 0, {}, {}});
          connect(last, point);
          last = point;
        }
        connect(last, reader);
      }
    }
  }

  /// Sorts each layer by the mean position of its items' neighbours, alternately in the layer above and
  /// below.
  void order() {
    std::vector<double> places(items_.size());
    const auto number = [&](const std::vector<size_t>& layer) {
      for (size_t k = 0; k < layer.size(); ++k) places[layer[k]] = static_cast<double>(k);
    };
    for (const auto& layer : layers_) number(layer);
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        auto& layer = layers_[down ? k : layers_.size() - 1 - k];
        std::vector<std::pair<double, size_t>> wanted;
        for (const size_t i : layer)
          wanted.emplace_back(mean(down ? items_[i].above : items_[i].below, places, places[i]), i);
        std::ranges::stable_sort(wanted, {}, &std::pair<double, size_t>::first);
        std::ranges::transform(wanted, layer.begin(), &std::pair<double, size_t>::second);
        number(layer);
      }
    }
  }

  static double mean(const std::vector<size_t>& of, const std::vector<double>& values, double otherwise) {
    if (of.empty()) return otherwise;
    double sum = 0;
    for (const size_t i : of) sum += values[i];
    return sum / static_cast<double>(of.size());
  }

  /// Moves the items of each layer towards their neighbours; boxes keep their order and do not touch.
  void place() {
    std::vector<double> x(items_.size());
    for (const auto& layer : layers_) arrange(layer, std::vector<double>(layer.size()), x);
    for (int sweep = 0; sweep <= sweeps; ++sweep) {
      const bool down = sweep % 2 == 0;
      for (size_t k = 0; k < layers_.size(); ++k) {
        const auto& layer = layers_[down ? k : layers_.size() - 1 - k];
        std::vector<double> wanted;
        for (const size_t i : layer) wanted.push_back(pulled(i, down ? items_[i].above : items_[i].below, x));
        arrange(layer, wanted, x);
      }
    }
    for (size_t i = 0; i < items_.size(); ++i) items_[i].x = x[i];
  }

  /// The position to which an item's neighbours draw it. Boxes that have both readers and operands count
  /// first, then boxes at the start or end of the program, then the points of long edges: otherwise side
  /// inputs would move a box away from the box whose result it continues.
  double pulled(size_t item, const std::vector<size_t>& neighbours, const std::vector<double>& x) const {
    if (items_[item].box == no_box) return mean(neighbours, x, x[item]);
    const auto is_box = [&](size_t i) { return items_[i].box != no_box; };
    const auto goes_on = [&](size_t i) {
      return is_box(i) && !items_[i].above.empty() && !items_[i].below.empty();
    };
    std::vector<size_t> through, boxes;
    std::ranges::copy_if(neighbours, std::back_inserter(through), goes_on);
    std::ranges::copy_if(neighbours, std::back_inserter(boxes), is_box);
    return mean(!through.empty() ? through : !boxes.empty() ? boxes : neighbours, x, x[item]);
  }

  void arrange(const std::vector<size_t>& layer, const std::vector<double>& wanted,
               std::vector<double>& x) const {
    double end = std::numeric_limits<double>::lowest(), off = 0, weights = 0;
    for (size_t k = 0; k < layer.size(); ++k) {
      const double half = items_[layer[k]].width / 2;
      const double here = std::max(wanted[k], end + gap_x + half);
      x[layer[k]] = here;
      end = here + half;
      const double weight = items_[layer[k]].box == no_box ? point_weight : 1;
      off += weight * (here - wanted[k]);
      weights += weight;
    }
    for (const size_t i : layer) x[i] -= off / weights;
  }

  std::vector<DrawnBox> boxes_;
  std::vector<std::vector<uint32_t>> readers_;
  std::vector<Item> items_;  ///< the boxes first
  std::vector<std::vector<size_t>> layers_;
};

}  // namespace

Drawing draw_layers(std::vector<DrawnBox> boxes, std::span<const std::pair<uint32_t, uint32_t>> edges) {
  if (boxes.empty()) return {};
  return Layers(std::move(boxes), edges).drawing();
}

}  // namespace ferrite::observe
