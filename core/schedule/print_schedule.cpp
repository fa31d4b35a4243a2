// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/print_loops.h"

#include <fmt/format.h>

#include "core/ir/text/loop_keywords.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

std::string print(const Schedule& schedule) {
  namespace keyword = loop::keyword;
  auto list = list_of(schedule.program);
  std::string text = fmt::format("{} {} {}\n{}", keyword::ferrite, keyword::schedule, keyword::version,
                                 loop::print_tables(schedule.program));
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    text += fmt::format("{} {} {} {} {{\n", keyword::group, g, keyword::shared, group.shared);
    for (uint32_t s : group.statements) text += loop::indented(loop::print_statement(list, s));
    text += "}\n";
  }
  return text;
}

std::string print(const FusionRequests& requests) {
  std::string text;
  for (auto [a, b] : requests.forced) text += fmt::format("force {} with {}\n", a, b);
  for (auto [a, b] : requests.forbidden) text += fmt::format("forbid {} with {}\n", a, b);
  return text;
}

}  // namespace ferrite::core::schedule
