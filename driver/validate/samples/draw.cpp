// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/draw.h"

#include <algorithm>
#include <array>
#include <numeric>

namespace ferrite::core::validate {

using graph::AttributeValue;
using graph::Dim;

namespace {

// more than an 8-bit integer can count, and no multiple of a vector's length
constexpr int64_t large_size = 1000;

int64_t elements_of(const std::vector<Dim>& dims) {
  return graph::TensorType{f32, dims, {}, 0}.elements().value_or(most_elements + 1);
}

/// The words of a description like "none | tanh".
std::vector<std::string> choices_in(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    const size_t bar = text.find(" | ");
    const auto word = text.substr(0, bar);
    if (word.empty() || word.find(' ') != std::string_view::npos) return {};
    words.emplace_back(word);
    if (bar == std::string_view::npos) break;
    text.remove_prefix(bar + 3);
  }
  return words.size() > 1 ? words : std::vector<std::string>();
}

}  // namespace

bool fits_sample(const std::vector<Dim>& dims) { return elements_of(dims) <= most_elements; }

Drawer::Drawer(const Pools& pools, const Plan& plan, Random& random)
    : pools_(pools), plan_(plan), random_(random), base_(plan.rank, 1) {
  draw_sizes(base_);
  if (pools_.hints.any() && (plan_.sizes == Plan::Sizes::hinted || random_.chance(0.15))) follow_hints(base_);
  if (plan_.sizes == Plan::Sizes::empty && !base_.empty()) base_[random_.below(base_.size())] = 0;
}

void Drawer::draw_sizes(std::vector<Dim>& dims) {
  std::array<int64_t, 6> distinct = {2, 3, 4, 5, 6, 7};
  switch (plan_.sizes) {
    case Plan::Sizes::unequal:
      for (size_t k = dims.size() > 3 ? 5 : 4; k > 1; --k)
        std::swap(distinct[k - 1], distinct[random_.below(k)]);
      for (size_t d = 0; d < dims.size(); ++d) dims[d] = distinct[d % distinct.size()];
      return;
    case Plan::Sizes::equal: std::ranges::fill(dims, 2 + static_cast<int64_t>(random_.below(3))); return;
    case Plan::Sizes::ones:
      for (auto& dim : dims) dim = random_.chance(0.5) ? 1 : random_.pick(pools_.sizes);
      return;
    case Plan::Sizes::large:
      for (auto& dim : dims) dim = 1 + static_cast<int64_t>(random_.chance(0.2));
      if (!dims.empty()) dims[random_.below(dims.size())] = large_size;
      return;
    default:
      for (auto& dim : dims) dim = random_.pick(pools_.sizes);
  }
}

/// Applies the sizes that the conditions ask for, as long as the tensor stays below most_elements; they
/// replace drawn sizes.
void Drawer::follow_hints(std::vector<Dim>& dims) {
  const SizeHints& hints = pools_.hints;
  if (!hints.shapes.empty() && random_.chance(0.7)) {
    dims = random_.pick(hints.shapes);
    return;
  }
  std::vector<bool> asked(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    std::vector<int64_t> fitting;
    for (const auto& hint : hints.sizes)
      if (hint.fits(d, dims.size())) fitting.push_back(hint.size);
    if (fitting.empty() || !random_.chance(0.9)) continue;
    dims[d] = random_.pick(fitting);
    asked[d] = true;
  }
  if (!hints.elements.empty() && !dims.empty() && random_.chance(0.8)) {
    const size_t filled = random_.below(dims.size());
    const bool flat = random_.chance(0.5);
    for (size_t d = 0; d < dims.size(); ++d)
      if (flat && !asked[d]) dims[d] = 1;
    dims[filled] = 1;
    const int64_t others = std::max<int64_t>(1, elements_of(dims));
    const int64_t wanted = random_.pick(hints.elements);
    dims[filled] = (wanted + others - 1) / others;
  }
  for (const bool given : {false, true})
    for (size_t d = 0; d < dims.size(); ++d)
      if (asked[d] == given && !fits_sample(dims)) dims[d] = 1;
}

std::vector<Dim> Drawer::dims(std::span<const std::vector<Dim>> others) {
  std::vector<Dim> dims = base_;
  if (!others.empty() && random_.chance(0.4)) dims = others[random_.below(others.size())];
  const double kind = random_.real();
  if (kind < (others.empty() ? 0.7 : 0.42) || dims.empty()) return dims;
  const auto drop = [&](size_t count) {
    dims.erase(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(count));
  };
  if (kind < 0.54) {  // broadcast along some dims
    for (auto& dim : dims)
      if (random_.chance(0.5)) dim = 1;
  } else if (kind < 0.64) {  // the last dims
    drop(random_.below(dims.size() + 1));
  } else if (kind < 0.74) {  // one of them alone, mostly the last
    dims = {random_.chance(0.5) ? dims.back() : random_.pick(dims)};
  } else if (kind < 0.8) {
    dims.clear();
  } else if (kind < 0.88) {  // one per channel, or along another dim
    const size_t kept = random_.chance(0.4) ? 1 : random_.below(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      if (d != kept) dims[d] = 1;
    if (random_.chance(0.5)) drop(std::min(kept, dims.size() - 1));
  } else if (kind < 0.92 && dims.size() >= 2) {
    std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  } else {
    if (random_.chance(0.3)) dims.resize(random_.below(5), 1);
    draw_sizes(dims);
    if (random_.chance(0.5)) follow_hints(dims);
  }
  return dims;
}

std::vector<Dim> Drawer::number_dims(const std::vector<Dim>& beside) {
  const double kind = random_.real();
  if (kind < 0.6) return {};
  return kind < 0.8 ? std::vector<Dim>{1} : beside;
}

std::optional<AttributeValue> Drawer::attribute(const graph::OpInfo::AttributeDef& def,
                                                const std::vector<Dim>& operand) {
  if (!def.required && def.value.kind() != FE_ATTR_BOOL && random_.chance(0.3)) return std::nullopt;
  const auto rank = static_cast<int64_t>(operand.size());
  const bool is_axis = (def.flags & (FE_ATTRIBUTE_AXIS | FE_ATTRIBUTE_AXIS_OF_RESULT)) != 0;
  if (is_axis && def.value.kind() == FE_ATTR_INTS && random_.chance(0.8)) {
    std::vector<int64_t> axes;
    for (int64_t axis = 0; axis < rank; ++axis)
      if (random_.chance(rank > 2 ? 0.4 : 0.6)) axes.push_back(random_.chance(0.3) ? axis - rank : axis);
    return AttributeValue(axes);
  }
  switch (def.value.kind()) {
    case FE_ATTR_INT:
      // An axis counted from either end, or a small number.
      if (rank > 0 && random_.chance(is_axis ? 0.95 : 0.7))
        return AttributeValue(static_cast<int64_t>(random_.below(static_cast<uint64_t>(2 * rank))) - rank);
      return AttributeValue(static_cast<int64_t>(random_.below(4)));
    case FE_ATTR_FLOAT: return AttributeValue(random_.pick(pools_.numbers).value);
    case FE_ATTR_DTYPE: return AttributeValue(random_.pick(pools_.dtypes));
    case FE_ATTR_BOOL: return AttributeValue(random_.chance(0.5));
    case FE_ATTR_INTS: return AttributeValue(integers(operand));
    case FE_ATTR_STRING: {
      auto words = choices_in(def.doc);
      words.insert(words.end(), pools_.strings.begin(), pools_.strings.end());
      if (words.empty()) return std::nullopt;
      return AttributeValue(random_.pick(words));
    }
    default: return std::nullopt;
  }
}

/// A list that may be axes, a permutation, a shape, or one number for each dim.
std::vector<int64_t> Drawer::integers(const std::vector<Dim>& operand) {
  const size_t rank = operand.size();
  const auto axis = [&] {
    return rank == 0 ? 0 : static_cast<int64_t>(random_.below(2 * rank)) - static_cast<int64_t>(rank);
  };
  std::vector<int64_t> list(rank);
  std::iota(list.begin(), list.end(), int64_t{0});
  switch (random_.below(15)) {
    case 0:
    case 1: return {axis()};
    case 2: return {-1};
    case 3: {  // some of the axes, in order
      std::erase_if(list, [&](int64_t) { return random_.chance(0.5); });
      return list;
    }
    case 4:
    case 8:  // a permutation: the last two exchanged, a rotation, or any
      if (rank >= 2 && random_.chance(0.35))
        std::swap(list[rank - 1], list[rank - 2]);
      else if (rank >= 3 && random_.chance(0.5))
        std::ranges::rotate(list, list.begin() + 1);
      else
        for (size_t k = rank; k > 1; --k) std::swap(list[k - 1], list[random_.below(k)]);
      return list;
    case 5:
    case 13:
    case 14: {  // a shape with the same number of elements
      std::vector<int64_t> shape(operand.begin(), operand.end());
      switch (random_.below(4)) {
        case 0: return {elements_of(operand)};
        case 1: shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(random_.below(rank + 1)), 1); break;
        case 2:
          if (rank < 2) {
            shape.push_back(1);
          } else {
            shape[1] *= shape[0];
            shape.erase(shape.begin());
          }
          break;
        default: std::ranges::reverse(shape);
      }
      return shape;
    }
    case 6: {  // the operand's shape, or a larger one to which it broadcasts
      std::vector<int64_t> shape(base_.begin(), base_.end());
      if (random_.chance(0.3)) shape.insert(shape.begin(), 2);
      return shape;
    }
    case 7:
      for (size_t d = 0; d < rank; ++d)
        list[d] = operand[d] > 0 ? static_cast<int64_t>(random_.below(static_cast<uint64_t>(operand[d]))) : 0;
      return list;
    case 9:
    case 10:  // sizes within the operand's
      for (size_t d = 0; d < rank; ++d)
        list[d] =
            operand[d] > 0 ? 1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>(operand[d]))) : 0;
      return list;
    case 11:  // steps for all dims, or for those along which a window moves
      if (rank > 2 && random_.chance(0.5)) list.resize(rank - 2);
      for (auto& item : list) item = random_.chance(0.7) ? 1 : 2;
      return list;
    default:
      for (auto& item : list) item = static_cast<int64_t>(random_.below(3));
      return list;
  }
}

}  // namespace ferrite::core::validate
