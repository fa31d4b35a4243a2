// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L3 of backends: a provider together with the runtime that launches its code, over the conformance list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/link/builder.h"
#include "driver/validate/samples/tensors.h"
#include "tools/plugin_check/conformance/conformance_list.h"
#include "tools/plugin_check/levels.h"

namespace ferrite::core::plugin_check {

class Subject;

/// Checks every provider of the plugin for which a runtime is loaded, and every runtime of it for which a
/// provider is. Writes the table of capabilities where options.capabilities requests it; a check that kills
/// the process leaves its cells as failed there.
void check_backends(const CheckOptions& options, const Subject& subject, Runner& runner);

/// The result of a case.
struct CaseResult {
  bool declined = false;
  std::string reason;  ///< the reason why it was declined
  double ulp = 0;      ///< of the worst element, in units in the last place
};

/// Compiles and runs one case on memory that ends at an inaccessible page, in arenas with red zones, and
/// compares it with the interpreter. FE-P52 where the result is wrong; otherwise the codes of compiling and
/// running.
Result<CaseResult> run_case(const KernelCase& kernel, const runtime::Devices& devices, uint64_t seed);

/// The schedule of a case by the devices' numbers: each statement is a kernel, except in cases that are
/// fused.
Result<schedule::Schedule> schedule_of(const KernelCase& kernel, const runtime::Devices& devices);

/// Elements for an input of a case.
validate::Tensor values_of(DType dtype, int64_t count, Values values, validate::Random& random);

/// The difference of two elements in units in the last place; infinite where the bits of integers differ or
/// only one element is NaN.
double ulp_between(DType dtype, const std::byte* expected, const std::byte* actual);

/// Checks providers of regions and of libraries: sampled graphs of which they run a part, against the
/// interpreter.
void check_programs(const CheckOptions& options, const Subject& subject, Runner& runner);

}  // namespace ferrite::core::plugin_check
