// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device of each group, and its compiler.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"
#include "core/select/candidate_blocklist.h"
#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::plugin {
class CostModels;
}

namespace ferrite::core::select {

class Decisions;

struct Choice {
  size_t group = 0;     ///< in the schedule at the time of placement, before groups were split
  uint32_t device = 0;  ///< of the program's devices
  const runtime::Compiler* compiler = nullptr;  ///< null: the device's code generator
  std::string candidate{};                      ///< of the compiler: the candidate that was priced
  double cost = 0;    ///< seconds of the candidate; includes the rest of the group where it runs a part
  std::string why{};  ///< the reason why it is on none of the devices before; empty where there are none
};

/// By group.
using Placement = std::vector<Choice>;

/// Chooses for each group the first device that supports all of it, according to its providers' declarations
/// and the blocklist. The last device gets the groups that no other one supports, those that read only
/// constants, and the opaque kernels of plugins. With more than one device, each group is a record in the
/// ledger.
Placement assign_groups(const schedule::Schedule& schedule, const runtime::Devices& devices,
                        const CandidateBlocklist& blocklist, Ledger& ledger);

/// The device that runs each statement of a program as a kernel of its own: the first one that supports it.
/// Empty where there is one device.
schedule::DeviceAssignment assign_devices(const loop::LoopProgram& program, const runtime::Devices& devices,
                                          const CandidateBlocklist& blocklist);

/// A library's offer for a group.
struct LibraryOffer {
  const runtime::Compiler* compiler = nullptr;
  size_t covered = 0;  ///< leading statements of the group with unmerged maps
  double cost = 0;     ///< seconds, including the rest
  std::string name;
};
/// By group, each distinct offer once.
using LibraryOffers = std::map<size_t, std::vector<LibraryOffer>>;

/// Asks the library providers of each group's device which statements they support. A candidate for a part of
/// a group is priced together with the rest as a kernel of its own; where the sum is the lowest price, the
/// group is split. `parts` is the schedule before maps were merged, with epilogues exposed; its groups
/// correspond to those of `schedule`. Returns whether anything was chosen; `schedule` and `placement` then
/// have the split groups. The price of a kernel for code generators is that of a cost model, where one knows
/// it. A decision about a group precedes costs. A candidate whose workspace takes more than `memory` allows
/// is not chosen. Every candidate is recorded in the ledger with its total cost, and in `offers` unless that
/// is null. FE-T42 where a decisions lock names a candidate that is not offered.
Result<bool> select_libraries(schedule::Schedule& schedule, const schedule::Schedule& parts,
                              Placement& placement, const runtime::Devices& devices,
                              plugin::CostModels& costs, const schedule::MemoryLimit& memory,
                              CandidateBlocklist& blocklist, Ledger& ledger, Decisions& decisions,
                              LibraryOffers* offers = nullptr);

/// Whether a device of the program has a library provider.
bool has_libraries(const runtime::Devices& devices);

}  // namespace ferrite::core::select
