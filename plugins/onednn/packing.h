// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// oneDNN's blocked layouts as operand layouts of a candidate, so that the host packs weights once, when a
// program is loaded.
#pragma once

#include <optional>
#include <span>

#include "contraction/problem.h"
#include "dnnl.h"
#include "ferrite/provider.hpp"

namespace ferrite::onednn {

using contraction::Role;

/// The layout `desc`, whose dims are `roles`, for a constant whose dims are `weight`. With several chunks of
/// columns, each chunk has one array of this layout, and the arrays are contiguous. nullopt if the layout is
/// not a blocked one.
std::optional<OperandLayout> packing_of(const dnnl::MemoryDesc& desc, std::span<const Role> roles,
                                        uint32_t buffer, std::span<const Role> weight, int64_t chunks);

}  // namespace ferrite::onednn
