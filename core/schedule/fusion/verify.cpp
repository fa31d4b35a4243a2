// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/verify.h"
#include "core/schedule/fusion/legality.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {
namespace {

Error wrong(std::string text) { return Error{FE_EINVALID, "FE-S03", std::move(text), {}}; }

}  // namespace

Result<void> verify(const Schedule& schedule) {
  const auto& program = schedule.program;
  const auto list = list_of(program);
  constexpr size_t nowhere = ~size_t{0};
  // by statement: its position in the order of execution
  std::vector<size_t> place(program.statements.size(), nowhere);
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
    if (auto found = misfit(program, group.statements, group.shared))
      return at(loop::describe_place(list, found->statement), wrong(std::move(found->text)));
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
