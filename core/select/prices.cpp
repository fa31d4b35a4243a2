// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/prices.h"

#include "core/ir/kernel/flatten.h"
#include "core/select/propose.h"

namespace ferrite::core::select {

using Price = plugin::CostModels::Price;

Result<std::optional<Price>> Prices::of(const runtime::Device& device, const ferrite::loop::Kernel& kernel) {
  std::optional<Price> best;
  for (const auto& compiler : device.generators()) {
    if (blocklist_.has_dropped(compiler)) continue;
    std::string declined;
    const auto proposals = select::propose_whole(compiler, kernel, declined);
    // A provider whose plugin says on_error = skip is dropped; the others still have a price.
    if (!proposals && blocklist_.forgive(compiler, proposals.error(), ledger_)) continue;
    if (!proposals) return proposals.error();
    for (const auto& proposal : *proposals)
      if (!best || proposal.cost < best->seconds) best = Price{proposal.cost, {}};
  }
  // A cost model overrides the providers' own estimates.
  if (best && !costs_.empty()) {
    FE_TRY(const auto flat, kernel::flatten(kernel));
    if (auto known = costs_.price(device.kind, flat)) best = std::move(known);
    FE_CHECK(costs_.check());
  }
  return best;
}

}  // namespace ferrite::core::select
