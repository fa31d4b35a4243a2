// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <unordered_map>

#include "core/ir/kernel/flatten.h"

namespace ferrite::core::kernel {
namespace {

using namespace ferrite::loop;

/// Numbers items 0, 1, ... in the order of their first lookup.
class Numbering {
 public:
  uint32_t operator()(uint32_t old) {
    const auto [found, fresh] = numbers_.try_emplace(old, static_cast<uint32_t>(order.size()));
    if (fresh) order.push_back(old);
    return found->second;
  }
  bool has(uint32_t old) const { return numbers_.count(old) != 0; }
  std::vector<uint32_t> order;  ///< the old number, by new number

 private:
  std::unordered_map<uint32_t, uint32_t> numbers_;
};

/// The order in which the stores of a statement need its operations: depth first, operands before users.
class Order {
 public:
  Order(const index::Pool& pool, const Statement& s) : pool_(pool), s_(s) {
    for (OpId id = 0; id < s.ops.size(); ++id)
      if (s.ops[id].code == FE_OP_INDIRECT) indirect_.push_back(id);
    for (const auto& store : s.stores) {
      visit(store.value);
      visit(store.mask);
      visit_index(store.index);
    }
    if (s.contract_a != none) {
      visit(s.reductions[0].element);
      reductions(0);
    }
    for (size_t k = 0; k < carries.order.size(); ++k) visit(s.carries[carries.order[k]].next);
  }
  Numbering ops, reductions, carries;

 private:
  std::vector<OpId> needs(const BodyOp& op) {
    std::vector<OpId> result;
    for (OpId id : {op.a, op.b, op.c}) result.push_back(id);
    if (op.code == FE_OP_REDUCED) {
      result.push_back(s_.reductions[op.bits].element);
      result.push_back(s_.reductions[op.bits].index);
    }
    add_indirect(op.index, result);
    return result;
  }
  void add_indirect(std::span<const index::Expr> index, std::vector<OpId>& result) const {
    if (indirect_.empty()) return;
    for (auto expr : index)
      for (OpId id : indirect_)
        if (pool_.depends_on(expr, s_.ops[id].symbol)) result.push_back(id);
  }
  void visit_index(std::span<const index::Expr> index) {
    std::vector<OpId> ids;
    add_indirect(index, ids);
    for (OpId id : ids) visit(id);
  }
  void visit(OpId root) {
    if (root == none || ops.has(root)) return;
    struct Frame {
      OpId id;
      std::vector<OpId> needs;
      size_t next = 0;
    };
    std::vector<Frame> stack;
    stack.push_back({root, needs(s_.ops[root])});
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < top.needs.size()) {
        const OpId id = top.needs[top.next++];
        if (id != none && !ops.has(id)) stack.push_back({id, needs(s_.ops[id])});
        continue;
      }
      const auto& op = s_.ops[top.id];
      ops(top.id);
      if (op.code == FE_OP_REDUCED) reductions(static_cast<uint32_t>(op.bits));
      if (op.code == FE_OP_CARRIED) carries(static_cast<uint32_t>(op.bits));
      stack.pop_back();
    }
  }

  const index::Pool& pool_;
  const Statement& s_;
  std::vector<OpId> indirect_;
};

class Canonical {
 public:
  Canonical(const Kernel& kernel) : from_(kernel) {}

  Kernel run(std::vector<BufferId>& buffers) {
    to_.shared = from_.shared;
    to_.numerics = from_.numerics;
    for (const auto& s : from_.statements) {
      orders_.emplace_back(from_.pool, s);
      symbols_.emplace_back();
    }
    declare_symbols();
    for (size_t k = 0; k < from_.statements.size(); ++k) statement(k);
    for (BufferId id : buffers_.order) buffer(from_.buffers[id]);
    buffers = buffers_.order;
    return std::move(to_);
  }

 private:
  /// Declares the variables of all statements (the shared ones once), then the symbols that the statements
  /// bind.
  void declare_symbols() {
    for (size_t k = 0; k < from_.statements.size(); ++k) {
      const auto& vars = from_.statements[k].vars;
      for (size_t v = 0; v < vars.size(); ++v) {
        const bool known = k > 0 && v < from_.shared;
        const auto symbol =
            known ? to_.statements[0].vars[v].symbol : to_.pool.new_symbol({0, vars[v].extent - 1});
        if (v == 0) to_.statements.resize(k + 1);
        to_.statements[k].vars.push_back({symbol, vars[v].extent, vars[v].kind});
        symbols_[k][vars[v].symbol] = symbol;
      }
      to_.statements.resize(k + 1);
    }
    for (size_t k = 0; k < from_.statements.size(); ++k) {
      for (OpId id : orders_[k].ops.order) {
        const auto& op = from_.statements[k].ops[id];
        if (op.code == FE_OP_INDIRECT)
          symbols_[k][op.symbol] = to_.pool.new_computed_symbol({0, static_cast<int64_t>(op.bits) - 1});
      }
    }
  }

  std::vector<index::Expr> import(std::span<const index::Expr> list,
                                  const std::unordered_map<index::Symbol, index::Symbol>& symbols) {
    std::vector<index::Expr> result;
    for (auto expr : list)
      result.push_back(
          to_.pool.import(from_.pool, expr, [&](index::Symbol s) { return to_.pool.symbol(symbols.at(s)); }));
    return result;
  }

  void statement(size_t k) {
    const auto& from = from_.statements[k];
    auto& to = to_.statements[k];
    auto& order = orders_[k];
    auto move = [&](OpId id) { return id == none ? none : order.ops(id); };
    to.kind = from.kind;
    to.contract_kind = from.contract_kind;
    to.contract_a = move(from.contract_a);
    to.contract_b = move(from.contract_b);
    for (OpId id : order.ops.order) {
      BodyOp op = from.ops[id];
      op.a = move(op.a), op.b = move(op.b), op.c = move(op.c);
      op.index = import(op.index, symbols_[k]);
      if (op.code == FE_OP_LOAD) op.buffer = buffers_(op.buffer);
      if (op.code == FE_OP_INDIRECT) op.symbol = symbols_[k].at(op.symbol);
      if (op.code == FE_OP_REDUCED) op.bits = order.reductions(static_cast<uint32_t>(op.bits));
      if (op.code == FE_OP_CARRIED) op.bits = order.carries(static_cast<uint32_t>(op.bits));
      to.ops.push_back(std::move(op));
    }
    for (uint32_t id : order.reductions.order) {
      const auto& reduction = from.reductions[id];
      to.reductions.push_back(
          {reduction.kind, move(reduction.element), move(reduction.index), reduction.accumulator});
    }
    for (uint32_t id : order.carries.order) {
      const auto& carry = from.carries[id];
      to.carries.push_back({carry.dtype, carry.init_bits, move(carry.next)});
    }
    for (const auto& store : from.stores)
      to.stores.push_back({buffers_(store.buffer), import(store.index, symbols_[k]), move(store.value),
                           move(store.mask), store.mode});
  }

  void buffer(const Buffer& from) {
    Buffer to = from;
    to.name.clear();
    if (from.packing) {
      std::unordered_map<index::Symbol, index::Symbol> symbols;
      for (size_t k = 0; k < from.packing->symbols.size(); ++k) {
        to.packing->symbols[k] = to_.pool.new_symbol(from_.pool.symbol_range(from.packing->symbols[k]));
        symbols[from.packing->symbols[k]] = to.packing->symbols[k];
      }
      to.packing->logical = import(from.packing->logical, symbols);
    }
    to_.buffers.push_back(std::move(to));
  }

  const Kernel& from_;
  Kernel to_;
  std::vector<Order> orders_;
  std::vector<std::unordered_map<index::Symbol, index::Symbol>> symbols_;  // by statement, from old to new
  Numbering buffers_;
};

}  // namespace

ferrite::loop::Kernel canonical(const ferrite::loop::Kernel& kernel,
                                std::vector<ferrite::loop::BufferId>& buffers) {
  return Canonical(kernel).run(buffers);
}

}  // namespace ferrite::core::kernel
