// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/merge_dims.h"

#include <algorithm>

namespace ferrite::core::schedule {
namespace {

using namespace ferrite::loop;

/// Divisions and remainders in the expressions, each counted once.
size_t divisions(const index::Pool& pool, std::span<const index::Expr> exprs) {
  return static_cast<size_t>(std::ranges::count_if(pool.post_order(exprs), [&](index::Expr expr) {
    return pool.op(expr) == index::Op::floordiv || pool.op(expr) == index::Op::mod;
  }));
}

/// The indices of all accesses to one buffer.
std::vector<std::vector<index::Expr>*> accesses_of(Kernel& kernel, BufferId buffer) {
  std::vector<std::vector<index::Expr>*> result;
  for (auto& statement : kernel.statements) {
    for (auto& op : statement.ops)
      if (op.code == FE_OP_LOAD && op.buffer == buffer) result.push_back(&op.index);
    for (auto& store : statement.stores)
      if (store.buffer == buffer) result.push_back(&store.index);
  }
  return result;
}

bool is_from_data(const Kernel& kernel, index::Expr expr) {
  for (const auto& statement : kernel.statements)
    for (const auto& op : statement.ops)
      if (op.code == FE_OP_INDIRECT && kernel.pool.depends_on(expr, op.symbol)) return true;
  return false;
}

/// Joins the dims d and d + 1 if this removes a division and adds none.
bool merge(Kernel& kernel, Buffer& buffer, std::span<std::vector<index::Expr>* const> accesses, size_t d) {
  if (buffer.strides[d] != buffer.dims[d + 1] * buffer.strides[d + 1]) return false;
  // Most kernels split no number: expressions are made only where there is a division to remove.
  if (std::ranges::all_of(accesses, [&](const auto* access) {
        return divisions(kernel.pool, std::span(*access).subspan(d, 2)) == 0;
      }))
    return false;
  bool removes = false;
  std::vector<index::Expr> merged;
  for (const auto* access : accesses) {
    const std::span<const index::Expr> split(access->data() + d, 2);
    // The bounds of an index from data are those of its own dim.
    if (is_from_data(kernel, split[0]) || is_from_data(kernel, split[1])) return false;
    merged.push_back(kernel.pool.add(kernel.pool.mul(split[0], buffer.dims[d + 1]), split[1]));
    const size_t before = divisions(kernel.pool, split), after = divisions(kernel.pool, {&merged.back(), 1});
    if (after > before) return false;
    removes = removes || after < before;
  }
  if (!removes) return false;
  for (size_t k = 0; k < accesses.size(); ++k) {
    auto& index = *accesses[k];
    index[d] = merged[k];
    index.erase(index.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  }
  buffer.dims[d] *= buffer.dims[d + 1];
  buffer.strides[d] = buffer.strides[d + 1];
  buffer.dims.erase(buffer.dims.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  buffer.strides.erase(buffer.strides.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  return true;
}

}  // namespace

void merge_split_dims(Kernel& kernel) {
  for (BufferId b = 0; b < kernel.buffers.size(); ++b) {
    auto& buffer = kernel.buffers[b];
    if (buffer.kind == FE_BUFFER_LOCAL || buffer.packing || buffer.dims.size() < 2 ||
        buffer.strides.size() != buffer.dims.size())
      continue;
    const auto accesses = accesses_of(kernel, b);
    // From the fastest dim on, so that a number that was split into three is whole again.
    for (size_t d = buffer.dims.size() - 1; d-- > 0;)
      if (d + 1 < buffer.dims.size()) merge(kernel, buffer, accesses, d);
  }
}

}  // namespace ferrite::core::schedule
