// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Contractions (GEMM, convolution and their like) as packed, register-blocked kernels, for every target with
// vectors.
//
// The scheme is that of Goto and van de Geijn ("Anatomy of High-Performance Matrix Multiplication", 2008),
// with the packing of constant operands moved to load time and convolution expressed through the operand's
// index map, packed block by block.
#pragma once

#include <cstdint>
#include <vector>

#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

/// The layout wanted for a constant operand: stored dims, and each logical coordinate as an expression of the
/// packed ones. Symbol k of `exprs` is packed coordinate k.
struct OperandLayout {
  loop::BufferId buffer = loop::none;
  std::vector<int64_t> dims;
  std::vector<fe_flat_expr> exprs;
  std::vector<uint32_t> unpack;  ///< by logical dim, position in exprs
  // With terms, symbol dims.size() of `exprs` is the number of a term, and what is stored are sums of so many elements.
  uint32_t terms = 0;
  uint32_t factor_dim = 0;      ///< the packed dim by whose coordinate factors are
  std::vector<double> factors;  ///< [dims[factor_dim]][terms]
};

/// How a contraction is cut up, where the emitter is not to choose: what a tuner tries.
struct ContractConfig {
  int rows = 0, vectors = 0;  ///< of the register block; 0: the emitter's own choice
  int tasks = 0;  ///< -1: about a quarter of the tasks that the emitter would make, 1: four times as many
  bool winograd = false;  ///< windows of 3 x 3 by tiles of 2 x 2 results, with fewer multiplications
  friend bool operator==(const ContractConfig&, const ContractConfig&) = default;
};

/// Whether emit_contract handles the kernel as it stands (its packings included): the first statement is a
/// float contract with rows and columns, the others are maps over the same parallel variables.
bool can_emit_contract(const Target& target, const loop::Kernel& kernel, const ContractConfig& config = {});

struct ContractOption {
  ContractConfig config;
  double time = 1;                     ///< estimated, the first being 1
  std::vector<OperandLayout> layouts;  ///< that it wants
};

/// The emitter's own choice, then others that may turn out to be faster, each with a time of at least 1; empty when the
/// kernel is not handled. `winograd`: the last one is by tiles of results, where the kernel has such windows, with whatever time that takes.
std::vector<ContractOption> contract_options(const Target& target, const loop::Kernel& kernel,
                                             bool winograd = false);

struct ContractShape {
  int64_t tasks = 0;  ///< units of parallel work
  int64_t grain = 1;  ///< tasks that a worker should take at least
};

/// Fills the context's entry function from the builder's insert point on; the builder ends where the function
/// may return. Needs can_emit_contract with the same config. Rewrites the context's kernel: its strided buffers become
/// one-dimensional.
ContractShape emit_contract(KernelContext& context, const ContractConfig& config = {});

}  // namespace ferrite::emitter
