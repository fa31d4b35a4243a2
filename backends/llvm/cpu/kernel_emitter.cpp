// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry function: it runs a range of tasks, each of which covers some points of the outer loops with
// their statements.
#include "ferrite/emitter/kernel_emitter.h"

#include <algorithm>
#include <optional>

#include "backends/llvm/cpu/attention/accumulated_blocks.h"
#include "backends/llvm/cpu/attention/attention_blocks.h"
#include "backends/llvm/cpu/attention/streaming_softmax.h"
#include "backends/llvm/cpu/nest/memory_hints.h"
#include "backends/llvm/cpu/nest/rows.h"
#include "backends/llvm/gemm/plan.h"
#include "backends/llvm/nest/nest_emitter.h"
#include "ferrite/emitter/gemm.h"
#include "ferrite/error.hpp"
#include "ferrite/loop_check.hpp"

namespace ferrite::emitter {

namespace {

using loop::VarKind;

// A task should take many times as long as its start.
constexpr double cycles_of_task = 4000;

/// Divides a single statement into tasks: leading loops become tasks while these stay long enough, and the
/// next loop is cut into blocks.
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
      // Transposition blocks can be divided in both directions.
      if (var == plan_.vector && !plan_.transposed.empty() && inside > 2 * cycles_of_task &&
          allowed(*plan_.inside))
        cut(*plan_.inside, plan_.transpose_lines);
      break;
    }
    cycles_ = inside;
  }

  void emit(KernelContext& context, EmitResult& result) {
    result.tasks = is_empty(plan_.statement) ? 0 : 1;
    for (const auto& cut : cuts_) result.tasks *= cut.count;
    result.grain = std::max<int64_t>(1, static_cast<int64_t>(cycles_of_range / std::max(cycles_, 1.0)));
    if (result.tasks == 0) return;
    with_streams(context, {&plan_, 1}, [&](bool streams) { emit_tasks(context, streams); });
  }

 private:
  void emit_tasks(KernelContext& context, bool streams) {
    StatementEmitter statement(context, plan_, streams);
    statement.prefetch_ahead(next_pages(context.target, context.kernel, plan_));
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

}  // namespace

std::string unsupported_reason(const Target& target, const loop::Kernel& kernel, const GemmConfig& config) {
  if (kernel.statements.empty()) return "the kernel has no statement";
  for (const auto& buffer : kernel.buffers)
    if (!loop::is_computable(buffer.dtype))
      return "element type " + std::string(name_of(buffer.dtype)) + " has no code here";
  if (can_emit_gemm(target, kernel, config)) return "";
  for (const auto& statement : kernel.statements) {
    if (statement.kind == FE_STATEMENT_CALL) return "a call is no code";
    if (statement.has(VarKind::serial) &&
        (!statement.reductions.empty() || statement.has(VarKind::reduction)))
      return "a serial statement with a reduction";
    if (statement.vars.size() < kernel.shared) return "a statement lacks shared variables";
    for (const auto& op : statement.ops) {
      if (op.code == FE_OP_LOAD && kernel.buffers[op.buffer].packing)
        return "a packed operand outside a contraction";
      if (op.code != FE_OP_INDIRECT && !loop::is_computable(op.dtype))
        return "a value of type " + std::string(name_of(op.dtype)) + " has no code here";
    }
    for (const auto& store : statement.stores)
      if (kernel.buffers[store.buffer].packing) return "a store to a packed buffer";
  }
  return "";
}

namespace {

/// Estimated cycles of a contraction with its epilogue; nullopt if it is emitted like any other statement.
std::optional<double> gemm_cycles(const Target& target, const loop::Kernel& kernel) {
  auto copy = kernel;
  const auto plan = plan_gemm(target, copy, true, {});
  if (!plan) return std::nullopt;
  // Cost per element after its sum, and of loading the operands: from the caches, or from memory if they
  // exceed them.
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
  if (const auto cycles = gemm_cycles(target, kernel)) return *cycles / target.cycles_per_second;
  if (auto blocked = kernel; const auto plan = plan_accumulated_blocks(target, blocked))
    return accumulated_block_cycles(target, blocked, *plan) / target.cycles_per_second;
  if (auto blocked = kernel; const auto plan = plan_attention_blocks(target, blocked)) {
    if (const auto running = plan_streaming_softmax(target, kernel, *plan))
      return running->cycles / target.cycles_per_second;
    return attention_block_cycles(target, blocked, *plan) / target.cycles_per_second;
  }
  double cycles = 0;
  for (const auto& statement : kernel.statements) {
    auto plan = plan_statement(target, kernel, statement, 0);
    cycles += points_of(plan) * plan.cycles;
  }
  return cycles / target.cycles_per_second;
}

EmitResult emit_kernel(llvm::LLVMContext& llvm_context, const Target& target, loop::Kernel kernel,
                       std::string_view entry, const GemmConfig& config) {
  if (auto reason = unsupported_reason(target, kernel, config); !reason.empty()) decline(reason);
  EmitResult result;
  result.module = std::make_unique<llvm::Module>(llvm::StringRef(entry.data(), entry.size()), llvm_context);
  llvm::Triple triple(target.triple);
  result.module->setDataLayout(triple.computeDataLayout());
  result.module->setTargetTriple(triple);
  const bool contract = can_emit_gemm(target, kernel, config);
  std::optional<AttentionBlocks> blocks;
  std::optional<StreamingSoftmax> running;
  std::optional<AccumulatedBlocks> sums;
  // Blocks rewrite the kernel, so each attempt works on its own copy.
  if (auto blocked = kernel; !contract && (sums = plan_accumulated_blocks(target, blocked)))
    kernel = std::move(blocked);
  if (auto blocked = kernel; !contract && !sums && (blocks = plan_attention_blocks(target, blocked))) {
    auto tiled = kernel;
    running = plan_streaming_softmax(target, tiled, *blocks);
    kernel = std::move(running ? tiled : blocked);
  }
  KernelContext context(*result.module, target, kernel, entry);
  if (contract) {
    auto shape = emit_gemm(context, config);
    result.tasks = shape.tasks;
    result.grain = shape.grain;
  } else if (sums) {
    emit_accumulated_blocks(context, *sums, result);
  } else if (running) {
    emit_streaming_softmax(context, *running, result);
  } else if (blocks) {
    emit_attention_blocks(context, *blocks, result);
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
