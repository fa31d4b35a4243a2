// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/trivial_loops.h"

#include <cmath>
#include <vector>

#include "core/ir/loop/body_builder.h"
#include "core/ir/loop/scalar.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::loop {

uint64_t identity_bits(const Reduction& reduction) {
  const DType dtype = reduction.accumulator;
  const bool floats = is_float(dtype);
  switch (reduction.kind) {
    case FE_REDUCE_PROD: return floats ? scalar::float_bits(dtype, 1) : 1;
    case FE_REDUCE_ALL: return 1;
    case FE_REDUCE_MAX:
      return floats ? scalar::float_bits(dtype, -INFINITY)
                    : scalar::int_bits(dtype, scalar::lowest_int(dtype));
    case FE_REDUCE_MIN:
      return floats ? scalar::float_bits(dtype, INFINITY)
                    : scalar::int_bits(dtype, scalar::highest_int(dtype));
    default: return 0;
  }
}

void flatten_trivial_loops(index::Pool& pool, Statement& s) {
  const bool no_reduction = s.points(VarKind::reduction) <= 1;
  const bool no_serial = s.points(VarKind::serial) <= 1;
  const bool none_left = s.points(VarKind::reduction) == 0;
  std::erase_if(s.vars, [&](const Var& var) {
    return var.extent == 1 || (var.kind == VarKind::reduction && no_reduction) ||
           (var.kind == VarKind::serial && no_serial);
  });
  const bool reduces = no_reduction && !s.reductions.empty(), carries = no_serial && !s.carries.empty();
  if (!reduces && !carries) return;
  std::vector<BodyOp> ops;
  BodyBuilder body(pool, ops);
  std::vector<OpId> to;
  auto move = [&](OpId& id) {
    if (id != none) id = to[id];
  };
  for (auto op : s.ops) {
    move(op.a), move(op.b), move(op.c);
    if (op.code == FE_OP_REDUCED && reduces) {
      const auto& reduction = s.reductions[op.bits];
      const bool arg = ferrite::loop::is_arg_reduction(reduction.kind);
      if (none_left)
        to.push_back(body.constant(op.dtype, identity_bits(reduction)));
      else
        to.push_back(arg ? to[reduction.index] : body.cast(to[reduction.element], op.dtype));
    } else if (op.code == FE_OP_CARRIED && carries) {
      to.push_back(body.constant(op.dtype, s.carries[op.bits].init_bits));
    } else {
      to.push_back(body.add(std::move(op)));
    }
  }
  s.ops = std::move(ops);
  if (carries) s.carries.clear();
  if (reduces) {
    s.reductions.clear();
    s.contract_a = s.contract_b = none;
    s.contract_kind = FE_CONTRACT_GENERIC;
  }
  for (auto& reduction : s.reductions) move(reduction.element), move(reduction.index);
  for (auto& carry : s.carries) move(carry.next);
  for (auto& store : s.stores) move(store.value), move(store.mask);
  move(s.contract_a), move(s.contract_b);
}

}  // namespace ferrite::core::loop
