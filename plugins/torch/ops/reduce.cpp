// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "helpers.h"

namespace ferrite::from_torch {

std::span<const OpEntry> reduce_ops() { return {}; }

}  // namespace ferrite::from_torch
