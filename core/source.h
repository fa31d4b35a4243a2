// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sources from which a compilation can start, and the stages that it runs.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/compile.h"

namespace ferrite::core {

/// The index of a stage in the table of stages; for an unknown name, the number of stages.
ptrdiff_t position_of(std::string_view stage);

/// The range of stages to run, by index, both ends inclusive.
struct StageSpan {
  ptrdiff_t first = 0, last = 0;
  bool has(std::string_view stage) const { return position_of(stage) >= first && position_of(stage) <= last; }
};

/// The stages that the options request. FE-C04 if one is unknown or the source does not enter there.
Result<StageSpan> stages_of(const Source& source, const CompileOptions& options);

}  // namespace ferrite::core
