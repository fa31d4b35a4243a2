// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The recorder's functions for the body of a statement.
#include "core/ir/loop/record.h"
#include "core/ir/loop/record_checks.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::loop {

using record::at;
using record::fits;
using record::mistyped;
using record::misuse;
using record::readable;

Result<uint32_t> Recorder::index(const fe_index_args& args) {
  FE_CHECK(need_open());
  auto& pool = program_.pool;
  if (args.op == FE_INDEX_CONSTANT) return index_token(pool.constant(args.constant));
  for (fe_index_token token : {args.a, args.b})
    if (token <= index_base_ || token - index_base_ > indices_.size())
      return misuse("an operand is not an index of this statement (token {})", token);
  const index::Expr a = indices_[args.a - index_base_ - 1], b = indices_[args.b - index_base_ - 1];
  if (args.op == FE_INDEX_FLOORDIV || args.op == FE_INDEX_MOD) {
    const auto range = pool.range(b);
    if (range.lo <= 0 && range.hi >= 0)
      return misuse("an index is divided by {}, which may be 0", pool.print(b));
  }
  switch (args.op) {
    case FE_INDEX_ADD: return index_token(pool.add(a, b));
    case FE_INDEX_MUL: return index_token(pool.mul(a, b));
    case FE_INDEX_FLOORDIV: return index_token(pool.floordiv(a, b));
    case FE_INDEX_MOD: return index_token(pool.mod(a, b));
    case FE_INDEX_MIN: return index_token(pool.min(a, b));
    case FE_INDEX_MAX: return index_token(pool.max(a, b));
    default: return misuse("there is no index operation {}", args.op);
  }
}

Result<uint32_t> Recorder::load(const fe_load_args& args) {
  FE_CHECK(need_open());
  FE_TRY(Slot * slot, slot_of(args.buffer));
  const auto& buffer = program_.buffers[slot->buffer];
  if (!slot->written && buffer.elements() > 0)
    return misuse("buffer {} is read before a statement has written it", args.buffer);
  if (!ferrite::loop::is_computable(buffer.dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "loads of element type {} are not supported",
                       name_of(buffer.dtype));
  BodyOp op;
  op.code = FE_OP_LOAD;
  op.dtype = buffer.dtype;
  op.buffer = slot->buffer;
  FE_TRY(op.index, indices_of(args.index, buffer));
  if (args.mask != 0) {
    FE_TRY(op.a, value_of(args.mask, "the mask"));
    FE_TRY(op.b, value_of(args.other, "the value for where the mask does not hold"));
    if (statement_.ops[op.a].dtype != DType::bool_)
      return mistyped("the mask of a load is {}, not bool", name_of(statement_.ops[op.a].dtype));
    if (statement_.ops[op.b].dtype != op.dtype)
      return mistyped("a masked load of {} gives {} elsewhere", name_of(op.dtype),
                      name_of(statement_.ops[op.b].dtype));
  } else if (args.other != 0) {
    return misuse("a load without a mask has a value for elsewhere");
  }
  return value_token(body_->add(std::move(op)));
}

Result<uint32_t> Recorder::constant(const fe_constant_args& args) {
  FE_CHECK(need_open());
  const auto dtype = static_cast<DType>(args.dtype);
  if (!ferrite::loop::is_computable(dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "constants of element type {} are not supported",
                       name_of(dtype));
  if (!fits(dtype, args.bits))
    return mistyped("the bits {:#x} are too many for a constant of {}", args.bits, name_of(dtype));
  return value_token(body_->constant(dtype, args.bits));
}

Result<uint32_t> Recorder::prim(const fe_prim_args& args) {
  FE_CHECK(need_open());
  const auto* info = find_prim(args.prim);
  if (!info) return misuse("there is no primitive {}", args.prim);
  BodyOp op;
  op.code = static_cast<uint16_t>(args.prim);
  DType types[3] = {DType::none, DType::none, DType::none};
  const fe_value_token tokens[3] = {args.a, args.b, args.c};
  OpId* ids[3] = {&op.a, &op.b, &op.c};
  for (int k = 0; k < 3; ++k) {
    if (k >= info->operands) {
      if (tokens[k] != 0) return misuse("{} takes {} operands", info->name, info->operands);
      continue;
    }
    FE_TRY(*ids[k], value_of(tokens[k], "an operand"));
    types[k] = statement_.ops[*ids[k]].dtype;
  }
  const auto requested = static_cast<DType>(args.dtype);
  op.dtype = ferrite::loop::result_type(info->prim, types[0], types[1], types[2], requested);
  if (op.dtype == DType::none) {
    std::string operands(name_of(types[0]));
    for (int k = 1; k < info->operands; ++k) operands += fmt::format(", {}", name_of(types[k]));
    const bool casts = info->prim == Prim::cast_ || info->prim == Prim::bitcast_;
    return mistyped("{}({}){}{} does not fit: operands must have one type that the primitive takes",
                    info->name, operands, casts ? " to " : "", casts ? name_of(requested) : "");
  }
  return value_token(body_->add(std::move(op)));
}

Result<uint32_t> Recorder::index_value(const fe_index_value_args& args) {
  FE_CHECK(need_open());
  if (args.index <= index_base_ || args.index - index_base_ > indices_.size())
    return misuse("it is not an index of this statement (token {})", args.index);
  const auto dtype = static_cast<DType>(args.dtype);
  if (!is_integer(dtype) && !is_float(dtype))
    return mistyped("an index has no value of type {}", name_of(dtype));
  if (!ferrite::loop::is_computable(dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "values of element type {} are not supported",
                       name_of(dtype));
  BodyOp op;
  op.code = FE_OP_INDEX;
  op.dtype = dtype == DType::i32_ ? DType::i32_ : DType::i64_;
  op.index = {indices_[args.index - index_base_ - 1]};
  return value_token(body_->cast(body_->add(std::move(op)), dtype));
}

Result<uint32_t> Recorder::indirect(const fe_indirect_args& args) {
  FE_CHECK(need_open());
  BodyOp op;
  op.code = FE_OP_INDIRECT;
  FE_TRY(op.a, value_of(args.value, "the value of indirect"));
  if (!is_integer(statement_.ops[op.a].dtype))
    return mistyped("indirect needs an integer, not {}", name_of(statement_.ops[op.a].dtype));
  if (args.mode > FE_INDIRECT_ASSUME) return misuse("there is no indirect mode {}", args.mode);
  if (args.extent < 0 || args.extent > ferrite::loop::max_extent)
    return misuse("the extent {} of indirect is not that of a dim", args.extent);
  op.flags = args.mode;
  op.bits = static_cast<uint64_t>(args.extent);
  // The same value indexed with the same mode and extent gives the same symbol.
  for (const auto& known : statement_.ops)
    if (known.code == op.code && known.a == op.a && known.flags == op.flags && known.bits == op.bits)
      return index_token(program_.pool.symbol(known.symbol));
  op.symbol = program_.pool.new_computed_symbol({0, args.extent - 1});
  const auto token = index_token(program_.pool.symbol(op.symbol));
  body_->add(std::move(op));
  return token;
}

uint32_t Recorder::add_reduction(Reduction reduction) {
  auto& list = statement_.reductions;
  uint32_t number = 0;
  while (number < list.size() &&
         (list[number].kind != reduction.kind || list[number].element != reduction.element ||
          list[number].index != reduction.index || list[number].accumulator != reduction.accumulator))
    ++number;
  if (number == list.size()) list.push_back(reduction);
  BodyOp op;
  op.code = FE_OP_REDUCED;
  op.dtype = ferrite::loop::reduced_type(reduction);
  op.bits = number;
  return body_->add(std::move(op));
}

Result<uint32_t> Recorder::reduce(const fe_reduce_args& args) {
  FE_CHECK(need_open());
  Reduction reduction;
  reduction.kind = args.kind;
  if (args.kind < FE_REDUCE_SUM || args.kind > FE_REDUCE_ARGMIN)
    return misuse("there is no reduction {}", args.kind);
  FE_TRY(reduction.element, value_of(args.element, "the element"));
  const DType element = statement_.ops[reduction.element].dtype;
  const bool arg = ferrite::loop::is_arg_reduction(args.kind);
  if (arg) {
    FE_TRY(reduction.index, value_of(args.index, "the index"));
    if (statement_.ops[reduction.index].dtype != DType::i64_)
      return mistyped("the index of argmax and argmin is i64");
  } else if (args.index != 0) {
    return misuse("only argmax and argmin take an index");
  }
  const auto given = static_cast<DType>(args.accumulator);
  reduction.accumulator =
      given == DType::none ? ferrite::loop::default_accumulator(args.kind, element) : given;
  if (!ferrite::loop::accumulates(args.kind, element, reduction.accumulator))
    return mistyped("{} of {} does not accumulate in {}", ferrite::loop::reduction_name(args.kind),
                    name_of(element), name_of(reduction.accumulator));
  if (statement_.contract_a != none) return misuse("a contract statement has no other reduction");
  const OpId reduced = add_reduction(reduction);
  // Without an explicit accumulator type the result has the element's type.
  return value_token(arg || given != DType::none ? reduced : body_->cast(reduced, element));
}

Result<uint32_t> Recorder::contract(const fe_contract_args& args) {
  FE_CHECK(need_open());
  if (args.kind > FE_CONTRACT_CONV) return misuse("there is no contract kind {}", args.kind);
  if (!statement_.reductions.empty()) return misuse("a contract is the only reduction of its statement");
  FE_TRY(OpId a, value_of(args.a, "the first operand"));
  FE_TRY(OpId b, value_of(args.b, "the second operand"));
  const DType type = statement_.ops[a].dtype;
  const auto given = static_cast<DType>(args.accumulator);
  if (given == DType::none && statement_.ops[b].dtype != type)
    return mistyped("a contract of {} and {} needs an accumulator type", name_of(type),
                    name_of(statement_.ops[b].dtype));
  const DType accumulator = given == DType::none ? compute_type(type) : given;
  for (OpId operand : {a, b}) {
    if (!ferrite::loop::accumulates(FE_REDUCE_SUM, statement_.ops[operand].dtype, accumulator))
      return mistyped("a contract of {} does not accumulate in {}", name_of(statement_.ops[operand].dtype),
                      name_of(accumulator));
    OpId load = operand;
    while (statement_.ops[load].code == static_cast<uint16_t>(Prim::cast_)) load = statement_.ops[load].a;
    // If folding turned an operand into a constant, this is a plain sum of products and no contract.
    if (statement_.ops[load].code != FE_OP_LOAD && statement_.ops[load].code != FE_OP_CONSTANT)
      return misuse("an operand of a contract must be a load, or casts of one");
    (operand == a ? statement_.contract_a : statement_.contract_b) = load;
    if (a == b) statement_.contract_b = load;
  }
  if (statement_.ops[statement_.contract_a].code != FE_OP_LOAD ||
      statement_.ops[statement_.contract_b].code != FE_OP_LOAD)
    statement_.contract_a = statement_.contract_b = none;
  else
    statement_.contract_kind = args.kind;
  BodyOp product;
  product.code = static_cast<uint16_t>(Prim::mul_);
  product.dtype = accumulator;
  product.a = body_->cast(a, accumulator);
  product.b = body_->cast(b, accumulator);
  Reduction sum;
  sum.kind = FE_REDUCE_SUM;
  sum.accumulator = accumulator;
  sum.element = body_->add(std::move(product));
  const OpId reduced = add_reduction(sum);
  return value_token(given == DType::none ? body_->cast(reduced, type) : reduced);
}

Result<uint32_t> Recorder::carry(const fe_carry_args& args) {
  FE_CHECK(need_open());
  const auto dtype = static_cast<DType>(args.dtype);
  if (!ferrite::loop::is_computable(dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "states of element type {} are not supported",
                       name_of(dtype));
  if (!fits(dtype, args.init_bits))
    return mistyped("the initial bits {:#x} are too many for {}", args.init_bits, name_of(dtype));
  if (!statement_.has(VarKind::serial)) return misuse("a carried state needs a serial variable");
  BodyOp op;
  op.code = FE_OP_CARRIED;
  op.dtype = dtype;
  op.bits = statement_.carries.size();
  statement_.carries.push_back({dtype, args.init_bits, none});
  return value_token(body_->add(std::move(op)));
}

Result<void> Recorder::set_carry(const fe_set_carry_args& args) {
  FE_CHECK(need_open());
  FE_TRY(OpId carried, value_of(args.carried, "the carried state"));
  FE_TRY(OpId next, value_of(args.next, "the next state"));
  if (statement_.ops[carried].code != FE_OP_CARRIED)
    return misuse("set_carry is given a value that carry did not give");
  auto& carry = statement_.carries[statement_.ops[carried].bits];
  if (carry.next != none) return misuse("the next value of a carried state is set twice");
  if (statement_.ops[next].dtype != carry.dtype)
    return mistyped("a carried state of {} gets a next value of {}", name_of(carry.dtype),
                    name_of(statement_.ops[next].dtype));
  carry.next = next;
  return {};
}

Result<void> Recorder::store(const fe_store_args& args) {
  FE_CHECK(need_open());
  FE_TRY(Slot * slot, slot_of(args.buffer));
  if (!slot->writable) return misuse("operand {} is read only; copy it to a result first", args.buffer - 1);
  const auto& buffer = program_.buffers[slot->buffer];
  Store store;
  store.buffer = slot->buffer;
  store.mode = args.mode;
  if (args.mode > FE_STORE_MIN) return misuse("there is no store mode {}", args.mode);
  if (args.mode != FE_STORE_SET && !slot->written && buffer.elements() > 0)
    return misuse("a store combines with buffer {}, which has no contents; fill it in a statement before",
                  args.buffer);
  if (!ferrite::loop::is_computable(buffer.dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "stores of element type {} are not supported",
                       name_of(buffer.dtype));
  FE_TRY(store.index, indices_of(args.index, buffer));
  FE_TRY(store.value, value_of(args.value, "the stored value"));
  const DType type = statement_.ops[store.value].dtype;
  if (type != buffer.dtype) {
    if (!is_float(type) || !is_float(buffer.dtype) || type != compute_type(buffer.dtype))
      return mistyped("a value of {} is stored to a buffer of {}; cast it", name_of(type),
                      name_of(buffer.dtype));
    store.value = body_->cast(store.value, buffer.dtype);
  }
  if (args.mask != 0) {
    FE_TRY(store.mask, value_of(args.mask, "the mask"));
    const auto& mask = statement_.ops[store.mask];
    if (mask.dtype != DType::bool_)
      return mistyped("the mask of a store is {}, not bool", name_of(mask.dtype));
    if (mask.code == FE_OP_CONSTANT && mask.bits == 1) store.mask = none;
  }
  statement_.stores.push_back(std::move(store));
  store_tokens_.push_back(args.buffer);
  return {};
}

}  // namespace ferrite::core::loop
