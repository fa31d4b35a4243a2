// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/accumulated_products.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/group_kernel.h"
#include "ferrite/analysis/accumulated_products.hpp"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// Fewer rows leave most of a block empty.
constexpr int64_t least_accumulated_rows = 16;
/// The kernel saves the traffic of the matrices, so it may leave this share of the workers idle.
constexpr int64_t workers_of_task = 2;

// Two products in a row, such as the layers of a feed-forward network, are a GEMM chain, which is fused by
// cost.
constexpr int64_t least_products = 3;

}  // namespace

/// Whether the statement has exactly these parallel loops, by extent.
bool AccumulatedProducts::has_loops(uint32_t statement, std::span<const Var> loops) const {
  const auto& vars = program_.statements[statement].vars;
  return program_.statements[statement].parallel_count() == loops.size() &&
         std::ranges::equal(std::span(vars).first(loops.size()), loops, {}, &Var::extent, &Var::extent);
}

/// Whether the storage may live inside a kernel, and is written once.
bool AccumulatedProducts::is_matrix(BufferId storage) const {
  return program_.buffers[storage].role == Role::temporary && !callers_.contains(storage) &&
         deps_.writers[storage].size() == 1;
}

/// Whether no other statement lies on a path between two of the statements.
bool AccumulatedProducts::is_convex(std::span<const uint32_t> statements) const {
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(statements, s); };
  std::set<uint32_t> found;
  std::vector<uint32_t> open;
  const auto visit_after = [&](uint32_t s) {
    for (const uint32_t next : deps_.after[s])
      if (!inside(next) && next < statements.back() && found.insert(next).second) open.push_back(next);
  };
  for (const uint32_t s : statements) visit_after(s);
  while (!open.empty()) {
    const uint32_t s = open.back();
    open.pop_back();
    if (std::ranges::any_of(deps_.after[s], inside)) return false;
    visit_after(s);
  }
  return true;
}

std::vector<uint32_t> AccumulatedProducts::candidate(const Groups& groups, uint32_t contraction) const {
  const auto& first = program_.statements[contraction];
  const std::span loops(first.vars.data(), first.parallel_count());
  // Rows, columns and at least one loop around the matrix.
  if (first.kind != FE_STATEMENT_CONTRACT || loops.size() < 3) return {};
  std::set<uint32_t> members = {contraction};
  // Statements that make matrices: whose readers and sources are still to be visited.
  std::vector<uint32_t> open = {contraction};
  while (!open.empty()) {
    const uint32_t maker = open.back();
    open.pop_back();
    for (const BufferId matrix : deps_.writes[maker]) {
      if (!is_matrix(matrix)) return {};
      for (const uint32_t reader : deps_.readers[matrix]) {
        if (members.contains(reader)) continue;
        const bool is_map = program_.statements[reader].kind == FE_STATEMENT_MAP;
        if (!is_map && program_.statements[reader].kind != FE_STATEMENT_CONTRACT) return {};
        if (is_map && !has_loops(reader, loops)) return {};
        members.insert(reader);
        if (members.size() > limits_.most_statements) return {};
        if (is_map) open.push_back(reader);
      }
    }
    // Of a map's other sources, those that are products with the same loops.
    if (program_.statements[maker].kind != FE_STATEMENT_MAP) continue;
    for (const BufferId source : deps_.reads[maker])
      for (const uint32_t writer : deps_.writers[source])
        if (program_.statements[writer].kind == FE_STATEMENT_CONTRACT && has_loops(writer, loops) &&
            members.insert(writer).second)
          open.push_back(writer);
  }
  const auto products = std::ranges::count_if(
      members, [&](uint32_t s) { return program_.statements[s].kind == FE_STATEMENT_CONTRACT; });
  if (products < least_products) return {};
  const auto is_alone = [&](uint32_t s) { return groups[groups.of(s)].statements.size() == 1; };
  if (!std::ranges::all_of(members, is_alone)) return {};
  return {members.begin(), members.end()};
}

AccumulatedProducts::Answer AccumulatedProducts::ask(std::span<const uint32_t> statements) const {
  const auto refuse = [](std::string_view category, std::string text) {
    return Answer{{category, std::move(text)}, 0};
  };
  Group all;
  all.statements.assign(statements.begin(), statements.end());
  all.shared = static_cast<uint32_t>(program_.statements[statements[0]].parallel_count());
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(statements, s); };
  for (size_t k = 0; k < statements.size(); ++k) {
    if (constant_[statements[k]]) return refuse(category::cost, "a part of it runs once, at load");
    for (size_t j = 0; j < k; ++j)
      all.shared = std::min(all.shared, common_loops(program_, statements[j], statements[k], all.shared));
  }
  if (!is_convex(statements)) return refuse(category::cycle, "another kernel stands between them");
  const auto kernel = kernel_of(program_, all, [&](BufferId storage) {
                        return !callers_.contains(storage) &&
                               std::ranges::all_of(deps_.readers[storage], inside) &&
                               std::ranges::all_of(deps_.writers[storage], inside);
                      }).kernel;
  const auto found = find_accumulated_products(kernel.pool, kernel);
  if (!found) return refuse(category::contraction, std::string(found.reason));
  if (found.rows < least_accumulated_rows)
    return refuse(category::cost, fmt::format("{}: too few for a block", counted(found.rows, "row")));
  int64_t points = 1;
  for (uint32_t k = 0; k < all.shared; ++k) points *= kernel.statements[0].vars[k].extent;
  if (points * workers_of_task < limits_.target.workers)
    return refuse(category::cost, counted(points, "task leaves workers idle", "tasks leave workers idle"));
  return {{}, all.shared};
}

}  // namespace ferrite::core::schedule
