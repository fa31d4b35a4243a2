// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/repeat_products.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/schedule/fusion/matrix_products.h"
#include "core/schedule/names.h"
#include "core/schedule/rewrites/at_load.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {
namespace {

/// The statements of the two directions; both lists have the statements that make the matrices.
struct Directions {
  std::vector<uint32_t> first, second;
};

class Repeater {
 public:
  Repeater(LoopProgram& program, const FusionLimits& limits, Ledger& ledger)
      : program_(program),
        ledger_(ledger),
        deps_(Dependencies::of(program)),
        callers_(storages_of_caller(program)),
        constant_(at_load(program).statements),
        groups_(program, deps_),
        products_(program, deps_, constant_, callers_, limits) {}

  void run() {
    std::map<uint32_t, ProgramStatement> copies;
    const auto count = static_cast<uint32_t>(program_.statements.size());
    for (uint32_t s = 0; s < count; ++s) {
      const auto statements = products_.candidate(groups_, s);
      if (statements.empty() || statements.front() != s) continue;
      const auto directions = directions_of(statements);
      const auto is_copied = [&](uint32_t each) { return copies.contains(each); };
      if (!directions || std::ranges::any_of(statements, is_copied) || !are_kernels(*directions, statements))
        continue;
      repeat(*directions, copies);
    }
    if (copies.empty()) return;
    std::vector<ProgramStatement> statements;
    for (uint32_t s = 0; s < count; ++s) {
      statements.push_back(std::move(program_.statements[s]));
      if (const auto copy = copies.find(s); copy != copies.end())
        statements.push_back(std::move(copy->second));
    }
    program_.statements = std::move(statements);
  }

 private:
  bool are_kernels(const Directions& directions, std::span<const uint32_t> statements) {
    for (const auto* part : {&directions.first, &directions.second}) {
      const auto refusal = products_.ask(*part, statements).refusal;
      if (refusal.category.empty()) continue;
      ledger_.add({"fusion",
                   origin_names(program_.statements[statements.front()]),
                   {},
                   "not repeated",
                   std::string(refusal.category),
                   refusal.text});
      return false;
    }
    return true;
  }

  /// The dim of a matrix, written by one of the statements, over which a contraction sums.
  std::optional<size_t> summed_dim(const Statement& statement, const std::set<BufferId>& matrices) const {
    for (const auto& op : statement.ops) {
      if (op.code != FE_OP_LOAD || !matrices.contains(op.buffer)) continue;
      for (size_t d = 0; d < op.index.size(); ++d)
        for (const auto& var : statement.vars)
          if (var.kind == VarKind::reduction && program_.pool.as_symbol(op.index[d]) == var.symbol) return d;
    }
    return std::nullopt;
  }

  /// Empty unless the products sum over two dims of the matrices.
  std::optional<Directions> directions_of(std::span<const uint32_t> statements) const {
    std::set<BufferId> written;
    for (const uint32_t s : statements)
      for (const auto& store : program_.statements[s].stores) written.insert(store.buffer);
    std::map<size_t, std::set<uint32_t>> by_dim;
    for (const uint32_t s : statements)
      if (const auto dim = summed_dim(program_.statements[s], written)) by_dim[*dim].insert(s);
    if (by_dim.size() != 2) return std::nullopt;
    const auto with_makers = [&](std::set<uint32_t> members) {
      for (auto s = statements.rbegin(); s != statements.rend(); ++s)
        if (std::ranges::any_of(deps_.after[*s], [&](uint32_t next) { return members.contains(next); }) &&
            std::ranges::any_of(deps_.writes[*s], [&](BufferId b) {
              return std::ranges::any_of(deps_.readers[b], [&](uint32_t r) { return members.contains(r); });
            }))
          members.insert(*s);
      return std::vector<uint32_t>(members.begin(), members.end());
    };
    return Directions{with_makers(by_dim.begin()->second), with_makers(by_dim.rbegin()->second)};
  }

  /// Gives the direction with fewer statements copies of what both have.
  void repeat(const Directions& directions, std::map<uint32_t, ProgramStatement>& copies) {
    const bool first_is_small = directions.first.size() < directions.second.size();
    const auto& small = first_is_small ? directions.first : directions.second;
    const auto& large = first_is_small ? directions.second : directions.first;
    std::map<BufferId, BufferId> images;
    const auto read_images = [&](ProgramStatement& statement) {
      for (auto& op : statement.ops)
        if (const auto image = images.find(op.buffer); op.code == FE_OP_LOAD && image != images.end())
          op.buffer = image->second;
    };
    for (const uint32_t s : small) {
      if (!std::ranges::binary_search(large, s)) {
        read_images(program_.statements[s]);
        continue;
      }
      auto copy = program_.statements[s];
      read_images(copy);
      for (auto& store : copy.stores) {
        auto buffer = program_.buffers[store.buffer];
        images.emplace(store.buffer, static_cast<BufferId>(program_.buffers.size()));
        store.buffer = images.at(store.buffer);
        program_.buffers.push_back(std::move(buffer));
      }
      if (copy.kind == FE_STATEMENT_CONTRACT)
        ledger_.add({"fusion",
                     origin_names(copy),
                     {},
                     "repeated",
                     {},
                     "one kernel sums along the rows of its matrix, another over them"});
      copies.emplace(s, std::move(copy));
    }
  }

  LoopProgram& program_;
  Ledger& ledger_;
  const Dependencies deps_;
  const std::set<BufferId> callers_;
  const std::vector<bool> constant_;
  const Groups groups_;
  const MatrixProducts products_;
};

}  // namespace

void repeat_products(LoopProgram& program, const FusionLimits& limits, Ledger& ledger) {
  Repeater(program, limits, ledger).run();
}

}  // namespace ferrite::core::schedule
