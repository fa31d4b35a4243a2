// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/nest/memory_hints.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ferrite::emitter {

using loop::VarKind;

namespace {

/// Whether an address depends only on variables that have values at the vector loop. Inside the loop of a
/// parallel vector variable, the reduction variables or `inside` still vary.
bool is_known_at_vectors(index::Pool& pool, const StatementPlan& plan, index::Expr address) {
  const auto& statement = plan.statement;
  const auto known = [&](size_t var) {
    return var < plan.fixed || var == plan.vector || (var == plan.inside && !plan.transposed.empty()) ||
           std::ranges::find(plan.outer, var) != plan.outer.end() ||
           (!plan.vector_is_parallel() && statement.vars[var].kind == VarKind::reduction);
  };
  for (size_t k = 0; k < statement.vars.size(); ++k)
    if (!known(k) && pool.depends_on(address, statement.vars[k].symbol)) return false;
  return std::ranges::none_of(statement.ops, [&](const loop::BodyOp& op) {
    return op.code == FE_OP_INDIRECT && pool.depends_on(address, op.symbol);
  });
}

/// Whether the data probably stays in a cache until it is read; it is not prefetched.
bool is_kept(const Target& target, const loop::Buffer& read) {
  return read.kind == FE_BUFFER_LOCAL || read.kind == FE_BUFFER_OUTPUT || read.bytes() <= target.l2_bytes;
}

/// Adds a second prefetch of the same data into the first-level cache, shortly before its use. If arithmetic
/// fills the time between two lines, out-of-order loads do not reach far enough ahead.
void prefetch_near(const loop::Kernel& kernel, std::vector<StatementEmitter::Ahead>& reads) {
  // Bytes in flight: of all reads together, at least of each.
  constexpr int64_t on_the_way = 2048, least = 1024;
  const size_t count = reads.size();
  for (size_t k = 0; k < count; ++k) {
    auto near = reads[k];
    const int64_t bytes = KernelContext::storage_bytes(kernel.buffers[near.buffer].dtype);
    near.distance = std::max(least, on_the_way / static_cast<int64_t>(count)) / bytes;
    near.level = KernelContext::Level::first;
    reads.push_back(near);
  }
}

/// A statement that reads rows of a buffer from memory.
struct RowReader {
  size_t statement;
  /// Prefetch of the next row, if the statement's vectors run along the row.
  std::optional<StatementEmitter::Ahead> next;
};

/// By buffer with such reads: its readers, in order.
std::vector<std::vector<RowReader>> readers_of_rows(const Target& target, loop::Kernel& kernel,
                                                    std::span<const StatementPlan> plans) {
  std::vector<std::vector<RowReader>> result;
  auto& pool = kernel.pool;
  size_t row = kernel.shared;
  while (row > 0 && plans[0].statement.vars[row - 1].extent == 1) --row;
  if (row == 0) return result;
  --row;
  for (loop::BufferId buffer = 0; buffer < kernel.buffers.size(); ++buffer) {
    const auto& read = kernel.buffers[buffer];
    if (is_kept(target, read)) continue;
    std::vector<RowReader> readers;
    for (size_t k = 0; k < plans.size(); ++k) {
      const auto& statement = plans[k].statement;
      const auto load = std::ranges::find_if(statement.ops, [&](const loop::BodyOp& op) {
        return op.code == FE_OP_LOAD && op.buffer == buffer;
      });
      if (load == statement.ops.end()) continue;
      auto& reader = readers.emplace_back(k, std::nullopt);
      if (!plans[k].vector || is_empty(statement)) continue;
      const auto address = element_address(pool, read, load->index);
      const auto step = pool.coefficient(address, statement.vars[row].symbol);
      const auto& vector = statement.vars[*plans[k].vector];
      // Short rows are covered by the hardware; rows beyond a quarter of the cache would be evicted before
      // use.
      constexpr int64_t least_row = 1024;
      const int64_t bytes = vector.extent * KernelContext::storage_bytes(read.dtype);
      if (pool.coefficient(address, vector.symbol) == 1 && step && *step != 0 && bytes >= least_row &&
          bytes <= target.l2_bytes / 4 && is_known_at_vectors(pool, plans[k], address))
        reader.next = {buffer, address, *step};
    }
    if (!readers.empty()) result.push_back(std::move(readers));
  }
  return result;
}

}  // namespace

void with_streams(KernelContext& context, std::span<const StatementPlan> plans,
                  const std::function<void(bool streams)>& emit) {
  auto& builder = context.builder;
  llvm::Value* places = nullptr;
  uint64_t vector = 1;
  for (const auto& plan : plans)
    for (size_t k = 0; k < plan.streams.size(); ++k) {
      if (!plan.streams[k]) continue;
      const auto buffer = plan.statement.stores[k].buffer;
      auto* place = builder.CreatePtrToInt(context.base(buffer), builder.getInt64Ty());
      places = places ? builder.CreateOr(places, place) : place;
      vector = std::max(
          vector, uint64_t{plan.lanes} * KernelContext::storage_bytes(context.kernel.buffers[buffer].dtype));
    }
  if (!places) return emit(false);
  auto* rest = builder.CreateAnd(places, builder.getInt64(vector - 1));
  auto* aligned = builder.CreateICmpEQ(rest, builder.getInt64(0));
  context.when(aligned, "streams", [&] {
    emit(true);
    // Streaming stores are not ordered with other stores: the fence orders them before the task's completion
    // is signalled.
    builder.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, llvm::ArrayRef<llvm::Value*>());
  });
  context.when(builder.CreateNot(aligned), "plain", [&] { emit(false); });
}

std::vector<StatementEmitter::Ahead> next_pages(const Target& target, loop::Kernel& kernel,
                                                const StatementPlan& plan) {
  std::vector<StatementEmitter::Ahead> result;
  if (!plan.vector_is_parallel() || (plan.inside && plan.transposed.empty()) || plan.strip > 0) return result;
  auto& pool = kernel.pool;
  const auto& vector = plan.statement.vars[*plan.vector];
  for (loop::OpId k = 0; k < plan.statement.ops.size(); ++k) {
    const auto& op = plan.statement.ops[k];
    if (op.code != FE_OP_LOAD || is_kept(target, kernel.buffers[op.buffer]) ||
        std::ranges::find(plan.transposed, k) != plan.transposed.end())
      continue;
    const auto address = element_address(pool, kernel.buffers[op.buffer], op.index);
    const int64_t bytes = KernelContext::storage_bytes(kernel.buffers[op.buffer].dtype);
    const bool is_new = std::ranges::none_of(
        result, [&](const auto& ahead) { return ahead.buffer == op.buffer && ahead.address == address; });
    if (!is_new || vector.extent * bytes < page_bytes || pool.coefficient(address, vector.symbol) != 1 ||
        !is_known_at_vectors(pool, plan, address))
      continue;
    // A transposition block continues with its next line.
    const auto line = plan.inside ? pool.coefficient(address, plan.statement.vars[*plan.inside].symbol)
                                  : std::optional(page_bytes / bytes);
    if (line) result.push_back({op.buffer, address, *line});
  }
  if (!plan.inside) prefetch_near(kernel, result);
  return result;
}

std::vector<std::vector<StatementEmitter::Ahead>> next_rows(const Target& target, loop::Kernel& kernel,
                                                            std::span<const StatementPlan> plans) {
  std::vector<std::vector<StatementEmitter::Ahead>> result(plans.size());
  for (auto readers : readers_of_rows(target, kernel, plans)) {
    // The first reader loads the row itself.
    readers.erase(readers.begin());
    std::erase_if(readers, [](const RowReader& reader) { return !reader.next; });
    for (size_t k = 0; k < readers.size(); ++k) {
      auto ahead = *readers[k].next;
      ahead.first = static_cast<int64_t>(k);
      ahead.of = static_cast<int64_t>(readers.size());
      result[readers[k].statement].push_back(ahead);
    }
  }
  return result;
}

std::vector<std::vector<StatementEmitter::Ahead>> next_block(const Target& target, loop::Kernel& kernel,
                                                             std::span<const StatementPlan> plans,
                                                             int64_t rows) {
  constexpr int64_t of = 16, before = 2;
  std::vector<std::vector<StatementEmitter::Ahead>> result(plans.size());
  for (auto readers : readers_of_rows(target, kernel, plans)) {
    std::erase_if(readers, [](const RowReader& reader) { return !reader.next; });
    int64_t first = 0;
    // In sixteenths of the row: all but the last reader prefetch two each.
    for (size_t k = 0; k < readers.size() && first < of; ++k) {
      const bool writes = readers[k].statement + 1 == plans.size();
      auto ahead = *readers[k].next;
      const int64_t step = ahead.distance;
      ahead.first = first;
      ahead.of = of;
      ahead.parts = k + 1 == readers.size() ? of - first : before;
      first += ahead.parts;
      // The last statement runs at the last row of its block and prefetches all rows of the next block.
      for (int64_t row = writes ? 1 : rows; row <= rows; ++row) {
        ahead.distance = row * step;
        result[readers[k].statement].push_back(ahead);
      }
    }
  }
  return result;
}

}  // namespace ferrite::emitter
