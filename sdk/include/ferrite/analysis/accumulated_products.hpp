// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises kernels of matrix products around intermediate matrices that some statements make row by row and
// other products sum over the rows, as the gradient of attention does: its probabilities are summed along the
// rows for the gradient of the queries, and over the rows for those of keys and values. A code generator can
// process such a kernel in blocks of rows, so that the matrices are never stored (Dao, "FlashAttention-2",
// 2023). The host uses the same function to decide whether such a kernel should exist.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// The rows of the LOCAL matrices of a kernel, and how each statement walks over them.
struct AccumulatedProducts {
  /// Why the kernel does not match; empty: it matches, and the other fields are set.
  std::string_view reason;

  int64_t rows = 0;  ///< of every matrix
  /// By statement: the position of the row variable among its variables. A parallel variable: the statement
  /// works row by row. A reduction variable: the statement is a contraction that sums over the rows.
  std::vector<size_t> row_var;
  /// By buffer: the dim with the rows; `none`: the buffer is no matrix between statements of this kernel.
  std::vector<uint32_t> row_dim;

  bool accumulates(const Kernel& kernel, size_t statement) const {
    return kernel.statements[statement].vars[row_var[statement]].kind == VarKind::reduction;
  }
  explicit operator bool() const { return reason.empty(); }
};

namespace detail {

class AccumulatedProductsFinder {
 public:
  AccumulatedProductsFinder(const index::Pool& pool, const Kernel& kernel) : pool_(pool), kernel_(kernel) {}

  AccumulatedProducts find() {
    if (!find_all()) found_.reason = "no product sums over the rows of a matrix that is made in this kernel";
    return std::move(found_);
  }

 private:
  bool find_all() {
    if (kernel_.shared == 0 || kernel_.statements.size() < 3) return false;
    for (const auto& statement : kernel_.statements)
      if (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_CONTRACT) return false;
    for (size_t s = 0; s < kernel_.statements.size(); ++s)
      for (size_t v = kernel_.shared; v < kernel_.statements[s].vars.size(); ++v)
        if (is_sum(kernel_.statements[s]) && kernel_.statements[s].vars[v].kind == VarKind::reduction &&
            kernel_.statements[s].vars[v].extent > 1 && follow(s, v))
          return true;
    return false;
  }

  static bool is_sum(const Statement& statement) {
    return statement.kind == FE_STATEMENT_CONTRACT && statement.contract_kind != FE_CONTRACT_CONV &&
           std::ranges::count_if(statement.vars, [](const Var& var) {
             return var.kind == VarKind::reduction && var.extent > 1;
           }) == 1;
  }

  /// Calls visit(buffer, index, is a store) for each access of the statement to a LOCAL buffer, until one
  /// returns false.
  template <class Visit>
  bool each_local(const Statement& statement, Visit&& visit) const {
    const auto is_local = [&](BufferId b) { return kernel_.buffers[b].kind == FE_BUFFER_LOCAL; };
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD && is_local(op.buffer) && !visit(op.buffer, op.index, false)) return false;
    for (const auto& store : statement.stores)
      if (is_local(store.buffer) && !visit(store.buffer, store.index, true)) return false;
    return true;
  }

  /// The only dim whose coordinate is this variable; `none` where several depend on it.
  uint32_t dim_of(const std::vector<index::Expr>& index, index::Symbol symbol) const {
    uint32_t found = none;
    for (uint32_t d = 0; d < index.size(); ++d) {
      if (!pool_.depends_on(index[d], symbol)) continue;
      if (found != none || pool_.as_symbol(index[d]) != symbol) return none;
      found = d;
    }
    return found;
  }

  /// Takes this variable of this statement as its rows, and finds those of all others through the matrices
  /// that they share.
  bool follow(size_t first, size_t var) {
    constexpr size_t unknown = ~size_t{0};
    found_ = {};
    found_.rows = kernel_.statements[first].vars[var].extent;
    found_.row_var.assign(kernel_.statements.size(), unknown);
    found_.row_dim.assign(kernel_.buffers.size(), none);
    found_.row_var[first] = var;
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t s = 0; s < kernel_.statements.size(); ++s) {
        const auto& statement = kernel_.statements[s];
        const bool fits = each_local(statement, [&](BufferId b, const auto& index, bool) {
          auto& dim = found_.row_dim[b];
          if (found_.row_var[s] != unknown && dim == none) {
            dim = dim_of(index, statement.vars[found_.row_var[s]].symbol);
            changed = true;
            return dim != none;
          }
          if (found_.row_var[s] == unknown && dim != none) {
            const auto symbol = pool_.as_symbol(index[dim]);
            const auto place = std::ranges::find_if(
                statement.vars, [&](const Var& each) { return symbol && each.symbol == *symbol; });
            if (place == statement.vars.end()) return false;
            found_.row_var[s] = static_cast<size_t>(place - statement.vars.begin());
            changed = true;
          }
          return true;
        });
        if (!fits) return false;
      }
    }
    return std::ranges::find(found_.row_var, unknown) == found_.row_var.end() && is_consistent();
  }

  bool is_consistent() const {
    bool makes = false;
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      const auto& statement = kernel_.statements[s];
      const auto& row = statement.vars[found_.row_var[s]];
      if (found_.row_var[s] < kernel_.shared || row.extent != found_.rows) return false;
      const bool sums = row.kind == VarKind::reduction;
      if (sums && !is_sum(statement)) return false;
      const bool fits = each_local(statement, [&](BufferId b, const auto& index, bool is_store) {
        makes = makes || (is_store && statement.kind == FE_STATEMENT_CONTRACT);
        return dim_of(index, row.symbol) == found_.row_dim[b] && lies_in_rows(b) && !(sums && is_store);
      });
      if (!fits) return false;
    }
    return makes;
  }

  /// Whether a matrix lies row after row.
  bool lies_in_rows(BufferId b) const {
    const auto& buffer = kernel_.buffers[b];
    const uint32_t rows = found_.row_dim[b];
    if (rows == none || buffer.packing) return false;
    for (size_t d = 0; d < buffer.dims.size(); ++d)
      if (d != rows && buffer.dims[d] > 1 && buffer.strides[d] >= buffer.strides[rows]) return false;
    return true;
  }

  const index::Pool& pool_;
  const Kernel& kernel_;
  AccumulatedProducts found_;
};

}  // namespace detail

/// Finds the rows of the kernel's LOCAL matrices. `pool`: the kernel's. Every statement must be a map or a
/// contraction that works on one row at a time inside the shared loops, or a contraction that sums over the
/// rows; the matrices must lie row after row.
inline AccumulatedProducts find_accumulated_products(const index::Pool& pool, const Kernel& kernel) {
  return detail::AccumulatedProductsFinder(pool, kernel).find();
}

}  // namespace ferrite::inline v0::loop
