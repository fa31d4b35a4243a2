// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/record.h"

#include <algorithm>

#include "core/ir/loop/index_size.h"
#include "core/ir/loop/record_checks.h"
#include "core/ir/loop/trivial_loops.h"
#include "core/support/abi/abi.h"
#include "ferrite/counted.hpp"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::loop {

using record::at;
using record::misuse;
using record::readable;

/// The functions of the table. They check each call, keep the first error and issue tokens.
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
    // Token 0 is the poison token. It stays if the call is refused or fails.
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
  // The pool keeps its new symbols: no statement of the program refers to them any more.
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
    // A result without elements needs no store.
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
  // Wraps around for a token of an earlier statement, which the first test refuses.
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
    return misuse("{} for a buffer of {}", counted(tokens.count, "index", "indices"),
                  counted(buffer.dims.size(), "dim"));
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
  if (args.vars.count > ferrite::loop::max_vars)
    return misuse("a nest of {} variables, and {} is the most; give the operands fewer dims", args.vars.count,
                  ferrite::loop::max_vars);
  if (!readable<fe_var>(args.vars)) return misuse("the array of variables is not readable");
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
    // An extent of 0 counts as 1, so that the product still limits the other extents.
    points *= std::max<int64_t>(given.extent, 1);
    // That of no points stays a symbol, so that end() finds what depends on it.
    const auto symbol = program_.pool.new_symbol({0, given.extent == 0 ? 1 : given.extent - 1});
    vars.push_back({symbol, given.extent, static_cast<VarKind>(given.kind)});
  }
  statement_.vars = std::move(vars);
  open_ = true;
  body_.emplace(program_.pool, statement_.ops);
  for (const auto& var : statement_.vars) index_token(program_.pool.symbol(var.symbol));
  // A statement without variables issues no tokens here. Return the number that the next index token will
  // have.
  return index_base_ + 1;
}

/// The buffer that a statement writes: the slot's own, or a new version if it already has contents.
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

/// Checks a statement against its buffers. The table has only the buffers that the statement touches, because
/// a program has many.
std::optional<std::string> Recorder::find_fault(const Statement& statement) {
  touched_.resize(program_.buffers.size());
  const auto set = [&](bool present) {
    const auto put = [&](BufferId b) { touched_[b] = present ? &program_.buffers[b] : nullptr; };
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_LOAD) put(op.buffer);
    for (const auto& store : statement.stores) put(store.buffer);
  };
  set(true);
  auto fault = ferrite::loop::find_fault(program_.pool, touched_, statement);
  if (!fault) fault = find_deep_index(program_.pool, statement);
  // The pointers must not stay: adding a buffer to the program may move all of them.
  set(false);
  return fault;
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
  ProgramStatement done = s;
  done.origins = {origin_};
  flatten_trivial_loops(program_.pool, done);
  // A reduction over no points never executes the stores that run at each of its points: drop them. Only `s`
  // still tells which these are, since `done` has lost its reduction variables; both list the same stores.
  std::vector<bool> dropped(s.stores.size());
  if (s.points(VarKind::reduction) == 0) {
    dropped = ferrite::loop::place(program_.pool, s).every_point;
    size_t k = 0;
    std::erase_if(done.stores, [&](const Store&) { return dropped[k++]; });
  }
  remove_dead(program_.pool, done);
  done.kind = ferrite::loop::derived_kind(program_.pool, done);
  const bool runs = !empty && !done.stores.empty();
  if (runs)
    if (auto fault = find_fault(done))
      return core::error(FE_EINVALID, "FE-K03", "the lowering's statement is not well-formed: {}", *fault);
  // All stores of the statement to one buffer share one new version. Loads keep the version with which they
  // were recorded: they read the contents from before the statement.
  std::unordered_map<uint32_t, std::pair<BufferId, BufferId>> versions;
  for (size_t k = 0; k < store_tokens_.size(); ++k) {
    const uint32_t token = store_tokens_[k];
    if (versions.count(token)) continue;
    auto& slot = slots_[token - 1];
    const BufferId before = slot.buffer;
    // A store that never runs makes no version, yet its lowering has stored to the buffer.
    if (!runs || dropped[k])
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
  // Reads before writes: a buffer in both lists is read in its version from before the call.
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
