// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <map>

#include "core/schedule/group_kernel.h"
#include "core/schedule/merge_dims.h"

namespace ferrite::core::schedule {
namespace {

/// By dim of a buffer: whether a shared loop of its writer addresses it, with the loop's variable alone as
/// the coordinate.
std::vector<bool> shared_dims(const LoopProgram& program, const Statement& writer, const Store& store,
                              uint32_t shared) {
  std::vector<bool> result(store.index.size());
  for (size_t d = 0; d < store.index.size(); ++d) {
    auto symbol = program.pool.as_symbol(store.index[d]);
    for (uint32_t k = 0; k < shared && symbol; ++k)
      if (writer.vars[k].symbol == *symbol) result[d] = true;
  }
  return result;
}

}  // namespace

KernelMaker::KernelMaker(const Schedule& schedule)
    : schedule_(schedule), users_(schedule.program.buffers.size(), nobody) {
  const auto& program = schedule.program;
  const auto touch = [&](BufferId storage, size_t group) {
    users_[storage] = users_[storage] == nobody || users_[storage] == group ? group : several;
  };
  for (size_t g = 0; g < schedule.groups.size(); ++g)
    for (uint32_t s : schedule.groups[g].statements) {
      const auto& statement = program.statements[s];
      for (const auto& store : statement.stores) touch(program.storage(store.buffer), g);
      for (const auto& op : statement.ops)
        if (op.code == FE_OP_LOAD) touch(program.storage(op.buffer), g);
      for (BufferId b : statement.call.reads) touch(program.storage(b), g);
      for (BufferId b : statement.call.writes) touch(program.storage(b), g);
    }
  for (BufferId b : program.outputs) users_[program.storage(b)] = several;
  for (BufferId b : program.inputs) users_[b] = several;
}

GroupKernel KernelMaker::make(size_t number) const {
  return kernel_of(schedule_.program, schedule_.groups[number],
                   [&](BufferId storage) { return users_[storage] == number; });
}

GroupKernel kernel_of(const LoopProgram& program, const Group& group,
                      const std::function<bool(BufferId)>& local) {
  GroupKernel result;
  Kernel& kernel = result.kernel;
  kernel.shared = group.statements.size() > 1
                      ? group.shared
                      : static_cast<uint32_t>(program.statements[group.statements[0]].parallel_count());

  std::map<BufferId, std::pair<const Statement*, const Store*>> written;
  for (uint32_t s : group.statements)
    for (const auto& store : program.statements[s].stores)
      written.emplace(program.storage(store.buffer), std::pair{&program.statements[s], &store});

  std::map<BufferId, BufferId> buffer_of;
  std::vector<BufferId> order;
  auto use = [&](BufferId storage) {
    if (buffer_of.count(storage)) return;
    const auto& source = program.buffers[storage];
    Buffer buffer = source;
    auto store = written.find(storage);
    if (store == written.end()) {
      buffer.kind = source.role == Role::constant ? FE_BUFFER_CONSTANT : FE_BUFFER_INPUT;
    } else if (!local(storage)) {
      buffer.kind = FE_BUFFER_OUTPUT;
    } else {
      // A buffer that only this group accesses lives inside one iteration of the shared loops, so dims of
      // shared loops need no memory: their stride is 0.
      buffer.kind = FE_BUFFER_LOCAL;
      auto shared = shared_dims(program, *store->second.first, *store->second.second, kernel.shared);
      int64_t step = 1;
      for (size_t d = buffer.dims.size(); d-- > 0;) {
        buffer.strides[d] = shared[d] ? 0 : step;
        if (!shared[d]) step *= std::max<int64_t>(1, buffer.dims[d]);
      }
    }
    buffer_of.emplace(storage, static_cast<BufferId>(kernel.buffers.size()));
    if (buffer.kind != FE_BUFFER_LOCAL) result.arguments.push_back(storage);
    kernel.buffers.push_back(std::move(buffer));
  };
  for (uint32_t s : group.statements) {
    for (const auto& op : program.statements[s].ops)
      if (op.code == FE_OP_LOAD) use(program.storage(op.buffer));
    for (const auto& store : program.statements[s].stores) use(program.storage(store.buffer));
  }

  std::map<index::Symbol, index::Expr> symbols;
  auto import = [&](index::Expr& expr) {
    expr = kernel.pool.import(program.pool, expr, [&](index::Symbol symbol) {
      auto found = symbols.find(symbol);
      if (found == symbols.end()) {
        auto made =
            kernel.pool.new_symbol(program.pool.symbol_range(symbol), program.pool.symbol_divisor(symbol));
        found = symbols.emplace(symbol, kernel.pool.symbol(made)).first;
      }
      return found->second;
    });
  };
  auto declare = [&](index::Symbol& symbol, index::Symbol made) {
    symbols[symbol] = kernel.pool.symbol(made);
    symbol = made;
  };
  for (uint32_t s : group.statements) {
    Statement statement = program.statements[s];
    for (auto& var : statement.vars)
      declare(var.symbol, kernel.pool.new_symbol(program.pool.symbol_range(var.symbol),
                                                 program.pool.symbol_divisor(var.symbol),
                                                 program.pool.symbol_name(var.symbol)));
    for (auto& op : statement.ops) {
      for (auto& expr : op.index) import(expr);
      if (op.code == FE_OP_LOAD) op.buffer = buffer_of.at(program.storage(op.buffer));
      if (op.code == FE_OP_INDIRECT)
        declare(op.symbol, kernel.pool.new_computed_symbol(program.pool.symbol_range(op.symbol)));
    }
    for (auto& store : statement.stores) {
      for (auto& expr : store.index) import(expr);
      store.buffer = buffer_of.at(program.storage(store.buffer));
    }
    kernel.statements.push_back(std::move(statement));
  }
  merge_split_dims(kernel);
  return result;
}

}  // namespace ferrite::core::schedule
