// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/placement_records.h"

#include <algorithm>

#include <fmt/format.h>

namespace ferrite::core::link {
namespace {

using loop::BufferId;

bool writes(const loop::LoopProgram& program, const loop::ProgramStatement& statement, BufferId b) {
  const auto is_it = [&](BufferId written) { return program.storage(written) == b; };
  return std::ranges::any_of(statement.call.writes, is_it) ||
         std::ranges::any_of(statement.stores, is_it, &loop::Store::buffer);
}

/// A buffer as messages show it: its name in the model, or the nodes that write it.
std::string text_of(const schedule::Schedule& schedule, std::span<const PlacedGroup> groups, BufferId b) {
  const auto& program = schedule.program;
  if (auto name = schedule::model_name(program.buffers[b]); !name.empty()) return name;
  for (size_t g = 0; g < groups.size(); ++g)
    for (const uint32_t s : schedule.groups[g].statements)
      if (writes(program, program.statements[s], b)) return fmt::format("of {}", groups[g].provenance);
  return fmt::format("@{}", b);
}

}  // namespace

void record_placement(const schedule::Schedule& schedule, std::span<const PlacedGroup> groups,
                      std::span<const Transfers::Transfer> transfers, const Devices& devices,
                      Ledger& ledger) {
  double number = 0;
  for (const auto& [provenance, device, init, text] : groups)
    ledger.add(
        {"placement", provenance, devices[device]->place(), "runs", init ? "at load" : "", text, ++number});
  for (const auto& [buffer, from, to, at_load, bytes] : transfers) {
    const bool to_device = to != Executable::host, from_device = from != Executable::host;
    ledger.add({"transfer",
                text_of(schedule, groups, buffer),
                to_device && from_device
                    ? fmt::format("{} to {}", devices[from]->place(), devices[to]->place())
                    : devices[to_device ? to : from]->place(),
                to_device && from_device ? "between devices"
                : to_device              ? "to device"
                                         : "from device",
                at_load ? "at load" : "",
                {},
                static_cast<double>(bytes)});
  }
}

}  // namespace ferrite::core::link
