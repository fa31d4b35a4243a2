// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/rematerialise.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "backends/llvm/analysis/statement_values.h"

namespace ferrite::emitter {
namespace {

using loop::BufferId;
using loop::none;
using loop::OpId;

constexpr size_t most_operations = 256;  // in a statement, after it recomputes a row

/// The single store to a local row, with the operations that its value needs.
struct Row {
  size_t statement = 0, store = 0;
  std::vector<bool> needed;  ///< by operation
};

class Rematerialiser {
 public:
  explicit Rematerialiser(loop::Kernel& kernel) : kernel_(kernel), stores_(kernel.buffers.size()) {
    for (const auto& statement : kernel_.statements)
      for (const auto& store : statement.stores) ++stores_[store.buffer];
  }

  bool run() {
    bool changed = false;
    for (BufferId b = 0; b < kernel_.buffers.size(); ++b)
      if (const auto row = row_in(b); row && can_compute(b, *row)) {
        compute(b, *row);
        changed = true;
      }
    std::erase_if(kernel_.statements, [](const loop::Statement& s) { return s.stores.empty(); });
    return changed;
  }

 private:
  bool is_inside(const loop::Statement& statement, index::Expr at) const {
    for (size_t v = kernel_.shared; v < statement.vars.size(); ++v)
      if (kernel_.pool.depends_on(at, statement.vars[v].symbol)) return true;
    return false;
  }

  /// Finds a local buffer that holds one row per iteration of the shared loops, where one point stores each
  /// element.
  std::optional<Row> row_in(BufferId b) {
    if (kernel_.buffers[b].kind != FE_BUFFER_LOCAL || stores_[b] != 1) return std::nullopt;
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      const auto& statement = kernel_.statements[s];
      for (size_t k = 0; k < statement.stores.size(); ++k) {
        const auto& store = statement.stores[k];
        if (store.buffer != b) continue;
        if (std::ranges::none_of(store.index, [&](index::Expr at) { return is_inside(statement, at); }))
          return std::nullopt;
        return Row{s, k, needed_operations(statement, kernel_.pool, {&store.value, 1})};
      }
    }
    return std::nullopt;
  }

  /// Whether the row's element has the same value if it is computed where it is read.
  bool can_compute(BufferId b, const Row& row) {
    const auto& statement = kernel_.statements[row.statement];
    const auto& store = statement.stores[row.store];
    if (store.mask != none || store.mode != FE_STORE_SET ||
        statement.ops[store.value].dtype != kernel_.buffers[b].dtype)
      return false;
    std::vector<index::Symbol> coordinates;
    for (auto at : store.index) {
      if (const auto symbol = kernel_.pool.as_symbol(at))
        coordinates.push_back(*symbol);
      else if (!kernel_.pool.as_constant(at))
        return false;
    }
    size_t count = 0;
    for (size_t k = 0; k < statement.ops.size(); ++k) {
      if (!row.needed[k]) continue;
      const auto& op = statement.ops[k];
      ++count;
      // Values of a reduction or a carried value exist only in their own statement.
      if (op.code == FE_OP_REDUCED || op.code == FE_OP_CARRIED || op.code == FE_OP_INDIRECT) return false;
      if (op.code == FE_OP_LOAD && !is_settled(op.buffer, row.statement)) return false;
      for (size_t v = kernel_.shared; v < statement.vars.size(); ++v)
        if (std::ranges::find(coordinates, statement.vars[v].symbol) == coordinates.end() &&
            std::ranges::any_of(op.index, [&](index::Expr at) {
              return kernel_.pool.depends_on(at, statement.vars[v].symbol);
            }))
          return false;
    }
    // Recomputing must not make any reader's body too long.
    for (size_t s = 0; s < kernel_.statements.size(); ++s) {
      const auto& reader = kernel_.statements[s];
      size_t reads = 0;
      for (const auto& op : reader.ops)
        if (op.code == FE_OP_LOAD && op.buffer == b) {
          if (s <= row.statement || op.a != none) return false;
          ++reads;
        }
      if (reader.ops.size() + reads * count > most_operations) return false;
    }
    return true;
  }

  /// Whether nothing writes the buffer from this statement on.
  bool is_settled(BufferId b, size_t statement) const {
    for (size_t s = statement; s < kernel_.statements.size(); ++s)
      for (const auto& store : kernel_.statements[s].stores)
        if (store.buffer == b) return false;
    return true;
  }

  void compute(BufferId b, const Row& row) {
    auto& statement = kernel_.statements[row.statement];
    for (size_t s = row.statement + 1; s < kernel_.statements.size(); ++s)
      compute_in(kernel_.statements[s], b, row);
    statement.stores.erase(statement.stores.begin() + static_cast<std::ptrdiff_t>(row.store));
    // No access is left, so the buffer needs no memory.
    auto& buffer = kernel_.buffers[b];
    buffer.strides.assign(buffer.dims.size(), 0);
    buffer.offset = 0;
  }

  /// Replaces each load of the row by the operations of the row's element.
  void compute_in(loop::Statement& reader, BufferId b, const Row& row) {
    const auto& statement = kernel_.statements[row.statement];
    const auto& store = statement.stores[row.store];
    std::vector<loop::BodyOp> ops;
    std::vector<OpId> number(reader.ops.size(), none);
    for (size_t k = 0; k < reader.ops.size(); ++k) {
      auto op = reader.ops[k];
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != none) *operand = number[*operand];
      if (op.code != FE_OP_LOAD || op.buffer != b) {
        number[k] = static_cast<OpId>(ops.size());
        ops.push_back(std::move(op));
        continue;
      }
      Replacements at;
      for (size_t v = 0; v < kernel_.shared; ++v)
        if (statement.vars[v].symbol != reader.vars[v].symbol)
          at.emplace_back(statement.vars[v].symbol, kernel_.pool.symbol(reader.vars[v].symbol));
      for (size_t d = 0; d < store.index.size(); ++d)
        if (const auto symbol = kernel_.pool.as_symbol(store.index[d]);
            symbol && is_inside(statement, store.index[d]))
          at.emplace_back(*symbol, op.index[d]);
      number[k] = splice(ops, statement, row, store.value, at);
    }
    reader.ops = std::move(ops);
    for (auto& reduction : reader.reductions)
      for (auto* operand : {&reduction.element, &reduction.index})
        if (*operand != none) *operand = number[*operand];
    for (auto& carry : reader.carries) carry.next = number[carry.next];
    for (auto& each : reader.stores)
      for (auto* operand : {&each.value, &each.mask})
        if (*operand != none) *operand = number[*operand];
  }

  OpId splice(std::vector<loop::BodyOp>& ops, const loop::Statement& source, const Row& row, OpId value,
              const Replacements& at) {
    std::vector<OpId> number(source.ops.size(), none);
    for (size_t k = 0; k < source.ops.size(); ++k) {
      if (!row.needed[k]) continue;
      auto op = source.ops[k];
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != none) *operand = number[*operand];
      for (auto& expr : op.index) expr = kernel_.pool.substitute(expr, at);
      number[k] = static_cast<OpId>(ops.size());
      ops.push_back(std::move(op));
    }
    return number[value];
  }

  loop::Kernel& kernel_;
  std::vector<size_t> stores_;  ///< by buffer
};

}  // namespace

bool rematerialise(loop::Kernel& kernel) {
  for (const auto& statement : kernel.statements)
    if (statement.kind == FE_STATEMENT_CONTRACT) return false;
  return Rematerialiser(kernel).run();
}

}  // namespace ferrite::emitter
