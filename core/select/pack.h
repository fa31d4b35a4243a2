// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operand layouts that providers request, and the kernels that pack operands into them.
#pragma once

#include <vector>

#include "core/ir/loop/program.h"
#include "core/support/error.h"
#include "ferrite/abi/provider.h"

namespace ferrite::core::select {

using namespace ferrite::core::runtime;

/// A provider's fe_operand_layout, copied.
struct OperandLayout {
  uint32_t buffer = 0;
  std::vector<int64_t> dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;  ///< one for each logical dim
  uint32_t terms = 0;            ///< of each sum; 0: elements of the operand are stored as they are
  uint32_t factor_dim = 0;       ///< the packed dim whose coordinate selects the factors
  std::vector<double> factors;   ///< [dims[factor_dim]][terms]
};
OperandLayout copy_layout(const fe_operand_layout& layout);

/// Applies the layout to the operand. FE-K21 where the layout is malformed or its buffer is not one that the
/// kernel only reads.
Result<void> lay_out(loop::Kernel& kernel, const OperandLayout& layout);

/// Makes the kernel packed[p..] = source[logical(p..)] where that is inside the source, else 0. With terms,
/// it stores sums of those, computed in f64, or in f32 for narrow floats. Buffer 0 is the source, buffer 1
/// the packed array.
Result<loop::Kernel> make_pack_kernel(const loop::Buffer& source, const OperandLayout& layout);

}  // namespace ferrite::core::select
