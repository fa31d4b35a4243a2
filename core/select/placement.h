// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where each group runs, and who compiles it.
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
namespace ferrite::core::tune {
class Decisions;
}

namespace ferrite::core::select {

struct Choice {
  size_t group = 0;     ///< in the schedule as it was placed, before groups were split
  uint32_t device = 0;  ///< of the program's devices
  const runtime::Compiler* compiler = nullptr;  ///< null: the device's code generator
  std::string candidate{};                      ///< of the compiler, the one that was priced
  double cost = 0;    ///< seconds of the candidate, with the rest of the group where it covers a part
  std::string why{};  ///< it is on none of the devices before; empty where there are none
};

/// By group.
using Placement = std::vector<Choice>;

/// The first device for each group that covers all of it, by what its providers declare and what was measured; the last one takes
/// what no other one covers, what only reads constants, and the opaque kernels of plugins. The ledger has a record a group
/// where there is more than one device.
Placement place(const schedule::Schedule& schedule, const runtime::Devices& devices,
                const CandidateBlocklist& blocklist, Ledger& ledger);

/// Where each statement of a program runs as a kernel alone: on the first device that takes it. Nothing where there is one device.
schedule::DeviceAssignment assign_devices(const loop::LoopProgram& program, const runtime::Devices& devices,
                                          const CandidateBlocklist& blocklist);

/// What a library could take of a group.
struct LibraryOffer {
  const runtime::Compiler* compiler = nullptr;
  size_t covered = 0;  ///< leading statements of the group with its maps apart
  double cost = 0;     ///< seconds, with the rest
  std::string name;
};
/// By group, each distinct one once.
using LibraryOffers = std::map<size_t, std::vector<LibraryOffer>>;

/// Asks the library providers of each group's device what they cover. A candidate that covers a part of a group is priced with
/// the rest as a kernel of its own; where the sum is the lowest, the group is split. `parts` is the schedule before maps were
/// merged, epilogues exposed: group by group what `schedule` has. Gives whether anything was chosen; `schedule` and `placement` then
/// have the split groups. What code generators compile costs what a cost model says, where one knows it. What was decided about a
/// group holds before costs do. A candidate whose workspace takes more than `memory` allows is not taken. Every candidate is in the ledger, with the sum of its costs, and in `offers`, where that is not null.
/// FE-T42 where a decisions lock names what is not offered.
Result<bool> select_libraries(schedule::Schedule& schedule, const schedule::Schedule& parts,
                              Placement& placement, const runtime::Devices& devices,
                              plugin::CostModels& costs, const schedule::MemoryLimit& memory,
                              CandidateBlocklist& blocklist, Ledger& ledger, tune::Decisions& decisions,
                              LibraryOffers* offers = nullptr);

/// Whether a device of the program has a library provider.
bool has_libraries(const runtime::Devices& devices);

}  // namespace ferrite::core::select
