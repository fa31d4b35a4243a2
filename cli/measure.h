// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device reaches at most, measured with compiled kernels.
#pragma once

#include "cli/common.h"
#include "core/observe/peaks.h"
#include "core/run/numbers.h"

namespace ferrite::cli {

/// The numbers of the device by which kernels are made, as far as they can be measured so that they are the same the next
/// time: rates of one worker, and how many workers the options say. Takes seconds. Errors are those of compiling and running.
Result<fe_target_numbers> measure_numbers(const core::Session& session, const core::CompileOptions& options,
                                          Progress& progress);

/// The highest rates of several sizes: matrix products for operations, reading and copying for bandwidth. Takes seconds.
/// Errors are those of compiling and running.
Result<core::observe::Peaks> measure_peaks(const core::Session& session, const core::CompileOptions& options,
                                           Progress& progress);

}  // namespace ferrite::cli
