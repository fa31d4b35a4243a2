// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/stored_operands.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/select/decisions.h"
#include "core/select/prices.h"

namespace ferrite::core::select {

using schedule::FusionPair;
using schedule::Group;
using schedule::LoopProgram;
using schedule::Schedule;

namespace {

size_t group_of(const std::vector<Group>& groups, uint32_t statement) {
  const auto found = std::ranges::find_if(
      groups, [&](const Group& g) { return std::ranges::count(g.statements, statement) > 0; });
  return static_cast<size_t>(found - groups.begin());
}

/// The schedule of these groups in the form that code generators get.
Schedule merged(LoopProgram program, std::vector<Group> groups) {
  Schedule result{std::move(program), std::move(groups)};
  schedule::number_by_group(result);
  schedule::merge_statements(result);
  return result;
}

/// Makes the kernels of a schedule in order to price them.
class Kernels {
 public:
  explicit Kernels(const Schedule& schedule)
      : maker_(schedule), constants_(schedule::init_buffers(schedule, schedule::init_groups(schedule))) {}
  ferrite::loop::Kernel operator()(size_t group) const {
    auto made = maker_.make(group);
    schedule::mark_constants(made, constants_);
    return std::move(made.kernel);
  }

 private:
  schedule::KernelMaker maker_;
  std::set<schedule::BufferId> constants_;
};

}  // namespace

bool wants_stored_operands(const runtime::Devices& devices) {
  return std::ranges::any_of(devices, [](const auto& device) {
    return std::ranges::any_of(device->compilers, [](const runtime::Compiler& c) {
      return c.is_library() && c.takes_kernels() && !(c.slots.features & FE_FLAT_PROLOGUES);
    });
  });
}

std::vector<std::string> StoredOperands::stored(const LoopProgram& program, const std::vector<Group>& groups,
                                                std::span<const FusionPair> operands) {
  auto reasons = choose(program, groups, operands);
  if (reasons) return std::move(*reasons);
  failed_ = std::move(reasons.error());
  return std::vector<std::string>(operands.size());
}

Result<std::vector<std::string>> StoredOperands::choose(const LoopProgram& program,
                                                        const std::vector<Group>& groups,
                                                        std::span<const FusionPair> operands) {
  // This is a trial: its records and blocklist entries are discarded, and providers are asked again later.
  Ledger ledger;
  auto blocklist = blocklist_;
  const auto plain = merged(program, groups);
  std::vector<std::string> reasons(operands.size());
  // Merging may have dropped a group without readers, so that group numbers differ. This rare case keeps the
  // default.
  if (plain.groups.size() != groups.size()) return reasons;
  Schedule parts{program, groups};
  schedule::number_by_group(parts);
  schedule::expose_epilogues(parts);

  auto placement = assign_groups(plain, devices_, blocklist, ledger);
  const auto devices = placement;  // by group
  auto taken = plain;
  FE_TRY(const bool any,
         select_libraries(taken, parts, placement, devices_, costs_, memory_, blocklist, ledger, decisions_));
  if (!any) return reasons;
  std::map<size_t, const Choice*> libraries;  // by group
  for (const auto& choice : placement)
    if (choice.compiler) libraries.emplace(choice.group, &choice);

  // The same program with every operand computed where it is read.
  auto computing = program;
  auto deps = schedule::Dependencies::of(computing);
  auto rest = groups;
  for (const auto& operand : operands) {
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(group_of(rest, operand.first)));
    schedule::take_prologue(computing, deps, operand.first, operand.second, operand.buffer);
  }
  const auto computed = merged(std::move(computing), rest);

  Prices prices(costs_, blocklist, ledger);
  const Kernels stored_kernels(plain), computed_kernels(computed);
  const auto init = schedule::init_groups(plain);
  std::map<uint32_t, std::vector<size_t>> contractions;  // the indices of their operands
  for (size_t k = 0; k < operands.size(); ++k) contractions[operands[k].second].push_back(k);
  for (const auto& [contraction, own] : contractions) {
    const size_t g = group_of(groups, contraction);
    const auto library = libraries.find(g);
    if (library == libraries.end()) continue;
    const auto& device = *devices_[devices[g].device];
    double apart = library->second->cost;
    for (const size_t k : own) {
      const size_t stores = group_of(groups, operands[k].first);
      if (init[stores]) continue;  // it runs once, at load
      FE_TRY(const auto map, prices.of(device, stored_kernels(stores)));
      apart += map ? map->seconds : 0;
    }
    FE_TRY(const auto together, prices.of(device, computed_kernels(group_of(rest, contraction))));
    if (together && apart >= together->seconds && !decisions_.libraries_first()) continue;
    for (const size_t k : own)
      reasons[k] = fmt::format("it is stored for {}: {:.3g} us with the map, {} where it is computed",
                               library->second->candidate, apart * 1e6,
                               together ? fmt::format("{:.3g} us", together->seconds * 1e6) : "not compiled");
  }
  return reasons;
}

}  // namespace ferrite::core::select
