// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/memory/recompute.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "core/schedule/memory/lives.h"
#include "core/schedule/traffic.h"

namespace ferrite::core::schedule {
namespace {

constexpr int64_t most_work = 32;    // copies take at most this part of the program's work
constexpr int64_t least_gain = 16;   // the peak must fall by at least this part
constexpr int64_t least_value = 64;  // smaller parts of the peak are not worth a launch
constexpr int64_t small_part = 16;   // operands may live longer if they are at most this part of the value
constexpr size_t most_copies = 1024;

/// The statements of one group that make a value, and what they read that other groups made.
struct Slice {
  std::vector<uint32_t> statements;  ///< in order
  std::vector<BufferId> made;        ///< storages that they write
  std::vector<BufferId> operands;    ///< storages
  int64_t work = 0;                  ///< in elements that one worker reads in the time
};

/// A value that is computed again directly before the group `reader`, which reads it next after `kept`.
struct Copy {
  BufferId value;
  size_t kept, reader;
  Slice slice;
};

class Recomputer {
 public:
  Recomputer(Schedule& schedule, const TargetNumbers& target)
      : schedule_(schedule),
        program_(schedule.program),
        target_(target),
        lives_(schedule),
        bytes_(live_bytes(schedule, lives_)),
        writers_(program_.buffers.size()),
        accesses_(program_.buffers.size()) {
    for (size_t g = 0; g < schedule.groups.size(); ++g) {
      for (BufferId b : lives_.touched[g]) accesses_[b].push_back(g);
      for (BufferId b : lives_.written[g]) writers_[b].push_back(g);
      for (uint32_t s : schedule.groups[g].statements) all_work_ += work(program_.statements[s]);
    }
  }

  /// The copies to make; none where they gain too little.
  std::vector<Copy> choose() {
    const auto before = peak(bytes_);
    if (before <= small_peak) return {};
    int64_t left = all_work_ / most_work;
    std::vector<Copy> copies;
    while (copies.size() < most_copies) {
      auto copy = best_at_peak(left);
      if (!copy) break;
      left -= copy->slice.work;
      enter(*copy);
      copies.push_back(std::move(*copy));
    }
    return (before - peak(bytes_)) * least_gain < before ? std::vector<Copy>() : copies;
  }

  void make(const std::vector<Copy>& copies, Ledger& ledger) {
    // By group: the copies that run before it. By value: the groups before which copies of it run, with the
    // buffers of the copies.
    std::map<size_t, std::vector<Copy>> at;
    std::map<BufferId, std::map<size_t, BufferId>> buffers;
    for (const auto& copy : copies) {
      at[copy.reader].push_back(copy);
      buffers[copy.value].emplace(copy.reader, add_temporary(copy.value));
    }
    /// The buffer that has the value of a storage when a group runs.
    const auto current = [&](BufferId storage, size_t group) {
      const auto found = buffers.find(storage);
      if (found == buffers.end()) return storage;
      const auto next = found->second.upper_bound(group);
      return next == found->second.begin() ? storage : std::prev(next)->second;
    };
    // All copies first, of statements that read what they did.
    std::map<size_t, std::vector<Group>> before;
    for (const auto& [reader, unordered] : at)
      for (const auto& copy : in_order(unordered)) {
        ledger.add({"memory",
                    origin_names(program_.statements[copy.slice.statements.back()]),
                    {},
                    "computed again",
                    {},
                    fmt::format("@{} instead of being kept for {}", copy.value,
                                origin_names(program_.statements[schedule_.groups[reader].statements[0]])),
                    static_cast<double>(program_.buffers[copy.value].bytes())});
        before[reader].push_back(copied(copy, current));
      }
    std::vector<Group> groups;
    for (size_t g = 0; g < schedule_.groups.size(); ++g) {
      if (const auto found = before.find(g); found != before.end())
        groups.insert(groups.end(), found->second.begin(), found->second.end());
      for (const uint32_t s : schedule_.groups[g].statements) {
        auto& statement = program_.statements[s];
        for (auto& op : statement.ops)
          if (op.code == FE_OP_LOAD) op.buffer = current(op.buffer, g);
        for (auto& buffer : statement.call.reads) buffer = current(buffer, g);
      }
      groups.push_back(schedule_.groups[g]);
    }
    schedule_.groups = std::move(groups);
    // The copies also have the other stores of their statements.
    drop_unread(schedule_);
  }

 private:
  int64_t work(const ProgramStatement& statement) const {
    int64_t stored = 0;
    for (const auto& store : statement.stores)
      stored += program_.buffers[program_.storage(store.buffer)].elements();
    return work_of(statement, target_) + stored;
  }

  /// The statements that make a value before a group that reads it; nothing where they cannot run again.
  /// Values that their group stored and that are there then are operands.
  std::optional<Slice> slice_of(BufferId value, size_t reader) const {
    if (writers_[value].size() != 1) return std::nullopt;
    Slice result;
    result.work = target_.launch_points();
    std::set<BufferId> needed{value}, operands, made;
    const auto& members = schedule_.groups[writers_[value][0]].statements;
    for (size_t k = members.size(); k-- > 0;) {
      const auto& statement = program_.statements[members[k]];
      const bool is_needed = std::ranges::any_of(statement.stores, [&](const Store& store) {
        return needed.contains(program_.storage(store.buffer));
      });
      if (!is_needed) continue;
      if (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE &&
          statement.kind != FE_STATEMENT_CONTRACT)
        return std::nullopt;
      for (const auto& store : statement.stores)
        // A storage with one complete store has no contents that a copy would need.
        if (store.mode != FE_STORE_SET || store.mask != none || !can_copy(store.buffer) ||
            !made.insert(store.buffer).second)
          return std::nullopt;
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) {
          if (op.buffer != program_.storage(op.buffer)) return std::nullopt;
          (is_there(op.buffer, reader) ? operands : needed).insert(op.buffer);
        }
      result.statements.insert(result.statements.begin(), members[k]);
      result.work += work(statement);
    }
    for (const BufferId b : made)
      if (writers_[b].size() != 1) return std::nullopt;
    result.made.assign(made.begin(), made.end());
    std::ranges::set_difference(needed, made, std::inserter(operands, operands.end()));
    result.operands.assign(operands.begin(), operands.end());
    return result;
  }

  /// Whether a value is in the arena when a group runs, without living longer for it.
  bool is_there(BufferId value, size_t group) const {
    const auto& life = lives_.lives[value];
    return life.arena && life.last >= group && !is_in_gap(value, group);
  }

  bool can_copy(BufferId buffer) const {
    const auto& copied = program_.buffers[buffer];
    return copied.base == none && lives_.versions[buffer] == 0 && !copied.packing;
  }

  /// The copy that frees most bytes at the peak for its work.
  std::optional<Copy> best_at_peak(int64_t most) {
    const auto place = static_cast<size_t>(std::ranges::max_element(bytes_) - bytes_.begin());
    std::optional<Copy> best;
    double most_freed = 0;
    for (BufferId value = 0; value < lives_.lives.size(); ++value) {
      const auto& life = lives_.lives[value];
      const int64_t bytes = program_.buffers[value].bytes();
      if (!life.arena || life.first >= place || life.last <= place || bytes * least_value < bytes_[place])
        continue;
      const auto next = std::ranges::upper_bound(accesses_[value], place);
      if (next == accesses_[value].begin() || next == accesses_[value].end() || *std::prev(next) == place ||
          is_in_gap(value, place))
        continue;
      auto slice = slice_of(value, *next);
      if (!slice || slice->work > most) continue;
      Copy copy{value, *std::prev(next), *next, std::move(*slice)};
      const int64_t freed = bytes - longer_bytes(copy);
      const double by_work = static_cast<double>(freed) / static_cast<double>(copy.slice.work);
      if (freed <= 0 || by_work <= most_freed) continue;
      most_freed = by_work;
      best = std::move(copy);
    }
    return best;
  }

  /// The bytes of operands that would live longer for a copy; those of the value where an operand is not
  /// there then, or would be too large.
  int64_t longer_bytes(const Copy& copy) const {
    const int64_t bytes = program_.buffers[copy.value].bytes();
    int64_t longer = 0;
    for (const BufferId operand : copy.slice.operands) {
      // Its contents must be those of before.
      if (std::ranges::any_of(writers_[operand], [&](size_t writer) {
            const size_t first = writers_[copy.value][0];
            return (writer > first || (writer == first && lives_.versions[operand] > 0)) &&
                   writer < copy.reader;
          }))
        return bytes;
      const auto& life = lives_.lives[operand];
      if (!life.arena) continue;
      if (is_in_gap(operand, copy.reader)) return bytes;
      if (life.last < copy.reader) longer += program_.buffers[operand].bytes();
    }
    return longer * small_part > bytes ? bytes : longer;
  }

  /// Whether a value that is computed again does not exist before this group.
  bool is_in_gap(BufferId value, size_t group) const {
    const auto found = gaps_.find(value);
    return found != gaps_.end() && std::ranges::any_of(found->second, [&](const auto& gap) {
             return gap.first < group && group < gap.second;
           });
  }

  /// Accounts for a copy.
  void enter(const Copy& copy) {
    const int64_t bytes = program_.buffers[copy.value].bytes();
    for (size_t g = copy.kept + 1; g < copy.reader; ++g) bytes_[g] -= bytes;
    gaps_[copy.value].emplace_back(copy.kept, copy.reader);
    for (const BufferId operand : copy.slice.operands) {
      auto& life = lives_.lives[operand];
      if (life.arena)
        for (; life.last < copy.reader; ++life.last)
          bytes_[life.last + 1] += program_.buffers[operand].bytes();
      auto& accesses = accesses_[operand];
      const auto place = std::ranges::lower_bound(accesses, copy.reader);
      if (place == accesses.end() || *place != copy.reader) accesses.insert(place, copy.reader);
    }
  }

  BufferId add_temporary(BufferId like) {
    auto buffer = program_.buffers[like];
    buffer.role = Role::temporary;
    buffer.number = 0;
    program_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }

  /// Copies before the same group, those first whose values others of them read.
  std::vector<Copy> in_order(std::vector<Copy> copies) {
    std::vector<Copy> ordered;
    while (!copies.empty()) {
      const auto next = std::ranges::find_if(copies, [&](const Copy& copy) {
        const auto& operands = copy.slice.operands;
        return std::ranges::none_of(copies, [&](const Copy& other) {
          return std::ranges::find(operands, other.value) != operands.end();
        });
      });
      ordered.push_back(std::move(*next));
      copies.erase(next);
    }
    return ordered;
  }

  template <class Current>
  Group copied(const Copy& copy, const Current& current) {
    std::map<BufferId, BufferId> images{{copy.value, current(copy.value, copy.reader)}};
    for (const BufferId b : copy.slice.made)
      if (b != copy.value) images.emplace(b, add_temporary(b));
    Group group{{}, schedule_.groups[writers_[copy.value][0]].shared};
    for (const uint32_t s : copy.slice.statements) {
      auto statement = program_.statements[s];
      for (auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) {
          const auto image = images.find(op.buffer);
          op.buffer = image == images.end() ? current(op.buffer, copy.reader) : image->second;
        }
      for (auto& store : statement.stores) store.buffer = images.at(store.buffer);
      group.statements.push_back(static_cast<uint32_t>(program_.statements.size()));
      program_.statements.push_back(std::move(statement));
    }
    return group;
  }

  Schedule& schedule_;
  LoopProgram& program_;
  const TargetNumbers& target_;
  Lives lives_;
  std::vector<int64_t> bytes_;                 // by group
  std::vector<std::vector<size_t>> writers_;   // by storage: groups
  std::vector<std::vector<size_t>> accesses_;  // by storage: groups, with those before which copies read it
  /// Of values that are computed again: the groups between which they have no memory.
  std::map<BufferId, std::vector<std::pair<size_t, size_t>>> gaps_;
  int64_t all_work_ = 0;
};

}  // namespace

void recompute(Schedule& schedule, const TargetNumbers& target, Ledger& ledger) {
  Recomputer recomputer(schedule, target);
  if (const auto copies = recomputer.choose(); !copies.empty()) recomputer.make(copies, ledger);
}

}  // namespace ferrite::core::schedule
