// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Mixed-order reductions: reductions over rows move into the group that works along the rows. Each block of
// rows gives a partial result while its data is in cache.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/schedule/body.h"
#include "core/schedule/rewrites/loop_splitter.h"
#include "core/schedule/rewrites/split.h"

namespace ferrite::core::schedule {
namespace {

constexpr int64_t blocks_of_worker = 2, least_block_rows = 4;
constexpr int most_tries = 64;  // per storage, which many groups may reduce

/// The dim of an access whose coordinate is the variable alone; none where another dim depends on the
/// variable too, or no dim does.
std::optional<size_t> dim_of(const LoopProgram& program, std::span<const index::Expr> index,
                             index::Symbol symbol) {
  std::optional<size_t> found;
  for (size_t d = 0; d < index.size(); ++d) {
    if (!program.pool.depends_on(index[d], symbol)) continue;
    if (found || program.pool.as_symbol(index[d]) != symbol) return std::nullopt;
    found = d;
  }
  return found;
}

/// One group that works along rows, and the reductions over the rows that may move into it.
class MixedOrderReducer {
 public:
  MixedOrderReducer(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory)
      : schedule_(schedule),
        target_(target),
        memory_(memory),
        program_(schedule.program),
        live_(live_bytes(schedule)) {
    touched_.resize(schedule.groups.size());
    rows_.resize(schedule.groups.size());
    for (size_t g = 0; g < schedule.groups.size(); ++g) enter(g);
    for (BufferId b : program_.outputs) outputs_.insert(program_.storage(b));
    for (const auto& buffer : program_.buffers)
      // storages with several versions stay as they are
      if (buffer.base != none) outputs_.insert(buffer.base);
  }

  /// Whether the group works along rows: it shares one loop and has a reduction inside it.
  bool works_along_rows(size_t g) const {
    const auto& group = schedule_.groups[g];
    return group.shared == 1 && group.statements.size() > 1 &&
           std::ranges::all_of(group.statements,
                               [&](uint32_t s) {
                                 const auto kind = program_.statements[s].kind;
                                 return kind == FE_STATEMENT_MAP || kind == FE_STATEMENT_REDUCE;
                               }) &&
           std::ranges::any_of(group.statements, [&](uint32_t s) {
             return program_.statements[s].kind == FE_STATEMENT_REDUCE;
           });
  }

  /// The groups that are a reduction over the same number of rows, read a buffer that this group accesses,
  /// and read nothing that a later group writes.
  std::vector<size_t> reductions_over_rows(size_t g) const {
    const int64_t rows = program_.statements[schedule_.groups[g].statements[0]].vars[0].extent;
    std::set<size_t> found;
    for (const BufferId b : touched_[g]) {
      if (program_.buffers[b].elements() <= rows) continue;
      auto h = reducers_[b].upper_bound({rows, g});
      for (int tries = 0; tries < most_tries && h != reducers_[b].end() && h->first == rows; ++tries, ++h)
        if (reads(schedule_.groups[h->second].statements, b) && is_made_before(h->second, g))
          found.insert(h->second);
    }
    return {found.begin(), found.end()};
  }

  /// Moves the reductions into the group, where this reduces memory traffic. A group after it combines their
  /// partial results. Returns a description of the change; empty where nothing was changed.
  std::string merge(size_t g, std::vector<size_t> reductions) {
    group_ = g;
    local_.clear();
    local_dim_.clear();
    if (!find_local(reductions)) return {};
    const auto rows = choose_rows(reductions);
    if (rows == 0) return {};
    const int64_t count = program_.statements[schedule_.groups[g].statements[0]].vars[0].extent;
    std::vector<ProgramStatement> parts, combined;
    for (size_t h : reductions) {
      const auto& whole = program_.statements[schedule_.groups[h].statements[0]];
      Cut cut;
      cut.var = whole.parallel_count();
      cut.parts = count / rows;
      cut.steps = rows;
      auto stores = element_stores(program_, whole);
      Splitter splitter(program_, whole, std::move(stores), cut);
      add(parts, splitter.part(false));
      add(combined, splitter.combined());
    }
    for (uint32_t s : schedule_.groups[g].statements) cut_rows(program_.statements[s], rows);
    // The first variable of a part is the block. A local buffer has a dim of its own for the rows of a block.
    for (auto& part : parts) cut_local(part, part.vars[0].symbol, part.vars.back().symbol, rows);
    for (BufferId b : local_) cut_dim(program_.buffers[b], local_dim_.at(b), rows);
    for (auto& part : parts) {
      schedule_.groups[g].statements.push_back(static_cast<uint32_t>(program_.statements.size()));
      program_.statements.push_back(std::move(part));
    }
    for (size_t h : reductions) {
      leave(h);
      schedule_.groups[h].statements.clear();
    }
    for (size_t k = 0; k < combined.size(); ++k) {
      // The combining groups take the positions of the reductions, of which there are at least as many. All
      // readers of the results come after these positions.
      auto& group = schedule_.groups[reductions[k]];
      group.shared = static_cast<uint32_t>(combined[k].parallel_count());
      group.statements = {static_cast<uint32_t>(program_.statements.size())};
      program_.statements.push_back(std::move(combined[k]));
    }
    for (size_t h : reductions) enter(h);
    enter(g);
    return fmt::format("blocks of {} rows", rows);
  }

 private:
  /// Calls visit(storage, whether it is written) for each access of the group.
  template <class Visit>
  void each_access(size_t g, Visit&& visit) const {
    for (uint32_t s : schedule_.groups[g].statements) {
      const auto& statement = program_.statements[s];
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) visit(program_.storage(op.buffer), false);
      for (const auto& store : statement.stores) visit(program_.storage(store.buffer), true);
      for (BufferId b : statement.call.reads) visit(program_.storage(b), false);
      for (BufferId b : statement.call.writes) visit(program_.storage(b), true);
    }
  }
  /// Records the storages that the group reads and writes, and the number of rows over which it reduces.
  void enter(size_t g) {
    users_.resize(program_.buffers.size());
    writers_.resize(program_.buffers.size());
    reducers_.resize(program_.buffers.size());
    rows_[g] = reduced_rows(g);
    each_access(g, [&](BufferId b, bool written) {
      touched_[g].insert(b);
      users_[b].insert(g);
      if (written) writers_[b].insert(g);
      if (rows_[g] > 0) reducers_[b].emplace(rows_[g], g);
    });
  }
  void leave(size_t g) {
    for (const BufferId b : touched_[g]) {
      users_[b].erase(g);
      writers_[b].erase(g);
      reducers_[b].erase({rows_[g], g});
    }
    touched_[g].clear();
  }

  /// The extent of the single reduction loop of a group of one statement that stores nothing at each step;
  /// else 0.
  int64_t reduced_rows(size_t g) const {
    const auto& group = schedule_.groups[g];
    if (group.statements.size() != 1) return 0;
    const auto& statement = program_.statements[group.statements[0]];
    if (statement.kind != FE_STATEMENT_REDUCE || statement.parallel_count() == 0 ||
        statement.vars.size() != statement.parallel_count() + 1 || statement.points(VarKind::parallel) == 0)
      return 0;
    const auto stores = element_stores(program_, statement);
    return stores.empty() || std::ranges::find(stores, true) != stores.end() ? 0
                                                                             : statement.vars.back().extent;
  }

  /// Whether no group after `g` writes a storage that `h` reads.
  bool is_made_before(size_t h, size_t g) const {
    bool before = true;
    each_access(h, [&](BufferId b, bool written) {
      before = before && (written || writers_[b].upper_bound(g) == writers_[b].end());
    });
    return before;
  }

  void add(std::vector<ProgramStatement>& list, ProgramStatement statement) {
    for (auto& other : list)
      if (same_loops(other, statement)) return join_reductions(program_, other, std::move(statement));
    list.push_back(std::move(statement));
  }

  /// Finds the storages that the group writes and that become local to a block. No other groups may access
  /// them, and one dim must hold the rows in all accesses. Returns false where the reductions cannot move
  /// into the group.
  bool find_local(const std::vector<size_t>& reductions) {
    const auto& members = schedule_.groups[group_].statements;
    for (uint32_t s : members)
      for (const auto& store : program_.statements[s].stores) {
        const BufferId b = store.buffer;
        if (store.mode != FE_STORE_SET || program_.buffers[b].base != none) return false;
        const bool read = std::ranges::any_of(users_[b], [&](size_t user) {
          return std::ranges::any_of(schedule_.groups[user].statements, [&](uint32_t reader) {
            return std::ranges::any_of(program_.statements[reader].ops, [&](const BodyOp& op) {
              return op.code == FE_OP_LOAD && program_.storage(op.buffer) == b;
            });
          });
        });
        const bool alone = program_.buffers[b].role == Role::temporary && !outputs_.contains(b) &&
                           std::ranges::all_of(users_[b], [&](size_t user) {
                             return user == group_ || std::ranges::find(reductions, user) != reductions.end();
                           });
        if (alone) local_.insert(b);
        // A storage that other groups read too cannot be read here: its rows would be addressed in two ways.
        if (!alone && read && (reads(members, b) || std::ranges::any_of(reductions, [&](size_t h) {
                                 return reads(schedule_.groups[h].statements, b);
                               })))
          return false;
      }
    auto rows_lie_alike = [&](const ProgramStatement& statement, index::Symbol row) {
      const auto fits = [&](BufferId b, std::span<const index::Expr> index) {
        if (!local_.contains(b)) return true;
        const auto dim = dim_of(program_, index, row);
        return dim && local_dim_.emplace(b, *dim).first->second == *dim;
      };
      return std::ranges::all_of(statement.ops,
                                 [&](const BodyOp& op) {
                                   return op.code != FE_OP_LOAD ||
                                          fits(program_.storage(op.buffer), op.index);
                                 }) &&
             std::ranges::all_of(statement.stores,
                                 [&](const Store& store) { return fits(store.buffer, store.index); });
    };
    for (uint32_t s : members)
      if (!rows_lie_alike(program_.statements[s], program_.statements[s].vars[0].symbol)) return false;
    for (size_t h : reductions) {
      const auto& statement = program_.statements[schedule_.groups[h].statements[0]];
      if (!rows_lie_alike(statement, statement.vars.back().symbol)) return false;
    }
    return true;
  }

  bool reads(const std::vector<uint32_t>& statements, BufferId b) const {
    return std::ranges::any_of(statements, [&](uint32_t s) {
      return std::ranges::any_of(program_.statements[s].ops, [&](const BodyOp& op) {
        return op.code == FE_OP_LOAD && program_.storage(op.buffer) == b;
      });
    });
  }

  /// The number of rows of a block, a divisor of all rows; 0 where the change does not pay.
  int64_t choose_rows(const std::vector<size_t>& reductions) const {
    const int64_t count = program_.statements[schedule_.groups[group_].statements[0]].vars[0].extent;
    int64_t touched = 0, saved = 0, parts = 0;
    for (const BufferId b : touched_[group_]) {
      const bool there = std::ranges::any_of(reductions, [&](size_t h) { return users_[b].contains(h); });
      const int64_t bytes = program_.buffers[b].bytes();
      if (bytes >= count) touched += bytes;
      if (there) saved += local_.contains(b) ? 2 * bytes : bytes;
    }
    for (size_t h : reductions)
      // An estimate: 8 bytes for each result, the size of the widest accumulator.
      parts += 8 * program_.statements[schedule_.groups[h].statements[0]].points(VarKind::parallel);
    const int64_t least_saved = target_.launch_bytes() / 2;
    // Each statement reads the block's data again, so the block has to fit into cache.
    const auto near =
        static_cast<int64_t>(static_cast<double>(target_.near_bytes) * static_cast<double>(count) /
                             static_cast<double>(std::max<int64_t>(touched, 1)));
    for (int64_t rows = std::min(count / (blocks_of_worker * target_.workers), near);
         rows >= least_block_rows; --rows)
      if (count % rows == 0) {
        const int64_t bytes = parts * (count / rows);
        return saved >= least_saved && 2 * bytes < saved && bytes <= memory_.room(live_[group_]) ? rows : 0;
      }
    return 0;
  }

  /// Turn variable i into block b and row r of it, i being rows * b + r.
  void cut_rows(ProgramStatement& statement, int64_t rows) {
    auto& pool = program_.pool;
    const Var whole = statement.vars[0];
    const Var block{pool.new_symbol({0, whole.extent / rows - 1}), whole.extent / rows, VarKind::parallel};
    const Var row{pool.new_symbol({0, rows - 1}), rows, VarKind::parallel};
    statement.vars[0] = block;
    statement.vars.insert(statement.vars.begin() + 1, row);
    const index::Term terms[] = {{pool.symbol(block.symbol), rows}, {pool.symbol(row.symbol), 1}};
    const std::pair<index::Symbol, index::Expr> replaced[] = {{whole.symbol, pool.linear(0, terms)}};
    for (auto& op : statement.ops)
      for (auto& expr : op.index) expr = pool.substitute(expr, replaced);
    for (auto& store : statement.stores)
      for (auto& expr : store.index) expr = pool.substitute(expr, replaced);
    cut_local(statement, block.symbol, row.symbol, rows);
  }

  void cut_local(ProgramStatement& statement, index::Symbol block, index::Symbol row, int64_t) {
    const auto cut = [&](BufferId b, std::vector<index::Expr>& index) {
      if (!local_.contains(b)) return;
      const auto dim = static_cast<ptrdiff_t>(local_dim_.at(b));
      index[static_cast<size_t>(dim)] = program_.pool.symbol(block);
      index.insert(index.begin() + dim + 1, program_.pool.symbol(row));
    };
    for (auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) cut(program_.storage(op.buffer), op.index);
    for (auto& store : statement.stores) cut(store.buffer, store.index);
  }

  static void cut_dim(ProgramBuffer& buffer, size_t dim, int64_t rows) {
    buffer.dims.insert(buffer.dims.begin() + static_cast<ptrdiff_t>(dim) + 1, rows);
    buffer.dims[dim] /= rows;
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
  }

  Schedule& schedule_;
  const TargetNumbers& target_;
  const MemoryLimit memory_;
  LoopProgram& program_;
  size_t group_ = 0;
  const std::vector<int64_t> live_;                ///< by group, in bytes, before any change
  std::vector<std::set<BufferId>> touched_;        ///< by group: storages
  std::vector<std::set<size_t>> users_, writers_;  ///< by storage: groups
  /// By storage: groups that reduce over rows, ordered by the number of rows, so that few of a storage's many
  /// readers are examined.
  std::vector<std::set<std::pair<int64_t, size_t>>> reducers_;
  std::vector<int64_t> rows_;  ///< by group: reduced_rows
  std::set<BufferId> outputs_, local_;
  std::map<BufferId, size_t> local_dim_;  ///< the dim that holds the rows
};

}  // namespace

void reduce_mixed_orders(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                         Ledger& ledger) {
  // First, the epilogues of reductions and the reductions beside them are merged into them, in groups where
  // all statements can be.
  std::vector<bool> apart;
  bool any = false;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    const auto& first = schedule.program.statements[group.statements[0]];
    any = any || (group.shared == 1 && group.statements.size() > 1 && first.kind == FE_STATEMENT_REDUCE);
    apart.push_back(first.kind != FE_STATEMENT_REDUCE || first.parallel_count() + 1 != first.vars.size() ||
                    std::any_of(group.statements.begin() + 1, group.statements.end(), [&](uint32_t s) {
                      const auto& other = schedule.program.statements[s];
                      return other.kind == FE_STATEMENT_MAP ? other.vars.size() != first.parallel_count()
                                                            : !reduces_beside(schedule.program, first, other);
                    }));
  }
  if (!any) return;
  merge_statements(schedule, apart);
  MixedOrderReducer reducer(schedule, target, memory);
  bool merged = false;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    if (!reducer.works_along_rows(g)) continue;
    auto reductions = reducer.reductions_over_rows(g);
    if (reductions.empty()) continue;
    std::string names;
    for (size_t h : reductions)
      names += (names.empty() ? "" : ", ") +
               origin_names(schedule.program.statements[schedule.groups[h].statements[0]]);
    const auto& group = schedule.groups[g];
    const auto along = origin_names(schedule.program.statements[group.statements[0]]);
    const auto text = reducer.merge(g, std::move(reductions));
    if (text.empty()) continue;
    merged = true;
    ledger.add({"parts", names, along, "merged", {}, text, 0});
  }
  if (!merged) return;
  std::erase_if(schedule.groups, [](const Group& group) { return group.statements.empty(); });
  number_by_group(schedule);
}

}  // namespace ferrite::core::schedule
