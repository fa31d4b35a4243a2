// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The remainder of angles that are too large for a reduction by Cody and Waite.
#pragma once

#include "backends/llvm/ir/vector_math/lanes.h"

namespace ferrite::emitter {

struct Remainder {
  Lanes rest;    ///< |x| = (4 k + number) pi/2 + rest for an integer k, |rest| <= pi/4; floating lanes
  Lanes number;  ///< integer lanes of the same width, from 0 to 3
};

/// For x = magnitude from 2^17 on (f64: 2^31); NaN for infinity. The instructions take some twenty times as
/// long as those of a small angle.
Remainder remainder_of_large(llvm::IRBuilderBase& builder, Lanes magnitude);

}  // namespace ferrite::emitter
