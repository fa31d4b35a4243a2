// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a compilation can start from, and which stages it runs.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/compile.h"

namespace ferrite::core {

/// Of a stage in the table of stages; the number of stages for none.
ptrdiff_t position_of(std::string_view stage);

/// The stages that run, by position, both inclusive.
struct StageSpan {
  ptrdiff_t first = 0, last = 0;
  bool has(std::string_view stage) const { return position_of(stage) >= first && position_of(stage) <= last; }
};

/// The stages that the options ask for. FE-C04 where one is none, or the source does not enter there.
Result<StageSpan> stages_of(const Source& source, const CompileOptions& options);

}  // namespace ferrite::core
