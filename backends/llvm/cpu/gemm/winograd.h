// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by minimal filtering: S. Winograd, "Arithmetic Complexity of Computations" (1980); Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks" (2016). A tile of 2 x 2 results takes 16 multiplications a channel in place of 36: of the 4 x 4 positions
// that it reads and of the weights 16 sums each are made, whose products, summed over the channels, are summed again into the results. Of
// all tiles together that is 16 products of matrices, tiles by channels and channels by columns.
#pragma once

#include <optional>
#include <vector>

#include "backends/llvm/cpu/gemm/plan.h"

namespace ferrite::emitter {

// In each direction: of a window, of a tile, and what a tile reads, of which as many sums are made.
inline constexpr int winograd_taps = 3, winograd_results = 2,
                     winograd_points = winograd_results + winograd_taps - 1;
inline constexpr int winograd_products = winograd_points * winograd_points;

/// The plan's windows by tiles, its window being rounded up to whole ones; nothing where they are no 3 x 3 positions side by side of all
/// channels, with step 1, or the weights are no constant of the sums' type.
std::optional<Winograd> find_winograd(ContractPlan& plan);

/// What the weights are multiplied with: by product, then tap, both of two directions.
std::vector<double> winograd_factors();

/// Emits the tasks of a plan that has tiles of results.
void emit_winograd(KernelContext& context, const ContractPlan& plan);

}  // namespace ferrite::emitter
