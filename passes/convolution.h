// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers of the passes that change a convolution's weights.
#pragma once

#include <optional>
#include <vector>

#include "passes.h"

namespace ferrite::passes {

/// Whether x is a constant, or is computed from constants through at most `depth` nodes.
bool is_constant_expression(Value x, int depth = 8);

/// The convolution that produces x, if nothing else reads x, its weights are a constant expression, and its
/// bias is a constant of f32 or f64; else none.
Node constant_convolution(Value x);

/// The elements of a constant of type T; none if it is no constant, or its elements are not available.
template <class T>
std::optional<std::vector<T>> numbers(Value constant) {
  if (!constant.is_constant() || !constant.view().data) return std::nullopt;
  return constant.elements<T>();
}

/// Computes scale * r + shift, where r is the result of `conv` of type T; scale and shift, if given, have one
/// number per channel. A channel is folded into the weights and the bias if no product or sum of constants
/// leaves the range of T: each product must be finite, and normal unless a factor is zero. The other channels
/// are scaled and shifted after the convolution. Returns none, and changes nothing, if nothing would be
/// folded or the range of the weights is unknown. The new weights are a constant expression, which
/// fold_constants or the load evaluates.
template <class T>
Value fold_affine(Graph& graph, Node conv, const std::vector<T>* scale, const std::vector<T>* shift);
extern template Value fold_affine<float>(Graph&, Node, const std::vector<float>*, const std::vector<float>*);
extern template Value fold_affine<double>(Graph&, Node, const std::vector<double>*,
                                          const std::vector<double>*);

}  // namespace ferrite::passes
