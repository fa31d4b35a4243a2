// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The autotuner: measures the candidates of each distinct kernel on its device, within a budget, and keeps
// decisions for later compilations.
#pragma once

#include "core/link/measure.h"
#include "core/select/decisions.h"
#include "core/select/placement.h"

namespace ferrite::core::tune {

/// Measures the kernels without a decision. Of each distinct kernel, first the candidate with the lowest cost
/// is measured, then the others, in the order of the time that the kernels take in a run; each kernel gets
/// its part of the budget. Another candidate replaces the one with the lowest cost if it is faster by more
/// than the noise of measuring. Decisions about kernels whose candidates were all measured are stored. The
/// ledger records every candidate that was measured or failed, and every kernel for which the budget was too
/// small.
///
/// `build`: the options for compiling trials. Errors are those of asking providers; FE-T44 where the device
/// cannot run code that was compiled for it.
Result<void> measure(const Subject& subject, const Options& options, const link::BuildOptions& build,
                     plugin::CostModels& costs, const select::CandidateBlocklist& blocklist,
                     select::Decisions& decisions, Ledger& ledger);

/// The decisions of the lock options.replay if it is given; else those of the store options.folder, which
/// mode `measure` creates. Errors are those of read_lock().
Result<select::Decisions> open_decisions(const Options& options,
                                         const std::function<select::Decisions::Contexts()>& contexts);

}  // namespace ferrite::core::tune
