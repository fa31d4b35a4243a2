// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The hooks at which passes of plugins run, in their order.
#pragma once

#include <string_view>

namespace ferrite::core::plugin {

inline constexpr std::string_view phase_names[] = {"pre_grad",      "joint_pre",  "joint_post",
                                                   "post_grad_pre", "post_grad",  "post_grad_post",
                                                   "pre_lower",     "pre_fusion", "post_fusion"};

}  // namespace ferrite::core::plugin
