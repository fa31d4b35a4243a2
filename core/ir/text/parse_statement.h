// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of buffers and statements, in programs and in kernels.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/lexer/lexer.h"
#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

/// Reads what programs and kernels have in common, into the pool of either. Errors are FE-G02 at file:line:col, and FE-K06 for
/// what is well written and means nothing.
class StatementParser {
 public:
  StatementParser(const text::TokenList& tokens, index::Pool& pool) : cursor_(tokens), pool_(pool) {}

  text::Cursor& cursor() { return cursor_; }

  /// `ferrite loops 0`
  Result<void> header(std::string_view stage);

  /// Declares `@3` or `@3.1`, the next one of the table.
  Result<BufferId> declare_buffer(const std::vector<ProgramBuffer>& table, ProgramBuffer& buffer);

  /// One that is declared.
  Result<BufferId> buffer();
  /// A list of them, and `close` where it is not empty.
  Result<std::vector<BufferId>> buffers_until(std::string_view close);
  Result<std::vector<int64_t>> integers();
  Result<DType> dtype();
  /// The number of the word of `table` that comes next; nothing where none does.
  template <size_t N>
  std::optional<uint32_t> word(const std::string_view (&table)[N]) {
    for (uint32_t k = 0; k < N; ++k)
      if (cursor_.accept(table[k])) return k;
    return std::nullopt;
  }

  /// `: type[dims]`
  Result<void> type(Buffer& buffer);
  /// What may follow the role.
  Result<void> attributes(Buffer& buffer);
  /// FE-K06 for a buffer that cannot be.
  Result<void> check(const Buffer& buffer, const std::string& where) const;
  /// The bits of a constant.
  Result<uint64_t> bits(DType dtype);

  /// A statement that is no call; `shared` leading variables have the first statement's symbols.
  Result<void> statement(uint32_t kind, Statement& s, std::vector<Origin>* origins, uint32_t shared);
  /// `from "name" (op 3), …`, or nothing.
  Result<void> provenance(std::vector<Origin>& origins);
  /// What follows `call`.
  Result<void> call(CallInfo& info);

 private:
  Result<index::Expr> symbol(const text::Token& token);
  Result<index::Expr> expression();
  Result<std::vector<index::Expr>> expressions(std::string_view close);
  Result<void> declare(const std::string& name, index::Symbol symbol);
  Result<void> packing(Buffer& buffer);
  Result<void> variables(Statement& s, uint32_t shared);
  Result<uint64_t> number64();
  Result<OpId> number();
  /// An operation above this line.
  Result<OpId> value();
  Result<uint32_t> small(std::string_view what);
  Result<void> in_order(std::string_view what, size_t expected);
  Result<void> access(BufferId& id, std::vector<index::Expr>& index);
  Result<void> line(Statement& s);
  Result<void> reduction(Statement& s);
  Result<void> carry(Statement& s);
  Result<void> store(Statement& s);
  Result<void> indirect(Statement& s);
  Result<void> operation(Statement& s);
  Result<void> prim(const Statement& s, BodyOp& op);
  Result<void> append(Statement& s, BodyOp op);

  text::Cursor cursor_;
  index::Pool& pool_;
  std::map<std::string, BufferId> buffers_;
  std::unordered_map<std::string, index::Expr> names_;  // of the statement
  std::vector<index::Symbol> shared_;
  OpId values_ = 0;  // operations of the statement so far
};

}  // namespace ferrite::core::loop
