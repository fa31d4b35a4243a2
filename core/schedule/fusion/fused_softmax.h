// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention (the scores, their softmax and its product with the values) as one kernel, for targets that
// process the columns tile by tile.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "core/schedule/fusion/groups.h"
#include "core/schedule/fusion/mismatch.h"
#include "core/schedule/schedule.h"

namespace ferrite::core::schedule {

/// The fusion that targets with Products::softmax ask for. find_softmax_products() defines the kernel's
/// shape; groups that do not have it stay separate.
class FusedSoftmax {
 public:
  /// Keeps references. `constant`: by statement, whether it reads only constants. `callers`: storages that
  /// outlive the program's kernels.
  FusedSoftmax(const LoopProgram& program, const Dependencies& deps, const std::vector<bool>& constant,
               const std::set<BufferId>& callers, const FusionLimits& limits)
      : program_(program), deps_(deps), constant_(constant), callers_(callers), limits_(limits) {}

  struct Candidate {
    std::vector<uint32_t>
        groups;  ///< the first makes the scores, the last has the contraction that consumes their softmax
    uint32_t from = 0, to = 0;  ///< the two contractions
  };
  /// The chains of groups from a contraction that may make scores to this contraction.
  std::vector<Candidate> candidates(const Groups& groups, uint32_t contraction) const;

  struct Answer {
    Refusal refusal;  ///< an empty category: the groups are to be one kernel
    uint32_t shared = 0;
  };
  Answer ask(const Groups& groups, const Candidate& candidate) const;

 private:
  bool is_product(uint32_t statement) const {
    return program_.statements[statement].kind == FE_STATEMENT_CONTRACT;
  }
  std::vector<uint32_t> writers_of(const Groups& groups, uint32_t group) const;
  void add_row_results(const Groups& groups, uint32_t last, std::vector<uint32_t>& members) const;
  bool reduces(const Groups& groups, std::span<const uint32_t> members) const;

  const LoopProgram& program_;
  const Dependencies& deps_;
  const std::vector<bool>& constant_;
  const std::set<BufferId>& callers_;
  const FusionLimits& limits_;
};

}  // namespace ferrite::core::schedule
