// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/attention/attention_blocks.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/cpu/gemm/emit.h"
#include "backends/llvm/nest/nest_emitter.h"

namespace ferrite::emitter {
namespace {

constexpr int64_t most_rows = 64;      // more rows share the packed columns with no further gain
constexpr int64_t enough_rows = 16;    // fewer rows would read all columns too often
constexpr int64_t wanted_tasks = 32;   // enough tasks to balance many workers
constexpr int64_t even_elements = 16;  // rows of a block start at cache lines

bool is_inner_contraction(const loop::Kernel& kernel, const loop::Statement& statement) {
  return statement.kind == FE_STATEMENT_CONTRACT && statement.parallel_count() > kernel.shared;
}

/// By statement: the number of its run. A run is a sequence of statements that are executed together, row by
/// row; a contraction is a run of its own.
std::vector<size_t> runs_of(const loop::Kernel& kernel) {
  std::vector<size_t> runs;
  for (size_t k = 0; k < kernel.statements.size(); ++k) {
    const bool alone = k == 0 || is_inner_contraction(kernel, kernel.statements[k]) ||
                       is_inner_contraction(kernel, kernel.statements[k - 1]);
    runs.push_back(k == 0 ? 0 : runs.back() + (alone ? 1 : 0));
  }
  return runs;
}

/// Calls visit(statement number, buffer, index) for each access.
template <class Visit>
void each_access(const loop::Kernel& kernel, Visit&& visit) {
  for (size_t k = 0; k < kernel.statements.size(); ++k) {
    for (const auto& op : kernel.statements[k].ops)
      if (op.code == FE_OP_LOAD) visit(k, op.buffer, op.index);
    for (const auto& store : kernel.statements[k].stores) visit(k, store.buffer, store.index);
  }
}

/// Lets LOCALs of one shape share memory if the second one is first written after the last use of the first
/// one, or, at each point, after the only read of the first one there. Rows of scores thus become rows of
/// their softmax in place.
void share_slots(loop::Kernel& kernel) {
  struct Use {
    size_t first = 0, last = 0;
    bool used = false;
  };
  std::vector<Use> uses(kernel.buffers.size());
  each_access(kernel, [&](size_t k, loop::BufferId buffer, const std::vector<index::Expr>&) {
    if (!uses[buffer].used) uses[buffer] = {k, k, true};
    uses[buffer].last = k;
  });
  const auto runs = runs_of(kernel);
  const auto is_kept = [&](loop::BufferId b) { return runs[uses[b].first] != runs[uses[b].last]; };
  const auto is_after = [&](loop::BufferId earlier, loop::BufferId later) {
    if (uses[earlier].last < uses[later].first) return true;
    if (uses[earlier].last > uses[later].first) return false;
    const auto& statement = kernel.statements[uses[later].first];
    if (statement.kind == FE_STATEMENT_CONTRACT) return false;
    const auto store = std::ranges::find(statement.stores, later, &loop::Store::buffer);
    return store != statement.stores.end() &&
           std::ranges::none_of(statement.stores,
                                [&](const loop::Store& other) { return other.buffer == earlier; }) &&
           std::ranges::all_of(statement.ops, [&](const loop::BodyOp& op) {
             return op.code != FE_OP_LOAD ||
                    (op.buffer != later && (op.buffer != earlier || op.index == store->index));
           });
  };
  const auto fits = [&](loop::BufferId a, loop::BufferId b) {
    const auto &x = kernel.buffers[a], &y = kernel.buffers[b];
    // A buffer of a single run holds one row; sharing must not make it hold all rows.
    return x.kind == FE_BUFFER_LOCAL && y.kind == FE_BUFFER_LOCAL && x.dtype == y.dtype && x.dims == y.dims &&
           x.strides == y.strides && x.offset == y.offset &&
           (is_kept(a) || is_kept(b) || runs[uses[a].first] == runs[uses[b].first]);
  };
  std::vector<loop::BufferId> order(kernel.buffers.size());
  std::iota(order.begin(), order.end(), loop::BufferId{0});
  std::ranges::stable_sort(order, {}, [&](loop::BufferId b) { return uses[b].first; });
  for (const auto later : order)
    for (const auto earlier : order) {
      if (earlier == later || !uses[earlier].used || !uses[later].used || !fits(earlier, later) ||
          !is_after(earlier, later))
        continue;
      for (auto& statement : kernel.statements) {
        for (auto& op : statement.ops)
          if (op.code == FE_OP_LOAD && op.buffer == later) op.buffer = earlier;
        for (auto& store : statement.stores)
          if (store.buffer == later) store.buffer = earlier;
      }
      uses[earlier].last = uses[later].last;
      uses[later].used = false;
      std::ranges::fill(kernel.buffers[later].dims, 0);
      break;
    }
}

/// Gives every LOCAL that is passed between runs a slot for each row, as if all rows existed. Returns false
/// if an access does not name its row in exactly one dim.
bool keep_rows(loop::Kernel& kernel, std::vector<int64_t>& kept) {
  const auto runs = runs_of(kernel);
  std::vector<std::set<size_t>> users(kernel.buffers.size()), row_dims(kernel.buffers.size());
  std::vector<bool> plain(kernel.buffers.size(), true);
  each_access(kernel, [&](size_t k, loop::BufferId buffer, const std::vector<index::Expr>& index) {
    users[buffer].insert(runs[k]);
    const auto row = kernel.statements[k].vars[kernel.shared - 1].symbol;
    std::set<size_t> dims;
    for (size_t d = 0; d < index.size(); ++d)
      if (kernel.pool.as_symbol(index[d]) == row) dims.insert(d);
    plain[buffer] = plain[buffer] && dims.size() == 1;
    row_dims[buffer].merge(dims);
  });
  kept.assign(kernel.buffers.size(), 0);
  for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b) {
    auto& buffer = kernel.buffers[b];
    if (buffer.kind != FE_BUFFER_LOCAL || users[b].size() < 2) continue;
    if (!plain[b] || row_dims[b].size() != 1) return false;
    const size_t dim = *row_dims[b].begin();
    kept[b] = (buffer.extent() + even_elements - 1) / even_elements * even_elements;
    // A row stride that is a multiple of a page maps all rows to the same few cache sets.
    if (kept[b] * KernelContext::storage_bytes(buffer.dtype) % 2048 == 0) kept[b] += even_elements;
    buffer.strides[dim] = kept[b];
    buffer.dims[dim] = 1;
  }
  return true;
}

/// Plans all contractions; returns false if one has no plan.
bool plan_contracts(const Target& target, loop::Kernel& kernel, const GemmConfig& config,
                    std::vector<std::optional<GemmPlan>>& plans) {
  plans.assign(kernel.statements.size(), std::nullopt);
  for (size_t k = 0; k < kernel.statements.size(); ++k)
    if (is_inner_contraction(kernel, kernel.statements[k])) {
      plans[k] = plan_gemm_inside(target, kernel, k, config);
      if (!plans[k]) return false;
    }
  return true;
}

/// The least number of rows that is a multiple of every register block.
int64_t common_rows(std::span<const std::optional<GemmPlan>> plans) {
  int64_t rows = 1;
  for (const auto& plan : plans)
    if (plan) rows = std::lcm(rows, int64_t{plan->block_rows});
  return rows;
}

int64_t points_of(std::span<const loop::Var> vars) {
  int64_t points = 1;
  for (const auto& var : vars)
    if (var.kind != loop::VarKind::reduction) points *= var.extent;
  return points;
}

/// Whether workers may execute different rows in parallel.
bool rows_apart(index::Pool& pool, const loop::Kernel& kernel) {
  return std::ranges::all_of(kernel.statements, [&](const loop::Statement& statement) {
    for (size_t k = 0; k < kernel.shared; ++k)
      if (statement.vars[k].extent > 1 && !independent(pool, statement, k)) return false;
    return true;
  });
}

}  // namespace

std::optional<AttentionBlocks> plan_attention_blocks(const Target& target, loop::Kernel& kernel) {
  if (kernel.statements.size() < 2 || kernel.shared == 0) return std::nullopt;
  const bool inner = std::ranges::any_of(
      kernel.statements, [&](const auto& statement) { return is_inner_contraction(kernel, statement); });
  if (!inner || !rows_apart(kernel.pool, kernel)) return std::nullopt;
  const std::span shared(kernel.statements[0].vars.data(), kernel.shared);
  const int64_t extent = shared.back().extent;
  const bool empty = std::ranges::any_of(
      kernel.statements, [](const auto& statement) { return points_of(statement.vars) == 0; });
  if (extent < 2 || empty) return std::nullopt;
  AttentionBlocks result;
  share_slots(kernel);
  if (!keep_rows(kernel, result.kept)) return std::nullopt;
  for (auto& statement : kernel.statements) make_addresses(kernel, statement);
  if (!plan_contracts(target, kernel, {}, result.contracts)) return std::nullopt;
  int64_t unit = common_rows(result.contracts);
  // The register blocks have no common multiple of reasonable size: plan again with one block for all.
  if (unit > most_rows) {
    const auto first =
        std::ranges::find_if(result.contracts, [](const auto& plan) { return plan.has_value(); });
    const GemmConfig config{(*first)->block_rows, (*first)->block_vectors, 0};
    if (!plan_contracts(target, kernel, config, result.contracts)) return std::nullopt;
    unit = common_rows(result.contracts);
  }

  int64_t row_bytes = 1;
  for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b)
    row_bytes += result.kept[b] * KernelContext::storage_bytes(kernel.buffers[b].dtype);
  const int64_t outer = points_of(shared.first(shared.size() - 1));
  const int64_t wanted_blocks = (wanted_tasks + outer - 1) / outer;
  // Long rows may come from the last-level cache: its latency is small next to the arithmetic on them.
  const int64_t near = std::max(target.l2_bytes / 2, target.l3_bytes_per_core / 4);
  const int64_t most =
      std::max(unit, std::min({most_rows, std::max(enough_rows, near / row_bytes), extent / wanted_blocks}));
  // Equal blocks, rounded up to whole register blocks.
  const int64_t blocks = (extent + most - 1) / most, rows = (extent + blocks - 1) / blocks;
  result.rows = (rows + unit - 1) / unit * unit;
  for (auto& plan : result.contracts)
    if (plan) plan->tile_rows = result.rows;
  for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b)
    if (result.kept[b] > 0) kernel.buffers[b].dims = {result.rows * result.kept[b]};
  return result;
}

void emit_attention_blocks(KernelContext& context, const AttentionBlocks& plan, EmitResult& result) {
  auto& kernel = context.kernel;
  auto& builder = context.builder;
  std::vector<std::optional<InnerGemm>> contracts(kernel.statements.size());
  std::vector<std::optional<StatementPlan>> others(kernel.statements.size());
  for (size_t k = 0; k < kernel.statements.size(); ++k) {
    if (plan.contracts[k])
      contracts[k].emplace(context, *plan.contracts[k]);
    else
      others[k] = plan_statement(context.target, kernel, kernel.statements[k], kernel.shared);
  }
  const std::span shared(kernel.statements[0].vars.data(), kernel.shared);
  const int64_t blocks = plan.blocks(kernel);
  result.tasks = blocks * points_of(shared.first(shared.size() - 1));
  result.grain = 1;

  std::vector<llvm::Value*> places;  // base pointers of the kept buffers before they move
  for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b) places.push_back(context.base(b));
  const auto runs = runs_of(kernel);
  context.loop(context.begin, context.end, 1, "task", [&](llvm::Value* task) {
    // Consecutive tasks are blocks of one point. A worker packs the columns of a point once: at its first
    // task, and at the first block of each point.
    auto* block = builder.CreateURem(task, context.i64(blocks));
    auto* point = builder.CreateUDiv(task, context.i64(blocks));
    auto* fresh = builder.CreateOr(builder.CreateICmpEQ(task, context.begin),
                                   builder.CreateICmpEQ(block, context.i64(0)));
    auto* from = builder.CreateNSWMul(block, context.i64(plan.rows));
    auto* to = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                             builder.CreateNSWAdd(from, context.i64(plan.rows)),
                                             context.i64(shared.back().extent));
    for (loop::BufferId b = 0; b < kernel.buffers.size(); ++b)
      if (plan.kept[b] > 0) {
        // Accesses use the row's number in the kernel, but the buffer starts with the block's first row: move
        // the base back.
        auto* before = builder.CreateNSWMul(from, context.i64(-plan.kept[b]));
        context.move_base(
            b, builder.CreateGEP(context.storage_type(kernel.buffers[b].dtype), places[b], before));
      }
    auto coordinates = context.coordinates(shared.first(shared.size() - 1), point);
    coordinates.push_back(nullptr);  // slot for the row
    for (size_t k = 0; k < kernel.statements.size();) {
      if (contracts[k]) {
        contracts[k++]->emit(point, from, to, fresh);
        continue;
      }
      const size_t end = static_cast<size_t>(
          std::ranges::find_if(runs, [&](size_t run) { return run > runs[k]; }) - runs.begin());
      context.loop(from, to, 1, "row", [&](llvm::Value* row) {
        coordinates.back() = row;
        for (size_t j = k; j < end; ++j) {
          Point at;
          for (size_t d = 0; d < kernel.shared; ++d)
            at.set(others[j]->statement.vars[d].symbol, coordinates[d]);
          StatementEmitter(context, *others[j], false).emit(at, 0, {});
        }
      });
      k = end;
    }
  });
}

double attention_block_cycles(const Target& target, loop::Kernel& kernel, const AttentionBlocks& plan) {
  // Cycles to start a task.
  constexpr double of_task = 1000;
  double cycles = of_task * static_cast<double>(plan.blocks(kernel));
  for (size_t k = 0; k < kernel.statements.size(); ++k) {
    if (plan.contracts[k]) {
      cycles += plan.contracts[k]->cycles;
      continue;
    }
    const auto other = plan_statement(target, kernel, kernel.statements[k], kernel.shared);
    cycles += static_cast<double>(points_of(other.statement.vars)) * other.cycles;
  }
  return cycles;
}

}  // namespace ferrite::emitter
