// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the model's nodes that statements come from.
#pragma once

#include <string>
#include <vector>

namespace ferrite::core::loop {
struct ProgramStatement;
}

namespace ferrite::core::schedule {

/// Model nodes of a statement, each by its name, or by its op where it has none. origin_names() joins them.
std::vector<std::string> node_names(const loop::ProgramStatement& statement);

}  // namespace ferrite::core::schedule
