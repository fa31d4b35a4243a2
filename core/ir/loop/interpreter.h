// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exact interpreter: the oracle that every backend is compared with.
#pragma once

#include <cstddef>
#include <span>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

using Memory = std::span<std::byte>;
using ConstMemory = std::span<const std::byte>;

/// Runs the statements in order over `memory`, by buffer id: the bytes that Buffer::bytes() counts, of any alignment; that
/// of a version is its storage's and is not looked at. A local buffer without memory gets some. Floats are computed in
/// f64 and rounded only by casts and stores, sums are f64, integers have their width.
/// Errors: FE-K06 a statement is malformed, FE-X20 memory is missing or short, FE-X21 an index is out of range (with the
/// model's node), FE-X22 something that only a backend runs, or a call's own error. One thread; no state between calls.
Result<void> evaluate(const StatementList& list, std::span<const Memory> memory);

/// A whole program: `inputs` and `outputs` in the program's order. What it changes of its inputs goes into `changed`, by input, where
/// that is not empty.
Result<void> evaluate(const LoopProgram& program, std::span<const ConstMemory> inputs,
                      std::span<const Memory> outputs, std::span<const Memory> changed = {});

/// A kernel: memory by buffer id; local buffers may have none.
Result<void> evaluate(const Kernel& kernel, std::span<const Memory> memory);

}  // namespace ferrite::core::loop
