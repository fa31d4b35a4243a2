// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What depends on constants alone: it is computed once, when the program is loaded.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// What runs at load. Statements that read only constants and what such statements make do, whatever the sizes, if all writers of what
/// they store do, and if no statement of a run reads a buffer before its last writer. Opaque calls do not.
struct AtLoad {
  std::vector<bool> statements;  ///< by statement
  std::vector<bool> storages;    ///< by storage: temporaries that these statements make
};

/// Of a program that has no groups yet: each statement is a kernel.
/// A buffer that runs read and that is much larger than the constants of which it is made, as a large tensor of one value is, costs
/// more memory than it saves time: what makes it runs in each run.
AtLoad at_load(const LoopProgram& program);

/// Whether a map takes a run about as long as loading its stored result: it reads no more bytes than it stores, with few and cheap
/// operations. Its readers then compute it, and no memory is kept for it.
bool is_as_cheap_as_stored(const LoopProgram& program, const Statement& map, const TargetNumbers& target);

/// Gives results that depend on constants alone a temporary, which is made at load and copied in each run, where the copy is cheaper
/// than what it replaces or where other statements read the result. Run before inlining.
void keep_constant_results(LoopProgram& program, const TargetNumbers& target);

}  // namespace ferrite::core::schedule
