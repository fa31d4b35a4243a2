// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Failures that a test requests: POCL_DRIVER_FAIL, POCL_DRIVER_ERROR and POCL_DRIVER_LOSE.
#pragma once

#include <string>

namespace pocl_driver {

/// Counts the calls of the function, and refuses the one that must fail.
void fail_as_told(const std::string& function);

}  // namespace pocl_driver
