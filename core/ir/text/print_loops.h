// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of loop programs and kernels (docs/text.md). What print gives parses to what prints the same.
#pragma once

#include <string>
#include <string_view>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

/// Starts with "ferrite loops 0". Functions of calls are not part of the text; constants of more than 1 KiB with an identity
/// are named by it, all others are written out.
std::string print(const LoopProgram& program);
/// Starts with "ferrite kernel 0".
std::string print(const Kernel& kernel);
/// The buffers and the outputs, as they stand in the whole text.
std::string print_tables(const LoopProgram& program);
/// One statement, as it stands in the whole text. Malformed ones print as well.
std::string print_statement(const StatementList& list, size_t statement);

/// Each line two spaces further in.
std::string indented(std::string_view text);

/// `name` is the file's, for errors: FE-G01 and FE-G02 for syntax at file:line:column, FE-K06 for a program that is not
/// well-formed.
Result<LoopProgram> parse_program(std::string_view text, std::string name);
Result<Kernel> parse_kernel(std::string_view text, std::string name);

/// A constant of a type as text: its decimal value, or bits(0x…) where that would not read back, and back.
std::string format_bits(DType dtype, uint64_t bits);

}  // namespace ferrite::core::loop
