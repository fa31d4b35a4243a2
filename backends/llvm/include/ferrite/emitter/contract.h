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
};

/// Whether emit_contract handles the kernel as it stands (its packings included): the first statement is a
/// float contract with rows and columns, the others are maps over the same parallel variables.
bool can_emit_contract(const Target& target, const loop::Kernel& kernel);

/// The layouts that make the kernel fastest; empty when none is wanted or the kernel is not handled.
std::vector<OperandLayout> propose_contract_layouts(const Target& target, const loop::Kernel& kernel);

struct ContractShape {
  int64_t tasks = 0;  ///< units of parallel work
  int64_t grain = 1;  ///< tasks that a worker should take at least
};

/// Fills the context's entry function from the builder's insert point on; the builder ends where the function
/// may return. Needs can_emit_contract. Rewrites the context's kernel: its strided buffers become
/// one-dimensional.
ContractShape emit_contract(KernelContext& context);

}  // namespace ferrite::emitter
