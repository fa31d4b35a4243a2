// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "backends/llvm/cpu/attention/streaming_softmax.h"
#include "backends/llvm/cpu/gemm/emit.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/nest/nest_emitter.h"

namespace ferrite::emitter {
namespace {

class StreamingSoftmaxEmitter {
 public:
  StreamingSoftmaxEmitter(KernelContext& context, const StreamingSoftmax& plan)
      : context_(context),
        builder_(context.builder),
        kernel_(context.kernel),
        plan_(plan),
        scores_(context, plan.scores),
        product_(context, plan.product),
        row_plans_{plan_statement(context.target, kernel_, kernel_.statements[1], kernel_.shared),
                   plan_statement(context.target, kernel_, kernel_.statements[2], kernel_.shared)},
        body_(context, kernel_.statements[2]),
        maxima_(context.take_workspace(plan.rows * int64_t{sizeof(float)})),
        sums_(context.take_workspace(plan.rows * int64_t{sizeof(float)})),
        first_score_(context.base(plan.score)),
        first_inverse_(context.base(plan.inverse_sum)) {}

  void emit(EmitResult& result) {
    const std::span before(kernel_.statements[0].vars.data(), kernel_.shared - 1);
    int64_t points = 1;
    for (const auto& var : before) points *= var.extent;
    result.tasks = plan_.blocks() * points;
    result.grain = 1;
    context_.loop(context_.begin, context_.end, 1, "task", [&](llvm::Value* task) {
      point_ = builder_.CreateUDiv(task, context_.i64(plan_.blocks()));
      from_ = builder_.CreateNSWMul(builder_.CreateURem(task, context_.i64(plan_.blocks())),
                                    context_.i64(plan_.rows));
      to_ = smaller(builder_.CreateNSWAdd(from_, context_.i64(plan_.rows)), plan_.scores.rows.extent);
      coordinates_ = context_.coordinates(before, point_);
      emit_block();
    });
  }

 private:
  llvm::Value* smaller(llvm::Value* a, int64_t b) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, context_.i64(b));
  }
  llvm::Constant* number(double value) { return llvm::ConstantFP::get(builder_.getFloatTy(), value); }
  llvm::Value* at(llvm::Value* base, llvm::Value* element) {
    return builder_.CreateGEP(builder_.getFloatTy(), base, element);
  }
  llvm::Value* load(llvm::Value* address) { return builder_.CreateLoad(builder_.getFloatTy(), address); }

  void emit_block() {
    auto* nothing = number(-std::numeric_limits<double>::infinity());
    each_row([&](llvm::Value* row) {
      builder_.CreateStore(nothing, of_row(maxima_, row));
      builder_.CreateStore(number(0), of_row(sums_, row));
    });
    product_.begin_sums(point_, from_, to_);
    context_.loop(context_.i64(0), context_.i64(plan_.scores.columns.extent), plan_.columns, "running",
                  [&](llvm::Value* column) {
                    auto* end = smaller(builder_.CreateNSWAdd(column, context_.i64(plan_.columns)),
                                        plan_.scores.columns.extent);
                    // Accesses use the kernel's row and column numbers, but the buffer starts with the tile:
                    // move the base back.
                    auto* before =
                        builder_.CreateNSWAdd(builder_.CreateNSWMul(from_, context_.i64(plan_.kept)), column);
                    context_.move_base(plan_.score, at(first_score_, builder_.CreateNeg(before)));
                    scores_.emit_columns(point_, from_, to_, column, end,
                                         builder_.CreateICmpEQ(column, context_.i64(0)));
                    each_row([&](llvm::Value* row) { emit_row(row, column, end); });
                    product_.add_pass(column);
                  });
    context_.move_base(plan_.score, first_score_);
    // A row whose scores are all -inf is NaN: exp(-inf - -inf).
    each_row([&](llvm::Value* row) {
      auto* none = builder_.CreateFCmpOEQ(load(of_row(maxima_, row)), nothing);
      auto* sum = builder_.CreateSelect(none, number(std::numeric_limits<double>::quiet_NaN()),
                                        load(of_row(sums_, row)));
      auto* inverse = builder_.CreateFDiv(number(1), sum);
      builder_.CreateStore(inverse, at(first_inverse_, builder_.CreateNSWSub(row, from_)));
    });
    context_.move_base(plan_.inverse_sum, at(first_inverse_, builder_.CreateNeg(from_)));
    product_.finish_sums();
  }

  void each_row(const std::function<void(llvm::Value*)>& body) { context_.loop(from_, to_, 1, "row", body); }
  llvm::Value* of_row(llvm::Value* states, llvm::Value* row) {
    return at(states, builder_.CreateNSWSub(row, from_));
  }

  /// Updates a row's state with a tile of scores, and replaces the scores by their exponentials.
  void emit_row(llvm::Value* row, llvm::Value* column, llvm::Value* end) {
    prefetch_ahead(row, column);
    emit_statement(0, row, column, end);
    auto* old = load(of_row(maxima_, row));
    auto* most = body_.prim(Prim::max_, f32, {old, load(context_.base(plan_.maximum))});
    builder_.CreateStore(most, of_row(maxima_, row));
    // While all scores are -inf, subtract 0 instead: the exponentials are then 0, not NaN.
    auto* none = builder_.CreateFCmpOEQ(most, number(-std::numeric_limits<double>::infinity()));
    auto* taken = builder_.CreateSelect(none, number(0), most);
    builder_.CreateStore(taken, context_.base(plan_.maximum));
    // The unordered comparison also corrects if one of them is NaN.
    context_.when(builder_.CreateFCmpUNE(old, most), "correct", [&] {
      body_.start(Point());
      correct(row, body_.prim(Prim::exp_, f32, {builder_.CreateFSub(old, taken)}));
    });
    emit_statement(1, row, column, end);
    auto* sum = of_row(sums_, row);
    builder_.CreateStore(builder_.CreateFAdd(load(sum), load(context_.base(plan_.sum))), sum);
  }

  /// Prefetches a row's part of the next tile's columns and values, so that they arrive while this tile's
  /// rows are processed.
  void prefetch_ahead(llvm::Value* row, llvm::Value* column) {
    const int64_t count = ceil_div(plan_.columns, plan_.rows);
    auto* mine = builder_.CreateNSWMul(builder_.CreateNSWSub(row, from_), context_.i64(count));
    auto* first = builder_.CreateNSWAdd(builder_.CreateNSWAdd(column, context_.i64(plan_.columns)), mine);
    for (int64_t k = 0; k < count; ++k) {
      auto* number = builder_.CreateNSWAdd(first, context_.i64(k));
      scores_.prefetch_ahead(point_, number, false);
      product_.prefetch_ahead(point_, number, true);
    }
  }

  void emit_statement(size_t number, llvm::Value* row, llvm::Value* column, llvm::Value* end) {
    const auto& plan = row_plans_[number];
    const auto& vars = plan.statement.vars;
    Point point;
    for (size_t d = 0; d + 1 < kernel_.shared; ++d) point.set(vars[d].symbol, coordinates_[d]);
    point.set(vars[kernel_.shared - 1].symbol, row);
    StatementEmitter(context_, plan, false).emit(point, 0, {{*plan.vector, column, end, true}});
  }

  /// Rescales the sums of a row.
  void correct(llvm::Value* row, llvm::Value* factor) {
    auto* sum = of_row(sums_, row);
    builder_.CreateStore(builder_.CreateFMul(load(sum), factor), sum);
    const auto lanes = static_cast<unsigned>(plan_.product.lanes);
    auto* type = llvm::FixedVectorType::get(builder_.getFloatTy(), lanes);
    auto* factors = builder_.CreateVectorSplat(lanes, factor);
    context_.loop(context_.i64(0), context_.i64(plan_.product.tile_columns), plan_.product.block_columns(),
                  "sums", [&](llvm::Value* panel) {
                    auto* sums = product_.sums_of(row, panel);
                    for (int64_t k = 0; k < plan_.product.block_columns(); k += lanes) {
                      auto* address = at(sums, context_.i64(k));
                      builder_.CreateStore(builder_.CreateFMul(builder_.CreateLoad(type, address), factors),
                                           address);
                    }
                  });
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  loop::Kernel& kernel_;
  const StreamingSoftmax& plan_;
  InnerGemm scores_, product_;
  StatementPlan row_plans_[2];
  BodyEmitter body_;
  // By row of the block: running maximum of the scores, and running sum of the exponentials.
  llvm::Value *maxima_, *sums_;
  llvm::Value *first_score_, *first_inverse_;
  llvm::Value *point_ = nullptr, *from_ = nullptr, *to_ = nullptr;
  std::vector<llvm::Value*> coordinates_;
};

}  // namespace

void emit_streaming_softmax(KernelContext& context, const StreamingSoftmax& plan, EmitResult& result) {
  StreamingSoftmaxEmitter(context, plan).emit(result);
}

}  // namespace ferrite::emitter
