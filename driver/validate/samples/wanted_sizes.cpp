// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/wanted_sizes.h"

namespace ferrite::core::validate {
namespace {

using rewrite::Expression;
using rewrite::Operand;
using Sizes = std::optional<std::vector<int64_t>>;

template <class T>
std::optional<T> known(const Expression& e, const PartialSample& sample) {
  const auto value = sample.evaluate(e);
  const T* held = value ? std::get_if<T>(&*value) : nullptr;
  return held ? std::optional<T>(*held) : std::nullopt;
}

/// Completes a list in which at most one size is unknown.
Sizes completed(const Expression& list, int64_t elements, const PartialSample& sample) {
  std::vector<int64_t> sizes;
  std::optional<size_t> open;
  int64_t others = 1;
  for (const Expression& child : list.children) {
    const auto size = known<int64_t>(child, sample);
    if (!size) {
      if (open) return std::nullopt;
      open = sizes.size();
    } else if (*size < 1 || *size > elements || (others *= *size) > elements) {
      return std::nullopt;
    }
    sizes.push_back(size.value_or(0));
  }
  if (open && elements % others != 0) return std::nullopt;
  if (open) sizes[*open] = elements / others;
  return sizes;
}

/// `steps`: the number of conditions that may be followed from value to value.
Sizes wanted_within(size_t steps, const rewrite::Rule& rule, const Operand& of, int64_t elements,
                    const PartialSample& sample) {
  if (steps == 0) return std::nullopt;
  const auto reads_it = [&](const Expression& e) {
    if (e.kind != Expression::Kind::shape_of) return false;
    const Operand read = sample.resolve(e.value);
    return read.kind == of.kind && read.index == of.index && read.result == of.result;
  };
  for (const auto& condition : rule.conditions) {
    const Expression& e = condition.expression;
    if (e.kind != Expression::Kind::equal) continue;
    for (size_t side = 0; side < 2; ++side) {
      const Expression& other = e.children[1 - side];
      if (!reads_it(e.children[side])) continue;
      Sizes sizes = other.kind == Expression::Kind::list_of ? completed(other, elements, sample)
                                                            : known<std::vector<int64_t>>(other, sample);
      if (!sizes && other.kind == Expression::Kind::shape_of)
        sizes = wanted_within(steps - 1, rule, sample.resolve(other.value), elements, sample);
      if (sizes) return sizes;
    }
  }
  return std::nullopt;
}

}  // namespace

Sizes wanted_sizes(const rewrite::Rule& rule, const Operand& of, int64_t elements,
                   const PartialSample& sample) {
  constexpr size_t most_steps = 3;
  return wanted_within(most_steps, rule, of, elements, sample);
}

}  // namespace ferrite::core::validate
