// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of index expressions, and their limits in a kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

struct IndexSize {
  uint32_t levels = 1;  ///< nesting depth in a kernel's bytes, where a sum is a chain of additions
  uint32_t parts = 1;   ///< node count as text, where shared subexpressions count once per use; saturates
};

IndexSize size_of(const index::Pool& pool, index::Expr expr);

/// The nesting limit for readers of a kernel's bytes, which walk expressions recursively.
constexpr uint32_t most_index_levels = 256;

/// The error text for the first index of the statement that exceeds the limits; none if all are within them.
std::optional<std::string> find_deep_index(const index::Pool& pool, const Statement& statement);

}  // namespace ferrite::core::loop
