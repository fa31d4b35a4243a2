// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code is made for where the device is not here: names of targets, and who compiles for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace ferrite::core::runtime {

/// The targets of one text: names with commas between, or one description of several words or with "KEY=VALUE", which may have commas
/// of its own.
std::vector<std::string> target_names(std::string_view text);

/// The target that a name or description is: "sm_90a", "x86-64-v4", "cpu:x86-64-v4". Without a kind before it, each kind of `kinds` is
/// asked, or each that anything enabled compiles for where it is empty; the one whose providers open it has it. What they say where there
/// is one kind; FE-D24 where none has it, with what each said, or several. FE-D01 for a kind that nothing compiles for. A kind alone,
/// "cpu:", is the device number 0 that is here.
Result<std::shared_ptr<Device>> find_target(const std::string& name, const std::vector<std::string>& kinds,
                                            const plugin::Backends& backends);

}  // namespace ferrite::core::runtime
