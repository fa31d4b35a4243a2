// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Computations that depend only on constants: they run once, when the program is loaded.
#pragma once

#include <vector>

#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The statements and storages of load time. A statement runs at load if it reads only constants and results
/// of such statements, whatever their sizes, if all other writers of its storages run at load too, and if no
/// statement of a run reads a buffer before its last writer. Opaque calls never run at load.
struct AtLoad {
  std::vector<bool> statements;  ///< by statement
  std::vector<bool> storages;    ///< by storage: temporaries that these statements write
};

/// For a program without groups: each statement is a kernel.
/// A buffer that runs read and that is much larger than the constants from which it is computed, such as a
/// large tensor of one value, costs more memory than it saves time. The statements that write it run in each
/// run.
AtLoad at_load(const LoopProgram& program);

/// Whether computing a map takes about as long as loading its stored result: it reads no more bytes than it
/// stores, with few and cheap operations. Its readers then compute it, and its result is not kept.
bool is_as_cheap_as_stored(const LoopProgram& program, const Statement& map, const TargetNumbers& target);

/// Gives a result that depends only on constants a temporary, which is computed at load and copied in each
/// run. This is done where the copy is cheaper than the computation, or where other statements read the
/// result. Run before inlining.
void keep_constant_results(LoopProgram& program, const TargetNumbers& target);

}  // namespace ferrite::core::schedule
