// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operands of matrix products that a code generator reads tile by tile, as whole vectors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// The number of contiguous elements of an operand that are accessed as one vector. Inner extents are
/// multiples of it.
inline constexpr int64_t product_lanes = 8;
/// The largest depth of a product that makes a matrix in tiles, and the largest number of results of one that
/// reads such a matrix.
inline constexpr int64_t product_features = 128;

/// An operand of a matrix product: a load without a mask.
struct ProductOperand {
  BufferId buffer = none;
  index::Expr address;  ///< the element number, including the buffer's offset
  /// Of operands that are read in tiles: true if neighbours along the depth of the product are contiguous;
  /// else those across it are.
  bool depth_inside = true;
};

/// The load below casts to wider floats; null if there is none, or it has a mask.
inline const BodyOp* load_below_casts(const Statement& statement, OpId id) {
  while (statement.ops[id].is_prim() && statement.ops[id].prim() == Prim::cast_ &&
         is_float(statement.ops[id].dtype) && is_float(statement.ops[statement.ops[id].a].dtype) &&
         bits_of(statement.ops[id].dtype) > bits_of(statement.ops[statement.ops[id].a].dtype))
    id = statement.ops[id].a;
  const auto& op = statement.ops[id];
  return op.code == FE_OP_LOAD && op.a == none ? &op : nullptr;
}

/// Checks the operands of a kernel's products, all of one type: f16 or bf16. Each function returns why an
/// operand cannot be read in whole vectors; empty: it can. Not thread-safe.
class ProductOperands {
 public:
  /// Keeps references. `pool` is the kernel's; new expressions are added to it.
  ProductOperands(index::Pool& pool, const Kernel& kernel) : pool_(pool), kernel_(kernel) {}

  DType dtype() const { return dtype_; }  ///< of the operands taken so far

  bool depends(const BodyOp& op, const Var& var) const {
    return var.extent > 1 && std::ranges::any_of(op.index, [&](index::Expr expr) {
             return pool_.depends_on(expr, var.symbol);
           });
  }

  std::string_view take(const BodyOp& load, ProductOperand& operand) {
    const auto& buffer = kernel_.buffers[load.buffer];
    constexpr uint32_t bytes = product_lanes * 2;
    if (buffer.kind == FE_BUFFER_LOCAL || buffer.kind == FE_BUFFER_OUTPUT || buffer.packing ||
        buffer.alignment < bytes)
      return "an operand is no plain input";
    if (load.dtype != f16 && load.dtype != bf16) return "its operands are no floats of 16 bits";
    if (dtype_ != DType::none && dtype_ != load.dtype) return "its operands are of different types";
    dtype_ = load.dtype;
    std::vector<index::Term> terms;
    for (size_t d = 0; d < load.index.size(); ++d) terms.push_back({load.index[d], buffer.strides[d]});
    operand.buffer = load.buffer;
    operand.address = pool_.linear(buffer.offset, terms);
    return {};
  }

  /// Whether groups of `count` neighbours along a variable are contiguous and begin at multiples of `count`.
  bool side_by_side(index::Expr address, const Var& along, int64_t count) const {
    const auto affine = pool_.affine(address);
    const auto whole = [&](int64_t coefficient) { return coefficient % count == 0; };
    bool found = false;
    for (const auto& [symbol, coefficient] : affine.terms) {
      if (symbol == along.symbol)
        found = coefficient == 1;
      else if (!whole(coefficient))
        return false;
    }
    return found && along.extent % count == 0 && whole(affine.constant) &&
           std::ranges::all_of(affine.rest, [&](const auto& term) {
             return whole(term.second) && !pool_.depends_on(term.first, along.symbol);
           });
  }

  /// The address is linear in both variables, and contiguous along one of them. Sets depth_inside.
  std::string_view lies_evenly(ProductOperand& operand, const Var& depth, const Var& across) const {
    for (const auto& var : {depth, across})
      if (!pool_.coefficient(operand.address, var.symbol)) return "an operand's address is not linear";
    operand.depth_inside = side_by_side(operand.address, depth, product_lanes);
    const bool even = operand.depth_inside || side_by_side(operand.address, across, product_lanes);
    return even ? std::string_view() : "of an operand no 8 elements lie side by side";
  }

  static std::string_view has_features(const Var& var) {
    const bool fits = var.extent <= product_features && var.extent % product_lanes == 0;
    return fits ? std::string_view() : "a row of its operands is no multiple of 8 elements up to 128";
  }

 private:
  index::Pool& pool_;
  const Kernel& kernel_;
  DType dtype_ = DType::none;
};

}  // namespace ferrite::inline v0::loop
