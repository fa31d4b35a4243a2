// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/placement.h"

#include <fmt/format.h>

#include "core/ir/kernel/legalise.h"
#include "core/schedule/group_kernel.h"
#include "core/support/log.h"

namespace ferrite::core::select {
namespace {

/// The reason why a code generator does not support a kernel; empty where it does.
std::string refusal(const runtime::Compiler& generator, const CandidateBlocklist& blocklist,
                    const schedule::GroupKernel& group) {
  if (blocklist.has_dropped(generator)) return "its provider was dropped";
  auto kernel = group.kernel;
  if (auto legal = kernel::legalise(kernel, generator.target.statement_kinds, generator.slots.features);
      !legal)
    return legal.error().text;
  return generator.coverage.missing(kernel, kernel.statements.size());
}

/// The reasons why none of a device's code generators supports a kernel; empty where one does.
std::string refusal(const runtime::Device& device, const CandidateBlocklist& blocklist,
                    const schedule::GroupKernel& group) {
  std::string reasons;
  for (const auto& generator : device.generators()) {
    auto why = refusal(generator, blocklist, group);
    if (why.empty()) return {};
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  return reasons.empty() ? "it compiles no loops" : reasons;
}

}  // namespace

bool CandidateBlocklist::forgive(const runtime::Compiler& compiler, const Error& failed, Ledger& ledger) {
  if (compiler.plugin->on_error != plugin::OnError::skip) return false;
  // Reported once, however many kernels it fails for.
  if (!dropped.emplace(&compiler, failed.message()).second) return true;
  ledger.add({"provider", compiler.id, compiler.plugin->id, "dropped", {}, failed.message(), 0});
  log::print("plugins", "provider {} of {} is dropped: {}", compiler.id, compiler.plugin->id,
             failed.message());
  return true;
}

schedule::DeviceAssignment assign_devices(const loop::LoopProgram& program, const runtime::Devices& devices,
                                          const CandidateBlocklist& blocklist) {
  schedule::DeviceAssignment assignment;
  if (devices.size() == 1) return assignment;
  // The last device takes the rest: it is one that compiles every kernel.
  const auto last = static_cast<uint32_t>(devices.size() - 1);
  for (const auto& device : devices) assignment.devices.push_back(device->place());
  assignment.of.assign(program.statements.size(), last);
  for (uint32_t s = 0; s < assignment.of.size(); ++s) {
    const auto& statement = program.statements[s];
    if (statement.kind == FE_STATEMENT_CALL) continue;
    const auto group = schedule::kernel_of(program, s);
    for (uint32_t d = 0; d < last && assignment.of[s] == last; ++d)
      if (refusal(*devices[d], blocklist, group).empty()) assignment.of[s] = d;
  }
  return assignment;
}

Placement assign_groups(const schedule::Schedule& schedule, const runtime::Devices& devices,
                        const CandidateBlocklist& blocklist, Ledger& ledger) {
  Placement placement(schedule.groups.size());
  for (size_t g = 0; g < placement.size(); ++g) placement[g].group = g;
  if (devices.size() == 1) return placement;
  const auto last = static_cast<uint32_t>(devices.size() - 1);
  const auto init = schedule::init_groups(schedule);
  const schedule::KernelMaker kernels(schedule);
  for (size_t g = 0; g < placement.size(); ++g) {
    auto& choice = placement[g];
    choice.device = last;
    const auto& first = schedule.program.statements[schedule.groups[g].statements[0]];
    // Work at load and functions of plugins belong to the last device, which can access the host's memory.
    if (init[g] || first.kind == FE_STATEMENT_CALL) {
      choice.why = init[g] ? "it reads constants only, and runs once" : "it calls a function of a plugin";
      continue;
    }
    // Devices are in the order of preference; the first one without a reason against it gets the group.
    const auto group = kernels.make(g);
    const auto subject = schedule::origin_names(first);
    for (uint32_t d = 0; d < last && choice.device == last; ++d) {
      const auto failed = blocklist.groups.find({g, d, nullptr});
      std::string why = failed != blocklist.groups.end() ? "it was not compiled: " + failed->second
                                                         : refusal(*devices[d], blocklist, group);
      if (why.empty()) {
        choice.device = d;
        continue;
      }
      choice.why += fmt::format("{}{}: {}", choice.why.empty() ? "" : "; ", devices[d]->kind, why);
      ledger.add({"placement", subject, devices[d]->kind, "refused", {}, std::move(why), 0});
    }
    ledger.add({"placement", subject, devices[choice.device]->kind, "placed", {}, {}, 0});
  }
  return placement;
}

}  // namespace ferrite::core::select
