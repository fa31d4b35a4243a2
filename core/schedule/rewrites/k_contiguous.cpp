// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/k_contiguous.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/schedule/rewrites/layout.h"

namespace ferrite::core::schedule {
namespace {

class DepthLast {
 public:
  DepthLast(LoopProgram& program, Ledger& ledger)
      : program_(program), ledger_(ledger), free_(free_to_order(program)) {
    find_users();
  }

  void run() {
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      const auto& statement = program_.statements[s];
      if (statement.kind != FE_STATEMENT_CONTRACT || statement.contract_kind == FE_CONTRACT_CONV) continue;
      for (const auto factor : {statement.contract_a, statement.contract_b})
        if (auto order = wanted(statement, statement.ops[factor])) {
          move(statement.ops[factor].buffer, *order, statement);
        }
    }
  }

 private:
  struct Users {
    size_t loads = 0, stores = 0;
    uint32_t reader = 0, writer = 0;
  };

  void find_users() {
    users_.resize(program_.buffers.size());
    for (const auto& buffer : program_.buffers)
      if (buffer.base != none) free_[buffer.base] = false;
    for (uint32_t s = 0; s < program_.statements.size(); ++s) {
      const auto& statement = program_.statements[s];
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) {
          auto& users = users_[program_.storage(op.buffer)];
          ++users.loads;
          users.reader = s;
        }
      for (const auto& store : statement.stores) {
        auto& users = users_[program_.storage(store.buffer)];
        ++users.stores;
        users.writer = s;
      }
    }
  }

  bool is_free(BufferId b) const {
    const auto& users = users_[b];
    return free_[b] && !program_.buffers[b].channels_last && users.loads == 1 && users.stores == 1 &&
           users.reader != users.writer;
  }

  /// The order of dims that makes the summed dims contiguous; none where they are contiguous already, or
  /// cannot be.
  std::optional<std::vector<size_t>> wanted(const Statement& statement, const loop::BodyOp& load) const {
    if (load.code != FE_OP_LOAD || load.buffer != program_.storage(load.buffer) || !is_free(load.buffer))
      return std::nullopt;
    std::vector<size_t> order, depth;
    const auto& dims = program_.buffers[load.buffer].dims;
    bool moves = false;
    for (size_t d = 0; d < load.index.size(); ++d) {
      bool summed = false, kept = false;
      for (const auto& var : statement.vars)
        if (program_.pool.depends_on(load.index[d], var.symbol))
          (var.kind == VarKind::reduction ? summed : kept) = true;
      if (summed && kept) return std::nullopt;
      moves = moves ||
              (!summed && dims[d] > 1 && std::ranges::any_of(depth, [&](size_t k) { return dims[k] > 1; }));
      (summed ? depth : order).push_back(d);
    }
    // The innermost dim must stay innermost: the writer's contiguous runs would become strided stores
    // otherwise.
    const bool writer_keeps_runs = !depth.empty() && depth.back() + 1 == load.index.size();
    order.insert(order.end(), depth.begin(), depth.end());
    if (!writer_keeps_runs || !moves) return std::nullopt;
    return order;
  }

  template <class T>
  static void permute(std::vector<T>& list, const std::vector<size_t>& order) {
    std::vector<T> moved;
    for (size_t d : order) moved.push_back(list[d]);
    list = std::move(moved);
  }

  void move(BufferId b, const std::vector<size_t>& order, const loop::ProgramStatement& reader) {
    auto& buffer = program_.buffers[b];
    ledger_.add({"layout",
                 origin_names(program_.statements[users_[b].writer]),
                 fmt::format("{}x{}", name_of(buffer.dtype), fmt::join(buffer.dims, "x")),
                 "k contiguous",
                 {},
                 fmt::format("dims are stored in the order {}, as {} sums over the last ones",
                             fmt::join(order, ", "), origin_names(reader)),
                 static_cast<double>(buffer.bytes())});
    permute(buffer.dims, order);
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    for (const uint32_t s : {users_[b].reader, users_[b].writer}) {
      for (auto& op : program_.statements[s].ops)
        if (op.code == FE_OP_LOAD && op.buffer == b) permute(op.index, order);
      for (auto& store : program_.statements[s].stores)
        if (store.buffer == b) permute(store.index, order);
    }
  }

  LoopProgram& program_;
  Ledger& ledger_;
  std::vector<bool> free_;    ///< by buffer: it has no views, and nothing relies on its order
  std::vector<Users> users_;  ///< by storage
};

}  // namespace

void make_k_contiguous(LoopProgram& program, Ledger& ledger) { DepthLast(program, ledger).run(); }

}  // namespace ferrite::core::schedule
