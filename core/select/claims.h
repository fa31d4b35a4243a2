// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of a graph that a provider takes as a whole.
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "core/select/candidate_blocklist.h"
#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::select {

/// The op that a region becomes: its operands are what the region reads, constants last, its results what others read of it. A
/// result in an opaque layout is the bytes that it takes. `region` is the number of the region in the compilation.
inline constexpr std::string_view region_op = "ferrite.region", region_number = "region",
                                  region_types = "types";

/// The op's definition, for the registry: infer gives the types that the attribute holds.
const fe_op_def& region_op_def();

/// A region that was taken and compiled.
struct Region {
  uint32_t device = 0;
  const runtime::Compiler* compiler = nullptr;
  std::string name;   ///< the claim's
  std::string entry;  ///< of equal regions the same
  std::string blob;
  double cost = 0;  ///< seconds, by the provider
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
};

/// Whether one of the providers claims regions.
bool has_claims(const plugin::Registry& registry);

/// Asks the providers of all devices for the regions that they take, and cuts those that are taken out of the graph. Of claims that
/// overlap, or that would have to run before and behind each other, the device that is named first wins, then the provider that was
/// enabled last, then the lowest cost. Layouts of a provider's own stay where only its regions read a value. What does not
/// compile stays in the graph, for others, and so does what a provider would have taken that failed and is dropped. The ledger has a record a claim. Errors are those of reading and editing the graph.
Result<std::vector<Region>> claim_regions(graph::Graph& graph, const runtime::Devices& devices,
                                          CandidateBlocklist& blocklist, Ledger& ledger);

}  // namespace ferrite::core::select
