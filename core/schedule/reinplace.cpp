// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/reinplace.h"

#include <algorithm>
#include <optional>

#include "core/schedule/body.h"

namespace ferrite::core::schedule {
namespace {

/// A map that only moves elements: all of `to` at its own coordinates, from `from` at `index`.
struct Copy {
  uint32_t statement = none;
  BufferId from = none, to = none;
  Substitution coordinates;  ///< nothing yet: a symbol for each dim of `to`, to be given what it stands for
  std::vector<index::Expr> index;
};

std::optional<Copy> copy_of(LoopProgram& program, uint32_t number) {
  const auto& statement = program.statements[number];
  if (statement.kind != FE_STATEMENT_MAP || statement.stores.size() != 1 || statement.ops.size() != 1)
    return {};
  const auto& load = statement.ops[0];
  const auto& store = statement.stores[0];
  if (load.code != FE_OP_LOAD || load.a != none || store.mask != none || store.mode != FE_STORE_SET)
    return {};
  Copy copy{number, load.buffer, store.buffer, {}, load.index};
  const auto& dims = program.buffers[store.buffer].dims;
  size_t next = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (next < statement.vars.size() &&
        program.pool.as_symbol(store.index[d]) == statement.vars[next].symbol &&
        statement.vars[next].extent == dims[d]) {
      copy.coordinates.emplace_back(statement.vars[next++].symbol, index::Expr{});
      continue;
    }
    if (dims[d] != 1 || program.pool.as_constant(store.index[d]) != 0) return {};
    copy.coordinates.emplace_back(program.pool.new_symbol({0, 0}), index::Expr{});
  }
  return next == statement.vars.size() ? std::optional(copy) : std::nullopt;
}

/// The place in `copy.from` of what lies at `at` of `copy.to`.
std::vector<index::Expr> place_in_source(LoopProgram& program, const Copy& copy,
                                         std::span<const index::Expr> at) {
  auto symbols = copy.coordinates;
  for (size_t d = 0; d < at.size(); ++d) symbols[d].second = at[d];
  std::vector<index::Expr> result;
  for (auto expr : copy.index) result.push_back(program.pool.substitute(expr, symbols));
  return result;
}

class Mutation {
 public:
  Mutation(LoopProgram& program, BufferId version)
      : program_(program),
        deps_(Dependencies::of(program)),
        version_(version),
        input_(program.storage(version)) {}

  /// Why the copy stays; empty where it went. `dropped`: statements that do nothing any more.
  std::string apply(std::vector<bool>& dropped) {
    const auto& writers = deps_.writers[input_];
    if (writers.size() != 1) return {};  // it is made in place already
    out_ = copy_of(program_, writers[0]);
    if (!out_) return {};
    changed_ = program_.storage(out_->from);
    if (auto reason = obstacle(); !reason.empty()) return reason;
    dropped[out_->statement] = true;
    if (in_) dropped[in_->statement] = true;
    rewrite();
    return {};
  }
  BufferId changed() const { return changed_; }

 private:
  std::string obstacle() {
    const auto& buffer = program_.buffers[changed_];
    if (buffer.role != Role::temporary ||
        std::ranges::any_of(program_.outputs, [&](BufferId b) { return program_.storage(b) == changed_; }))
      return "also kept elsewhere";
    const auto& writers = deps_.writers[changed_];
    if (writers.empty()) return "also kept elsewhere";
    for (const auto* list : {&writers, &deps_.readers[changed_]})
      for (uint32_t s : *list)
        if (program_.statements[s].kind == FE_STATEMENT_CALL) return "an opaque kernel";
    in_ = copy_of(program_, writers[0]);
    if (in_ && (in_->from != input_ || in_->to != changed_)) in_.reset();
    const uint32_t first = in_ ? (writers.size() > 1 ? writers[1] : out_->statement) : writers[0];
    for (uint32_t s : deps_.readers[input_]) {
      if (s == out_->statement || (in_ && s == in_->statement) || s < first) continue;
      if (s > first || !reads_what_it_changes(s)) return "old contents are read later";
    }
    return leads_back() ? "" : "another layout";
  }

  /// Whether the first change reads the input only at the points that it stores, before it does.
  bool reads_what_it_changes(uint32_t s) const {
    const auto& statement = program_.statements[s];
    if (in_ || statement.kind != FE_STATEMENT_MAP || statement.stores.size() != 1 ||
        statement.stores[0].mask != none)
      return false;
    const auto& store = statement.stores[0];
    return std::ranges::all_of(statement.ops,
                               [&](const BodyOp& op) {
                                 return op.code != FE_OP_LOAD || program_.storage(op.buffer) != input_ ||
                                        op.index == store.index;
                               }) &&
           std::ranges::all_of(statement.vars, [&](const Var& var) {
             return var.extent == 1 || std::ranges::any_of(store.index, [&](index::Expr expr) {
                      return program_.pool.as_symbol(expr) == var.symbol;
                    });
           });
  }

  /// Whether an element comes back from the buffer that is changed to where it came from.
  bool leads_back() {
    const auto &input = program_.buffers[input_], &buffer = program_.buffers[changed_];
    if (input.dtype != buffer.dtype || input.elements() != buffer.elements()) return false;
    std::vector<index::Expr> own;
    const auto& store = program_.statements[out_->statement].stores[0];
    for (auto expr : store.index) own.push_back(expr);
    if (!in_) return input.dims == buffer.dims && out_->index == own;
    return place_in_source(program_, *in_, out_->index) == own;
  }

  /// Accesses of the buffer that is changed become those of the input, its versions the input's.
  void rewrite() {
    std::vector<BufferId> versions;
    if (!in_) versions.push_back(changed_);
    for (BufferId b = 0; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].base == changed_) versions.push_back(b);
    const auto last = versions.empty() ? input_ : versions.back();
    const auto made = [&](BufferId b) { return b == last ? version_ : b; };
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      auto& statement = program_.statements[s];
      if (s == out_->statement || (in_ && s == in_->statement)) continue;
      const auto move = [&](BufferId& b, std::vector<index::Expr>& index) {
        if (program_.storage(b) != changed_) return;
        if (in_) index = place_in_source(program_, *in_, index);
        b = in_ && b == changed_ ? input_ : made(b);
      };
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) move(op.buffer, op.index);
      for (auto& store : statement.stores) move(store.buffer, store.index);
    }
    uint32_t number = 0;
    for (BufferId b : versions) {
      auto& version = program_.buffers[made(b)];
      version = program_.buffers[input_];
      version.base = input_;
      version.version = ++number;
      version.kind = FE_BUFFER_OUTPUT;
    }
    // What is left of the last one is of a buffer that nobody touches.
    if (!versions.empty() && last != changed_) program_.buffers[last].version = 1;
  }

  LoopProgram& program_;
  const Dependencies deps_;
  const BufferId version_, input_;  ///< what the input becomes, and the input
  BufferId changed_ = none;         ///< the storage that its contents come from
  std::optional<Copy> in_, out_;
};

}  // namespace

void reinplace(LoopProgram& program, Ledger& ledger) {
  std::vector<bool> dropped(program.statements.size());
  for (BufferId b = 0; b < program.buffers.size(); ++b) {
    const auto& version = program.buffers[b];
    if (version.base == none || version.version != 1 || program.buffers[version.base].role != Role::input)
      continue;
    const BufferId input = version.base;
    Mutation mutation(program, b);
    const auto reason = mutation.apply(dropped);
    ledger.add({"memory",
                program.buffers[input].name,
                {},
                reason.empty() ? "in place" : "copied",
                reason,
                "an input that the model changes",
                static_cast<double>(program.buffers[input].bytes())});
    std::vector<ProgramStatement> kept;
    for (size_t s = 0; s < dropped.size(); ++s)
      if (!dropped[s]) kept.push_back(std::move(program.statements[s]));
    program.statements = std::move(kept);
    dropped.assign(program.statements.size(), false);
  }
}

}  // namespace ferrite::core::schedule
