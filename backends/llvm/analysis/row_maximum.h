// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the row maximum that a softmax subtracts from each element before the exponential.
#pragma once

#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Returns the statement that computes the maximum of a row, if `difference` is an element of that row minus
/// the maximum. The difference is then never positive, or it is NaN. Returns null if there is no such
/// statement.
const loop::Statement* maximum_taken_off(index::Pool& pool, const loop::Kernel& kernel,
                                         const loop::Statement& statement, loop::OpId difference);

/// Whether the statement computes the maximum of a row, and a NaN in the row reaches every stored result in
/// another way: through the sum of a softmax, which also contains it. The maximum may then ignore NaNs.
bool sum_keeps_nan(index::Pool& pool, const loop::Kernel& kernel, const loop::Statement& statement);

}  // namespace ferrite::emitter
