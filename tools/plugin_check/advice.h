// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fusion policies and cost models on the loop programs of sampled graphs, and metric sinks: L2 and L3.
#pragma once

#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

class Subject;

/// L2: calls all of them with structs of a later version.
void check_hostile_advice(const CheckOptions& options, const Subject& subject, Runner& runner);
/// L3: schedules by the policies are legal, deterministic, and compute the same as the interpreter does
/// without them. Costs are valid times and deterministic.
void check_advice(const CheckOptions& options, const Subject& subject, Runner& runner);

}  // namespace ferrite::core::plugin_check
