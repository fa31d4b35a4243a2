// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layered drawings of directed graphs without cycles: K. Sugiyama, S. Tagawa, M. Toda, "Methods for Visual
// Understanding of Hierarchical System Structures" (1981). Layers by depth, orders by barycentres, long edges
// by way of a point in each layer.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ferrite::observe {

struct DrawnBox {
  double width = 0, height = 0;  ///< given
  double x = 0, y = 0;           ///< of its upper left corner
  size_t layer = 0;
};
struct DrawnPoint {
  double x = 0, y = 0;
};

/// A drawing from top to bottom.
struct Drawing {
  std::vector<DrawnBox> boxes;
  std::vector<std::vector<DrawnPoint>> edges;  ///< polylines: their points in order
  std::vector<double> layer_ends;              ///< the lower end of each layer
  double width = 0, height = 0;
};

/// `edges`: pairs of indices; each goes from a box to one that comes after it in the list.
Drawing draw_layers(std::vector<DrawnBox> boxes, std::span<const std::pair<uint32_t, uint32_t>> edges);

}  // namespace ferrite::observe
