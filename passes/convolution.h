// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the passes that change a convolution's weights share.
#pragma once

#include <optional>
#include <vector>

#include "passes.h"

namespace ferrite::passes {

/// Whether x is a constant, or comes from constants through at most `depth` nodes.
bool is_constant_expression(Value x, int depth = 8);

/// The convolution that makes x, where nobody else reads x, its weights are a constant expression and its bias a constant
/// of f32 or f64; else none.
Node constant_convolution(Value x);

/// The elements of a constant of T; none where it is no constant, or its elements are not at hand.
template <class T>
std::optional<std::vector<T>> numbers(Value constant) {
  if (!constant.is_constant() || !constant.view().data) return std::nullopt;
  return constant.elements<T>();
}

/// What is scale * r + shift, r being the result of `conv`, whose dtype is T; scale and shift, where given, have one number a
/// channel. A channel goes into the weights and the bias where no product or sum of constants leaves the range of T: each
/// product is finite, and normal or from a factor of zero. The other channels are multiplied and added after the
/// convolution. None, and no change, where that would fold nothing, or where the weights' range is not known.
/// The new weights are a constant expression, which fold_constants or the load evaluates.
template <class T>
Value fold_affine(Graph& graph, Node conv, const std::vector<T>* scale, const std::vector<T>* shift);
extern template Value fold_affine<float>(Graph&, Node, const std::vector<float>*, const std::vector<float>*);
extern template Value fold_affine<double>(Graph&, Node, const std::vector<double>*,
                                          const std::vector<double>*);

}  // namespace ferrite::passes
