// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Spans of runs, and the file that shows spans.
#pragma once

#include <string>

#include "core/observe/observation.h"
#include "runtime/executable.h"

namespace ferrite::core::observe {

/// Each launch of the context's last run becomes a span; nothing where their times were not kept.
void add_launches(Observation& observation, const runtime::Executable& executable,
                  const runtime::Executable::Context& context);

/// The spans as Chrome's trace events (the JSON object format), which Perfetto and chrome://tracing read:
/// complete events, times in microseconds since the first of them.
std::string trace_json(const Observation& observation);

}  // namespace ferrite::core::observe
