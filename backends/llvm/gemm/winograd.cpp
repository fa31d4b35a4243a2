// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gemm/winograd.h"

#include "backends/llvm/gemm/tile_sizes.h"

namespace ferrite::emitter {
namespace {

/// Lavin and Gray's F(2, 3) in one direction: the transform of weights.
constexpr double of_weights[][winograd_taps] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};

}  // namespace

std::optional<Winograd> find_winograd(GemmPlan& plan) {
  if (!plan.window || !plan.window->region || plan.window->planar || plan.channelwise) return std::nullopt;
  auto& window = *plan.window;
  const auto& weights = plan.column;
  if (window.line_taps != winograd_taps || window.place_taps != winograd_taps || window.line_step != 1 ||
      window.place_step != 1 || window.channels < 2)
    return std::nullopt;
  if (weights.access != Access::packed || weights.dtype != plan.accumulator) return std::nullopt;
  Winograd winograd;
  winograd.lines = ceil_div(window.lines, winograd_results);
  winograd.places = ceil_div(window.places, winograd_results);
  // Results beyond the edge are computed but not stored.
  window.lines = winograd.lines * winograd_results;
  window.places = winograd.places * winograd_results;
  window.skips_lines = false;
  return winograd;
}

std::vector<double> winograd_factors() {
  std::vector<double> factors;
  for (const auto& y : of_weights)
    for (const auto& x : of_weights)
      for (const double of_line : y)
        for (const double of_place : x) factors.push_back(of_line * of_place);
  return factors;
}

}  // namespace ferrite::emitter
