// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exact interpreter: the reference against which every backend is tested.
#pragma once

#include <cstddef>
#include <span>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop {

using Memory = std::span<std::byte>;
using ConstMemory = std::span<const std::byte>;

/// Executes the statements in order. `memory` is indexed by buffer id and holds Buffer::bytes() bytes each,
/// of any alignment. A version uses the memory of its storage; its own entry is ignored. A local buffer
/// without memory gets some. Floats are computed in f64 and rounded only by casts and stores; sums are f64;
/// integers have their own width.
/// FE-K06 a statement is malformed, FE-X20 memory is missing or too small, FE-X21 an index is out of range
/// (names the model's node), FE-X22 an operation that only backends run, or a call's own error.
/// Single-threaded; no state between calls.
Result<void> evaluate(const StatementList& list, std::span<const Memory> memory);

/// Executes a whole program: `inputs` and `outputs` in the program's order. If `changed` is not empty, it
/// receives, by input, the new contents of mutated inputs.
Result<void> evaluate(const LoopProgram& program, std::span<const ConstMemory> inputs,
                      std::span<const Memory> outputs, std::span<const Memory> changed = {});

/// Executes a kernel: memory by buffer id; local buffers may have none.
Result<void> evaluate(const Kernel& kernel, std::span<const Memory> memory);

}  // namespace ferrite::core::loop
