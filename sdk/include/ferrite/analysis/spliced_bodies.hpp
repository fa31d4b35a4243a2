// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Puts the bodies of several statements of a kernel together in one, as analyses do that recognise what the
// statements compute together.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// By operation: whether this one needs it.
inline std::vector<bool> needed_by(const Statement& statement, OpId root) {
  std::vector<bool> needed(statement.ops.size());
  needed[root] = true;
  for (OpId k = root + 1; k-- > 0;)
    if (needed[k])
      for (const OpId operand : {statement.ops[k].a, statement.ops[k].b, statement.ops[k].c})
        if (operand != none) needed[operand] = true;
  return needed;
}

/// Copies bodies of a kernel's statements into one body. Values that one statement stores to a LOCAL buffer
/// and another loads at the same place are passed on directly. Not thread-safe.
class SplicedBodies {
 public:
  /// By loop variable of the copied statement: what replaces it.
  using Substitution = std::vector<std::pair<index::Symbol, index::Expr>>;
  struct Written {
    OpId value;
    std::vector<index::Expr> index;
  };

  /// Keeps references. `pool` is the kernel's; new expressions are added to it.
  SplicedBodies(index::Pool& pool, const Kernel& kernel) : pool_(pool), kernel_(kernel) {}

  /// Why the first copy failed that did; empty: none has.
  std::string_view reason() const { return reason_; }
  /// Notes the reason of a failure, and returns false.
  bool fail(std::string_view reason) {
    if (reason_.empty()) reason_ = reason;
    return false;
  }
  /// Where a LOCAL buffer was written; null: nowhere yet.
  const Written* written(BufferId buffer) const {
    const auto found = written_.find(buffer);
    return found == written_.end() ? nullptr : &found->second;
  }

  /// Replaces the kernel's shared variables in one statement with those of the other.
  Substitution shared_variables(const Statement& from, const Statement& to) {
    Substitution result;
    for (size_t k = 0; k < kernel_.shared; ++k)
      result.emplace_back(from.vars[k].symbol, pool_.symbol(to.vars[k].symbol));
    return result;
  }
  /// The first load that the operation needs of a buffer that was written; null if there is none.
  const BodyOp* load_of_written(const Statement& statement, OpId root) const {
    const auto needed = needed_by(statement, root);
    for (OpId k = 0; k <= root; ++k)
      if (needed[k] && statement.ops[k].code == FE_OP_LOAD && written_.count(statement.ops[k].buffer))
        return &statement.ops[k];
    return nullptr;
  }

  /// Copies an operation and everything it needs to another body; returns its number there, none if that is
  /// impossible. `reduced` is added to the numbers of reductions. Equal operations are merged.
  OpId splice(Statement& into, const Statement& from, OpId root, const Substitution& substitution,
              uint32_t reduced) {
    const auto needed = needed_by(from, root);
    std::vector<OpId> numbers(from.ops.size(), none);
    for (OpId k = 0; k <= root; ++k) {
      if (!needed[k]) continue;
      auto op = from.ops[k];
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != none) *operand = numbers[*operand];
      for (auto& expr : op.index) expr = pool_.substitute(expr, substitution);
      if (op.code == FE_OP_INDIRECT || op.code == FE_OP_CARRIED)
        return fail("something is read by a computed index"), none;
      if (op.code == FE_OP_REDUCED) op.bits += reduced;
      if (op.code == FE_OP_LOAD) {
        const auto written = written_.find(op.buffer);
        if (written != written_.end() && op.a == none && op.index == written->second.index) {
          numbers[k] = written->second.value;
          continue;
        }
        if (written != written_.end() || (kernel_.buffers[op.buffer].kind != FE_BUFFER_INPUT &&
                                          kernel_.buffers[op.buffer].kind != FE_BUFFER_CONSTANT))
          return fail("something is read elsewhere than where it was made"), none;
      }
      const auto same = std::ranges::find_if(into.ops, [&](const BodyOp& other) { return equal(op, other); });
      numbers[k] = static_cast<OpId>(same - into.ops.begin());
      if (same == into.ops.end()) into.ops.push_back(std::move(op));
    }
    return numbers[root];
  }

  /// Copies the values of the stores. `keep`: also copies stores to memory; else such stores are not allowed.
  bool splice_stores(Statement& into, const Statement& from, const Substitution& substitution,
                     uint32_t reduced, bool keep) {
    for (auto store : from.stores) {
      const bool local = kernel_.buffers[store.buffer].kind == FE_BUFFER_LOCAL;
      if (store.mask != none || store.mode != FE_STORE_SET) return fail("something is stored by a condition");
      if (!local && !keep) return fail("a value between the products is stored");
      store.value = splice(into, from, store.value, substitution, reduced);
      if (store.value == none) return false;
      for (auto& expr : store.index) expr = pool_.substitute(expr, substitution);
      written_[store.buffer] = {store.value, store.index};
      if (!local) into.stores.push_back(std::move(store));
    }
    return true;
  }

 private:
  static bool equal(const BodyOp& x, const BodyOp& y) {
    return x.code == y.code && x.dtype == y.dtype && x.flags == y.flags && x.a == y.a && x.b == y.b &&
           x.c == y.c && x.buffer == y.buffer && x.index == y.index && x.symbol == y.symbol &&
           x.bits == y.bits;
  }

  index::Pool& pool_;
  const Kernel& kernel_;
  std::string_view reason_;
  std::map<BufferId, Written> written_;
};

}  // namespace ferrite::inline v0::loop
