// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The older path of ferrite/loop_check.hpp, for plugins that include it.
#pragma once

#include "ferrite/loop_check.hpp"
