// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/traffic.h"

#include <algorithm>
#include <map>

namespace ferrite::core::schedule {
namespace {

/// Loops shorter than this leave parts of lines unused where a map is walked in squares.
constexpr int64_t least_square = 32;

struct Access {
  BufferId storage;
  const std::vector<index::Expr>* index;
  bool store;
};

std::vector<Access> accesses(const LoopProgram& program, const Statement& statement) {
  std::vector<Access> result;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD) result.push_back({program.storage(op.buffer), &op.index, false});
  for (const auto& store : statement.stores)
    result.push_back({program.storage(store.buffer), &store.index, true});
  return result;
}

/// The bytes that one statement moves with the variable at `position` innermost, by storage and direction. A
/// statement without this variable counts as coalesced: it moves little beside those that have it.
using Moved = std::map<std::pair<BufferId, bool>, int64_t>;
Moved moved(const LoopProgram& program, const Statement& statement, size_t position, int64_t uncoalesced) {
  Moved result;
  for (const auto& access : accesses(program, statement)) {
    int64_t bytes = program.buffers[access.storage].bytes();
    if (position < statement.vars.size() && statement.vars[position].extent > 1) {
      const auto each = step_of(program, access.storage, *access.index, statement.vars[position].symbol);
      if (!each || *each < 0 || *each > 1) bytes *= uncoalesced;
    }
    auto [found, added] = result.emplace(std::pair(access.storage, access.store), bytes);
    if (!added) found->second = std::min(found->second, bytes);
  }
  return result;
}

/// The sum over statements: each storage is read once, at the lowest cost of any statement, and not at all
/// where one of them writes it.
int64_t sum(const std::vector<Moved>& parts) {
  Moved all;
  for (const auto& part : parts)
    for (const auto& [key, bytes] : part) {
      auto [found, added] = all.emplace(key, bytes);
      if (!added) found->second = std::min(found->second, bytes);
    }
  int64_t result = 0;
  for (const auto& [key, bytes] : all)
    if (key.second || !all.contains({key.first, true})) result += bytes;
  return result;
}

}  // namespace

std::optional<int64_t> step_of(const LoopProgram& program, BufferId buffer,
                               std::span<const index::Expr> index, index::Symbol symbol) {
  const auto& strides = program.buffers[buffer].strides;
  int64_t step = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    const auto coefficient = program.pool.coefficient(index[d], symbol);
    if (!coefficient) return std::nullopt;
    step += *coefficient * strides[d];
  }
  return step;
}

int64_t traffic(const LoopProgram& program, std::span<const uint32_t> statements, uint32_t shared,
                bool one_nest, int64_t uncoalesced) {
  if (one_nest) {
    size_t variables = 1;
    for (uint32_t s : statements) variables = std::max(variables, program.statements[s].vars.size());
    std::optional<int64_t> best;
    for (size_t k = 0; k < variables; ++k) {
      std::vector<Moved> parts;
      for (uint32_t s : statements) parts.push_back(moved(program, program.statements[s], k, uncoalesced));
      const int64_t bytes = sum(parts);
      if (!best || bytes < *best) best = bytes;
    }
    if (const auto& only = program.statements[statements[0]];
        statements.size() == 1 && only.kind == FE_STATEMENT_MAP) {
      std::vector<Moved> along;  // of the square's loops: each access costs what its own one does
      for (size_t k = 0; k < only.vars.size(); ++k)
        if (only.vars[k].extent >= least_square) along.push_back(moved(program, only, k, uncoalesced));
      if (!along.empty()) best = std::min(*best, sum(along));
    }
    return *best;
  }
  std::vector<Moved> parts;
  for (uint32_t s : statements) {
    const auto& statement = program.statements[s];
    const size_t end = std::max<size_t>(statement.vars.size(), 1);
    std::optional<Moved> best;
    for (size_t k = std::min<size_t>(shared, end - 1); k < end; ++k) {
      auto with = moved(program, statement, k, uncoalesced);
      if (!best || sum({with}) < sum({*best})) best = std::move(with);
    }
    parts.push_back(std::move(*best));
  }
  return sum(parts);
}

int64_t work_of(const Statement& statement, const TargetNumbers& target) {
  const auto operations = std::ranges::count_if(statement.ops, [](const BodyOp& op) { return op.is_prim(); });
  return statement.points(VarKind::parallel) * std::max<int64_t>(1, statement.points(VarKind::reduction)) *
         target.elements_of_point(operations);
}

}  // namespace ferrite::core::schedule
