// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/reinplace.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>

#include "core/schedule/body.h"
#include "core/schedule/rewrites/at_load.h"
#include "core/schedule/rewrites/layout.h"

namespace ferrite::core::schedule {
namespace {

/// A map that only moves elements: it writes all of `to` at its own coordinates, from `from` at `index`.
struct PlainCopy {
  uint32_t statement = none;
  BufferId from = none, to = none;
  /// a symbol for each dim of `to`; the second part is empty until place_in_source() sets it
  Substitution coordinates;
  std::vector<index::Expr> index;
};

std::optional<PlainCopy> copy_of(LoopProgram& program, uint32_t number) {
  const auto& statement = program.statements[number];
  if (statement.kind != FE_STATEMENT_MAP || statement.stores.size() != 1 || statement.ops.size() != 1)
    return {};
  const auto& load = statement.ops[0];
  const auto& store = statement.stores[0];
  if (load.code != FE_OP_LOAD || load.a != none || store.mask != none || store.mode != FE_STORE_SET)
    return {};
  PlainCopy copy{number, load.buffer, store.buffer, {}, load.index};
  const auto& dims = program.buffers[store.buffer].dims;
  size_t next = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (next < statement.vars.size() &&
        program.pool.as_symbol(store.index[d]) == statement.vars[next].symbol &&
        statement.vars[next].extent == dims[d]) {
      copy.coordinates.emplace_back(statement.vars[next++].symbol, index::Expr{});
      continue;
    }
    // An index from data into a dim of size 1 is preserved in some coordinate of the source; a scalar has
    // none.
    if (dims[d] != 1 || program.pool.as_constant(store.index[d]) != 0 || load.index.empty()) return {};
    copy.coordinates.emplace_back(program.pool.new_symbol({0, 0}), index::Expr{});
  }
  return next == statement.vars.size() ? std::optional(copy) : std::nullopt;
}

/// The coordinates in `copy.from` of the element at `at` of `copy.to`.
std::vector<index::Expr> place_in_source(LoopProgram& program, const PlainCopy& copy,
                                         std::span<const index::Expr> at) {
  auto symbols = copy.coordinates;
  for (size_t d = 0; d < at.size(); ++d) symbols[d].second = at[d];
  std::vector<index::Expr> result;
  for (auto expr : copy.index) result.push_back(program.pool.substitute(expr, symbols));
  // A dim of size 1 occurs in no index of the copy. Its coordinate is 0, but an index from data still has to
  // be checked, and several points may write there; adding it to the first coordinate keeps both.
  const auto& dims = program.buffers[copy.to].dims;
  for (size_t d = 0; d < at.size(); ++d)
    if (dims[d] == 1 && program.pool.as_constant(at[d]) != 0) result[0] = program.pool.add(result[0], at[d]);
  return result;
}

/// Moves each access of the statement to the buffer that `now` gives for its buffer.
template <class Now>
void redirect(ProgramStatement& statement, const Now& now) {
  for (auto& op : statement.ops)
    if (op.code == FE_OP_LOAD) op.buffer = now(op.buffer);
  for (auto& store : statement.stores) store.buffer = now(store.buffer);
}

/// Whether the statement reads `buffer` only at the points that it stores, before it stores them.
bool changes_at_own_points(const LoopProgram& program, const ProgramStatement& statement, BufferId buffer) {
  if (statement.kind != FE_STATEMENT_MAP || statement.stores.size() != 1 ||
      statement.stores[0].mask != none || statement.stores[0].mode != FE_STORE_SET)
    return false;
  const auto& store = statement.stores[0];
  return std::ranges::all_of(statement.ops,
                             [&](const BodyOp& op) {
                               return op.code != FE_OP_LOAD || program.storage(op.buffer) != buffer ||
                                      op.index == store.index;
                             }) &&
         std::ranges::all_of(statement.vars, [&](const Var& var) {
           return var.extent == 1 || std::ranges::any_of(store.index, [&](index::Expr expr) {
                    return program.pool.as_symbol(expr) == var.symbol;
                  });
         });
}

/// The readers and writers of each storage, its versions, and the outputs that it holds. Kept up to date when
/// storages are joined.
struct Uses {
  std::vector<std::vector<uint32_t>> readers, writers;  ///< by storage: statements, in order
  std::vector<std::vector<BufferId>> versions;          ///< by storage: in the order of the buffers
  std::vector<std::vector<size_t>> outputs;             ///< by storage: positions in the program's outputs

  Uses(const LoopProgram& program, Dependencies deps)
      : readers(std::move(deps.readers)),
        writers(std::move(deps.writers)),
        versions(program.buffers.size()),
        outputs(program.buffers.size()) {
    for (BufferId b = 0; b < program.buffers.size(); ++b)
      if (const auto base = program.buffers[b].base; base != none) versions[base].push_back(b);
    for (size_t k = 0; k < program.outputs.size(); ++k)
      outputs[program.storage(program.outputs[k])].push_back(k);
  }

  /// The statements that access either storage, each once.
  std::vector<uint32_t> touching(std::initializer_list<BufferId> storages) const {
    std::vector<uint32_t> statements;
    for (BufferId b : storages)
      for (const auto* list : {&readers[b], &writers[b]})
        statements.insert(statements.end(), list->begin(), list->end());
    std::ranges::sort(statements);
    statements.erase(std::ranges::unique(statements).begin(), statements.end());
    return statements;
  }
  /// The statement was removed.
  void forget(uint32_t statement, BufferId read, BufferId written) {
    std::erase(readers[read], statement);
    std::erase(writers[written], statement);
  }
  /// The contents of `from` are now in `into`; the caller updates the versions.
  void join(BufferId from, BufferId into) {
    for (auto* lists : {&readers, &writers}) {
      auto &to = (*lists)[into], &more = (*lists)[from];
      to.insert(to.end(), more.begin(), more.end());
      more.clear();
      std::ranges::sort(to);
      to.erase(std::ranges::unique(to).begin(), to.end());
    }
    outputs[into].insert(outputs[into].end(), outputs[from].begin(), outputs[from].end());
    outputs[from].clear();
  }
};

class Mutation {
 public:
  Mutation(LoopProgram& program, Uses& uses, BufferId version)
      : program_(program), uses_(uses), version_(version), input_(program.storage(version)) {}

  /// The reason why the copy stays; empty where it was removed. `dropped`: marks removed statements.
  std::string apply(std::vector<bool>& dropped) {
    const auto& writers = uses_.writers[input_];
    if (writers.size() != 1) return {};  // it is changed in place already
    out_ = copy_of(program_, writers[0]);
    if (!out_) return {};
    changed_ = program_.storage(out_->from);
    if (auto reason = obstacle(); !reason.empty()) return reason;
    dropped[out_->statement] = true;
    if (in_) dropped[in_->statement] = true;
    rewrite();
    return {};
  }

 private:
  std::string obstacle() {
    const auto& buffer = program_.buffers[changed_];
    if (buffer.role != Role::temporary || !uses_.outputs[changed_].empty()) return "also kept elsewhere";
    const auto& writers = uses_.writers[changed_];
    if (writers.empty()) return "also kept elsewhere";
    for (uint32_t s : uses_.touching({changed_}))
      if (program_.statements[s].kind == FE_STATEMENT_CALL) return "an opaque kernel";
    in_ = copy_of(program_, writers[0]);
    if (in_ && (in_->from != input_ || in_->to != changed_)) in_.reset();
    const uint32_t first = in_ ? (writers.size() > 1 ? writers[1] : out_->statement) : writers[0];
    for (uint32_t s : uses_.readers[input_]) {
      if (s == out_->statement || (in_ && s == in_->statement) || s < first) continue;
      if (s > first || !reads_what_it_changes(s)) return "old contents are read later";
    }
    return leads_back() ? "" : "another layout";
  }

  /// Whether the first change reads the input only at the points that it stores, before it stores them.
  bool reads_what_it_changes(uint32_t s) const {
    return !in_ && changes_at_own_points(program_, program_.statements[s], input_);
  }

  /// Whether each element returns from the changed buffer to the position from which it came.
  bool leads_back() {
    const auto &input = program_.buffers[input_], &buffer = program_.buffers[changed_];
    if (input.dtype != buffer.dtype || input.elements() != buffer.elements()) return false;
    std::vector<index::Expr> own;
    const auto& store = program_.statements[out_->statement].stores[0];
    for (auto expr : store.index) own.push_back(expr);
    if (!in_) return input.dims == buffer.dims && out_->index == own;
    return place_in_source(program_, *in_, out_->index) == own;
  }

  /// Accesses to the changed buffer become accesses to the input, and its versions become the input's.
  void rewrite() {
    std::vector<BufferId> versions;
    if (!in_) versions.push_back(changed_);
    versions.insert(versions.end(), uses_.versions[changed_].begin(), uses_.versions[changed_].end());
    const auto last = versions.empty() ? input_ : versions.back();
    const auto made = [&](BufferId b) { return b == last ? version_ : b; };
    uses_.forget(out_->statement, changed_, input_);
    if (in_) uses_.forget(in_->statement, input_, changed_);
    for (uint32_t s : uses_.touching({changed_})) {
      auto& statement = program_.statements[s];
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
    // The last version has no accesses left; it must not remain a version of the unused buffer.
    if (!versions.empty() && last != changed_) {
      program_.buffers[last].base = none;
      program_.buffers[last].version = 0;
    }
    uses_.versions[changed_].clear();
    uses_.join(changed_, input_);
    if (versions.empty()) return;
    std::ranges::transform(versions, versions.begin(), made);
    std::ranges::sort(versions);
    uses_.versions[input_] = std::move(versions);
  }

  LoopProgram& program_;
  Uses& uses_;
  const BufferId version_, input_;  ///< the input's version after the change, and the input
  BufferId changed_ = none;         ///< the storage that is changed and then copied to the input
  std::optional<PlainCopy> in_, out_;
};

/// A copy of a whole buffer into one that is changed afterwards, such as the base of a scatter.
class BaseCopy {
 public:
  BaseCopy(LoopProgram& program, Uses& uses, const std::vector<bool>& constant, PlainCopy copy)
      : program_(program),
        uses_(uses),
        constant_(constant),
        copy_(std::move(copy)),
        from_(program.storage(copy_.from)),
        to_(program.storage(copy_.to)) {}

  /// Whether the copy is changed later, which makes it a base.
  bool is_base() const {
    const auto& writers = uses_.writers[to_];
    return writers.size() > 1 && writers[0] == copy_.statement;
  }
  uint32_t first_change() const { return uses_.writers[to_][1]; }
  BufferId from() const { return from_; }

  /// The reason why the copy is needed; empty where the original can be changed in place.
  std::string obstacle() const {
    const auto &from = program_.buffers[from_], &to = program_.buffers[to_];
    if (constant_[from_]) return "a constant";
    if (from.role == Role::input && !is_changed_input()) return "an input that stays as it is";
    for (uint32_t s : uses_.touching({from_, to_}))
      if (program_.statements[s].kind == FE_STATEMENT_CALL) return "an opaque kernel";
    if (from.role == Role::output || (to.role != Role::temporary && from.role != Role::temporary))
      return "also kept elsewhere";
    std::vector<index::Expr> own;
    for (auto expr : program_.statements[copy_.statement].stores[0].index) own.push_back(expr);
    if (from_ > to_ || from.dtype != to.dtype || from.dims != to.dims || from.strides != to.strides ||
        from.offset != to.offset || copy_.index != own)
      return "another layout";
    if (std::ranges::any_of(uses_.readers[from_], [&](uint32_t s) { return s >= first_change(); }))
      return "old contents are read later";
    for (uint32_t s : uses_.writers[to_])
      if (s != copy_.statement && std::ranges::any_of(program_.statements[s].stores, [&](const Store& store) {
            return store.buffer == to_;
          }))
        return "changed meanwhile";
    bool replaced = from.role != Role::input;
    for (uint32_t s : uses_.writers[from_]) {
      if (s < copy_.statement) continue;
      if (!replaces_all(s)) return "changed meanwhile";
      replaced = true;
    }
    if (!replaced) return "also kept elsewhere";
    return {};
  }

  /// The versions of the copy become versions of the original, before those that the original gets later.
  void merge() {
    const auto before = written_before();
    std::vector<BufferId> versions, later;
    for (BufferId b : uses_.versions[from_])
      (std::ranges::binary_search(before, b) ? versions : later).push_back(b);
    versions.insert(versions.end(), uses_.versions[to_].begin(), uses_.versions[to_].end());
    versions.insert(versions.end(), later.begin(), later.end());
    auto &from = program_.buffers[from_], &to = program_.buffers[to_];
    if (to.role == Role::output) {
      from.role = Role::output;
      from.number = to.number;
    }
    to.role = Role::temporary;
    // Versions are numbered in the order of the buffers.
    auto ordered = versions;
    std::ranges::sort(ordered);
    std::unordered_map<BufferId, BufferId> moved;
    std::vector<ProgramBuffer> buffers;
    for (BufferId b : versions) buffers.push_back(program_.buffers[b]);
    for (size_t k = 0; k < versions.size(); ++k) {
      moved.emplace(versions[k], ordered[k]);
      auto& buffer = program_.buffers[ordered[k]] = std::move(buffers[k]);
      buffer.base = from_;
      buffer.version = static_cast<uint32_t>(k + 1);
      buffer.role = from.role;
      buffer.number = from.number;
    }
    const auto now = [&](BufferId b) {
      const auto found = moved.find(b);
      return found == moved.end() ? b : found->second;
    };
    moved.emplace(to_, now(copy_.from));
    for (uint32_t s : uses_.touching({from_, to_})) redirect(program_.statements[s], now);
    uses_.forget(copy_.statement, from_, to_);
    uses_.join(to_, from_);
    for (size_t k : uses_.outputs[from_]) program_.outputs[k] = now(program_.outputs[k]);
    uses_.versions[from_] = std::move(ordered);
    uses_.versions[to_].clear();
  }

 private:
  bool is_changed_input() const { return !uses_.versions[from_].empty(); }

  /// Whether the statement overwrites all of the original, and no later statement needs the changed contents.
  bool replaces_all(uint32_t s) const {
    for (const auto* list : {&uses_.writers[to_], &uses_.readers[to_]})
      if (std::ranges::any_of(*list, [&](uint32_t other) { return other > s; })) return false;
    const auto& statement = program_.statements[s];
    int64_t points = 1;
    for (const auto& var : statement.vars) points *= var.extent;
    return changes_at_own_points(program_, statement, to_) && points == program_.buffers[from_].elements();
  }

  /// The versions of the original that are written before the copy, sorted.
  std::vector<BufferId> written_before() const {
    std::vector<BufferId> written;
    for (uint32_t s : uses_.writers[from_]) {
      if (s >= copy_.statement) break;
      for (const auto& store : program_.statements[s].stores) written.push_back(store.buffer);
    }
    std::ranges::sort(written);
    return written;
  }

  LoopProgram& program_;
  Uses& uses_;
  const std::vector<bool>& constant_;
  const PlainCopy copy_;
  const BufferId from_, to_;
};

/// By storage: whether it is a constant or computed at load.
std::vector<bool> constants_of(const LoopProgram& program) {
  auto constant = at_load(program).storages;
  for (BufferId b = 0; b < constant.size(); ++b)
    constant[b] = constant[b] || program.buffers[b].role == Role::constant;
  return constant;
}

void drop(LoopProgram& program, const std::vector<bool>& dropped) {
  std::vector<ProgramStatement> kept;
  for (size_t s = 0; s < dropped.size(); ++s)
    if (!dropped[s]) kept.push_back(std::move(program.statements[s]));
  program.statements = std::move(kept);
}

/// Applies changes of copies to the original, one by one, and records the copies that stay.
void change_in_place(LoopProgram& program, Ledger& ledger) {
  auto deps = Dependencies::of(program);
  // No merge makes a constant of another buffer, and a merged original is no constant, so this stays valid.
  const auto constant = constants_of(program);
  Uses uses(program, std::move(deps));
  std::vector<bool> dropped(program.statements.size());
  for (uint32_t s = 0; s < program.statements.size(); ++s) {
    auto copy = copy_of(program, s);
    if (!copy) continue;
    BaseCopy base(program, uses, constant, std::move(*copy));
    if (!base.is_base()) continue;
    const auto reason = base.obstacle();
    const auto& buffer = program.buffers[base.from()];
    ledger.add({"memory", origin_names(program.statements[base.first_change()]), buffer.name,
                reason.empty() ? "in place" : "copied", reason, "the base of a partial change",
                static_cast<double>(buffer.bytes())});
    if (!reason.empty()) continue;
    base.merge();
    dropped[s] = true;
  }
  drop(program, dropped);
}

}  // namespace

void reinplace(LoopProgram& program, Ledger& ledger) {
  Uses uses(program, Dependencies::of(program));
  std::vector<bool> dropped(program.statements.size());
  for (BufferId b = 0; b < program.buffers.size(); ++b) {
    const auto& version = program.buffers[b];
    if (version.base == none || version.version != 1 || program.buffers[version.base].role != Role::input)
      continue;
    const BufferId input = version.base;
    const auto reason = Mutation(program, uses, b).apply(dropped);
    ledger.add({"memory",
                program.buffers[input].name,
                {},
                reason.empty() ? "in place" : "copied",
                reason,
                "an input that the model changes",
                static_cast<double>(program.buffers[input].bytes())});
  }
  drop(program, dropped);
  change_in_place(program, ledger);
}

void compute_in_results(LoopProgram& program, Ledger& ledger) {
  const auto free = free_to_order(program);
  const auto constant = constants_of(program);
  Uses uses(program, Dependencies::of(program));
  std::vector<bool> dropped(program.statements.size());
  for (uint32_t s = 0; s < program.statements.size(); ++s) {
    const auto copy = copy_of(program, s);
    if (!copy || !free[copy->from] || constant[copy->from] || !uses.versions[copy->from].empty()) continue;
    const auto &source = program.buffers[copy->from], &result = program.buffers[copy->to];
    // Only the copy knows the result: as another output or version, it would be seen where it is changed.
    if (result.role != Role::output || result.base != none || uses.writers[copy->to].size() != 1 ||
        !uses.readers[copy->to].empty() || !uses.versions[copy->to].empty() ||
        uses.outputs[copy->to].size() != 1)
      continue;
    if (source.dtype != result.dtype || source.dims != result.dims ||
        !std::ranges::equal(copy->index, program.statements[s].stores[0].index))
      continue;
    ledger.add({"memory",
                origin_names(program.statements[s]),
                source.name,
                "in place",
                {},
                "a copy that is a result",
                static_cast<double>(result.bytes())});
    const auto now = [&](BufferId b) { return b == copy->from ? copy->to : b; };
    for (const uint32_t user : uses.touching({copy->from})) redirect(program.statements[user], now);
    uses.forget(s, copy->from, copy->to);
    uses.join(copy->from, copy->to);
    dropped[s] = true;
  }
  drop(program, dropped);
}

}  // namespace ferrite::core::schedule
