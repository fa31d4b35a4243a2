// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log of calls in the file POCL_DRIVER_LOG.
#pragma once

#include <string>

namespace pocl_driver {

/// The log line of a call.
using Line = std::string;
/// Appends a space and the formatted text.
__attribute__((format(printf, 2, 3))) void add(Line& line, const char* format, ...);

/// Writes the line if there is a log.
void write_to_log(const Line& line);

}  // namespace pocl_driver
