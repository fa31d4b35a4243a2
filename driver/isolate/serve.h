// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The child's side: loads one plugin and the plugins whose ops it may meet, and answers calls of its
// callbacks.
#pragma once

namespace ferrite::core::isolate {

/// Serves requests on the descriptors that Process opened until the connection ends; returns the exit status.
/// Ends the process at once when the host goes away, whatever the plugin is doing.
int serve();

}  // namespace ferrite::core::isolate
