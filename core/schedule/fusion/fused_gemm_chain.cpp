// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/fused_gemm_chain.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/schedule/fusion/mismatch.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// The least number of rows for which columns are read once. With fewer, too few rows share the loaded
/// columns.
constexpr int64_t least_chain_rows = 8;
/// The columns may be this many times larger than the local memory of an iteration and still stay in cache.
constexpr int64_t columns_for_local = 4;
/// Columns that do not stay in cache are copied by each worker. The saving, which is the rows that are never
/// stored, must be this many times as large as the copy.
constexpr int64_t rows_for_columns = 2;
/// An unbatched matrix product runs with better tiles in a kernel of its own. Each byte of a row that is not
/// stored makes up for this many multiplications.
constexpr int64_t products_for_byte = 8;

}  // namespace

FusedGemmChain::Answer FusedGemmChain::ask(std::span<const uint32_t> statements, uint32_t shared) const {
  std::vector<Product> products;
  bool reduces = false;
  int64_t row_bytes = 0;
  for (const uint32_t s : statements) {
    const auto& statement = program_.statements[s];
    if (statement.kind == FE_STATEMENT_CONTRACT) {
      const auto found = product(s, shared);
      // A loop of extent 1 follows the shared ones: the loop after it has the rows.
      if (!found && is_single(statements, shared)) return ask(statements, shared + 1);
      if (!found) return {};
      products.push_back(*found);
    } else if (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) {
      return {};
    }
    reduces = reduces || statement.kind == FE_STATEMENT_REDUCE;
    int64_t points = 1;
    for (uint32_t k = 0; k < shared; ++k) points *= std::max<int64_t>(1, statement.vars[k].extent);
    for (const BufferId b : deps_.writes[s]) row_bytes += program_.buffers[b].bytes() / points;
  }
  if (products.empty() || !reduces) return {};
  const auto refuse = [](std::string_view category, std::string text) {
    return Answer{false, std::string(category), std::move(text)};
  };
  // Rows are the unit of parallel work in such a kernel; with fewer rows than workers the separate kernels
  // are faster.
  int64_t points = 1;
  for (uint32_t k = 0; k < shared; ++k) points *= program_.statements[statements[0]].vars[k].extent;
  if (points < limits_.target.workers)
    return refuse(category::cost,
                  fmt::format("{} of a fused GEMM chain would leave workers idle", counted(points, "row")));
  for (const auto& each : products) {
    if (each.rows < least_chain_rows)
      return refuse(category::cost,
                    fmt::format("a fused GEMM chain would read columns for {} only, fewer than {}",
                                counted(each.rows, "row"), least_chain_rows));
    const int64_t near = columns_for_local * limits_.target.local_bytes;
    if (each.column_bytes > near && each.column_bytes > row_bytes / rows_for_columns * each.rows)
      return refuse(
          category::size_limit,
          fmt::format("a product has {} bytes of columns, which each worker would copy for rows of {} bytes",
                      each.column_bytes, row_bytes * each.rows));
    if (each.points == 1 && products.size() == 1 && !has_another(statements, shared))
      return refuse(category::cost, "a single unbatched product is faster as a kernel of its own");
    if (each.points == 1 && each.a_row > products_for_byte * row_bytes)
      return refuse(category::cost, fmt::format("{} multiplications for a row of {} bytes: an unbatched "
                                                "product is faster as a kernel of its own",
                                                each.a_row, row_bytes));
  }
  return {true, {}, {}};
}

std::optional<FusedGemmChain::Product> FusedGemmChain::product(uint32_t number, uint32_t shared) const {
  const auto& statement = program_.statements[number];
  if (statement.kind != FE_STATEMENT_CONTRACT || statement.contract_kind == FE_CONTRACT_CONV || shared == 0 ||
      statement.parallel_count() <= shared)
    return std::nullopt;
  const auto *row = &statement.ops[statement.contract_a], *column = &statement.ops[statement.contract_b];
  for (const auto* load : {row, column})
    if (load->code != FE_OP_LOAD || is_constant(program_.storage(load->buffer))) return std::nullopt;
  const auto depends = [&](const BodyOp& load, const Var& var) {
    return std::ranges::any_of(load.index,
                               [&](index::Expr expr) { return program_.pool.depends_on(expr, var.symbol); });
  };
  const auto& rows = statement.vars[shared - 1];
  const auto inner = std::span(statement.vars).subspan(shared, statement.parallel_count() - shared);
  // A single row is addressed by no loop. The operand that the inner loops address is then the one with the
  // columns.
  const bool is_column =
      rows.extent == 1
          ? std::ranges::any_of(inner, [&](const Var& var) { return var.extent > 1 && depends(*row, var); })
          : !depends(*row, rows);
  if (is_column) std::swap(row, column);
  if (rows.extent > 1 && (!depends(*row, rows) || depends(*column, rows))) return std::nullopt;
  Product result{.rows = rows.extent, .points = 1, .column_bytes = bits_of(column->dtype) / 8};
  int64_t columns = 1;
  for (size_t k = 0; k < statement.vars.size(); ++k) {
    const auto& var = statement.vars[k];
    if (k >= shared) result.a_row *= var.extent;
    if (var.extent == 1 || k + 1 == shared) continue;
    const bool of_row = depends(*row, var), of_column = depends(*column, var);
    if (k + 1 < shared) {
      // points that use the same columns are rows of one product
      result.points *= of_column ? var.extent : 1;
    } else if (var.kind == VarKind::reduction) {
      result.column_bytes *= of_column ? var.extent : 1;
    } else if (of_row && !of_column) {
      return std::nullopt;  // the row operand has a second loop over rows
    } else {
      result.column_bytes *= var.extent;
      columns *= of_row ? 1 : var.extent;
    }
  }
  return columns > 1 ? std::optional(result) : std::nullopt;
}

bool FusedGemmChain::is_single(std::span<const uint32_t> statements, uint32_t shared) const {
  return std::ranges::all_of(statements, [&](uint32_t s) {
    const auto& statement = program_.statements[s];
    return statement.parallel_count() > shared && statement.vars[shared].extent == 1;
  });
}

bool FusedGemmChain::is_constant(BufferId storage) const {
  return program_.buffers[storage].role == Role::constant ||
         (!deps_.writers[storage].empty() &&
          std::ranges::all_of(deps_.writers[storage], [&](uint32_t w) { return constant_[w]; }));
}

bool FusedGemmChain::has_another(std::span<const uint32_t> statements, uint32_t shared) const {
  return std::ranges::any_of(statements, [&](uint32_t s) {
    for (const auto* next : {&deps_.before[s], &deps_.after[s]})
      for (const uint32_t other : *next)
        if (std::ranges::find(statements, other) == statements.end() && product(other, shared)) return true;
    return false;
  });
}

}  // namespace ferrite::core::schedule
