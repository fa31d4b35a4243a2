// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a loop program statement by statement, for text forms that arrange the statements in their own way.
#pragma once

#include <memory>
#include <string_view>

#include "core/ir/lexer/lexer.h"
#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

/// Call begin() once, then statement() once per statement, then finish(). Errors as for parse_program.
class ProgramReader {
 public:
  /// `tokens` must outlive this object.
  explicit ProgramReader(const text::TokenList& tokens);
  ~ProgramReader();
  ProgramReader(const ProgramReader&) = delete;
  ProgramReader& operator=(const ProgramReader&) = delete;

  text::Cursor& cursor();
  /// Reads "ferrite STAGE 0", the buffers and the outputs.
  Result<void> begin(std::string_view stage);
  /// Reads the statement at the cursor and appends it.
  Result<void> statement();
  /// The program, after verification.
  Result<LoopProgram> finish();
  /// Converts a verifier's error: names the text in its place.
  Error in_text(Error error) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferrite::core::loop
