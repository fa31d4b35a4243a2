// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "core/schedule/schedule.h"

#include "core/loop/verify.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

Error wrong(std::string text) { return Error{FE_EINVALID, "FE-S03", std::move(text), {}}; }

/// Whether each statement runs in the loops that the group shares.
Result<void> check_shared(const Schedule& schedule, const Group& group) {
  const auto& program = schedule.program;
  const auto list = list_of(program);
  const auto fault = [&](uint32_t s, std::string text) {
    return at(loop::describe_place(list, s), wrong(std::move(text)));
  };
  for (size_t k = 0; k < group.statements.size(); ++k) {
    const uint32_t s = group.statements[k];
    const auto& statement = program.statements[s];
    if (statement.parallel_count() < group.shared)
      return fault(s,
                   fmt::format("it lacks the {} that its group shares", counted(group.shared, "variable")));
    if (group.statements.size() == 1) break;
    const bool contract = statement.kind == FE_STATEMENT_CONTRACT;
    const bool has_loops =
        statement.parallel_count() > 0 || program.statements[group.statements[0]].parallel_count() > 0;
    // A contraction inside of the shared loops has rows and columns of its own there.
    const bool inner = contract && group.shared > 0 && statement.parallel_count() > group.shared;
    if ((group.shared == 0 && has_loops) || (contract && k > 0 && !inner) ||
        (statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE && !contract))
      return fault(s, "it has to be a group of its own");
    const auto& first = program.statements[group.statements[0]];
    if (first.kind == FE_STATEMENT_CONTRACT && first.parallel_count() == group.shared && k > 0 &&
        (statement.kind != FE_STATEMENT_MAP || statement.vars.size() != group.shared))
      return fault(s, "a contraction and what follows it in its group share all their loops");
    for (size_t j = 0; j < k; ++j)
      if (common_loops(program, group.statements[j], s, group.shared) != group.shared)
        return fault(
            s, fmt::format("it does not have the {} that its group shares in common with {}",
                           counted(group.shared, "loop"), loop::describe_place(list, group.statements[j])));
  }
  return {};
}

}  // namespace

Result<void> verify(const Schedule& schedule) {
  const auto& program = schedule.program;
  const auto list = list_of(program);
  constexpr size_t nowhere = ~size_t{0};
  std::vector<size_t> place(program.statements.size(), nowhere);  // by statement: its turn
  size_t turn = 0;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    const std::string where = fmt::format("group {}", g);
    if (group.statements.empty()) return at(where, wrong("it has no statements"));
    for (uint32_t s : group.statements) {
      if (s >= place.size()) return at(where, wrong(fmt::format("there is no statement {}", s)));
      if (place[s] != nowhere)
        return at(where, wrong(fmt::format("{} is in a group already", loop::describe_place(list, s))));
      place[s] = turn++;
    }
    FE_CHECK(check_shared(schedule, group));
  }
  const auto dependencies = Dependencies::of(program);
  for (uint32_t s = 0; s < place.size(); ++s) {
    if (place[s] == nowhere) return at(loop::describe_place(list, s), wrong("it is in no group"));
    for (uint32_t before : dependencies.before[s])
      if (place[before] > place[s])
        return at(loop::describe_place(list, s), wrong(fmt::format("it runs before {}, on which it depends",
                                                                   loop::describe_place(list, before))));
  }
  return {};
}

}  // namespace ferrite::core::schedule
