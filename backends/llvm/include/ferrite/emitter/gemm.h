// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions (GEMM, convolution and related operations) as packed, register-blocked kernels, for every
// target with vectors.
//
// The scheme is that of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008).
// Constant operands are packed at load time, and a convolution is expressed by the operand's index map and
// packed block by block.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

/// The requested layout of a constant operand: its stored dims, and each logical coordinate as an expression
/// of the packed coordinates. Symbol k of `exprs` is packed coordinate k.
struct OperandLayout {
  loop::BufferId buffer = loop::none;
  std::vector<int64_t> dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;  ///< by logical dim: its index in exprs
  // If terms > 0, symbol dims.size() of `exprs` is the number of a term, and each stored element is a
  // weighted sum of `terms` elements.
  uint32_t terms = 0;
  uint32_t factor_dim = 0;      ///< the packed dim whose coordinate selects the factors
  std::vector<double> factors;  ///< [dims[factor_dim]][terms]
};

/// The sizes of a contraction that a tuner may choose instead of the emitter.
struct GemmConfig {
  int rows = 0, vectors = 0;  ///< size of the register block; 0: the emitter chooses
  int tasks = 0;  ///< -1: about a quarter of the tasks that the emitter would choose; 1: four times as many
  bool winograd = false;  ///< 3 x 3 windows in Winograd blocks of 2 x 2 results, with fewer multiplications
  friend bool operator==(const GemmConfig&, const GemmConfig&) = default;
};

/// Whether emit_gemm handles the kernel with its present packings: the first statement is a float
/// contraction with rows and columns, and the others are maps over the same parallel variables.
bool can_emit_gemm(const Target& target, const loop::Kernel& kernel, const GemmConfig& config = {});

struct GemmOption {
  GemmConfig config;
  double time = 1;                     ///< estimated time relative to the first option
  std::vector<OperandLayout> layouts;  ///< layouts that the option requests
};

/// The emitter's own choice first, then others that may be faster, each with a time of at least 1. Empty if
/// the kernel is not handled. `winograd`: the last option uses Winograd blocks, if the kernel has suitable
/// windows, whatever its estimated time.
std::vector<GemmOption> gemm_options(const Target& target, const loop::Kernel& kernel, bool winograd = false);

struct GemmShape {
  int64_t tasks = 0;  ///< units of parallel work
  int64_t grain = 1;  ///< minimum number of tasks for a worker
};

/// Fills the context's entry function from the builder's insert point on; the builder ends where the function
/// may return. Requires can_emit_gemm() with the same config. Rewrites the context's kernel: its strided
/// buffers become one-dimensional.
GemmShape emit_gemm(KernelContext& context, const GemmConfig& config = {});

}  // namespace ferrite::emitter
