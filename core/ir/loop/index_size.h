// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How large index expressions are, and how large those of a kernel may be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

struct IndexSize {
  uint32_t levels = 1;  ///< as a kernel's bytes nest it, in which a sum is a chain of additions
  uint32_t parts =
      1;  ///< of the expression written out as a text does, where shared parts count again; saturates
};

IndexSize size_of(const index::Pool& pool, index::Expr expr);

/// Levels that readers of a kernel's bytes take: more may not be walked by recursion.
constexpr uint32_t most_index_levels = 256;

/// What is wrong with the first index of the statement that no kernel may have; none where all are small enough.
std::optional<std::string> find_deep_index(const index::Pool& pool, const Statement& statement);

}  // namespace ferrite::core::loop
