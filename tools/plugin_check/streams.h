// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a runtime's streams and launch graphs behave as its table promises.
#pragma once

#include "runtime/device.h"
#include "tools/plugin_check/harness/report.h"

namespace ferrite::core::plugin_check {

/// Checks copies on two streams, the streams' native handles, host memory, events and the device's state.
/// FE-P52. Skipped where there are no streams.
Verdict check_streams(const runtime::Device& device);

/// Checks that recorded copies run only when they are replayed, once for each replay. FE-P52. Skipped where
/// the runtime cannot record.
Verdict check_recordings(const runtime::Device& device);

}  // namespace ferrite::core::plugin_check
