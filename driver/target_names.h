// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Targets of cross-compilation: their names, and the providers that compile for them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/device.h"

namespace ferrite::core::runtime {

/// The targets in one text: names separated by commas, or one description. A description has several words or
/// a "KEY=VALUE", and may contain commas.
std::vector<std::string> target_names(std::string_view text);

/// The target with a name or description: "sm_90a", "x86-64-v4", "cpu:x86-64-v4". Without a kind before it,
/// each kind of `kinds` is tried or, where that is empty, each kind for which any enabled plugin compiles;
/// the target belongs to the kind whose providers open it. With one kind, errors are the providers' own.
/// FE-D24 where no kind opens it, with each error, or where several do. FE-D01 for a kind for which no plugin
/// compiles. A kind alone, "cpu:", is the device number 0 of this machine.
Result<std::shared_ptr<Device>> find_target(const std::string& name, const std::vector<std::string>& kinds,
                                            const plugin::Backends& backends);

}  // namespace ferrite::core::runtime
