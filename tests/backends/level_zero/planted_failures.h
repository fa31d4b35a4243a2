// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The failures that a test asks for: POCL_DRIVER_FAIL, POCL_DRIVER_ERROR and POCL_DRIVER_LOSE.
#pragma once

#include <string>

namespace pocl_driver {

/// Counts the calls of the function; refuses the one that is to fail.
void fail_as_told(const std::string& function);

}  // namespace pocl_driver
