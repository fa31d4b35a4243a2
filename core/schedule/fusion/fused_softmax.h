// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scores, their softmax and its product with the values as one kernel, for targets that go over the columns piece by piece.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "core/schedule/fusion/groups.h"
#include "core/schedule/fusion/mismatch.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// What target numbers ask for with Products::softmax. The shape of such a kernel is that of find_softmax_products(); what is no such
/// kernel stays as it is.
class FusedSoftmax {
 public:
  /// Keeps references. `constant`, by statement: it reads constants only. `callers`: storages that outlive the program's kernels.
  FusedSoftmax(const LoopProgram& program, const Dependencies& deps, const std::vector<bool>& constant,
               const std::set<BufferId>& callers, const FusionLimits& limits)
      : program_(program), deps_(deps), constant_(constant), callers_(callers), limits_(limits) {}

  struct Candidate {
    std::vector<uint32_t>
        groups;  ///< the first makes the scores, the last is that of the contraction that takes their softmax
    uint32_t from = 0, to = 0;  ///< both contractions
  };
  /// The groups from contractions that may make scores to this one.
  std::vector<Candidate> candidates(const Groups& groups, uint32_t contraction) const;

  struct Answer {
    Refusal refusal;  ///< of an empty category: they are to be one
    uint32_t shared = 0;
  };
  Answer ask(const Groups& groups, const Candidate& candidate) const;

 private:
  bool is_product(uint32_t statement) const {
    return program_.statements[statement].kind == FE_STATEMENT_CONTRACT;
  }
  std::vector<uint32_t> writers_of(const Groups& groups, uint32_t group) const;
  bool reduces(const Groups& groups, std::span<const uint32_t> members) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::vector<bool>& constant_;
  const std::set<BufferId>& callers_;
  const FusionLimits& limits_;
};

}  // namespace ferrite::core::schedule
