// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that leave workers idle become two: one of many parts, and one that combines the partial
// results.
#include "core/schedule/rewrites/split.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/schedule/rewrites/loop_splitter.h"
#include "core/schedule/traffic.h"

namespace ferrite::core::schedule {
namespace {

// Counts depend on the target's numbers and on the shape, never on the number of threads, so that results do
// not depend on it.
constexpr int64_t block_of_columns = 64;  // columns that are summed at a time, over all rows

/// How a reduction walks its largest input.
struct Walk {
  int64_t work = 1, outputs = 1, rows = 1;  ///< work: in elements that are read
  int64_t tasks = 1;                        ///< tasks without a split
  bool far = false;                         ///< each step of the reduction is on another page
};

Walk walk_of(const LoopProgram& program, const Statement& statement, const TargetNumbers& target) {
  Walk walk;
  walk.outputs = std::max<int64_t>(1, statement.points(VarKind::parallel));
  walk.rows = std::max<int64_t>(1, statement.points(VarKind::reduction));
  walk.work = std::max<int64_t>(1, work_of(statement, target));
  const BodyOp* most = nullptr;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD &&
        (!most || program.buffers[op.buffer].bytes() > program.buffers[most->buffer].bytes()))
      most = &op;
  bool columns = false;
  walk.tasks = walk.outputs;
  if (!most) return walk;
  const auto step = [&](const Var& var) { return step_of(program, most->buffer, most->index, var.symbol); };
  for (const auto& var : statement.vars)
    if (var.kind == VarKind::parallel && var.extent > 1 && step(var) == 1) {
      columns = true;
      walk.tasks = walk.outputs / var.extent * std::max<int64_t>(1, var.extent / block_of_columns);
    }
  const auto bytes = bits_of(program.buffers[most->buffer].dtype) / 8;
  walk.far = columns && walk.rows > target.pages && std::ranges::all_of(statement.vars, [&](const Var& var) {
               const auto each = step(var);
               return var.kind != VarKind::reduction || !each || std::abs(*each) * bytes >= target.page_bytes;
             });
  return walk;
}

/// The number of parts that pays; 1 where none does.
int64_t wanted_parts(const Walk& walk, const TargetNumbers& target) {
  const int64_t launch = target.launch_points();
  // so that a part runs many times longer than its launch
  const int64_t least_part = std::max<int64_t>(1, launch / 2);
  const int64_t near_pages = std::max<int64_t>(1, target.pages / 2);  // pages of a part
  int64_t parts = walk.tasks < target.workers ? target.workers * parts_of_worker / walk.tasks : 1;
  if (walk.far) parts = std::max(parts, walk.rows / near_pages);
  parts = std::min({parts, walk.work / least_part, walk.rows / 16});
  if (parts < 2) return 1;
  const auto price = [&](int64_t work, int64_t tasks, bool far) {
    return work / std::min(tasks, target.workers) * (far ? 2 : 1);
  };
  const int64_t whole = price(walk.work, walk.tasks, walk.far);
  const int64_t split =
      price(walk.work, walk.tasks * parts, false) + price(parts * walk.outputs, walk.tasks, false) + launch;
  return split < whole ? parts : 1;
}

/// A group's reduction, or the first of several that will be joined, where splitting it would pay.
struct Found {
  uint32_t reduction = none;
  /// a statement of the group that is neither a map nor can be joined with the reduction
  uint32_t other = none;
};

Found reduction_of(const LoopProgram& program, const Group& group, const TargetNumbers& target) {
  Found found;
  for (uint32_t s : group.statements) {
    const auto& statement = program.statements[s];
    const bool reduces = statement.kind == FE_STATEMENT_REDUCE;
    if (reduces && found.reduction == none)
      found.reduction = s;
    else if (reduces ? !reduces_beside(program, program.statements[found.reduction], statement)
                     : statement.kind != FE_STATEMENT_MAP)
      found.other = s;
  }
  if (found.reduction == none) return {};
  const auto& statement = program.statements[found.reduction];
  return statement.points(VarKind::reduction) > 1 && statement.points(VarKind::parallel) > 0 &&
                 !reads_only_constants(program, statement) && parts_that_pay(program, statement, target) > 1
             ? found
             : Found();
}

void refuse(Ledger& ledger, const ProgramStatement& reduction, std::string_view category, std::string text) {
  ledger.add(
      {"parts", origin_names(reduction), {}, "not divided", std::string(category), std::move(text), 0});
}

void refuse_beside(Ledger& ledger, const ProgramStatement& reduction, const ProgramStatement& other) {
  refuse(ledger, reduction, "not alone",
         fmt::format("parts would pay, but its kernel holds {}, which is not divided with it",
                     origin_names(other)));
}

/// How the only statement of a group is divided.
struct Division {
  std::vector<bool> element_stores;
  Cut cut;
  int64_t work = 0, points_of_part = 0;
};

/// The division of a group whose reduction pays to be divided, after all statements that can be merged into
/// it were.
std::optional<Division> division_of(const LoopProgram& program, const Group& group,
                                    const TargetNumbers& target, int64_t allowed, Ledger& ledger) {
  const auto& whole = program.statements[group.statements[0]];
  if (group.statements.size() > 1) {
    const auto reduction = std::ranges::find_if(
        group.statements, [&](uint32_t s) { return program.statements[s].kind == FE_STATEMENT_REDUCE; });
    const auto other = group.statements.begin() == reduction ? reduction + 1 : group.statements.begin();
    if (reduction != group.statements.end())
      refuse_beside(ledger, program.statements[*reduction], program.statements[*other]);
    return std::nullopt;
  }
  const auto walk = walk_of(program, whole, target);
  const int64_t wanted = wanted_parts(walk, target);
  const auto cut = cut_within(whole, wanted, bytes_of_part(whole), allowed);
  if (cut.parts < 2) {
    if (wanted > 1)
      refuse(ledger, whole, "memory",
             fmt::format("{} parts would pay, and each would give {} bytes", wanted, bytes_of_part(whole)));
    return std::nullopt;
  }
  auto stores = element_stores(program, whole);
  if (stores.empty()) {
    refuse(ledger, whole, "later operations",
           "parts would pay, but the operations after it gather, or accumulate into a buffer");
    return std::nullopt;
  }
  const int64_t points = walk.rows / (cut.parts * cut.steps + cut.rest) * cut.steps;
  // Elements that each step stores need one writer; the rest would be a second one.
  if (cut.rest > 0 && std::ranges::find(stores, true) != stores.end()) {
    refuse(ledger, whole, "several writers",
           fmt::format("{} parts of {} would leave a rest of {} that stores to the same buffer", cut.parts,
                       points, cut.rest));
    return std::nullopt;
  }
  return Division{std::move(stores), cut, walk.work, points};
}

}  // namespace

int64_t parts_that_pay(const LoopProgram& program, const Statement& statement, const TargetNumbers& target) {
  return wanted_parts(walk_of(program, statement, target), target);
}

void split_reductions(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger) {
  auto& program = schedule.program;
  std::vector<bool> apart;
  for (const auto& group : schedule.groups) {
    const auto [reduction, other] = reduction_of(program, group, target);
    if (other != none) refuse_beside(ledger, program.statements[reduction], program.statements[other]);
    apart.push_back(reduction == none || other != none);
  }
  if (std::ranges::all_of(apart, [](bool stays) { return stays; })) return;
  // The maps around such a reduction become part of it, or run after it.
  merge_statements(schedule, apart);
  std::vector<Group> groups;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    const auto division = apart[g] ? std::optional<Division>()
                                   : division_of(program, group, target, memory.for_parts(), ledger);
    if (!division) {
      groups.push_back(group);
      continue;
    }
    const auto whole = group.statements[0];
    const auto& cut = division->cut;
    Splitter splitter(program, program.statements[whole], division->element_stores, cut);
    const auto add = [&](ProgramStatement statement) {
      groups.push_back({{static_cast<uint32_t>(program.statements.size())},
                        static_cast<uint32_t>(statement.parallel_count())});
      program.statements.push_back(std::move(statement));
    };
    ledger.add({"parts",
                origin_names(program.statements[whole]),
                {},
                "divided",
                {},
                fmt::format("{} parts of {}{}", cut.parts, division->points_of_part,
                            cut.rest > 0 ? fmt::format(", and {} more", cut.rest) : ""),
                static_cast<double>(division->work)});
    add(splitter.part(false));
    if (cut.rest > 0) add(splitter.part(true));
    add(splitter.combined());
  }
  schedule.groups = std::move(groups);
  number_by_group(schedule);
}

}  // namespace ferrite::core::schedule
