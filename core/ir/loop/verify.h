// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier of loop programs and kernels. It runs after lowering, after each rewrite and on parsed text.
#pragma once

#include <string>

#include "core/ir/loop/program.h"
#include "core/support/error.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::loop {

/// Checks buffers and statements one by one (ferrite/loop_check.hpp), shared variables, and that
/// every read follows a write. FE-K06 on a violation.
Result<void> verify(const StatementList& list);
inline Result<void> verify(const Kernel& kernel) { return verify(list_of(kernel)); }

/// Also checks the program's tables: roles, numbers, order of versions, inputs, outputs, constants.
Result<void> verify(const LoopProgram& program);

/// "@3 'x'", "@3.1".
std::string buffer_name(const StatementList& list, BufferId id);
/// "statement 4 (map from Relu_3)".
std::string describe_place(const StatementList& list, size_t statement);

/// The buffers that a statement reads or writes, in order of first use, without duplicates. A partial store
/// (one that keeps the rest of the buffer) does not count as a read.
std::vector<BufferId> reads_of(const Statement& statement, const CallInfo* call = nullptr);
std::vector<BufferId> writes_of(const Statement& statement, const CallInfo* call = nullptr);

}  // namespace ferrite::core::loop
