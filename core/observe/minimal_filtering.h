// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by minimal filtering: S. Winograd, "Arithmetic Complexity of Computations" (1980); Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks" (2016). A kernel shows it by its weights, whose
// packing stores sums over the taps.
#pragma once

#include <optional>

#include "core/ir/loop/program.h"

namespace ferrite::core::observe {

/// The operations of such a contraction in place of a product and a sum at each of its points: products and
/// their sums of whole blocks, and the transforms of blocks on the way in and out. None where the statement
/// is no such convolution.
std::optional<double> minimal_filtering_operations(const loop::Kernel& kernel,
                                                   const loop::Statement& statement);

}  // namespace ferrite::core::observe
