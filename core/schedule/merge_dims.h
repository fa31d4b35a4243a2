// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels that read or write a buffer through a reshaped view.
#pragma once

#include "ferrite/loop.hpp"

namespace ferrite::core::schedule {

/// Joins neighbouring dims of a kernel's buffers where an index has split one number into the coordinates of
/// both, as a view of [64, 512, 768] as [32768, 768] does: [i div 512, i mod 512, j] becomes [i, j]. Code
/// generators and libraries that ask for linear indices then find them.
void merge_split_dims(loop::Kernel& kernel);

}  // namespace ferrite::core::schedule
