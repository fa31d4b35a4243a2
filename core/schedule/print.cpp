// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <fmt/format.h>

#include "core/loop/print.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

std::string print(const Schedule& schedule) {
  auto list = list_of(schedule.program);
  std::string text = "ferrite schedule 0\n";
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    text += fmt::format("group {} shared {} {{\n", g, group.shared);
    for (uint32_t s : group.statements) {
      std::string statement = loop::print_statement(list, s);
      while (!statement.empty()) {
        auto line = statement.substr(0, statement.find('\n'));
        statement.erase(0, line.size() + 1);
        text += "  " + line + "\n";
      }
    }
    text += "}\n";
  }
  return text;
}

}  // namespace ferrite::core::schedule
