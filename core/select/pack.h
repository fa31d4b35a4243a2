// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operand layouts that a provider asks for, and the kernels that bring a constant into them.
#pragma once

#include <vector>

#include "core/ir/loop/program.h"
#include "core/support/error.h"
#include "ferrite/abi/provider.h"

namespace ferrite::core::runtime {

/// A provider's fe_operand_layout, copied.
struct OperandLayout {
  uint32_t buffer = 0;
  std::vector<int64_t> dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;  ///< one a logical dim
  uint32_t terms = 0;            ///< of each sum; 0: what is stored are elements of the constant
  uint32_t factor_dim = 0;       ///< the packed dim by whose coordinate factors are
  std::vector<double> factors;   ///< [dims[factor_dim]][terms]
};
OperandLayout copy_layout(const fe_operand_layout& layout);

/// The constant operand as the provider wants it. FE-K21 where the layout is malformed or of something that is no constant.
Result<void> lay_out(loop::Kernel& kernel, const OperandLayout& layout);

/// packed[p..] = source[logical(p..)] where that is inside, else 0; with terms the sums of those, computed in f64 or, of narrow floats,
/// in f32. Buffer 0 is the source, buffer 1 the packed array.
Result<loop::Kernel> make_pack_kernel(const loop::Buffer& source, const OperandLayout& layout);

}  // namespace ferrite::core::runtime
