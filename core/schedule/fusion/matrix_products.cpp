// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/matrix_products.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/group_kernel.h"
#include "ferrite/analysis/accumulated_products.hpp"
#include "ferrite/analysis/tiled_products.hpp"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// Fewer rows leave most of a block, or of a tile, empty.
constexpr int64_t least_rows = 16;
/// The rows of a tile, and a dim that a task walks quickly enough even while other workers are idle.
constexpr int64_t rows_of_tile = 64, short_walk = 1024;
constexpr int64_t tiled_workers_of_task = 8;
/// The kernel saves the traffic of the matrices, so it may leave this share of the workers idle.
constexpr int64_t workers_of_task = 2;

// Two products in a row, such as the layers of a feed-forward network, are a GEMM chain, which is fused by
// cost.
constexpr int64_t least_products = 3;

MatrixProducts::Answer refuse(std::string_view category, std::string text) {
  return {{category, std::move(text)}, 0};
}

/// The number of points of the shared loops.
int64_t points(const Kernel& kernel, uint32_t shared) {
  int64_t result = 1;
  for (uint32_t k = 0; k < shared; ++k) result *= kernel.statements[0].vars[k].extent;
  return result;
}

}  // namespace

/// Whether the statement has exactly these parallel loops, by extent.
bool MatrixProducts::has_loops(uint32_t statement, std::span<const Var> loops) const {
  const auto& vars = program_.statements[statement].vars;
  return program_.statements[statement].parallel_count() == loops.size() &&
         std::ranges::equal(std::span(vars).first(loops.size()), loops, {}, &Var::extent, &Var::extent);
}

/// Whether the storage may live inside a kernel, and is written once.
bool MatrixProducts::is_matrix(BufferId storage) const {
  return program_.buffers[storage].role == Role::temporary && !callers_.contains(storage) &&
         deps_.writers[storage].size() == 1;
}

std::vector<uint32_t> MatrixProducts::candidate(const Groups& groups, uint32_t contraction) const {
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
  const auto is_alone = [&](uint32_t s) { return groups[groups.of(s)].statements.size() == 1; };
  if (!std::ranges::all_of(members, is_alone)) return {};
  return {members.begin(), members.end()};
}

MatrixProducts::Answer MatrixProducts::ask(std::span<const uint32_t> part,
                                           std::span<const uint32_t> whole) const {
  const auto products = std::ranges::count_if(
      part, [&](uint32_t s) { return program_.statements[s].kind == FE_STATEMENT_CONTRACT; });
  if (products < least_products)
    return refuse(category::contraction, "fewer than three products share the matrix");
  Group all;
  all.statements.assign(part.begin(), part.end());
  // The loops around the matrices.
  all.shared = static_cast<uint32_t>(program_.statements[part[0]].parallel_count()) - 2;
  const auto inside = [&](uint32_t s) { return std::ranges::binary_search(whole, s); };
  for (size_t k = 0; k < part.size(); ++k) {
    if (constant_[part[k]]) return refuse(category::cost, "a part of it runs once, at load");
    for (size_t j = 0; j < k; ++j)
      all.shared = std::min(all.shared, common_loops(program_, part[j], part[k], all.shared));
  }
  if (!is_convex(deps_, whole)) return refuse(category::cycle, "another kernel stands between them");
  auto kernel = kernel_of(program_, all, [&](BufferId storage) {
                  return !callers_.contains(storage) && std::ranges::all_of(deps_.readers[storage], inside) &&
                         std::ranges::all_of(deps_.writers[storage], inside);
                }).kernel;
  return limits_.target.products == Products::any ? ask_accumulated(kernel, all.shared)
                                                  : ask_tiled(kernel, all.shared);
}

MatrixProducts::Answer MatrixProducts::ask_accumulated(const Kernel& kernel, uint32_t shared) const {
  const auto found = find_accumulated_products(kernel.pool, kernel);
  if (!found) return refuse(category::contraction, std::string(found.reason));
  if (found.rows < least_rows)
    return refuse(category::cost, fmt::format("{}: too few for a block", counted(found.rows, "row")));
  const int64_t tasks = points(kernel, shared);
  if (tasks * workers_of_task < limits_.target.workers)
    return refuse(category::cost, counted(tasks, "task leaves workers idle", "tasks leave workers idle"));
  return {{}, shared};
}

MatrixProducts::Answer MatrixProducts::ask_tiled(Kernel& kernel, uint32_t shared) const {
  const auto found = find_tiled_products(kernel.pool, kernel);
  if (!found) return refuse(category::contraction, std::string(found.reason));
  if (found.kept.extent < least_rows)
    return refuse(category::cost, fmt::format("{}: too few for a tile", counted(found.kept.extent, "row")));
  const int64_t tasks = points(kernel, shared) * ((found.kept.extent + rows_of_tile - 1) / rows_of_tile);
  // A task walks in order. With long walks and few tasks, the separate kernels use the machine better.
  if (found.walked.extent > short_walk && tasks < limits_.target.workers / tiled_workers_of_task)
    return refuse(category::cost, counted(tasks, "tile leaves workers idle", "tiles leave workers idle"));
  return {{}, shared};
}

}  // namespace ferrite::core::schedule
