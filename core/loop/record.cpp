// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Over 600 lines because every recording call checks its arguments in the same words.
#include "core/loop/record.h"

#include <algorithm>
#include <cstring>

#include "core/loop/scalar.h"
#include "core/loop/verify.h"
#include "core/support/abi.h"

namespace ferrite::core::loop {
namespace {

template <class... Args>
Error misuse(fmt::format_string<Args...> format, Args&&... args) {
  return core::error(FE_EINVALID, "FE-K01", format, std::forward<Args>(args)...);
}
template <class... Args>
Error mistyped(fmt::format_string<Args...> format, Args&&... args) {
  return core::error(FE_EINVALID, "FE-K02", format, std::forward<Args>(args)...);
}

template <class T>
T at(const fe_array& array, uint64_t k) {
  T value;
  std::memcpy(&value, static_cast<const char*>(array.data) + k * array.stride, sizeof(T));
  return value;
}
template <class T>
bool readable(const fe_array& array) {
  return array.count == 0 ||
         (array.data != nullptr && array.stride >= sizeof(T) && array.count <= (1u << 20));
}

bool fits(DType dtype, uint64_t bits) {
  if (dtype == DType::bool_) return bits <= 1;
  return bits_of(dtype) == 64 || bits >> bits_of(dtype) == 0;
}

/// The result of a reduction over no points.
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

/// Replaces results of reductions over one point or none, and the states of a serial loop of one step, by what they are.
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

}  // namespace

/// The table's functions: check the call, keep the first error, hand out tokens.
struct RecorderSlots {
  static int32_t fail(Recorder& recorder, fe_call* call, Error error) {
    if (!recorder.error_) recorder.error_ = std::move(error);
    const Error& first = *recorder.error_;
    if (call && call->set_error)
      call->set_error(call->host, {first.code.data(), first.code.size()},
                      {first.text.data(), first.text.size()});
    return first.status;
  }
  template <auto Method, class Args>
  static int32_t token(void* self, fe_call* call, const Args* args, fe_token_out* out) {
    if (out) out->token = 0;
    int32_t refused = FE_OK;
    auto* lent = Loan<fe_lower_api, Recorder>::owner_of(self, call, refused);
    if (!lent) return refused;
    auto& recorder = *lent;
    if (recorder.error_) return fail(recorder, call, *recorder.error_);
    auto result = (recorder.*Method)(abi::read(args));
    if (!result) return fail(recorder, call, std::move(result.error()));
    if (out) out->token = *result;
    return FE_OK;
  }
  template <auto Method, class Args>
  static int32_t action(void* self, fe_call* call, const Args* args, fe_none*) {
    int32_t refused = FE_OK;
    auto* lent = Loan<fe_lower_api, Recorder>::owner_of(self, call, refused);
    if (!lent) return refused;
    auto& recorder = *lent;
    if (recorder.error_) return fail(recorder, call, *recorder.error_);
    auto result = (recorder.*Method)(abi::read(args));
    if (!result) return fail(recorder, call, std::move(result.error()));
    return FE_OK;
  }
  static int32_t end(void* self, fe_call* call, const fe_none*, fe_none*) {
    int32_t refused = FE_OK;
    auto* lent = Loan<fe_lower_api, Recorder>::owner_of(self, call, refused);
    if (!lent) return refused;
    auto& recorder = *lent;
    if (recorder.error_) return fail(recorder, call, *recorder.error_);
    auto result = recorder.end();
    if (!result) return fail(recorder, call, std::move(result.error()));
    return FE_OK;
  }
  static fe_lower_api table() {
    fe_lower_api api{};
    api.size = sizeof api;
    api.rev = 1;
    api.temp = token<&Recorder::temp, fe_temp_args>;
    api.begin = token<&Recorder::begin, fe_begin_args>;
    api.end = end;
    api.index = token<&Recorder::index, fe_index_args>;
    api.load = token<&Recorder::load, fe_load_args>;
    api.constant = token<&Recorder::constant, fe_constant_args>;
    api.prim = token<&Recorder::prim, fe_prim_args>;
    api.index_value = token<&Recorder::index_value, fe_index_value_args>;
    api.indirect = token<&Recorder::indirect, fe_indirect_args>;
    api.reduce = token<&Recorder::reduce, fe_reduce_args>;
    api.contract = token<&Recorder::contract, fe_contract_args>;
    api.carry = token<&Recorder::carry, fe_carry_args>;
    api.set_carry = action<&Recorder::set_carry, fe_set_carry_args>;
    api.store = action<&Recorder::store, fe_store_args>;
    api.call = action<&Recorder::call, fe_call_args>;
    return api;
  }
};

Recorder::Recorder(LoopProgram& program) : program_(program), loan_(this, RecorderSlots::table()) {}

void Recorder::bind(std::span<const BufferId> operands, std::span<const BufferId> results, Origin origin) {
  error_.reset();
  open_ = false;
  origin_ = std::move(origin);
  slots_.clear();
  for (BufferId id : operands) slots_.push_back({id, false, id != none});
  for (BufferId id : results) slots_.push_back({id, true, false});
  operand_count_ = operands.size();
  result_count_ = results.size();
  buffers_at_bind_ = program_.buffers.size();
  statements_at_bind_ = program_.statements.size();
}

void Recorder::cancel() {
  program_.buffers.resize(buffers_at_bind_);
  program_.statements.resize(statements_at_bind_);
  slots_.clear();
  open_ = false;
}

Result<std::vector<BufferId>> Recorder::finish() {
  std::vector<BufferId> versions;
  if (!error_ && open_) error_ = misuse("the lowering of {} left a statement open", origin_.op);
  for (size_t k = 0; k < result_count_ && !error_; ++k) {
    const auto& slot = slots_[operand_count_ + k];
    if (!slot.written && program_.buffers[slot.buffer].elements() > 0)
      error_ = misuse("the lowering of {} did not write result {}", origin_.op, k);
    versions.push_back(slot.buffer);
  }
  if (!error_) return versions;
  cancel();
  return core::at(origin_.label(), *error_);
}

Result<void> Recorder::need_open() const {
  if (!open_) return misuse("the call belongs between begin and end");
  return {};
}

Result<OpId> Recorder::value_of(fe_value_token token, const char* what) const {
  const uint32_t id = token - value_base_ - 1;
  if (token <= value_base_ || id >= statement_.ops.size())
    return misuse("{} is not a value of this statement (token {})", what, token);
  if (statement_.ops[id].code == FE_OP_INDIRECT) return misuse("{} is an index, not a value", what);
  return id;
}

Result<Recorder::Slot*> Recorder::slot_of(fe_buffer_token token) {
  if (token == 0 || token > slots_.size()) return misuse("there is no buffer with token {}", token);
  Slot* slot = &slots_[token - 1];
  if (slot->buffer == none) return misuse("operand {} is absent", token - 1);
  return slot;
}

uint32_t Recorder::index_token(index::Expr expr) {
  indices_.push_back(expr);
  return index_base_ + static_cast<uint32_t>(indices_.size());
}

Result<std::vector<index::Expr>> Recorder::indices_of(const fe_array& tokens, const Buffer& buffer) const {
  if (!readable<fe_index_token>(tokens)) return misuse("the array of indices is not readable");
  if (tokens.count != buffer.dims.size())
    return misuse("{} indices for a buffer of {} dims", tokens.count, buffer.dims.size());
  std::vector<index::Expr> result;
  for (uint64_t k = 0; k < tokens.count; ++k) {
    const auto token = at<fe_index_token>(tokens, k);
    if (token <= index_base_ || token - index_base_ > indices_.size())
      return misuse("index {} is not an index of this statement (token {})", k, token);
    result.push_back(indices_[token - index_base_ - 1]);
  }
  return result;
}

Result<uint32_t> Recorder::temp(const fe_temp_args& args) {
  ProgramBuffer buffer;
  buffer.dtype = static_cast<DType>(args.type.dtype);
  if (!ferrite::loop::is_computable(buffer.dtype))
    return core::error(FE_EUNSUPPORTED, "FE-K04", "a temporary of element type {} is not supported",
                       name_of(buffer.dtype));
  if (args.type.rank > ferrite::loop::max_rank || (args.type.rank > 0 && !args.type.dims))
    return misuse("the temporary's dims are not readable");
  buffer.dims.assign(args.type.dims, args.type.dims + args.type.rank);
  for (int64_t dim : buffer.dims)
    if (dim < 0) return misuse("a temporary needs known dims");
  buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
  if (auto fault = ferrite::loop::find_fault(buffer)) return misuse("temporary: {}", *fault);
  slots_.push_back({static_cast<BufferId>(program_.buffers.size()), true, false});
  program_.buffers.push_back(std::move(buffer));
  return static_cast<uint32_t>(slots_.size());
}

Result<uint32_t> Recorder::begin(const fe_begin_args& args) {
  if (open_) return misuse("begin inside a statement; end the last one first");
  if (!readable<fe_var>(args.vars) || args.vars.count > ferrite::loop::max_vars)
    return misuse("the array of variables is not readable, or has more than 64");
  value_base_ += static_cast<uint32_t>(statement_.ops.size());
  index_base_ += static_cast<uint32_t>(indices_.size());
  statement_ = {};
  indices_.clear();
  store_tokens_.clear();
  std::vector<Var> vars;
  int64_t points = 1;
  for (uint64_t k = 0; k < args.vars.count; ++k) {
    const auto given = at<fe_var>(args.vars, k);
    if (given.kind > FE_VAR_SERIAL || (k > 0 && given.kind < static_cast<uint32_t>(vars.back().kind)))
      return misuse("variable {}: parallel variables come first, then reduction, then serial", k);
    if (given.extent < 0 || given.extent > ferrite::loop::max_extent ||
        (given.extent > 0 && points > ferrite::loop::max_extent / given.extent))
      return misuse("variable {} has extent {}, or the domain is too large", k, given.extent);
    points *= std::max<int64_t>(given.extent, 1);
    const auto symbol = program_.pool.new_symbol({0, given.extent - 1});
    vars.push_back({symbol, given.extent, static_cast<VarKind>(given.kind)});
  }
  statement_.vars = std::move(vars);
  open_ = true;
  body_.emplace(program_.pool, statement_.ops);
  for (const auto& var : statement_.vars) index_token(program_.pool.symbol(var.symbol));
  // Without variables no token is given out; the first index to come has this one.
  return index_base_ + 1;
}

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
  // The same value indexed in the same way is the same symbol.
  for (const auto& known : statement_.ops)
    if (known.code == op.code && known.a == op.a && known.flags == op.flags && known.bits == op.bits)
      return index_token(program_.pool.symbol(known.symbol));
  op.symbol = program_.pool.new_symbol({0, args.extent - 1});
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
  // Without an accumulator of its own the result has the element's type.
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
    // Where folding has made a constant of an operand there is no contract, only a sum of products.
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

/// The buffer that a statement writes: the slot's own, or a new version of it where it has contents.
BufferId Recorder::write(Slot& slot) {
  if (slot.written) {
    ProgramBuffer version = program_.buffers[slot.buffer];
    version.base = program_.storage(slot.buffer);
    ++version.version;
    slot.buffer = static_cast<BufferId>(program_.buffers.size());
    program_.buffers.push_back(std::move(version));
  }
  slot.written = true;
  return slot.buffer;
}

Result<void> Recorder::end() {
  if (!open_) return misuse("end without begin");
  open_ = false;
  auto& s = statement_;
  if (s.stores.empty()) return misuse("the statement stores nothing");
  for (const auto& carry : s.carries)
    if (carry.next == none) return misuse("the next value of a carried state was not set");
  if (s.has(VarKind::serial) && (s.has(VarKind::reduction) || !s.reductions.empty()))
    return misuse("serial and reduction variables do not go together; use two statements");
  const bool empty = s.points(VarKind::parallel) == 0 || s.points(VarKind::serial) == 0;
  // A loop of no points whose stores happen at each of them writes nothing.
  ProgramStatement done = s;
  done.origins = {origin_};
  flatten_trivial_loops(program_.pool, done);
  if (s.points(VarKind::reduction) == 0) {
    const auto every_point = ferrite::loop::place(program_.pool, s).every_point;
    size_t k = 0;
    std::erase_if(done.stores, [&](const Store&) { return every_point[k++]; });
  }
  remove_dead(program_.pool, done);
  done.kind = ferrite::loop::derived_kind(program_.pool, done);
  std::vector<const Buffer*> buffers;
  for (const auto& buffer : program_.buffers) buffers.push_back(&buffer);
  const bool runs = !empty && !done.stores.empty();
  if (runs)
    if (auto fault = ferrite::loop::find_fault(program_.pool, buffers, done))
      return core::error(FE_EINVALID, "FE-K03", "the lowering's statement is not well-formed: {}", *fault);
  // Each buffer that the statement writes gets one new version, which all of its stores share.
  std::unordered_map<uint32_t, std::pair<BufferId, BufferId>> versions;
  for (uint32_t token : store_tokens_) {
    if (versions.count(token)) continue;
    auto& slot = slots_[token - 1];
    const BufferId before = slot.buffer;
    if (!runs)
      slot.written = true;
    else
      versions[token] = {before, write(slot)};
  }
  if (!runs) return {};
  for (auto& store : done.stores)
    for (const auto& [token, version] : versions)
      if (store.buffer == version.first) {
        store.buffer = version.second;
        break;
      }
  program_.statements.push_back(std::move(done));
  return {};
}

Result<void> Recorder::call(const fe_call_args& args) {
  if (open_) return misuse("a call stands outside of begin and end");
  if (!args.function) return misuse("the call has no function");
  if (!readable<fe_buffer_token>(args.reads) || !readable<fe_buffer_token>(args.writes))
    return misuse("the arrays of buffers are not readable");
  ProgramStatement statement;
  statement.kind = FE_STATEMENT_CALL;
  statement.origins = {origin_};
  statement.call.name.assign(args.name.data ? args.name.data : "", args.name.data ? args.name.length : 0);
  statement.call.function = args.function;
  statement.call.self = args.self;
  for (uint64_t k = 0; k < args.reads.count; ++k) {
    FE_TRY(Slot * slot, slot_of(at<fe_buffer_token>(args.reads, k)));
    if (!slot->written && program_.buffers[slot->buffer].elements() > 0)
      return misuse("a call reads a buffer that was not written");
    statement.call.reads.push_back(slot->buffer);
  }
  for (uint64_t k = 0; k < args.writes.count; ++k) {
    FE_TRY(Slot * slot, slot_of(at<fe_buffer_token>(args.writes, k)));
    if (!slot->writable) return misuse("a call writes an operand, which is read only");
    statement.call.writes.push_back(write(*slot));
  }
  program_.statements.push_back(std::move(statement));
  return {};
}

}  // namespace ferrite::core::loop
