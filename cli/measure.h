// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device reaches at most, measured with compiled kernels.
#pragma once

#include "cli/common.h"
#include "core/observe/peaks.h"

namespace ferrite::cli {

/// The highest rates of several sizes: matrix products for operations, reading and copying for bandwidth. Takes seconds.
/// Errors are those of compiling and running.
Result<core::observe::Peaks> measure_peaks(const core::Session& session, const core::CompileOptions& options,
                                           Progress& progress);

}  // namespace ferrite::cli
