// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the values of a body that are only moved. Such a value must keep its bits, including those of every
// NaN. A code generator must therefore not convert it to the arithmetic type and back; it handles the value
// as the dtype's bits in memory.
#pragma once

#include <cmath>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

struct MovedValues {
  /// By operation of a float type: its result is only moved. It is a load, a constant, a bitcast, or a
  /// selection among such values.
  std::vector<bool> whole;
  /// By operation of a float type: it is `whole`, or a selection between moved and computed values.
  std::vector<bool> part;
  /// By carry of a float type: each value that it takes is only moved.
  std::vector<bool> carries;
};

/// `statement` must be valid: operands precede their users.
inline MovedValues moved_values(const Statement& statement) {
  const auto& ops = statement.ops;
  MovedValues moved;
  for (const auto& carry : statement.carries) moved.carries.push_back(is_float(carry.dtype));
  const auto classify = [&](OpId id) {
    const auto& op = ops[id];
    const auto set = [&](bool whole, bool part) {
      moved.whole[id] = whole;
      moved.part[id] = whole || part;
    };
    const auto whole = [&](OpId operand) { return bool{moved.whole[operand]}; };
    // Numbers survive conversions, but the payload of a NaN does not.
    const auto has_bits = [&](OpId operand) {
      const auto& from = ops[operand];
      return from.code == FE_OP_CONSTANT ? std::isnan(float_value(from.dtype, from.bits))
                                         : bool{moved.part[operand]};
    };
    if (op.code == FE_OP_CONSTANT) return set(true, true);
    if (op.code == FE_OP_CARRIED) return set(moved.carries[op.bits], false);
    if (op.code == FE_OP_LOAD) return set(op.b == none || whole(op.b), true);
    if (!op.is_prim()) return;
    switch (op.prim()) {
      case Prim::bitcast_: return set(true, true);
      case Prim::cast_:
        if (ops[op.a].dtype == op.dtype) set(whole(op.a), has_bits(op.a));
        return;
      case Prim::where_: return set(whole(op.b) && whole(op.c), has_bits(op.b) || has_bits(op.c));
      default: return;
    }
  };
  for (bool again = true; again;) {
    again = false;
    moved.whole.assign(ops.size(), false);
    moved.part.assign(ops.size(), false);
    for (OpId id = 0; id < ops.size(); ++id)
      if (is_float(ops[id].dtype)) classify(id);
    for (size_t k = 0; k < statement.carries.size(); ++k) {
      if (!moved.carries[k] || moved.whole[statement.carries[k].next]) continue;
      moved.carries[k] = false;
      again = true;
    }
  }
  return moved;
}

/// The unsigned integer type with the width of a float type, for its bits.
constexpr DType bits_type(DType dtype) {
  switch (bits_of(dtype)) {
    case 8: return u8;
    case 16: return u16;
    case 32: return u32;
    default: return u64;
  }
}

}  // namespace ferrite::inline v0::loop
