// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading a loop program piece by piece, for texts that arrange its statements in a way of their own.
#pragma once

#include <memory>
#include <string_view>

#include "core/ir/lexer/lexer.h"
#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

/// The calls come in this order: begin, statement as often as there are statements, finish. Errors as of parse_program.
class ProgramReader {
 public:
  /// `tokens` outlives this.
  explicit ProgramReader(const text::TokenList& tokens);
  ~ProgramReader();
  ProgramReader(const ProgramReader&) = delete;
  ProgramReader& operator=(const ProgramReader&) = delete;

  text::Cursor& cursor();
  /// "ferrite STAGE 0", the buffers and the outputs.
  Result<void> begin(std::string_view stage);
  /// The statement at the cursor, behind those before it.
  Result<void> statement();
  /// The program, verified.
  Result<LoopProgram> finish();
  /// An error of a verifier over what was read: the text is at fault, and its name the first part of the place.
  Error in_text(Error error) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ferrite::core::loop
