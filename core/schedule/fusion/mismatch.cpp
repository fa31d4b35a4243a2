// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/mismatch.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/schedule/body.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

using Index = std::span<const index::Expr>;

/// One loop of an access pattern: the distance in elements between iterations, and the number of iterations.
struct Step {
  int64_t stride;
  int64_t extent;
  friend auto operator<=>(const Step&, const Step&) = default;
};

/// A statement's access pattern to a storage.
struct Walk {
  std::vector<Step> steps;  ///< by loop of the statement
  int64_t begin = 0;        ///< the element at which all loops are 0
  bool indirect = false;    ///< the elements depend on data
  bool cut = false;         ///< the index divides loops
  bool repeats = false;     ///< some loop over results visits the same elements again
};

Walk walk_of(const LoopProgram& program, const Statement& statement, BufferId storage, Index index) {
  const auto& pool = program.pool;
  const auto& strides = program.buffers[storage].strides;
  Walk walk;
  for (const auto& var : statement.vars) walk.steps.push_back({0, var.extent});
  for (size_t d = 0; d < index.size(); ++d) {
    const auto sum = pool.affine(index[d]);
    walk.begin += sum.constant * strides[d];
    walk.cut = walk.cut || !sum.rest.empty();
    for (const auto& [symbol, factor] : sum.terms)
      if (const auto var = std::ranges::find(statement.vars, symbol, &Var::symbol);
          var != statement.vars.end())
        walk.steps[static_cast<size_t>(var - statement.vars.begin())].stride += factor * strides[d];
    for (const auto& op : statement.ops)
      walk.indirect = walk.indirect || (op.code == FE_OP_INDIRECT && pool.depends_on(index[d], op.symbol));
  }
  walk.repeats = std::ranges::any_of(statement.vars, [&](const Var& var) {
    return var.kind == VarKind::parallel && var.extent > 1 &&
           std::ranges::none_of(index, [&](index::Expr expr) { return pool.depends_on(expr, var.symbol); });
  });
  return walk;
}

/// The loops of more than one iteration, with strides made positive.
std::vector<Step> moving(const Walk& walk) {
  std::vector<Step> result;
  for (const auto& step : walk.steps)
    if (step.extent != 1) result.push_back({std::abs(step.stride), step.extent});
  return result;
}

std::vector<Step> sorted(std::vector<Step> steps) {
  std::ranges::sort(steps, std::greater());
  return steps;
}

/// Whether the loops, ordered by descending stride, visit evenly spaced elements: each loop continues where
/// the next inner one ends.
bool counts_evenly(std::span<const Step> steps) {
  for (size_t k = 0; k + 1 < steps.size(); ++k)
    if (steps[k].stride != steps[k + 1].stride * steps[k + 1].extent) return false;
  return !steps.empty();
}

Refusal compare(const Walk& a, int64_t points_of_a, const Walk& b, int64_t points_of_b) {
  if (a.indirect || b.indirect)
    return {category::no_dependency, "the elements that one of them accesses depend on data"};
  if (points_of_a != points_of_b ? a.repeats || b.repeats : a.repeats != b.repeats)
    return {category::broadcast, "one of them accesses the same elements repeatedly"};
  if (points_of_a != points_of_b)
    return {category::element_count, fmt::format("{} and {}", counted(points_of_a, "point"), points_of_b)};
  const auto reshaped = [&] {
    return Refusal{category::element_count, "a reshape cuts the same elements into other loops"};
  };
  // Each point has an element of its own, computed by division: the trace of a view with other dims.
  if (a.cut || b.cut) return a.repeats ? Refusal{category::unknown, {}} : reshaped();
  const auto x = moving(a), y = moving(b);
  const auto of_x = sorted(x), of_y = sorted(y);
  if (of_x == of_y && x != y) return {category::loop_order, {}};
  if (std::ranges::equal(x, y, {}, &Step::extent, &Step::extent)) {
    const bool backwards = std::ranges::any_of(a.steps, [](const Step& s) { return s.stride < 0; }) !=
                           std::ranges::any_of(b.steps, [](const Step& s) { return s.stride < 0; });
    if (backwards) return {category::offset, "one of them goes backwards"};
    const auto stays = [](const Step& step) { return step.stride == 0; };
    if (!std::ranges::equal(x, y, {}, stays, stays))
      return {category::broadcast, "they repeat the same elements in different loops"};
    if (x != y) return {category::offset, "with other strides"};
    if (a.begin != b.begin)
      return {category::offset, fmt::format("{} apart", counted(std::abs(a.begin - b.begin), "element"))};
    // Loops of one iteration may stand at different positions.
    if (!std::ranges::equal(a.steps, b.steps, {}, &Step::extent, &Step::extent))
      return {category::loop_order, {}};
    if (!x.empty() && x[0].stride == 0)
      return {category::broadcast, "both repeat the same elements in the first loop"};
    return {};
  }
  if (a.repeats || !counts_evenly(of_x) || !counts_evenly(of_y) || of_x.back().stride != of_y.back().stride)
    return {category::unknown, {}};
  if (a.begin != b.begin)
    return {category::offset, fmt::format("{} apart", counted(std::abs(a.begin - b.begin), "element"))};
  return x == of_x && y == of_y ? reshaped() : Refusal{category::loop_order, {}};
}

std::vector<int64_t> results(const Statement& statement) {
  std::vector<int64_t> extents;
  for (const auto& var : statement.vars)
    if (var.kind == VarKind::parallel && var.extent != 1) extents.push_back(var.extent);
  return extents;
}

}  // namespace

Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second, BufferId storage) {
  struct Access {
    Index index;
    bool store;
  };
  const auto accesses = [&](const Statement& statement) {
    std::vector<Access> list;
    for (const auto& store : statement.stores)
      if (program.storage(store.buffer) == storage) list.push_back({store.index, true});
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD && program.storage(op.buffer) == storage) list.push_back({op.index, false});
    return list;
  };
  const auto& x = program.statements[first];
  const auto& y = program.statements[second];
  const auto of_x = accesses(x), of_y = accesses(y);
  const auto stores = [](const auto& list) { return std::ranges::any_of(list, &Access::store); };
  const bool stored = stores(of_x) || stores(of_y);
  for (const auto& a : of_x)
    for (const auto& b : of_y) {
      if (stored && !a.store && !b.store) continue;
      auto found = compare(walk_of(program, x, storage, a.index), executions(x),
                           walk_of(program, y, storage, b.index), executions(y));
      if (!found.category.empty()) return found;
    }
  return {};
}

Refusal mismatch(const LoopProgram& program, uint32_t first, uint32_t second) {
  const auto product = [](const std::vector<int64_t>& extents) {
    int64_t product = 1;
    for (const int64_t extent : extents) product *= extent;
    return product;
  };
  auto x = results(program.statements[first]), y = results(program.statements[second]);
  if (product(x) != product(y))
    return {category::element_count, fmt::format("{} and {}", counted(product(x), "result"), product(y))};
  if (x == y) return {};
  std::ranges::sort(x);
  std::ranges::sort(y);
  if (x == y) return {category::loop_order, {}};
  return {category::element_count, "as many results in other loops"};
}

}  // namespace ferrite::core::schedule
