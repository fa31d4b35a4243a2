// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/indexed.h"

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
  // A scatter that became a condition tests for each coordinate whether the index equals it.
  for (const auto& equal : statement.ops) {
    if (!equal.is_prim() || equal.prim() != Prim::eq_) continue;
    const auto *a = &statement.ops[equal.a], *b = &statement.ops[equal.b];
    if (a->code != FE_OP_INDEX || b->code != FE_OP_INDEX) continue;
    if (!list.pool.depends_on(a->index[0], indirect.symbol)) std::swap(a, b);
    if (!list.pool.depends_on(a->index[0], indirect.symbol)) continue;
    for (const auto& store : statement.stores)
      for (size_t d = 0; d < store.index.size(); ++d) {
        const IndexedDim found{store.buffer, d};
        if (store.index[d] == b->index[0] &&
            list.buffers[store.buffer]->dims[d] == static_cast<int64_t>(indirect.bits) &&
            std::ranges::find(result, found) == result.end())
          result.push_back(found);
      }
  }
  return result;
}

std::string indexed_name(const StatementList& list, BufferId buffer) {
  const BufferId storage = list.storage[buffer];
  const auto& name = list.buffers[storage]->name;
  if (buffer == storage) return name;
  for (const auto* statement : list.statements)
    for (const auto& store : statement->stores) {
      if (store.buffer != storage) continue;
      const auto& value = statement->ops[store.value];
      if (value.code == FE_OP_LOAD && value.index == store.index &&
          list.buffers[value.buffer]->dims == list.buffers[storage]->dims)
        return list.buffers[value.buffer]->name;
      const bool loads =
          std::ranges::any_of(statement->ops, [](const auto& op) { return op.code == FE_OP_LOAD; });
      return loads ? std::string() : name;
    }
  return name;
}

std::string describe_dim(size_t dim, const std::string& name, const Buffer& buffer) {
  return fmt::format("dim {} of {}[{}]{}", dim, name_of(buffer.dtype), fmt::join(buffer.dims, ","),
                     name.empty() ? name : " '" + name + "'");
}

}  // namespace ferrite::core::loop
