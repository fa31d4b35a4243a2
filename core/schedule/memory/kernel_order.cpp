// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/memory/kernel_order.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/schedule/alignment.h"
#include "core/schedule/memory/lives.h"

namespace ferrite::core::schedule {
namespace {

constexpr size_t most_rounds = 16;        // rounds of in-place stores; each handles the peak of its time
constexpr size_t most_considered = 64;    // ready groups that are compared
constexpr int64_t each_worker = 1 << 20;  // bytes that a memory plan may add per worker

/// Whether the statement only maps the elements of another buffer to new positions.
bool is_view(const LoopProgram& program, const ProgramStatement& statement) {
  if (statement.kind != FE_STATEMENT_MAP || statement.ops.size() != 1 || statement.stores.size() != 1)
    return false;
  const auto& load = statement.ops[0];
  const auto& store = statement.stores[0];
  int64_t points = 1;
  for (const auto& var : statement.vars) points *= var.extent;
  return load.code == FE_OP_LOAD && load.a == none && store.mask == none && store.mode == FE_STORE_SET &&
         program.storage(load.buffer) != program.storage(store.buffer) &&
         points == program.buffers[program.storage(store.buffer)].elements();
}

/// The successors of each group, and the number of its predecessors.
struct Order {
  std::vector<std::vector<size_t>> next;
  std::vector<size_t> waits;
};

Order order_of(const Schedule& schedule, const Dependencies& deps) {
  std::vector<size_t> group_of(schedule.program.statements.size());
  for (size_t g = 0; g < schedule.groups.size(); ++g)
    for (uint32_t s : schedule.groups[g].statements) group_of[s] = g;
  Order order{std::vector<std::vector<size_t>>(schedule.groups.size()),
              std::vector<size_t>(schedule.groups.size())};
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    std::set<size_t> readers;
    for (uint32_t s : schedule.groups[g].statements)
      for (uint32_t after : deps.after[s])
        if (group_of[after] != g) readers.insert(group_of[after]);
    order.next[g].assign(readers.begin(), readers.end());
    for (size_t other : readers) ++order.waits[other];
  }
  return order;
}

/// Moves each group that reads no memory of the arena, as a cast of weights does, to directly before the
/// first group that needs it: its result then lives no longer than necessary, and nothing lives longer.
void delay_first_groups(Schedule& schedule, const Dependencies& deps) {
  const Lives lives(schedule);
  const auto next = order_of(schedule, deps).next;
  // By group: the group before which it runs, itself unless it is delayed.
  std::vector<size_t> before(schedule.groups.size());
  for (size_t g = schedule.groups.size(); g-- > 0;) {
    before[g] = g;
    if (next[g].empty() ||
        std::ranges::any_of(lives.read[g], [&](BufferId b) { return lives.lives[b].arena; }))
      continue;
    before[g] = SIZE_MAX;
    for (size_t other : next[g]) before[g] = std::min(before[g], before[other]);
  }
  std::vector<size_t> order(schedule.groups.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t g) { return std::pair(before[g], before[g] == g); });
  std::vector<Group> groups;
  for (size_t g : order) groups.push_back(std::move(schedule.groups[g]));
  schedule.groups = std::move(groups);
}

/// Whether the variables in the expression give it a different value at each of their points: a sum in which
/// each term steps over the range of all smaller ones, as rows * block + row does.
bool differs_each_time(const LoopProgram& program, const Statement& statement, index::Expr expr) {
  auto sum = program.pool.affine(expr);
  if (!sum.rest.empty()) return false;
  std::ranges::sort(sum.terms, {}, [](const auto& term) { return std::abs(term.second); });
  int64_t reach = 0;
  return std::ranges::all_of(sum.terms, [&](const auto& term) {
    const auto var = std::ranges::find(statement.vars, term.first, &Var::symbol);
    if (var == statement.vars.end() || std::abs(term.second) <= reach) return false;
    reach += std::abs(term.second) * (var->extent - 1);
    return true;
  });
}

/// Whether the statement stores each element at most once.
bool stores_once(const LoopProgram& program, const Statement& statement, const Store& store) {
  return std::ranges::all_of(statement.vars, [&](const Var& var) {
    if (var.extent <= 1 || var.kind == VarKind::serial) return var.kind != VarKind::serial;
    bool moves = false, apart = false;
    for (const index::Expr expr : store.index) {
      if (!program.pool.depends_on(expr, var.symbol)) continue;
      moves = true;
      apart = apart || differs_each_time(program, statement, expr);
    }
    // A reduction stores its result once, when it is done.
    return apart || (var.kind == VarKind::reduction && !moves);
  });
}

/// Where a group may store a result over an operand.
class InPlace {
 public:
  InPlace(const Schedule& schedule, const Lives& lives)
      : program_(schedule.program), schedule_(schedule), lives_(lives) {}

  /// The operand whose memory the group may reuse for `result`; none where there is none.
  BufferId slot_for(size_t group, BufferId result) const {
    const auto& wanted = program_.buffers[result];
    if (wanted.base != none || lives_.lives[result].first != group || lives_.versions[result] > 0 ||
        (wanted.role != Role::output && !lives_.lives[result].arena))
      return none;
    for (BufferId operand : lives_.read[group]) {
      const auto& buffer = program_.buffers[operand];
      const auto& life = lives_.lives[operand];
      if (life.arena && buffer.base == none && life.last == group && life.first < group &&
          buffer.dtype == wanted.dtype && buffer.dims == wanted.dims && buffer.strides == wanted.strides &&
          buffer.offset == wanted.offset && !buffer.packing && !wanted.packing &&
          !std::ranges::binary_search(lives_.written[group], operand) &&
          may_overwrite(schedule_.groups[group], operand, result))
        return operand;
    }
    return none;
  }

 private:
  bool may_overwrite(const Group& group, BufferId operand, BufferId result) const {
    const ProgramStatement* writer = nullptr;
    const Store* slot = nullptr;
    for (uint32_t s : group.statements) {
      const auto& statement = program_.statements[s];
      if (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) return false;
      for (const auto& op : statement.ops) {
        if (op.code != FE_OP_LOAD || program_.storage(op.buffer) != result) continue;
        // The group reads the result only where or after it is stored; a read before that would find the
        // operand's contents.
        if (!writer) return false;
      }
      for (const auto& store : statement.stores) {
        if (program_.storage(store.buffer) != result) continue;
        if (writer || store.mode != FE_STORE_SET || store.mask != none ||
            !stores_once(program_, statement, store))
          return false;
        writer = &statement;
        slot = &store;
      }
    }
    bool written = false;
    for (uint32_t s : group.statements) {
      const auto& statement = program_.statements[s];
      for (const auto& op : statement.ops) {
        if (op.code != FE_OP_LOAD || program_.storage(op.buffer) != operand) continue;
        if (written) return false;
        if (&statement == writer
                ? op.index != slot->index
                : !in_same_iteration(statement, op.index, *writer, slot->index, group.shared))
          return false;
      }
      written = written || &statement == writer;
    }
    return true;
  }

  /// Whether both access only elements of one iteration of the shared loops, and different iterations access
  /// different elements.
  bool in_same_iteration(const ProgramStatement& reader, std::span<const index::Expr> loaded,
                         const ProgramStatement& writer, std::span<const index::Expr> stored,
                         uint32_t shared) const {
    for (uint32_t k = 0; k < shared; ++k) {
      if (writer.vars[k].extent <= 1) continue;
      bool found = false;
      for (size_t d = 0; d < stored.size() && d < loaded.size() && !found; ++d)
        found = program_.pool.as_symbol(stored[d]) == writer.vars[k].symbol &&
                program_.pool.as_symbol(loaded[d]) == reader.vars[k].symbol;
      if (!found) return false;
    }
    return true;
  }

  const LoopProgram& program_;
  const Schedule& schedule_;
  const Lives& lives_;
};

/// `result` becomes a version of the operand's buffer.
void take_slot(LoopProgram& program, BufferId result, BufferId operand, uint32_t version) {
  auto& taken = program.buffers[result];
  auto& slot = program.buffers[operand];
  if (taken.role == Role::output) {
    slot.role = Role::output;
    slot.number = taken.number;
  }
  taken.role = slot.role;
  taken.base = operand;
  taken.version = version;
}

}  // namespace

std::vector<int64_t> live_bytes(const Schedule& schedule) { return live_bytes(schedule, Lives(schedule)); }

int64_t op_by_op_bytes(const LoopProgram& program) {
  std::vector<BufferId> root(program.buffers.size());
  std::iota(root.begin(), root.end(), BufferId{0});
  struct Life {
    size_t first = SIZE_MAX, last = 0;
  };
  std::vector<Life> lives(program.buffers.size());
  for (size_t s = 0; s < program.statements.size(); ++s) {
    const auto& statement = program.statements[s];
    if (is_view(program, statement))
      root[program.storage(statement.stores[0].buffer)] = root[program.storage(statement.ops[0].buffer)];
    const auto touch = [&](BufferId b) {
      auto& life = lives[root[program.storage(b)]];
      life.first = std::min(life.first, s);
      life.last = s;
    };
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) touch(op.buffer);
    for (const auto& store : statement.stores) touch(store.buffer);
    for (BufferId b : statement.call.reads) touch(b);
    for (BufferId b : statement.call.writes) touch(b);
  }
  std::vector<int64_t> change(program.statements.size() + 1);
  for (BufferId b = 0; b < lives.size(); ++b) {
    if (program.buffers[b].role != Role::temporary || lives[b].first == SIZE_MAX) continue;
    change[lives[b].first] += program.buffers[b].bytes();
    change[lives[b].last + 1] -= program.buffers[b].bytes();
  }
  std::partial_sum(change.begin(), change.end(), change.begin());
  return peak(change);
}

int64_t MemoryLimit::bytes(size_t buffers) const {
  constexpr int64_t each_buffer = 64, all = 1 << 10;
  if (!op_by_op) return std::numeric_limits<int64_t>::max();
  return *op_by_op + each_worker * workers + each_buffer * static_cast<int64_t>(buffers) + all;
}

int64_t MemoryLimit::room(int64_t live) const {
  if (!op_by_op) return std::numeric_limits<int64_t>::max();
  return std::max<int64_t>(MemoryLimit{op_by_op, 1}.bytes(0) - live, 0);
}

int64_t MemoryLimit::for_parts() const { return each_worker * device_workers; }

bool MemoryLimit::allows(int64_t workspace_bytes, int64_t live) const {
  // Counters and partial results of a library need this much where copies of operands took the limit already.
  const int64_t always = device_workers > 0 ? each_worker : 0;
  return workspace_bytes <= std::max(bytes(0) - live, always);
}

void order_for_memory(Schedule& schedule) {
  const Lives lives(schedule);
  const auto before = peak(live_bytes(schedule, lives));
  if (before <= small_peak) return;
  const auto deps = Dependencies::of(schedule.program);
  auto order = order_of(schedule, deps);
  std::vector<size_t> untouched(lives.lives.size());  // by storage: groups that have not accessed it yet
  for (const auto& storages : lives.touched)
    for (BufferId b : storages) ++untouched[b];
  std::vector<bool> there(lives.lives.size());
  const auto growth = [&](size_t group) {
    int64_t bytes = 0;
    for (BufferId b : lives.touched[group]) {
      if (!lives.lives[b].arena) continue;
      if (!there[b]) bytes += schedule.program.buffers[b].bytes();
      if (untouched[b] == 1) bytes -= schedule.program.buffers[b].bytes();
    }
    return bytes;
  };
  std::set<size_t> ready;
  for (size_t g = 0; g < order.waits.size(); ++g)
    if (order.waits[g] == 0) ready.insert(ready.end(), g);
  std::vector<Group> ordered;
  while (!ready.empty()) {
    auto best = ready.begin();
    int64_t least = growth(*best);
    size_t considered = 1;
    // A group that frees memory is taken at once; the search goes on only while every candidate adds some.
    for (auto next = std::next(best); next != ready.end() && considered < most_considered && least > 0;
         ++next, ++considered)
      if (const int64_t bytes = growth(*next); bytes < least) least = bytes, best = next;
    const size_t group = *best;
    ready.erase(best);
    for (BufferId b : lives.touched[group]) {
      there[b] = true;
      --untouched[b];
    }
    ordered.push_back(schedule.groups[group]);
    for (size_t other : order.next[group])
      if (--order.waits[other] == 0) ready.insert(other);
  }
  // The choice is greedy, so the result may be worse than the original order.
  auto least = before;
  auto best = schedule.groups;
  for (const auto& groups : {schedule.groups, ordered}) {
    schedule.groups = groups;
    for (const bool delayed : {false, true}) {
      if (delayed) delay_first_groups(schedule, deps);
      if (const auto bytes = peak(live_bytes(schedule)); bytes < least) least = bytes, best = schedule.groups;
    }
  }
  schedule.groups = std::move(best);
  if (least < before) number_by_group(schedule);
}

void store_in_place(Schedule& schedule, const std::vector<bool>& allowed, Ledger& ledger) {
  for (size_t round = 0; round < most_rounds; ++round) {
    Lives lives(schedule);
    const auto bytes = live_bytes(schedule, lives);
    const auto most = peak(bytes);
    if (most <= small_peak) return;
    bool changed = false;
    for (size_t g = 0; g < schedule.groups.size(); ++g) {
      // Only groups at the peak matter: in-place stores elsewhere do not reduce the arena.
      if (!allowed[g] || bytes[g] < most) continue;
      const InPlace slots(schedule, lives);
      for (BufferId result : lives.written[g]) {
        const BufferId operand = slots.slot_for(g, result);
        if (operand == none) continue;
        const auto& program = schedule.program;
        const auto writer = std::ranges::find_if(schedule.groups[g].statements, [&](uint32_t s) {
          return std::ranges::any_of(program.statements[s].stores, [&](const Store& store) {
            return program.storage(store.buffer) == result;
          });
        });
        ledger.add({"memory",
                    origin_names(program.statements[*writer]),
                    {},
                    "in place",
                    {},
                    fmt::format("@{} overwrites @{}", result, operand),
                    static_cast<double>(program.buffers[result].bytes())});
        take_slot(schedule.program, result, operand, ++lives.versions[operand]);
        changed = true;
        break;
      }
    }
    if (!changed) return;
  }
}

}  // namespace ferrite::core::schedule
