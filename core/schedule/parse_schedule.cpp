// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/text/parse_loops.h"

#include "core/ir/text/loop_keywords.h"
#include "core/schedule/schedule.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::schedule {
namespace {

namespace keyword = loop::keyword;

Result<void> parse_group(loop::ProgramReader& reader, size_t number, uint32_t first, Group& group) {
  auto& cursor = reader.cursor();
  FE_CHECK(cursor.expect(keyword::group));
  const std::string number_at = cursor.where();
  FE_TRY(const int64_t given, cursor.expect_integer("the group's number"));
  if (given != static_cast<int64_t>(number))
    return at(number_at,
              error(FE_EINVALID, "FE-G02", "groups are numbered in their order; this is {}", number));
  FE_CHECK(cursor.expect(keyword::shared));
  const std::string shared_at = cursor.where();
  FE_TRY(const int64_t shared, cursor.expect_integer("the number of shared variables"));
  if (shared < 0 || shared > static_cast<int64_t>(ferrite::loop::max_vars))
    return at(shared_at, error(FE_EINVALID, "FE-G02", "a statement has no {} variables", shared));
  group.shared = static_cast<uint32_t>(shared);
  FE_CHECK(cursor.expect("{"));
  while (!cursor.accept("}")) {
    FE_CHECK(reader.statement());
    group.statements.push_back(first + static_cast<uint32_t>(group.statements.size()));
  }
  return {};
}

}  // namespace

Result<Schedule> parse(std::string_view source, std::string name) {
  FE_TRY(const auto tokens, text::TokenList::read(source, std::move(name)));
  loop::ProgramReader reader(tokens);
  FE_CHECK(reader.begin(keyword::schedule));
  Schedule schedule;
  uint32_t statements = 0;
  while (!reader.cursor().at_end()) {
    auto& group = schedule.groups.emplace_back();
    FE_CHECK(parse_group(reader, schedule.groups.size() - 1, statements, group));
    statements += static_cast<uint32_t>(group.statements.size());
  }
  FE_TRY(schedule.program, reader.finish());
  if (auto verified = verify(schedule); !verified) return reader.in_text(std::move(verified.error()));
  return schedule;
}

}  // namespace ferrite::core::schedule
