// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier of loop programs and kernels: run after lowering, after each rewrite and on what is read from text.
#pragma once

#include <string>

#include "core/ir/loop/program.h"
#include "core/support/error.h"
#include "ferrite/analysis/loop_check.hpp"

namespace ferrite::core::loop {

/// Buffers and statements one by one (ferrite/analysis/loop_check.hpp), shared variables, and that nothing is read before it is
/// written. Errors: FE-K06.
Result<void> verify(const StatementList& list);
inline Result<void> verify(const Kernel& kernel) { return verify(list_of(kernel)); }

/// The same, and the tables of the program: roles, numbers, versions in order, inputs, outputs, constants.
Result<void> verify(const LoopProgram& program);

/// "@3 'x'", "@3.1".
std::string buffer_name(const StatementList& list, BufferId id);
/// "statement 4 (map from Relu_3)".
std::string describe_place(const StatementList& list, size_t statement);

/// Buffers that a statement reads and writes, in order of first use, each once. A store that leaves some of a buffer as it
/// was does not count as a read.
std::vector<BufferId> reads_of(const Statement& statement, const CallInfo* call = nullptr);
std::vector<BufferId> writes_of(const Statement& statement, const CallInfo* call = nullptr);

}  // namespace ferrite::core::loop
