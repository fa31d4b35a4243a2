// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parses buffers and statements, which loop programs and kernels share.
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

/// Parses the parts that programs and kernels have in common, into the pool of either. FE-G02 at
/// file:line:col for a syntax error, FE-K06 for a text that is well-formed but invalid.
class StatementParser {
 public:
  StatementParser(const text::TokenList& tokens, index::Pool& pool) : cursor_(tokens), pool_(pool) {}

  text::Cursor& cursor() { return cursor_; }

  /// Reads `ferrite loops 0`.
  Result<void> header(std::string_view stage);

  /// Declares `@3` or `@3.1`, which must be the next buffer of the table.
  Result<BufferId> declare_buffer(const std::vector<ProgramBuffer>& table, ProgramBuffer& buffer);

  /// Reads a declared buffer.
  Result<BufferId> buffer();
  /// Reads a list of buffers, and `close` after it unless that is empty.
  Result<std::vector<BufferId>> buffers_until(std::string_view close);
  Result<std::vector<int64_t>> integers();
  Result<DType> dtype();
  /// If the next token is a word of `table`, consumes it and returns its index.
  template <size_t N>
  std::optional<uint32_t> word(const std::string_view (&table)[N]) {
    for (uint32_t k = 0; k < N; ++k)
      if (cursor_.accept(table[k])) return k;
    return std::nullopt;
  }

  /// Reads `: type[dims]`.
  Result<void> type(Buffer& buffer);
  /// Reads the optional attributes after the role.
  Result<void> attributes(Buffer& buffer);
  /// FE-K06 for a buffer that is invalid.
  Result<void> check(const Buffer& buffer, const std::string& where) const;
  /// Reads the bits of a constant.
  Result<uint64_t> bits(DType dtype);

  /// Reads a statement other than a call. The first `shared` variables have the symbols of the first
  /// statement.
  Result<void> statement(uint32_t kind, Statement& s, std::vector<Origin>* origins, uint32_t shared);
  /// Reads `from "name" (op 3), …`, if present.
  Result<void> provenance(std::vector<Origin>& origins);
  /// Reads the rest of a call, after the keyword.
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
  /// Reads a reference to an operation of an earlier line.
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
  std::unordered_map<std::string, index::Expr> names_;  // the names of the current statement
  std::vector<index::Symbol> shared_;
  OpId values_ = 0;  // the number of operations of the statement so far
};

}  // namespace ferrite::core::loop
