// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/samples/size_hints.h"

#include <algorithm>
#include <set>

namespace ferrite::core::validate {
namespace {

using rewrite::Expression;
using Kind = Expression::Kind;

constexpr int64_t most_ranks = 8;
constexpr size_t most_integers = 16;  // of one comparison

bool compares(Kind kind) { return kind >= Kind::equal && kind <= Kind::greater_equal; }

std::optional<int64_t> constant(const Expression& e) {
  if (e.kind == Kind::integer) return std::get<int64_t>(e.literal);
  if (e.kind != Kind::negate || e.children[0].kind != Kind::integer) return std::nullopt;
  return -std::get<int64_t>(e.children[0].literal);
}

/// The sizes that one comparison reads, and the integers that it names.
struct Named {
  std::set<int64_t> integers;
  std::vector<std::optional<int64_t>> axes;
  std::vector<std::vector<int64_t>> shapes;
  bool elements = false, rank = false, arithmetic = false;

  void look(const Expression& e) {
    if (e.kind == Kind::dim_of) {
      axes.push_back(constant(e.children[0]));
      return;
    }
    if (const auto integer = constant(e); integer && integers.size() < most_integers)
      integers.insert(std::clamp(*integer, -most_elements, most_elements));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&e.literal); list && e.kind == Kind::list)
      shapes.push_back(*list);
    elements = elements || e.kind == Kind::elements_of;
    rank = rank || e.kind == Kind::rank_of;
    arithmetic = arithmetic || (e.kind >= Kind::add && e.kind <= Kind::divide);
    for (const Expression& child : e.children) look(child);
  }

  std::set<int64_t> candidates(bool with_neighbours) const {
    std::set<int64_t> found;
    const auto add = [&](int64_t value) {
      for (int64_t v = value - with_neighbours; v <= value + with_neighbours; ++v)
        if (v >= 0 && v <= most_elements) found.insert(v);
    };
    for (const int64_t a : integers) {
      add(a);
      if (!arithmetic) continue;
      for (const int64_t b : integers) {
        add(a + b);
        add(a - b);
        add(a * b);
        if (b != 0) add(a / b);
      }
    }
    return found;
  }
};

bool makes_a_tensor(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 1 || size > most_elements) return false;
    elements *= size;
    if (elements > most_elements) return false;
  }
  return shape.size() <= most_ranks;
}

void collect(const Expression& e, SizeHints& hints) {
  if (!compares(e.kind)) {
    for (const Expression& child : e.children) collect(child, hints);
    return;
  }
  Named named;
  named.look(e);
  for (auto& shape : named.shapes)
    if (makes_a_tensor(shape)) hints.shapes.push_back(std::move(shape));
  for (const auto& axis : named.axes)
    if (axis) hints.ranks.push_back(std::clamp(*axis < 0 ? -*axis : *axis + 1, int64_t{0}, most_ranks));
  for (const int64_t value : named.candidates(e.kind != Kind::equal)) {
    if (named.rank && value <= most_ranks) hints.ranks.push_back(value);
    if (value < 1) continue;
    for (const auto& axis : named.axes) hints.sizes.push_back({axis, value});
    if (named.elements) hints.elements.push_back(value);
  }
}

}  // namespace

bool SizeHints::Size::fits(size_t dim, size_t rank) const {
  return !axis || *axis == static_cast<int64_t>(dim) ||
         *axis + static_cast<int64_t>(rank) == static_cast<int64_t>(dim);
}

SizeHints size_hints(const rewrite::Rule& rule) {
  SizeHints hints;
  for (const auto& condition : rule.conditions) collect(condition.expression, hints);
  return hints;
}

}  // namespace ferrite::core::validate
