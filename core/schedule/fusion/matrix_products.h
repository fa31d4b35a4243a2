// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of matrices that are products themselves, as in the gradient of attention, as one kernel. Such a
// kernel never stores the matrices between the products.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/schedule/fusion/groups.h"
#include "core/schedule/fusion/mismatch.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// Collects the statements around a matrix that a contraction makes. The kernel's shape is defined by
/// find_accumulated_products() for targets with Products::any, and by find_tiled_products() for those with
/// Products::softmax; statements that do not have it stay separate.
class MatrixProducts {
 public:
  /// Keeps references. `constant`: by statement, whether it reads only constants. `callers`: storages that
  /// outlive the program's kernels.
  MatrixProducts(const LoopProgram& program, const Dependencies& deps, const std::vector<bool>& constant,
                 const std::set<BufferId>& callers, const FusionLimits& limits)
      : program_(program), deps_(deps), constant_(constant), callers_(callers), limits_(limits) {}

  /// The contraction, which makes a matrix, with all statements that work on it and on the matrices computed
  /// from it, in order of execution. Empty where one of the matrices has another use, or a statement is part
  /// of a larger group.
  std::vector<uint32_t> candidate(const Groups& groups, uint32_t contraction) const;

  struct Answer {
    Refusal refusal;  ///< an empty category: the statements are to be one kernel
    uint32_t shared = 0;
  };
  /// Asks about a candidate, or about a part of it that works on copies of the matrices of the whole.
  Answer ask(std::span<const uint32_t> statements) const { return ask(statements, statements); }
  Answer ask(std::span<const uint32_t> part, std::span<const uint32_t> whole) const;

 private:
  Answer ask_accumulated(const Kernel& kernel, uint32_t shared) const;
  Answer ask_tiled(Kernel& kernel, uint32_t shared) const;
  bool has_loops(uint32_t statement, std::span<const Var> loops) const;
  bool is_matrix(BufferId storage) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::vector<bool>& constant_;
  const std::set<BufferId>& callers_;
  const FusionLimits& limits_;
};

}  // namespace ferrite::core::schedule
