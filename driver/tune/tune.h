// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The autotuner: measures the candidates of each distinct kernel on its device, within a budget.
#pragma once

#include "core/link/measure.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"

namespace ferrite::core::tune {

/// Measures what decisions do not hold yet: of each distinct kernel first the candidate that costs pick, then, in the order of
/// the time that they take in a run, the others, each kernel for its share of the budget. Another candidate than the one that
/// costs pick is taken where it is faster by more than the noise of measuring. Kernels of which all candidates were measured are
/// kept in the store. Every candidate that was measured, or failed, is in the ledger, and so is every kernel for which the budget
/// did not suffice.
///
/// `build`: how trials are compiled. The errors of asking providers; FE-T44 where the device cannot run what is compiled for it.
Result<void> measure(const Subject& subject, const Options& options, const runtime::BuildOptions& build,
                     plugin::CostModels& costs, const select::CandidateBlocklist& blocklist,
                     Decisions& decisions, Ledger& ledger);

}  // namespace ferrite::core::tune
