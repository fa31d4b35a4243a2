// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of loop programs and kernels (docs/text.md). Printing, parsing and printing again gives the
// same text.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

/// Begins with "ferrite loops 0". Functions of calls are omitted. Constants of more than 1 KiB that have an
/// identity are written as that identity, all others in full.
std::string print(const LoopProgram& program);
/// Begins with "ferrite kernel 0".
std::string print(const Kernel& kernel);
/// Only the buffers and the outputs, as in the whole text.
std::string print_tables(const LoopProgram& program);
/// Only one statement, as in the whole text. Malformed statements print, too.
std::string print_statement(const StatementList& list, size_t statement);

/// The text with each line indented by two more spaces.
std::string indented(std::string_view text);

/// Parses a program. `name` is the file's name, for errors. FE-G01 and FE-G02 for syntax errors at
/// file:line:column, FE-K06 for a program that is invalid.
Result<LoopProgram> parse_program(std::string_view text, std::string name);
Result<Kernel> parse_kernel(std::string_view text, std::string name);

/// A constant as text, and back: its decimal value, or bits(0x…) if the decimal would not read back to the
/// same bits.
std::string format_bits(DType dtype, uint64_t bits);

}  // namespace ferrite::core::loop
