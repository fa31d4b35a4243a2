// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Winograd convolution: S. Winograd, "Arithmetic Complexity of Computations" (1980); Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (2016). A Winograd block of 2 x 2 results takes 16
// multiplications per channel instead of 36. Its 4 x 4 input positions are transformed into 16 sums, and so
// are the weights; the products of both are summed over the channels, and an output transform turns them into
// the results. Over all blocks this is 16 matrix products: blocks by channels times channels by columns.
#pragma once

#include <optional>
#include <vector>

#include "backends/llvm/gemm/plan.h"

namespace ferrite::emitter {

// Sizes in each direction: taps of a window, results of a Winograd block, and the positions that the block
// reads, which is also the number of transformed values.
inline constexpr int winograd_taps = 3, winograd_results = 2,
                     winograd_points = winograd_results + winograd_taps - 1;
inline constexpr int winograd_products = winograd_points * winograd_points;

/// Returns the Winograd blocks of the plan's windows and rounds the window up to whole blocks. Returns
/// nullopt unless the windows are 3 x 3 adjacent positions of all channels with step 1, and the weights are
/// packed and of the sums' type.
std::optional<Winograd> find_winograd(GemmPlan& plan);

/// The factors of the weight transform, indexed by product, then by tap, both two-dimensional.
std::vector<double> winograd_factors();

}  // namespace ferrite::emitter
