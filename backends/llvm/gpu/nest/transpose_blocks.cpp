// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/nest/transpose_blocks.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>

#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

constexpr int64_t side = 64;  // side of the square
// Elements of a line in shared memory; the padding puts columns into different banks.
constexpr int64_t line = side + 1;
constexpr int64_t threads = transpose_block_threads;

int64_t squares_of(const loop::Var& var) { return (var.extent + side - 1) / side; }

class TransposeEmitter {
 public:
  TransposeEmitter(KernelContext& context, ThreadBlock& block, const TransposeBlocksPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        statement_(context.kernel.statements[0]),
        along_(statement_.vars[plan.along]),
        across_(statement_.vars[plan.across]),
        body_(context, statement_) {}

  void emit() {
    find_square();
    std::vector<llvm::Value*> memories;
    for (const auto load : plan_.transposed) {
      memories.push_back(block_.shared(stored(load), side * line));
      load_square(load, memories.back());
    }
    block_.barrier();
    each_part([&](llvm::Value* inner, llvm::Value* outer) {
      auto* element = builder_.CreateNSWAdd(first_along_, inner);
      auto* other = builder_.CreateNSWAdd(first_across_, outer);
      const auto inside = [&](llvm::Value* value, const loop::Var& var) -> llvm::Value* {
        if (var.extent % side == 0) return builder_.getTrue();
        return builder_.CreateICmpSLT(value, context_.i64(var.extent));
      };
      context_.when(builder_.CreateAnd(inside(element, along_), inside(other, across_)), "inside", [&] {
        body_.start(point_at(element, other, along_));
        auto* offset = builder_.CreateNSWAdd(builder_.CreateNSWMul(outer, context_.i64(line)), inner);
        for (size_t k = 0; k < plan_.transposed.size(); ++k)
          body_.bind_stored(plan_.transposed[k], read(memories[k], stored(plan_.transposed[k]), offset));
        body_.store(body_.finish_stores());
      });
    });
  }

 private:
  llvm::Type* stored(loop::OpId load) {
    return context_.storage_type(context_.kernel.buffers[statement_.ops[load].buffer].dtype);
  }

  void find_square() {
    std::vector<loop::Var> vars;
    for (size_t k = 0; k < statement_.vars.size(); ++k)
      if (k != plan_.along && k != plan_.across) vars.push_back(statement_.vars[k]);
    vars.push_back(across_);
    vars.back().extent = squares_of(across_);
    vars.push_back(along_);
    vars.back().extent = squares_of(along_);
    const auto values = context_.coordinates(vars, block_.number());
    for (size_t k = 0; k + 2 < vars.size(); ++k) outer_.set(vars[k].symbol, values[k]);
    first_across_ = builder_.CreateNSWMul(values[vars.size() - 2], context_.i64(side));
    first_along_ = builder_.CreateNSWMul(values.back(), context_.i64(side));
  }

  /// Calls `body(inner, outer)` for each of the thread's parts of the square: its position along the line,
  /// and its line.
  void each_part(const std::function<void(llvm::Value*, llvm::Value*)>& body) {
    const int64_t parts = side / plan_.lanes;
    for (int64_t start = 0; start < side * parts; start += threads) {
      auto* flat = builder_.CreateNSWAdd(block_.thread(), context_.i64(start));
      auto* inner =
          builder_.CreateNSWMul(context_.divide(flat, parts, true, true), context_.i64(plan_.lanes));
      body(inner, context_.divide(flat, parts, true, false));
    }
  }

  /// The point whose vector is `lanes` neighbours of one of the two loops.
  Point point_at(llvm::Value* along, llvm::Value* across, const loop::Var& vector) const {
    auto point = outer_;
    point.set(along_.symbol, along);
    point.set(across_.symbol, across);
    point.lanes = static_cast<unsigned>(plan_.lanes);
    point.vector = vector.symbol;
    point.aligned = true;
    return point;
  }

  /// Loads the square of one operand into shared memory, with its lines along `along`.
  void load_square(loop::OpId load, llvm::Value* memory) {
    each_part([&](llvm::Value* inner, llvm::Value* outer) {
      // Positions past the end are clamped so that the load is valid; their elements are never read.
      const auto within = [&](llvm::Value* value, const loop::Var& var, int64_t lanes) -> llvm::Value* {
        if (var.extent % side == 0) return value;
        return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, context_.i64(var.extent - lanes));
      };
      auto* across = within(builder_.CreateNSWAdd(first_across_, inner), across_, plan_.lanes);
      auto* along = within(builder_.CreateNSWAdd(first_along_, outer), along_, 1);
      body_.start(point_at(along, across, across_));
      auto* value = body_.stored_lanes_of(load);
      for (int64_t k = 0; k < plan_.lanes; ++k) {
        auto* row = builder_.CreateNSWAdd(inner, context_.i64(k));
        auto* offset = builder_.CreateNSWAdd(builder_.CreateNSWMul(row, context_.i64(line)), outer);
        auto* element =
            plan_.lanes == 1 ? value : builder_.CreateExtractElement(value, static_cast<uint64_t>(k));
        builder_.CreateStore(element, builder_.CreateInBoundsGEP(stored(load), memory, offset));
      }
    });
  }

  llvm::Value* read(llvm::Value* memory, llvm::Type* type, llvm::Value* offset) {
    if (plan_.lanes == 1) return builder_.CreateLoad(type, builder_.CreateInBoundsGEP(type, memory, offset));
    llvm::Value* result =
        llvm::PoisonValue::get(llvm::FixedVectorType::get(type, static_cast<unsigned>(plan_.lanes)));
    for (int64_t k = 0; k < plan_.lanes; ++k) {
      auto* at = builder_.CreateInBoundsGEP(type, memory, builder_.CreateNSWAdd(offset, context_.i64(k)));
      result = builder_.CreateInsertElement(result, builder_.CreateLoad(type, at), static_cast<uint64_t>(k));
    }
    return result;
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const TransposeBlocksPlan& plan_;
  const loop::Statement& statement_;
  const loop::Var &along_, &across_;
  BodyEmitter body_;
  Point outer_;
  llvm::Value *first_along_ = nullptr, *first_across_ = nullptr;
};

}  // namespace

std::optional<TransposeBlocksPlan> plan_transpose_blocks(loop::Kernel& kernel) {
  const auto& statement = kernel.statements[0];
  if (kernel.statements.size() != 1 || statement.kind != FE_STATEMENT_MAP || !statement.carries.empty() ||
      statement.stores.size() != 1 || statement.stores[0].mode != FE_STORE_SET)
    return std::nullopt;
  auto& pool = kernel.pool;
  const auto step = [&](loop::BufferId buffer, const std::vector<index::Expr>& index, const loop::Var& var) {
    return pool.coefficient(element_address(pool, kernel.buffers[buffer], index), var.symbol);
  };
  constexpr int64_t least = side / 2;  // extent of both loops; smaller squares waste threads
  TransposeBlocksPlan plan;
  const auto& store = statement.stores[0];
  const auto is_along = [&](const loop::Var& var) {
    return var.kind == loop::VarKind::parallel && var.extent >= least &&
           step(store.buffer, store.index, var) == 1;
  };
  const auto found = std::ranges::find_if(statement.vars, is_along);
  if (found == statement.vars.end()) return std::nullopt;
  plan.along = static_cast<size_t>(found - statement.vars.begin());
  int64_t widest = KernelContext::storage_bytes(kernel.buffers[store.buffer].dtype);
  std::optional<size_t> across;
  for (loop::OpId id = 0; id < statement.ops.size(); ++id) {
    const auto& op = statement.ops[id];
    if (op.code == FE_OP_INDIRECT) return std::nullopt;
    if (op.code != FE_OP_LOAD) continue;
    const auto own = step(op.buffer, op.index, *found);
    if (!own || op.a != loop::none) return std::nullopt;
    if (*own == 0 || *own == 1) continue;
    for (size_t k = 0; k < statement.vars.size(); ++k) {
      const auto& var = statement.vars[k];
      if (k == plan.along || var.kind != loop::VarKind::parallel || var.extent < least ||
          step(op.buffer, op.index, var) != 1 || (across && *across != k))
        continue;
      across = k;
      plan.transposed.push_back(id);
      widest = std::max<int64_t>(widest, KernelContext::storage_bytes(kernel.buffers[op.buffer].dtype));
    }
  }
  if (!across) return std::nullopt;
  plan.across = *across;
  plan.lanes = bytes_of_access / widest;
  while (statement.vars[plan.along].extent % plan.lanes != 0 ||
         statement.vars[plan.across].extent % plan.lanes != 0)
    plan.lanes /= 2;
  plan.blocks = 1;
  for (size_t k = 0; k < statement.vars.size(); ++k)
    plan.blocks *=
        k == plan.along || k == plan.across ? squares_of(statement.vars[k]) : statement.vars[k].extent;
  return plan;
}

void emit_transpose_blocks(KernelContext& context, ThreadBlock& block, const TransposeBlocksPlan& plan) {
  TransposeEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
