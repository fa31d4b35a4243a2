// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/loop/indexed.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ferrite::core::loop {

std::vector<IndexedDim> dims_indexed_by(const StatementList& list, size_t number, OpId op) {
  std::vector<IndexedDim> result;
  const auto& statement = *list.statements[number];
  const auto& indirect = statement.ops[op];
  const auto add = [&](BufferId buffer, const std::vector<index::Expr>& coordinates) {
    for (size_t d = 0; d < coordinates.size(); ++d) {
      const IndexedDim found{buffer, d};
      if (list.buffers[buffer]->dims[d] == static_cast<int64_t>(indirect.bits) &&
          list.pool.depends_on(coordinates[d], indirect.symbol) &&
          std::ranges::find(result, found) == result.end())
        result.push_back(found);
    }
  };
  for (const auto& other : statement.ops)
    if (other.code == FE_OP_LOAD) add(other.buffer, other.index);
  for (const auto& store : statement.stores) add(store.buffer, store.index);
  return result;
}

std::string describe_dim(size_t dim, const std::string& name, const Buffer& buffer) {
  return fmt::format("dim {} of {}[{}]{}", dim, name_of(buffer.dtype), fmt::join(buffer.dims, ","),
                     name.empty() ? name : " '" + name + "'");
}

std::string describe_bad_index(uint64_t bits, int64_t extent, bool wraps, bool is_unsigned) {
  const auto index = is_unsigned ? fmt::to_string(bits) : fmt::to_string(static_cast<int64_t>(bits));
  return fmt::format("index {} is out of range [{}, {})", index, wraps && !is_unsigned ? -extent : 0, extent);
}

}  // namespace ferrite::core::loop
