// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "convolution.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace ferrite::passes {
namespace {

/// The range of magnitudes of some elements. Multiplication by a number is monotonic in the magnitude,
/// rounding included, so the two bounds decide whether every product stays in range.
template <class T>
struct Magnitudes {
  /// The least magnitude of the elements that are not zero; infinite: there are none.
  T least = std::numeric_limits<T>::infinity();
  T greatest = 0;  ///< infinite: an element is not finite

  void add(T element) {
    const T magnitude = std::fabs(element);
    if (!std::isfinite(magnitude)) greatest = std::numeric_limits<T>::infinity();
    if (magnitude > greatest) greatest = magnitude;
    if (magnitude > 0 && magnitude < least) least = magnitude;
  }
  void add(const Magnitudes& other) {
    least = std::min(least, other.least);
    greatest = std::max(greatest, other.greatest);
  }
  Magnitudes times(T factor) const {
    factor = std::fabs(factor);
    Magnitudes product;
    product.greatest = greatest * factor;
    if (!std::isfinite(product.greatest)) product.greatest = std::numeric_limits<T>::infinity();
    // If a product underflows to zero, nothing is known about the next larger elements.
    if (std::isfinite(least) && factor != 0)
      product.least = std::max(least * factor, std::numeric_limits<T>::denorm_min());
    return product;
  }
};

/// Whether a product of constants is finite, and normal unless a factor is zero.
template <class T>
bool keeps_range(T a, T b) {
  const T product = a * b;
  return std::isnormal(product) || (product == 0 && (a == 0 || b == 0));
}
template <class T>
bool keeps_range(const Magnitudes<T>& of, T factor) {
  return keeps_range(of.greatest, factor) && (!std::isfinite(of.least) || keeps_range(of.least, factor));
}
/// Whether the sum of two constants is finite, or a term already is not.
template <class T>
bool sum_keeps_range(T a, T b) {
  return std::isfinite(a + b) || !std::isfinite(a) || !std::isfinite(b);
}

template <class T>
using PerChannel = std::vector<Magnitudes<T>>;

/// The magnitude ranges of `count` equal parts of a constant, in order; none if its elements are not
/// available.
template <class T>
std::optional<PerChannel<T>> magnitudes_of_constant(Value constant, size_t count) {
  const auto view = constant.view();
  const auto dtype = constant.dtype();
  const auto width = static_cast<size_t>(bits_of(dtype)) / 8;
  if (!view.data || !is_computable_float(dtype) || bits_of(dtype) > static_cast<int64_t>(8 * sizeof(T)))
    return std::nullopt;
  PerChannel<T> parts(count);
  const size_t each = view.data_bytes / width / count;
  const auto* bytes = static_cast<const std::byte*>(view.data);
  for (size_t c = 0; c < count; ++c)
    for (size_t k = 0; k < each; ++k, bytes += width) {
      if (width == sizeof(T)) {
        T element;
        std::memcpy(&element, bytes, sizeof(T));
        parts[c].add(element);
      } else {
        uint64_t bits = 0;
        std::memcpy(&bits, bytes, width);
        parts[c].add(static_cast<T>(float_value(dtype, bits)));
      }
    }
  return parts;
}

/// The magnitude range of each channel (dim 0) of the weights. Looks through expressions that only move or
/// widen elements, and through the expressions left by an earlier folded scale.
template <class T>
std::optional<PerChannel<T>> magnitudes(Value weight, size_t channels) {
  if (weight.is_constant()) return magnitudes_of_constant<T>(weight, channels);
  const Node node = weight.producer();
  const auto op = node.op();
  if (op == "reshape" || op == "transpose" || op == "cast") {
    // The positions of elements are not tracked: every channel gets the range of the whole.
    const auto whole = magnitudes<T>(node.operand(0), 1);
    return whole ? std::optional(PerChannel<T>(channels, whole->front())) : std::nullopt;
  }
  if (op != "mul" || weight.dims() != node.operand(0).dims()) return std::nullopt;
  Dims shape(weight.rank(), 1);
  shape[0] = weight.dims()[0];
  if (node.operand(1).dims() != shape || shape[0] != static_cast<int64_t>(channels)) return std::nullopt;
  const auto factors = numbers<T>(node.operand(1));
  auto parts = magnitudes<T>(node.operand(0), channels);
  if (!factors || !parts) return std::nullopt;
  for (size_t c = 0; c < channels; ++c) (*parts)[c] = (*parts)[c].times((*factors)[c]);
  return parts;
}

}  // namespace

bool is_constant_expression(Value x, int depth) {
  if (x.is_constant()) return true;
  Node node = x.producer();
  if (!node || depth == 0 || (node.view().flags & (FE_OP_RANDOM | FE_OP_EFFECT))) return false;
  for (size_t k = 0; k < node.operand_count(); ++k)
    if (Value operand = node.operand(k); operand && !is_constant_expression(operand, depth - 1)) return false;
  return true;
}

Node constant_convolution(Value x) {
  Node conv = x.producer();
  if (!conv || conv.op() != "conv" || x.use_count() != 1) return {};
  if (x.dtype() != f32 && x.dtype() != f64) return {};
  const Value bias = conv.operand(2);
  return is_constant_expression(conv.operand(1)) && (!bias || bias.is_constant()) ? conv : Node();
}

template <class T>
Value fold_affine(Graph& graph, Node conv, const std::vector<T>* scale, const std::vector<T>* shift) {
  const Value weight = conv.operand(1), bias = conv.operand(2);
  const auto channels = static_cast<size_t>(weight.dims()[0]);
  if (channels == 0) return {};
  // x + (-0) is x for every x, so -0 stands for an absent term.
  const T one = 1, nothing = -T(0);
  const auto weights =
      scale ? magnitudes<T>(weight, channels) : std::optional(PerChannel<T>(channels, Magnitudes<T>()));
  const auto biases = bias ? numbers<T>(bias) : std::optional(std::vector<T>(channels, nothing));
  if (!weights || !biases) return {};

  // Factors and terms that go into the convolution, and those that stay after it.
  std::vector<T> inner_scale(channels, one), outer_scale(inner_scale), inner_bias(*biases),
      outer_shift(channels, nothing);
  bool all = true, some = false;
  for (size_t c = 0; c < channels; ++c) {
    const T s = scale ? (*scale)[c] : one, t = shift ? (*shift)[c] : nothing, b = (*biases)[c];
    const T scaled = scale && bias ? b * s : b;
    const bool keeps = (!scale || (keeps_range((*weights)[c], s) && (!bias || keeps_range(b, s)))) &&
                       (!bias || sum_keeps_range(scaled, t));
    const bool neutral = s == one && t == 0 && std::signbit(t);
    some = some || (keeps && !neutral);
    all = all && keeps;
    (keeps ? inner_scale : outer_scale)[c] = s;
    if (keeps)
      inner_bias[c] = bias ? scaled + t : t;
    else
      outer_shift[c] = t;
  }
  if (!all && !some) return {};

  const auto literal = [&](const std::vector<T>& list, size_t dim, size_t rank) {
    Dims dims(rank, 1);
    dims[dim] = static_cast<int64_t>(channels);
    return graph.literal({conv.result().dtype(), dims}, list.data());
  };
  std::vector<Value> operands{conv.operand(0), weight};
  if (scale) operands[1] = graph.make("mul", {weight, literal(inner_scale, 0, weight.rank())});
  if (bias || shift) operands.push_back(literal(inner_bias, 0, 1));
  Value result = graph.make("conv", operands, conv.attrs().copy());
  if (all) return result;
  if (scale) result = graph.make("mul", {result, literal(outer_scale, 1, weight.rank())});
  if (shift) result = graph.make("add", {result, literal(outer_shift, 1, weight.rank())});
  return result;
}

template Value fold_affine<float>(Graph&, Node, const std::vector<float>*, const std::vector<float>*);
template Value fold_affine<double>(Graph&, Node, const std::vector<double>*, const std::vector<double>*);

}  // namespace ferrite::passes
