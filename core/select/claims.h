// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Regions of a graph that a provider runs as a whole.
#pragma once

#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "core/select/candidate_blocklist.h"
#include "core/support/ledger.h"
#include "runtime/device.h"

namespace ferrite::core::select {

/// The op that replaces a region. Its operands are the region's inputs, constants last, and its results are
/// the values that other nodes use. A result in an opaque layout is an array of bytes. `region` is the number
/// of the region in the compilation.
inline constexpr std::string_view region_op = "ferrite.region", region_number = "region",
                                  region_types = "types";

/// The op's definition for the registry. Its infer function returns the types in the attribute.
const fe_op_def& region_op_def();

/// A region that was taken and compiled.
struct Region {
  uint32_t device = 0;
  const runtime::Compiler* compiler = nullptr;
  std::string name;   ///< the claim's name
  std::string entry;  ///< equal for equal regions
  std::string blob;
  double cost = 0;  ///< seconds, as the provider estimates
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
};

/// Whether one of the providers can claim regions.
bool has_claims(const plugin::Registry& registry);

/// Asks the providers of all devices for the regions that they claim, and replaces the regions that are taken
/// by single nodes. Claims conflict if they overlap, or if each would have to run before the other. Of
/// conflicting claims the first device of the program wins, then the provider that was enabled last, then the
/// lowest cost. A provider's own layout stays where only its regions read a value. A region that does not
/// compile stays in the graph, and so do the regions of a provider that failed and was dropped. Each claim is
/// a record in the ledger. Errors are those of reading and editing the graph.
Result<std::vector<Region>> claim_regions(graph::Graph& graph, const runtime::Devices& devices,
                                          CandidateBlocklist& blocklist, Ledger& ledger);

}  // namespace ferrite::core::select
