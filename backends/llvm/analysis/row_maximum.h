// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The largest value of a row that a softmax takes off each before it takes their powers.
#pragma once

#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// The statement that finds the largest of a row, where the value of `difference` is an element of the row less that: then it is never
/// positive, or NaN. Null where it is not so.
const loop::Statement* maximum_taken_off(index::Pool& pool, const loop::Kernel& kernel,
                                         const loop::Statement& statement, loop::OpId difference);

/// Whether the statement finds the largest of a row, and a NaN of the row makes all NaN that is stored of it by another way: by the sum
/// of a softmax, in which it is as well. Then it does not matter what the largest is.
bool sum_keeps_nan(index::Pool& pool, const loop::Kernel& kernel, const loop::Statement& statement);

}  // namespace ferrite::emitter
