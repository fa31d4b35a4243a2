// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry function: a range of tasks, each some points of the outer loops, and the statements inside them.
#include "ferrite/emitter/kernel_emitter.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>

#include "contract_plan.h"
#include "ferrite/emitter/contract.h"
#include "ferrite/error.hpp"
#include "row_blocks.h"
#include "statement_emitter.h"

namespace ferrite::emitter {

namespace {

using loop::VarKind;

// A task should outlast its own start many times, a worker's share the waking of the worker.
constexpr double cycles_of_task = 4000, cycles_of_share = 8000;

bool known_dtype(DType dtype) { return dtype >= DType::bool_ && dtype <= DType::f64_; }

double points_of(const StatementPlan& plan) {
  double points = 1;
  for (size_t k = plan.fixed; k < plan.statement.vars.size(); ++k)
    if (plan.statement.vars[k].kind != VarKind::reduction)
      points *= static_cast<double>(plan.statement.vars[k].extent);
  return points;
}

bool is_empty(const loop::Statement& statement) {
  return std::any_of(statement.vars.begin(), statement.vars.end(),
                     [](const loop::Var& var) { return var.extent == 0 && var.kind != VarKind::reduction; });
}

/// Emits the loops of planned statements: where some of their stores go past the caches, once for memory that is aligned to vectors
/// and once for memory that is not.
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
    // Whoever waits for the tasks sees these stores, which other stores overtake.
    builder.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, llvm::ArrayRef<llvm::Value*>());
  });
  context.when(builder.CreateNot(aligned), "plain", [&] { emit(false); });
}

/// Whether an address depends on no variable but those that have values where the vectors are walked: what a parallel vector variable
/// has inside of its loop are the reduction variables, or `inside`.
bool is_known_at_vectors(index::Pool& pool, const StatementPlan& plan, index::Expr address) {
  const auto& statement = plan.statement;
  const auto known = [&](size_t var) {
    return var < plan.fixed || var == plan.vector || (var == plan.inside && !plan.turned.empty()) ||
           std::ranges::find(plan.outer, var) != plan.outer.end() ||
           (!plan.vector_is_parallel() && statement.vars[var].kind == VarKind::reduction);
  };
  for (size_t k = 0; k < statement.vars.size(); ++k)
    if (!known(k) && pool.depends_on(address, statement.vars[k].symbol)) return false;
  return std::ranges::none_of(statement.ops, [&](const loop::BodyOp& op) {
    return op.code == FE_OP_INDIRECT && pool.depends_on(address, op.symbol);
  });
}

/// What caches may hold until it is read: no more is asked for ahead.
bool is_kept(const Target& target, const loop::Buffer& read) {
  return read.kind == FE_BUFFER_LOCAL || read.kind == FE_BUFFER_OUTPUT || read.bytes() <= target.l2_bytes;
}

/// What a statement reads of memory in order, a page before it gets there: processors look ahead by themselves up to the end of a page,
/// and where arithmetic fills the time between two lines, not far enough. Sums of what is read are fast without, some a little slower.
std::vector<StatementEmitter::Ahead> next_pages(const Target& target, loop::Kernel& kernel,
                                                const StatementPlan& plan) {
  constexpr int64_t page = 4096;
  std::vector<StatementEmitter::Ahead> result;
  if (!plan.vector_is_parallel() || (plan.inside && plan.turned.empty()) || plan.strip > 0) return result;
  auto& pool = kernel.pool;
  const auto& vector = plan.statement.vars[*plan.vector];
  for (loop::OpId k = 0; k < plan.statement.ops.size(); ++k) {
    const auto& op = plan.statement.ops[k];
    if (op.code != FE_OP_LOAD || is_kept(target, kernel.buffers[op.buffer]) ||
        std::ranges::find(plan.turned, k) != plan.turned.end())
      continue;
    const auto address = element_address(pool, kernel.buffers[op.buffer], op.index);
    const int64_t bytes = KernelContext::storage_bytes(kernel.buffers[op.buffer].dtype);
    const bool is_new = std::ranges::none_of(
        result, [&](const auto& ahead) { return ahead.buffer == op.buffer && ahead.address == address; });
    if (!is_new || vector.extent * bytes < page || pool.coefficient(address, vector.symbol) != 1 ||
        !is_known_at_vectors(pool, plan, address))
      continue;
    // A tile goes on with the next line.
    const auto line = plan.inside ? pool.coefficient(address, plan.statement.vars[*plan.inside].symbol)
                                  : std::optional(page / bytes);
    if (line) result.push_back({op.buffer, address, *line});
  }
  return result;
}

/// One statement alone: leading loops become tasks as far as tasks stay long enough, the next one is cut into blocks.
class SingleStatement {
 public:
  SingleStatement(const Target& target, loop::Kernel& kernel)
      : plan_(plan_statement(target, kernel, kernel.statements[0], 0)) {
    const auto& original = kernel.statements[0];
    bool all = true;
    for (size_t k = 0; k < original.parallel_count(); ++k)
      all = all && (original.vars[k].extent == 1 || independent(kernel.pool, original, k));
    auto order = plan_.outer;
    if (plan_.vector_is_parallel()) order.push_back(*plan_.vector);
    double inside = points_of(plan_) * plan_.cycles;
    const auto allowed = [&](size_t var) { return all || independent(kernel.pool, plan_.statement, var); };
    const auto cut = [&](size_t var, int64_t unit) {
      const auto extent = plan_.statement.vars[var].extent;
      const double each = inside / static_cast<double>(extent);
      auto block = static_cast<int64_t>(cycles_of_task / each) + 1;
      block = (block + unit - 1) / unit * unit;
      if (extent <= block) return;
      cuts_.push_back({var, block, (extent + block - 1) / block});
      inside = each * static_cast<double>(block);
    };
    for (size_t var : order) {
      auto extent = plan_.statement.vars[var].extent;
      if (extent == 0 || inside <= 2 * cycles_of_task || !allowed(var)) break;
      double after = inside / static_cast<double>(extent);
      if (after >= cycles_of_task && var != plan_.vector) {
        cuts_.push_back({var, 1, extent});
        inside = after;
        continue;
      }
      cut(var, var == plan_.vector ? least_block(plan_) : 1);
      // Tiles are divided both ways.
      if (var == plan_.vector && !plan_.turned.empty() && inside > 2 * cycles_of_task &&
          allowed(*plan_.inside))
        cut(*plan_.inside, plan_.tile_lines);
      break;
    }
    cycles_ = inside;
  }

  void emit(KernelContext& context, EmitResult& result) {
    result.tasks = is_empty(plan_.statement) ? 0 : 1;
    for (const auto& cut : cuts_) result.tasks *= cut.count;
    result.grain = std::max<int64_t>(1, static_cast<int64_t>(cycles_of_share / std::max(cycles_, 1.0)));
    if (result.tasks == 0) return;
    with_streams(context, {&plan_, 1}, [&](bool streams) { emit_tasks(context, streams); });
  }

 private:
  void emit_tasks(KernelContext& context, bool streams) {
    StatementEmitter statement(context, plan_, streams);
    statement.ask_ahead(next_pages(context.target, context.kernel, plan_));
    auto& builder = context.builder;
    context.loop(context.begin, context.end, 1, "task", [&](llvm::Value* task) {
      Point point;
      size_t skip = 0;
      std::vector<StatementEmitter::Range> ranges;
      std::vector<llvm::Value*> numbers(cuts_.size(), task);
      for (size_t k = cuts_.size(); k-- > 1;) {
        auto* count = context.i64(cuts_[k].count);
        numbers[k] = builder.CreateURem(task, count);
        task = builder.CreateUDiv(task, count);
        numbers[k - 1] = task;
      }
      for (size_t k = 0; k < cuts_.size(); ++k) {
        const auto& var = plan_.statement.vars[cuts_[k].var];
        if (cuts_[k].block == 1 && cuts_[k].var != plan_.vector && cuts_[k].var != plan_.inside) {
          point.set(var.symbol, numbers[k]);
          ++skip;
          continue;
        }
        auto* from = builder.CreateNSWMul(numbers[k], context.i64(cuts_[k].block));
        llvm::Value* to = builder.CreateNSWAdd(from, context.i64(cuts_[k].block));
        if (var.extent % cuts_[k].block != 0)
          to = builder.CreateBinaryIntrinsic(llvm::Intrinsic::smin, to, context.i64(var.extent));
        ranges.push_back({cuts_[k].var, from, to, cuts_[k].block % plan_.lanes == 0});
      }
      statement.emit(point, skip, ranges);
    });
  }

  struct Cut {
    size_t var;
    int64_t block, count;
  };
  StatementPlan plan_;
  std::vector<Cut> cuts_;
  double cycles_ = 0;
};

/// What the next row reads that memory has to bring, by statement: asked for in equal shares by the statements that read this row of
/// it once more. Without that, memory waits while a row is worked on.
std::vector<std::vector<StatementEmitter::Ahead>> next_rows(const Target& target, loop::Kernel& kernel,
                                                            std::span<const StatementPlan> plans) {
  std::vector<std::vector<StatementEmitter::Ahead>> result(plans.size());
  auto& pool = kernel.pool;
  size_t row = kernel.shared;
  while (row > 0 && plans[0].statement.vars[row - 1].extent == 1) --row;
  if (row == 0) return result;
  --row;
  for (loop::BufferId buffer = 0; buffer < kernel.buffers.size(); ++buffer) {
    const auto& read = kernel.buffers[buffer];
    if (is_kept(target, read)) continue;
    std::vector<std::pair<size_t, StatementEmitter::Ahead>> asking;
    size_t readers = 0;
    for (size_t k = 0; k < plans.size(); ++k) {
      const auto& statement = plans[k].statement;
      const auto load = std::ranges::find_if(statement.ops, [&](const loop::BodyOp& op) {
        return op.code == FE_OP_LOAD && op.buffer == buffer;
      });
      if (load == statement.ops.end() || ++readers == 1 || !plans[k].vector || is_empty(statement)) continue;
      const auto address = element_address(pool, read, load->index);
      const auto step = pool.coefficient(address, statement.vars[row].symbol);
      const auto& vector = statement.vars[*plans[k].vector];
      constexpr int64_t least_row = 1024;
      const int64_t bytes = vector.extent * KernelContext::storage_bytes(read.dtype);
      if (pool.coefficient(address, vector.symbol) != 1 || !step || *step == 0 || bytes < least_row ||
          bytes > target.l2_bytes / 4 || !is_known_at_vectors(pool, plans[k], address))
        continue;
      asking.push_back({k, {buffer, address, *step}});
    }
    for (size_t share = 0; share < asking.size(); ++share) {
      auto& [statement, ahead] = asking[share];
      ahead.share = static_cast<int64_t>(share);
      ahead.shares = static_cast<int64_t>(asking.size());
      result[statement].push_back(ahead);
    }
  }
  return result;
}

/// Statements one after the other inside the points of the shared variables.
void emit_rows(KernelContext& context, const Target& target, EmitResult& result) {
  auto& kernel = context.kernel;
  const auto& shared = kernel.statements[0].vars;
  std::vector<StatementPlan> plans;
  double cycles = 20;
  bool apart = true;
  for (const auto& statement : kernel.statements) {
    for (size_t k = 0; k < kernel.shared; ++k)
      apart = apart && (statement.vars[k].extent == 1 || independent(kernel.pool, statement, k));
    plans.push_back(plan_statement(target, kernel, statement, kernel.shared));
    cycles += points_of(plans.back()) * plans.back().cycles;
  }
  int64_t rows = 1;
  for (size_t k = 0; k < kernel.shared; ++k) rows *= shared[k].extent;
  result.tasks = apart ? rows : std::min<int64_t>(rows, 1);
  result.grain = std::max<int64_t>(1, static_cast<int64_t>(cycles_of_share / cycles));
  if (rows == 0) return;
  auto* from = apart ? context.begin : context.i64(0);
  auto* to = apart ? context.end : context.i64(rows);
  const auto ahead = next_rows(target, kernel, plans);
  with_streams(context, plans, [&](bool streams) {
    context.loop(from, to, 1, "row", [&](llvm::Value* row) {
      const auto coordinates = context.coordinates({shared.data(), kernel.shared}, row);
      for (size_t number = 0; number < plans.size(); ++number) {
        const auto& plan = plans[number];
        if (is_empty(plan.statement)) continue;
        Point point;
        for (size_t k = 0; k < kernel.shared; ++k) point.set(plan.statement.vars[k].symbol, coordinates[k]);
        StatementEmitter statement(context, plan, streams);
        statement.ask_ahead(ahead[number]);
        statement.emit(point, 0, {});
      }
    });
  });
}

}  // namespace

std::string unsupported_reason(const Target& target, const loop::Kernel& kernel,
                               const ContractConfig& config) {
  if (kernel.statements.empty()) return "the kernel has no statement";
  for (const auto& buffer : kernel.buffers)
    if (!known_dtype(buffer.dtype))
      return "element type " + std::string(name_of(buffer.dtype)) + " has no code here";
  if (can_emit_contract(target, kernel, config)) return "";
  for (const auto& statement : kernel.statements) {
    if (statement.kind == FE_STATEMENT_CALL) return "a call is no code";
    if (statement.has(VarKind::serial) &&
        (!statement.reductions.empty() || statement.has(VarKind::reduction)))
      return "a serial statement with a reduction";
    if (statement.vars.size() < kernel.shared) return "a statement lacks shared variables";
    for (const auto& op : statement.ops) {
      if (op.code == FE_OP_LOAD && kernel.buffers[op.buffer].packing)
        return "a packed operand outside a contraction";
      if (op.code != FE_OP_INDIRECT && !known_dtype(op.dtype))
        return "a value of type " + std::string(name_of(op.dtype)) + " has no code here";
    }
    for (const auto& store : statement.stores)
      if (kernel.buffers[store.buffer].packing) return "a store to a packed buffer";
  }
  return "";
}

namespace {

/// Cycles of a contraction with what follows it; nothing where it is computed as any other statement.
std::optional<double> contract_cycles(const Target& target, const loop::Kernel& kernel) {
  auto copy = kernel;
  const auto plan = plan_contract(target, copy, true, {});
  if (!plan) return std::nullopt;
  // What each element costs after its sum, and what brings it: from the caches, or where those do not hold it, from memory.
  constexpr double bytes_a_cycle = 8, slow_bytes_a_cycle = 4, of_task = 1000;
  double cycles = plan->cycles + of_task * static_cast<double>(plan->tasks());
  for (const auto& buffer : kernel.buffers) {
    const auto bytes = static_cast<double>(buffer.bytes());
    const bool kept = buffer.kind == FE_BUFFER_OUTPUT || buffer.bytes() <= target.l2_bytes / 2;
    if (buffer.kind != FE_BUFFER_LOCAL) cycles += bytes / (kept ? bytes_a_cycle : slow_bytes_a_cycle);
  }
  const auto points = static_cast<double>(plan->batch.extent * plan->rows.extent * plan->columns.extent);
  double finish = 0;
  for (const auto& statement : kernel.statements)
    for (const auto& op : statement.ops)
      finish += op.is_prim() && is_float(op.dtype) ? operation_cost(op) : 0;
  return cycles + points * finish / plan->lanes;
}

}  // namespace

double estimate_seconds(const Target& target, loop::Kernel kernel) {
  if (const auto cycles = contract_cycles(target, kernel)) return *cycles / target.cycles_per_second;
  if (auto blocked = kernel; const auto plan = plan_row_blocks(target, blocked))
    return row_block_cycles(target, blocked, *plan) / target.cycles_per_second;
  double cycles = 0;
  for (const auto& statement : kernel.statements) {
    auto plan = plan_statement(target, kernel, statement, 0);
    cycles += points_of(plan) * plan.cycles;
  }
  return cycles / target.cycles_per_second;
}

EmitResult emit_kernel(llvm::LLVMContext& llvm_context, const Target& target, loop::Kernel kernel,
                       std::string_view entry, const ContractConfig& config) {
  if (auto reason = unsupported_reason(target, kernel, config); !reason.empty()) decline(reason);
  EmitResult result;
  result.module = std::make_unique<llvm::Module>(llvm::StringRef(entry.data(), entry.size()), llvm_context);
  llvm::Triple triple(target.triple);
  result.module->setDataLayout(triple.computeDataLayout());
  result.module->setTargetTriple(triple);
  const bool contract = can_emit_contract(target, kernel, config);
  std::optional<RowBlocks> blocks;
  if (auto blocked = kernel; !contract && (blocks = plan_row_blocks(target, blocked)))
    kernel = std::move(blocked);
  KernelContext context(*result.module, target, kernel, entry);
  if (contract) {
    auto shape = emit_contract(context, config);
    result.tasks = shape.tasks;
    result.grain = shape.grain;
  } else if (blocks) {
    emit_row_blocks(context, *blocks, result);
  } else {
    bool local = std::any_of(kernel.buffers.begin(), kernel.buffers.end(),
                             [](const loop::Buffer& buffer) { return buffer.kind == FE_BUFFER_LOCAL; });
    if (kernel.statements.size() == 1 && !local) {
      SingleStatement(target, kernel).emit(context, result);
    } else {
      emit_rows(context, target, result);
    }
  }
  context.builder.CreateRetVoid();
  result.workspace_bytes = context.workspace_bytes;
  return result;
}

}  // namespace ferrite::emitter
