// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/memory/memory_demand.h"

#include <algorithm>
#include <limits>
#include <ranges>

#include <fmt/format.h>

#include "core/schedule/memory/kernel_order.h"
#include "ferrite/dtype.hpp"

namespace ferrite::core::schedule {
namespace {

int64_t add(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

/// The node that makes the storage, or the input that it is.
std::string maker_of(const LoopProgram& program, BufferId storage) {
  for (const auto& statement : program.statements | std::views::reverse) {
    const auto stores = [&](BufferId b) { return program.storage(b) == storage; };
    if (std::ranges::any_of(statement.stores, stores, &Store::buffer) ||
        std::ranges::any_of(statement.call.writes, stores))
      return "the result of " + origin_names(statement);
  }
  return model_name(program.buffers[storage]);
}

/// The temporary storages that several groups access.
std::vector<BufferId> passed_between(const Schedule& schedule) {
  const auto& program = schedule.program;
  constexpr size_t nobody = ~size_t{0};
  std::vector<size_t> group_of(program.buffers.size(), nobody);
  std::vector<BufferId> result;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto touch = [&](BufferId b) {
      const BufferId storage = program.storage(b);
      if (program.buffers[storage].role != Role::temporary || group_of[storage] == g) return;
      if (group_of[storage] != nobody) result.push_back(storage);
      group_of[storage] = g;
    };
    for (const uint32_t s : schedule.groups[g].statements) {
      const auto& statement = program.statements[s];
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) touch(op.buffer);
      for (const auto& store : statement.stores) touch(store.buffer);
      for (const BufferId b : statement.call.reads) touch(b);
      for (const BufferId b : statement.call.writes) touch(b);
    }
  }
  return result;
}

/// `held`: storages, of which `at_a_time` bytes live at once. An input, which the caller holds already,
/// counts by itself.
Result<void> check(const LoopProgram& program, const std::vector<BufferId>& held, int64_t at_a_time,
                   int64_t limit) {
  const auto bytes = [&](BufferId b) { return program.buffers[b].bytes(); };
  BufferId largest = none;
  const auto take = [&](BufferId b) {
    if (largest == none || bytes(b) > bytes(largest)) largest = b;
  };
  std::ranges::for_each(held, take);
  for (const BufferId b : program.inputs)
    if (bytes(b) > limit) take(b);
  if (largest == none || std::max(at_a_time, bytes(largest)) <= limit) return {};
  const auto& buffer = program.buffers[largest];
  return error(
      FE_ENOMEM, "FE-S30",
      "{}, {}[{}], takes {} bytes{}; the limit is {} bytes. Use smaller sizes, or set --memory-limit or "
      "'memory_limit' where the machine has more memory",
      maker_of(program, largest), name_of(buffer.dtype), fmt::join(buffer.dims, ","), bytes(largest),
      bytes(largest) > limit ? "" : fmt::format(", {} together with everything else that is held", at_a_time),
      limit);
}

}  // namespace

Result<void> check_held(const Schedule& schedule, const HeldMemory& memory) {
  const auto& program = schedule.program;
  // Nearly every program fits even if all of its storages lived at once; lifetimes are computed only for the
  // rest.
  if (check_held(program, memory.limit)) return {};
  const auto made_at_load = init_buffers(schedule, init_groups(schedule));
  int64_t at_a_time = 0;
  std::vector<BufferId> held;
  std::vector<bool> kept(program.buffers.size());  // by the caller
  for (const BufferId b : program.outputs) kept[program.storage(b)] = true;
  for (BufferId b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    if (buffer.base != none) continue;
    const bool is_result = kept[b] && buffer.role != Role::input && buffer.role != Role::constant;
    if (is_result || (memory.between && made_at_load.contains(b))) {
      held.push_back(b);
      at_a_time = add(at_a_time, buffer.bytes());
    }
  }
  if (memory.between) {
    for (const BufferId b : passed_between(schedule)) held.push_back(b);
    const auto live = live_bytes(schedule);
    if (!live.empty()) at_a_time = add(at_a_time, *std::ranges::max_element(live));
  }
  return check(program, held, at_a_time, memory.limit);
}

Result<void> check_held(const LoopProgram& program, int64_t limit) {
  int64_t at_a_time = 0;
  std::vector<BufferId> held;
  for (BufferId b = 0; b < program.buffers.size(); ++b) {
    const auto& buffer = program.buffers[b];
    if (buffer.base != none || buffer.role == Role::constant || buffer.role == Role::input) continue;
    held.push_back(b);
    at_a_time = add(at_a_time, buffer.bytes());
  }
  return check(program, held, at_a_time, limit);
}

}  // namespace ferrite::core::schedule
