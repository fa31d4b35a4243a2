// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computes rows again instead of storing them.
#pragma once

#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Turn this: max of x[i, r]; %e = exp(x[i, r] - max), store @row[r] = %e, sum of %e; y[i, j] = @row[j] / sum
/// into this: max of x[i, r]; %e = exp(x[i, r] - max), sum of %e; y[i, j] = exp(x[i, j] - max) / sum
/// for each local row whose elements depend only on values that the kernel does not change, or changes
/// before. In the literature a kernel that keeps its rows is called persistent, and one that recomputes them
/// looped. Which is faster depends on the row's length and the cost of an element. Kernels with contractions
/// stay unchanged. Returns whether anything changed.
bool rematerialise(loop::Kernel& kernel);

}  // namespace ferrite::emitter
