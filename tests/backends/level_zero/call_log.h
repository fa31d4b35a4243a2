// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The log of calls, POCL_DRIVER_LOG.
#pragma once

#include <string>

namespace pocl_driver {

/// What the log is to say of a call.
using Line = std::string;
/// Appends what the format gives, behind a space.
__attribute__((format(printf, 2, 3))) void add(Line& line, const char* format, ...);

/// Writes the line where there is to be a log.
void write_to_log(const Line& line);

}  // namespace pocl_driver
