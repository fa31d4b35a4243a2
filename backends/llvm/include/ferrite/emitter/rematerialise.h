// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that are computed again instead of kept.
#pragma once

#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Turn this: max of x[i, r]; %e = exp(x[i, r] - max), store @row[r] = %e, sum of %e; y[i, j] = @row[j] / sum
/// into this: max of x[i, r]; %e = exp(x[i, r] - max), sum of %e; y[i, j] = exp(x[i, j] - max) / sum
/// for each local row whose elements follow from what the kernel does not change, or changes before. A kernel that keeps its rows is
/// what others call persistent, this one looped; which of the two is faster depends on the row's length and on what an element
/// costs. Leaves kernels with contractions as they are. Gives whether anything changed.
bool rematerialise(loop::Kernel& kernel);

}  // namespace ferrite::emitter
