// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops of one step, which are none.
#pragma once

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

/// The result of a reduction over no points.
uint64_t identity_bits(const Reduction& reduction);

/// Drops the variables of one point, and puts what they are in the place of results of reductions over one point or none and of
/// states of a serial loop of one step. `pool` is the statement's.
void flatten_trivial_loops(index::Pool& pool, Statement& s);

}  // namespace ferrite::core::loop
