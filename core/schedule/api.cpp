// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/api.h"

#include <algorithm>

#include "core/ir/text/print_loops.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::schedule {
namespace {

int32_t refuse(fe_call* call, std::string_view code, const std::string& text) {
  if (call && call->set_error) call->set_error(call->host, abi::string(code), abi::string(text));
  return FE_EINVALID;
}

}  // namespace

int32_t StatementViews::fill(fe_call* call, const fe_statement_args* args, const std::vector<Group>& groups,
                             fe_statement_view* out) {
  if (!args || !out || args->statement >= program_.statements.size())
    return refuse(call, "FE-S01", "there is no such statement");
  const auto& statement = program_.statements[args->statement];
  auto& scratch = scratch_.emplace_back();
  auto add = [](std::vector<uint32_t>& list, uint32_t id) {
    if (std::find(list.begin(), list.end(), id) == list.end()) list.push_back(id);
  };
  for (const auto& var : statement.vars) scratch.extents.push_back(var.extent);
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD) add(scratch.reads, program_.storage(op.buffer));
  for (BufferId b : statement.call.reads) add(scratch.reads, program_.storage(b));
  for (const auto& store : statement.stores) add(scratch.writes, program_.storage(store.buffer));
  for (BufferId b : statement.call.writes) add(scratch.writes, program_.storage(b));
  scratch.origin = origin_names(statement);
  scratch.text = loop::print_statement(list_of(program_), args->statement);

  fe_statement_view view{};
  view.size = std::min<uint64_t>(out->size, sizeof view);
  view.id = args->statement;
  view.kind = statement.kind;
  view.extents = abi::array(scratch.extents);
  view.parallel = static_cast<uint32_t>(statement.parallel_count());
  // The group of a statement is looked up here and not stored, because split_group() changes the groups.
  view.group = FE_NONE32;
  for (uint32_t g = 0; g < groups.size(); ++g)
    if (std::binary_search(groups[g].statements.begin(), groups[g].statements.end(), args->statement))
      view.group = g;
  view.reads = abi::array(scratch.reads);
  view.writes = abi::array(scratch.writes);
  view.origin = abi::string(scratch.origin);
  view.text = abi::string(scratch.text);
  std::memcpy(out, &view, view.size);
  return FE_OK;
}

LoopApi::LoopApi(const LoopProgram& program, FusionRequests* requests)
    : program_(program), requests_(requests), views_(program) {
  auto table = abi::sized<fe_loop_api>();
  table.rev = 1;
  table.program = [](void* self, fe_call* call, const fe_none*, fe_program_view* out) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_loop_api, LoopApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    const auto& program = api->program_;
    out->statement_count = static_cast<uint32_t>(program.statements.size());
    out->buffer_count = static_cast<uint32_t>(program.buffers.size());
    out->group_count = 0;
    return FE_OK;
  };
  table.statement = [](void* self, fe_call* call, const fe_statement_args* args,
                       fe_statement_view* out) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_loop_api, LoopApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    return api->views_.fill(call, args, {}, out);
  };
  table.forbid_fusion = [](void* self, fe_call* call, const fe_pair_args* args, fe_none*) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_loop_api, LoopApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    size_t count = api->program_.statements.size();
    if (!args || args->a >= count || args->b >= count || args->a == args->b)
      return refuse(call, "FE-S01", "a pair needs two different statements of the program");
    api->requests_->forbidden.insert({std::min(args->a, args->b), std::max(args->a, args->b)});
    return FE_OK;
  };
  table.force_fusion = [](void* self, fe_call* call, const fe_pair_args* args, fe_none*) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_loop_api, LoopApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    size_t count = api->program_.statements.size();
    if (!args || args->a >= count || args->b >= count || args->a == args->b)
      return refuse(call, "FE-S01", "a pair needs two different statements of the program");
    api->requests_->forced.emplace_back(std::min(args->a, args->b), std::max(args->a, args->b));
    return FE_OK;
  };
  // A pass that may only read gets a table without the slots for requests.
  if (!requests) table.forbid_fusion = table.force_fusion = nullptr;
  loan_.emplace(this, table);
}

ScheduleApi::ScheduleApi(Schedule& schedule) : schedule_(schedule), views_(schedule.program) {
  auto table = abi::sized<fe_schedule_api>();
  table.rev = 1;
  table.program = [](void* self, fe_call* call, const fe_none*, fe_program_view* out) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_schedule_api, ScheduleApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    const auto& schedule = api->schedule_;
    out->statement_count = static_cast<uint32_t>(schedule.program.statements.size());
    out->buffer_count = static_cast<uint32_t>(schedule.program.buffers.size());
    out->group_count = static_cast<uint32_t>(schedule.groups.size());
    return FE_OK;
  };
  table.statement = [](void* self, fe_call* call, const fe_statement_args* args,
                       fe_statement_view* out) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_schedule_api, ScheduleApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    return api->views_.fill(call, args, api->schedule_.groups, out);
  };
  // The statements from `at` on become a group of their own, right after the rest of their old group:
  // everything that they read has been computed by then.
  table.split_group = [](void* self, fe_call* call, const fe_group_args* args, fe_none*) -> int32_t {
    int32_t refused = FE_OK;
    auto* api = Loan<fe_schedule_api, ScheduleApi>::owner_in_time(self, call, refused);
    if (!api) return refused;
    auto& groups = api->schedule_.groups;
    if (!args || args->group >= groups.size()) return refuse(call, "FE-S02", "there is no such group");
    auto& members = groups[args->group].statements;
    auto place = std::find(members.begin(), members.end(), args->at);
    if (place == members.begin() || place == members.end())
      return refuse(call, "FE-S02", "the statement is not in the group, after its first one");
    Group rest{{place, members.end()}, groups[args->group].shared};
    members.erase(place, members.end());
    groups.insert(groups.begin() + args->group + 1, std::move(rest));
    return FE_OK;
  };
  loan_.emplace(this, table);
}

}  // namespace ferrite::core::schedule
