// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exponential and logarithm kernels that several functions of the vector math are built from.
#pragma once

#include "backends/llvm/ir/vector_math/lanes.h"

namespace ferrite::emitter {

/// exp(x) / 2^halvings for any x; correct denormals.
Lanes exp_scaled(Lanes x, int halvings);

/// (exp(x) - 1) / 2^halvings, accurate near 0 too; halvings in 0..2. Without halvings x has to be below
/// log(MAX) - 1; with 1 or 2 the result overflows only where the quotient does. The sign of a zero and
/// denormals are lost: callers pass those through.
Lanes expm1_scaled(Lanes x, int halvings);

/// 2^(high + low) for |low| at most an ulp of high; correct overflow and denormals.
Lanes exp2_split(Lanes high, Lanes low);

/// 2^(a b) where that is a normal number below 2^127; the product is not rounded.
Lanes exp2_of_product(Lanes a, Lanes b);

/// log(1 + x) for x >= 0 or x in [-1, 0); NaN below -1.
Lanes log1p_lanes(Lanes x);

/// x = 2^exponent * (1 + fraction) with 1 + fraction in [sqrt(1/2), sqrt(2)); exact for finite x > 0,
/// denormals too.
struct LogParts {
  Lanes exponent;
  Lanes fraction;
};
LogParts split_for_log(Lanes x);

/// The natural logarithm of 2, split so that multiply_add(n, high, .) rounds once for n of up to 8 bits
/// (f64: 11).
SplitConstant log_of_2(Lanes x);
/// Its inverse, split.
SplitConstant log2_of_e(Lanes x);

}  // namespace ferrite::emitter
