// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's side of lowering by definition: implements fe_lower_api by recording its calls as a loop
// program.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/ir/loop/body_builder.h"
#include "core/ir/loop/program.h"
#include "core/support/abi/loan.h"
#include "core/support/error.h"
#include "ferrite/abi/lower.h"

namespace ferrite::core::loop {

/// Records the lowering of one op instance at a time:
///     recorder.bind(operands, results, origin);
///     status = lowering.function(..., recorder.api(), ...);
///     auto versions = recorder.finish();        // or recorder.cancel() if the lowering declined
///
/// The recorded program is canonical: no variable has extent 0 or 1 (a reduction over one point becomes its
/// element, one over none its identity, a serial loop of one step a map, and a statement without points
/// vanishes), equal operations are merged, dead ones are removed, and each statement's kind follows from its
/// contents.
///
/// The first error is kept: later calls do nothing and return the poison token. Codes: FE-K01 a call out of
/// order or an invalid token, FE-K02 types that do not fit, FE-K03 an invalid statement (an index that is not
/// provably in range, several points that write one element), FE-K04 an element type that bodies cannot
/// compute with.
class Recorder {
 public:
  explicit Recorder(LoopProgram& program);
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Begins an op. `operands` may contain `none` for an absent one; each result is a buffer of the program
  /// without contents.
  void bind(std::span<const BufferId> operands, std::span<const BufferId> results, Origin origin);
  const fe_lower_api* api() const { return loan_.table(); }
  /// FE-P63 if a lowering passed the table to another thread.
  Result<void> check() const { return loan_.check(); }

  /// Ends the op. Returns for each result its buffer, or the last version of it that was written. On an error
  /// the program is restored to its state at bind().
  Result<std::vector<BufferId>> finish();
  /// Discards everything recorded since bind().
  void cancel();
  const std::optional<Error>& error() const { return error_; }

 private:
  friend struct RecorderSlots;

  struct Slot {              ///< the meaning of a buffer token
    BufferId buffer = none;  ///< the current version
    bool writable = false;
    bool written = false;  ///< has contents
  };

  Result<uint32_t> temp(const fe_temp_args& args);
  Result<uint32_t> begin(const fe_begin_args& args);
  Result<void> end();
  Result<uint32_t> index(const fe_index_args& args);
  Result<uint32_t> load(const fe_load_args& args);
  Result<uint32_t> constant(const fe_constant_args& args);
  Result<uint32_t> prim(const fe_prim_args& args);
  Result<uint32_t> index_value(const fe_index_value_args& args);
  Result<uint32_t> indirect(const fe_indirect_args& args);
  Result<uint32_t> reduce(const fe_reduce_args& args);
  Result<uint32_t> contract(const fe_contract_args& args);
  Result<uint32_t> carry(const fe_carry_args& args);
  Result<void> set_carry(const fe_set_carry_args& args);
  Result<void> store(const fe_store_args& args);
  Result<void> call(const fe_call_args& args);

  Result<void> need_open() const;
  Result<OpId> value_of(fe_value_token token, const char* what) const;
  Result<Slot*> slot_of(fe_buffer_token token);
  Result<std::vector<index::Expr>> indices_of(const fe_array& tokens, const Buffer& buffer) const;
  uint32_t value_token(OpId id) const { return value_base_ + id + 1; }
  uint32_t index_token(index::Expr expr);
  uint32_t add_reduction(Reduction reduction);
  BufferId write(Slot& slot);
  std::optional<std::string> find_fault(const Statement& statement);

  LoopProgram& program_;
  Loan<fe_lower_api, Recorder> loan_;
  std::optional<Error> error_;
  Origin origin_;
  std::vector<Slot> slots_;  // by token - 1
  size_t operand_count_ = 0, result_count_ = 0;
  size_t buffers_at_bind_ = 0, statements_at_bind_ = 0;

  // The open statement. Token numbers continue across statements, so that a token of an earlier statement is
  // invalid.
  bool open_ = false;
  ProgramStatement statement_;
  std::optional<BodyBuilder> body_;
  std::vector<index::Expr> indices_;
  std::vector<uint32_t> store_tokens_;  // parallel to statement_.stores: buffer tokens
  std::vector<const Buffer*> touched_;  // by buffer: those that the statement under check touches; else null
  uint32_t value_base_ = 0, index_base_ = 0;
};

}  // namespace ferrite::core::loop
