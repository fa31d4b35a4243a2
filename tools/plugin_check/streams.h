// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a runtime's streams and launch graphs do what its table promises.
#pragma once

#include "runtime/device.h"
#include "tools/plugin_check/harness/report.h"

namespace ferrite::core::plugin_check {

/// Copies by way of two streams, what the driver calls them, memory of the host, events, the device's state. FE-P52.
/// Skipped where there are no streams.
Verdict check_streams(const runtime::Device& device);

/// Copies that are recorded are not made until they are replayed, and then as often as they are. FE-P52.
/// Skipped where nothing is recorded.
Verdict check_recordings(const runtime::Device& device);

}  // namespace ferrite::core::plugin_check
