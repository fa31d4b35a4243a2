// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/body.h"

namespace ferrite::core::schedule {

OpId BodyWriter::prim(Prim prim, DType dtype, OpId a, OpId b, OpId c) {
  BodyOp op;
  op.code = static_cast<uint16_t>(prim);
  op.dtype = dtype;
  op.a = a;
  op.b = b;
  op.c = c;
  return builder.add(std::move(op));
}

std::vector<OpId> BodyWriter::splice(const std::vector<BodyOp>& source, Substitution substitution, OpId mask,
                                     const Replace& replace) {
  std::vector<OpId> numbers(source.size(), none);
  auto translate = [&](OpId id) { return id == none ? none : numbers[id]; };
  for (size_t k = 0; k < source.size(); ++k) {
    BodyOp op = source[k];
    op.a = translate(op.a);
    op.b = translate(op.b);
    op.c = translate(op.c);
    if (!substitution.empty())
      for (auto& expr : op.index) expr = pool.substitute(expr, substitution);
    if (op.code == FE_OP_LOAD) {
      if (mask != none) {
        op.b = op.a == none ? builder.constant(op.dtype, 0) : op.b;
        op.a = op.a == none ? mask : prim(Prim::and_, DType::bool_, mask, op.a);
      }
      if (auto other = replace ? replace(op) : std::nullopt) {
        numbers[k] = *other;
        continue;
      }
    }
    if (op.code == FE_OP_INDIRECT) {
      // Another copy of the body may already have bound this symbol to another value.
      index::Symbol old = op.symbol;
      op.symbol = pool.new_symbol(pool.symbol_range(old));
      numbers[k] = builder.add(std::move(op));
      substitution.emplace_back(old, pool.symbol(ops[numbers[k]].symbol));
      continue;
    }
    numbers[k] = builder.add(std::move(op));
  }
  return numbers;
}

void renumber(Statement& statement, const std::vector<OpId>& numbers) {
  auto translate = [&](OpId& id) { id = id == none ? none : numbers[id]; };
  for (auto& reduction : statement.reductions) {
    translate(reduction.element);
    translate(reduction.index);
  }
  for (auto& carry : statement.carries) translate(carry.next);
  for (auto& store : statement.stores) {
    translate(store.value);
    translate(store.mask);
  }
  translate(statement.contract_a);
  translate(statement.contract_b);
}

}  // namespace ferrite::core::schedule
