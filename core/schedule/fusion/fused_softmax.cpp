// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/fused_softmax.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/group_kernel.h"
#include "ferrite/analysis/softmax_products.hpp"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// The most groups before a product that are searched; a softmax is one to three groups.
constexpr size_t most_groups = 8;
/// Fewer rows leave most of a tile empty.
constexpr int64_t least_softmax_rows = 16;
/// The rows of a task, and a number of columns that a task walks quickly enough even while other workers are
/// idle.
constexpr int64_t rows_of_task = 64, few_columns = 1024;
/// Maps of values of rows have this many fewer points than the scores, at least.
constexpr int64_t least_columns = 2;

}  // namespace

/// The other groups that write the storages that the group reads.
std::vector<uint32_t> FusedSoftmax::writers_of(const Groups& groups, uint32_t group) const {
  std::vector<uint32_t> result;
  for (const uint32_t s : groups[group].statements)
    for (const BufferId b : deps_.reads[s])
      for (const uint32_t w : deps_.writers[b]) {
        const uint32_t other = groups.of(w);
        if (other != group && std::ranges::find(result, other) == result.end()) result.push_back(other);
      }
  return result;
}

/// Whether the groups contain the two reductions of a softmax, a maximum and a sum.
bool FusedSoftmax::reduces(const Groups& groups, std::span<const uint32_t> members) const {
  const auto has = [&](uint32_t kind) {
    return std::ranges::any_of(members, [&](uint32_t group) {
      return std::ranges::any_of(groups[group].statements, [&](uint32_t s) {
        const auto& statement = program_.statements[s];
        return statement.kind == FE_STATEMENT_REDUCE &&
               std::ranges::count(statement.reductions, kind, &loop::Reduction::kind) > 0;
      });
    });
  };
  return has(FE_REDUCE_MAX) && has(FE_REDUCE_SUM);
}

/// Adds the maps that compute further results of a softmax's rows, such as the logarithm of the sum.
void FusedSoftmax::add_row_results(const Groups& groups, uint32_t last,
                                   std::vector<uint32_t>& members) const {
  const auto is_row_map = [&](uint32_t group) {
    return std::ranges::all_of(groups[group].statements, [&](uint32_t s) {
      const auto& statement = program_.statements[s];
      return statement.kind == FE_STATEMENT_MAP &&
             statement.points(VarKind::parallel) * least_columns <=
                 program_.statements[groups[members[0]].statements[0]].points(VarKind::parallel);
    });
  };
  const auto is_member = [&](uint32_t group) {
    return group == last || std::ranges::find(members, group) != members.end();
  };
  for (size_t k = 1; k < members.size(); ++k)
    for (const uint32_t s : std::vector(groups[members[k]].statements))
      for (const BufferId b : deps_.writes[s])
        for (const uint32_t reader : deps_.readers[b])
          if (const uint32_t group = groups.of(reader);
              !is_member(group) && is_row_map(group) && members.size() < most_groups)
            members.push_back(group);
}

std::vector<FusedSoftmax::Candidate> FusedSoftmax::candidates(const Groups& groups,
                                                              uint32_t contraction) const {
  const uint32_t last = groups.of(contraction);
  if (groups[last].statements[0] != contraction) return {};
  // The groups before the product, up to the next contractions, the nearest first.
  std::vector<uint32_t> rows, products, open = {last};
  for (size_t k = 0; k < open.size() && rows.size() < most_groups; ++k)
    for (const uint32_t writer : writers_of(groups, open[k])) {
      const bool product = is_product(groups[writer].statements[0]);
      auto& list = product ? products : rows;
      if (writer == last || std::ranges::find(list, writer) != list.end()) continue;
      list.push_back(writer);
      if (!product) open.push_back(writer);
    }
  // Of these groups, those that depend on one of the first products.
  std::vector<Candidate> results;
  for (const uint32_t product : products) {
    Candidate result{{product}, groups[product].statements[0], contraction};
    const auto depends = [&](uint32_t group) {
      return std::ranges::any_of(writers_of(groups, group), [&](uint32_t writer) {
        return std::ranges::find(result.groups, writer) != result.groups.end();
      });
    };
    for (bool grows = true; grows;) {
      grows = false;
      for (const uint32_t group : rows)
        if (std::ranges::find(result.groups, group) == result.groups.end() && depends(group)) {
          result.groups.push_back(group);
          grows = true;
        }
    }
    if (!reduces(groups, result.groups) || !depends(last)) continue;
    add_row_results(groups, last, result.groups);
    result.groups.push_back(last);
    results.push_back(std::move(result));
  }
  return results;
}

FusedSoftmax::Answer FusedSoftmax::ask(const Groups& groups, const Candidate& candidate) const {
  const auto refuse = [](std::string_view category, std::string text) {
    return Answer{{category, std::move(text)}, 0};
  };
  Group all;
  all.shared = groups[candidate.groups[0]].shared;
  for (const uint32_t group : candidate.groups) {
    const auto& statements = groups[group].statements;
    all.statements.insert(all.statements.end(), statements.begin(), statements.end());
    all.shared = std::min(all.shared, groups[group].shared);
  }
  std::ranges::sort(all.statements);
  if (all.statements.size() > limits_.most_statements)
    return refuse(category::size_limit, fmt::format("more than {} statements", limits_.most_statements));
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(all.statements, s); };
  for (const uint32_t s : all.statements) {
    if (constant_[s]) return refuse(category::cost, "a part of it runs once, at load");
    for (const uint32_t other : all.statements)
      if (other != s)
        all.shared =
            std::min(all.shared, common_loops(program_, std::min(s, other), std::max(s, other), all.shared));
  }
  if (!is_convex(deps_, all.statements))
    return refuse(category::cycle, "another kernel depends on the statements between the products");
  auto kernel = kernel_of(program_, all, [&](BufferId storage) {
                  return !callers_.contains(storage) && std::ranges::all_of(deps_.readers[storage], inside) &&
                         std::ranges::all_of(deps_.writers[storage], inside);
                }).kernel;
  const auto found = find_softmax_products(kernel.pool, kernel);
  if (!found) return refuse(category::contraction, std::string(found.reason));
  if (found.row.extent < least_softmax_rows)
    return refuse(category::cost, fmt::format("{}: too few for a tile", counted(found.row.extent, "row")));
  int64_t tasks = (found.row.extent + rows_of_task - 1) / rows_of_task;
  for (uint32_t k = 0; k + 1 < all.shared; ++k) tasks *= found.between.vars[k].extent;
  // A task walks all columns in order. With many columns and few tasks, the separate kernels use the machine
  // better.
  if (found.column.extent > few_columns && tasks < limits_.target.workers / 8)
    return refuse(category::cost,
                  counted(tasks, "tile of rows leaves workers idle", "tiles of rows leave workers idle"));
  return {{}, all.shared};
}

}  // namespace ferrite::core::schedule
