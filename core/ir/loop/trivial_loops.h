// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Removes loops with a single iteration.
#pragma once

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

/// The result of a reduction over no points, as bits.
uint64_t identity_bits(const Reduction& reduction);

/// Removes variables of extent 1. Replaces results of reductions over one point or none, and the states of a
/// serial loop with one step, by their values. `pool` is the statement's.
void flatten_trivial_loops(index::Pool& pool, Statement& s);

}  // namespace ferrite::core::loop
