// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/gemm/tile_accumulator.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace ferrite::emitter {

namespace {

/// Adjacent rows or columns of a thread, without matrix instructions.
int64_t group_of(int64_t of_thread) { return std::min<int64_t>(4, of_thread); }

/// Accumulators without matrix instructions. Each thread has groups of adjacent rows and columns. The groups
/// of one thread are far apart, so that the threads together read adjacent shared memory.
class ScalarSums final : public TileAccumulator {
 public:
  ScalarSums(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan)
      : context_(context),
        builder_(context.builder),
        plan_(plan),
        type_(context.value_type(plan.contract.accumulator)),
        rows_{plan.tile.thread_rows, plan.tile.rows / plan.tile.thread_rows},
        columns_{plan.tile.thread_columns, plan.tile.columns / plan.tile.thread_columns} {
    // A warp's threads form a rectangle, which reads less of shared memory than a line of threads.
    constexpr int64_t wide = 8;
    const int64_t warp = block.machine().warp, across = plan.tile.thread_columns;
    auto* thread = block.thread();
    llvm::Value *row = nullptr, *column = nullptr;
    if (warp % wide == 0 && across % wide == 0 && plan.tile.thread_rows % (warp / wide) == 0) {
      auto* number = context.divide(thread, warp, true, false);
      auto* lane = context.divide(thread, warp, true, true);
      row = place_of(context.divide(number, across / wide, true, false), warp / wide,
                     context.divide(lane, wide, true, false));
      column = place_of(context.divide(number, across / wide, true, true), wide,
                        context.divide(lane, wide, true, true));
    } else {
      row = context.divide(thread, across, true, false);
      column = context.divide(thread, across, true, true);
    }
    rows_.first = builder_.CreateNSWMul(row, context.i64(rows_.group()));
    columns_.first = builder_.CreateNSWMul(column, context.i64(columns_.group()));
    for (int64_t k = 0; k < rows_.count * columns_.count; ++k) {
      sums_.push_back(context.slot(type_, "sum"));
      builder_.CreateStore(llvm::Constant::getNullValue(type_), sums_.back());
    }
  }

  void add_products(const GemmStep& step) override {
    step.load_async(0, 1);
    constexpr int64_t unrolled = 4;
    context_.loop(context_.i64(0), context_.i64(plan_.tile.depth), unrolled, "k", [&](llvm::Value* first) {
      const auto row = read(step.tiles.rows, rows_, first, unrolled);
      const auto column = read(step.tiles.columns, columns_, first, unrolled);
      for (size_t k = 0; k < unrolled; ++k)
        for (size_t r = 0; r < row[k].size(); ++r)
          for (size_t c = 0; c < column[k].size(); ++c) {
            auto* sum = sums_[r * column[k].size() + c];
            auto* old = builder_.CreateLoad(type_, sum);
            builder_.CreateStore(
                builder_.CreateIntrinsic(llvm::Intrinsic::fma, {type_}, {row[k][r], column[k][c], old}), sum);
          }
    });
    step.arrive();
  }

  int64_t rounds() const override { return rows_.count / rows_.group(); }
  llvm::Value* row_of(int64_t round, llvm::Value* number) override {
    return builder_.CreateNSWAdd(number, context_.i64(round * rows_.threads * rows_.group()));
  }
  void write(int64_t round, llvm::Value* memory, int64_t line) override {
    const int64_t group = columns_.group();
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(group));
    for (int64_t r = 0; r < rows_.group(); ++r)
      for (int64_t start = 0; start < columns_.count; start += group) {
        llvm::Value* values = llvm::PoisonValue::get(vector);
        for (int64_t c = 0; c < group; ++c) {
          auto* sum = sums_[static_cast<size_t>((round * rows_.group() + r) * columns_.count + start + c)];
          values =
              builder_.CreateInsertElement(values, builder_.CreateLoad(type_, sum), static_cast<uint64_t>(c));
        }
        auto* row =
            builder_.CreateNSWMul(builder_.CreateNSWAdd(rows_.first, context_.i64(r)), context_.i64(line));
        auto* offset = builder_.CreateNSWAdd(builder_.CreateNSWAdd(row, columns_.first),
                                             context_.i64(start * columns_.threads));
        builder_.CreateAlignedStore(values, builder_.CreateInBoundsGEP(type_, memory, offset),
                                    alignment(group));
      }
  }

 private:
  /// The thread's part of the rows or of the columns.
  struct Part {
    int64_t threads = 1, count = 1;  ///< threads along the dimension, and elements per thread
    llvm::Value* first = nullptr;
    int64_t group() const { return group_of(count); }
  };

  llvm::Value* place_of(llvm::Value* outer, int64_t size, llvm::Value* inner) {
    return builder_.CreateNSWAdd(builder_.CreateNSWMul(outer, context_.i64(size)), inner);
  }

  llvm::Align alignment(int64_t elements) const {
    const auto bytes = static_cast<uint64_t>(elements) * type_->getScalarSizeInBits() / 8;
    return llvm::Align(std::min<uint64_t>(bytes, bytes_of_access));
  }

  /// Loads the operands, indexed by depth step, then by row or column.
  std::vector<std::vector<llvm::Value*>> read(const SharedTile& tile, const Part& part, llvm::Value* depth,
                                              int64_t steps) {
    std::vector<std::vector<llvm::Value*>> values(static_cast<size_t>(steps));
    const int64_t group = part.group();
    auto* vector = llvm::FixedVectorType::get(type_, static_cast<unsigned>(group));
    for (size_t k = 0; k < values.size(); ++k)
      for (int64_t start = 0; start < part.count; start += group) {
        auto* across = builder_.CreateNSWAdd(part.first, context_.i64(start * part.threads));
        auto* from =
            tile.at(builder_, across, builder_.CreateNSWAdd(depth, context_.i64(static_cast<int64_t>(k))));
        auto* loaded = builder_.CreateAlignedLoad(vector, from, alignment(group));
        for (int64_t lane = 0; lane < group; ++lane)
          values[k].push_back(builder_.CreateExtractElement(loaded, static_cast<uint64_t>(lane)));
      }
    return values;
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GpuGemmPlan& plan_;
  llvm::Type* type_;
  Part rows_, columns_;
  std::vector<llvm::AllocaInst*> sums_;
};

/// Accumulators with a matrix instruction. Each warp computes a part of the tile, instruction by instruction.
/// On machines with asynchronous copies, the operands of the next instructions are loaded while the current
/// ones run, across steps too.
class MatrixSums final : public TileAccumulator {
 public:
  MatrixSums(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan)
      : context_(context),
        builder_(context.builder),
        plan_(plan),
        matrix_(context, block, *plan.matrix),
        type_(context.value_type(plan.contract.accumulator)),
        ahead_(!block.machine().copies.widths.empty()),
        rows_(plan.tile.rows / plan.tile.thread_rows),
        columns_(plan.tile.columns / plan.tile.thread_columns) {
    auto* across = context.i64(plan.tile.thread_columns);
    row_ = builder_.CreateNSWMul(builder_.CreateUDiv(matrix_.warp(), across), context.i64(rows_));
    column_ = builder_.CreateNSWMul(builder_.CreateURem(matrix_.warp(), across), context.i64(columns_));
    for (int64_t k = 0; k < row_count() * column_count(); ++k)
      for (size_t e = 0; e < matrix_.sums(); ++e) {
        sums_.push_back(context.slot(type_, "sum"));
        builder_.CreateStore(llvm::Constant::getNullValue(type_), sums_.back());
      }
  }

  void begin(const SharedTiles& tiles) override {
    if (!ahead_) return;
    const auto first = read(tiles, 0);
    for (const auto* side : {&first.rows, &first.columns})
      for (const auto& operands : *side)
        for (auto* operand : operands) kept_.push_back(context_.slot(operand->getType(), "operand"));
    keep(first);
  }

  void add_products(const GemmStep& step) override {
    const int64_t parts = plan_.tile.depth / matrix_.depth();
    if (!ahead_) {
      step.load_async(0, 1);
      for (int64_t part = 0; part < parts; ++part) multiply(read(step.tiles, part));
      return step.arrive();
    }
    auto operands = recall();
    for (int64_t part = 0; part < parts; ++part) {
      const bool last = part + 1 == parts;
      // All loads must be in flight before the last products.
      if (!last || parts == 1) step.load_async(part, std::max<int64_t>(1, parts - 1));
      // The next step's tiles must have arrived before their first operands are loaded.
      if (last) step.arrive();
      auto next = last ? read(step.next, 0) : read(step.tiles, part + 1);
      multiply(operands);
      operands = std::move(next);
    }
    keep(operands);
  }

  int64_t rounds() const override { return row_count(); }
  llvm::Value* row_of(int64_t round, llvm::Value* number) override {
    auto* warp = builder_.CreateUDiv(number, context_.i64(matrix_.rows()));
    auto* within = builder_.CreateURem(number, context_.i64(matrix_.rows()));
    return builder_.CreateNSWAdd(builder_.CreateNSWMul(warp, context_.i64(rows_)),
                                 builder_.CreateNSWAdd(within, context_.i64(round * matrix_.rows())));
  }
  void write(int64_t round, llvm::Value* memory, int64_t line) override {
    // A round has the rows of all warps next to each other.
    auto* first =
        builder_.CreateNSWMul(builder_.CreateUDiv(row_, context_.i64(rows_)), context_.i64(matrix_.rows()));
    for (int64_t c = 0; c < column_count(); ++c)
      for (size_t e = 0; e < matrix_.sums();) {
        const auto [row, column] = matrix_.place_of_sum(e);
        auto* to = builder_.CreateNSWMul(builder_.CreateNSWAdd(first, row), context_.i64(line));
        to = builder_.CreateNSWAdd(to, builder_.CreateNSWAdd(column_, column));
        to = builder_.CreateNSWAdd(to, context_.i64(c * matrix_.columns()));
        auto* address = builder_.CreateInBoundsGEP(type_, memory, to);
        const size_t together = matrix_.sums_together(e);
        llvm::Value* values = builder_.CreateLoad(type_, sum_at(round, c)[e]);
        if (together > 1) {
          auto* single = values;
          values = llvm::PoisonValue::get(llvm::FixedVectorType::get(type_, static_cast<unsigned>(together)));
          for (size_t k = 0; k < together; ++k) {
            if (k > 0) single = builder_.CreateLoad(type_, sum_at(round, c)[e + k]);
            values = builder_.CreateInsertElement(values, single, uint64_t{k});
          }
        }
        builder_.CreateAlignedStore(values, address,
                                    llvm::Align(together * type_->getScalarSizeInBits() / 8));
        e += together;
      }
  }

 private:
  struct Operands {
    std::vector<MatrixInstruction::Operands> rows, columns;
  };

  int64_t row_count() const { return rows_ / matrix_.rows(); }
  int64_t column_count() const { return columns_ / matrix_.columns(); }
  std::span<llvm::AllocaInst* const> sum_at(int64_t row, int64_t column) const {
    const size_t count = matrix_.sums();
    return std::span(sums_).subspan(static_cast<size_t>(row * column_count() + column) * count, count);
  }

  /// The operands for one instruction's depth.
  Operands read(const SharedTiles& tiles, int64_t part) {
    const int64_t k = part * matrix_.depth();
    return {matrix_.row_operands(tiles.rows, row_, k, row_count()),
            matrix_.column_operands(tiles.columns, column_, k, column_count())};
  }
  void multiply(const Operands& operands) {
    for (int64_t r = 0; r < row_count(); ++r)
      for (int64_t c = 0; c < column_count(); ++c)
        matrix_.multiply(operands.rows[static_cast<size_t>(r)], operands.columns[static_cast<size_t>(c)],
                         sum_at(r, c));
  }
  void keep(const Operands& operands) {
    auto slot = kept_.begin();
    for (const auto* side : {&operands.rows, &operands.columns})
      for (const auto& values : *side)
        for (auto* value : values) builder_.CreateStore(value, *slot++);
    rows_kept_ = operands.rows[0].size();
    columns_kept_ = operands.columns[0].size();
  }
  Operands recall() {
    Operands operands;
    auto slot = kept_.begin();
    const auto load = [&](std::vector<MatrixInstruction::Operands>& side, int64_t count, size_t size) {
      for (int64_t number = 0; number < count; ++number) {
        auto& values = side.emplace_back();
        for (size_t k = 0; k < size; ++k, ++slot)
          values.push_back(builder_.CreateLoad((*slot)->getAllocatedType(), *slot));
      }
    };
    load(operands.rows, row_count(), rows_kept_);
    load(operands.columns, column_count(), columns_kept_);
    return operands;
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GpuGemmPlan& plan_;
  MatrixInstruction matrix_;
  llvm::Type* type_;
  const bool ahead_;
  const int64_t rows_, columns_;  // rows and columns of a warp
  llvm::Value *row_ = nullptr, *column_ = nullptr;
  std::vector<llvm::AllocaInst*> sums_, kept_;
  size_t rows_kept_ = 0, columns_kept_ = 0;  // operands per instruction
};

}  // namespace

int64_t rows_of_round(const GpuGemmPlan& plan) {
  const auto& tile = plan.tile;
  return tile.thread_rows * (plan.matrix ? plan.matrix->rows : group_of(tile.rows / tile.thread_rows));
}

std::unique_ptr<TileAccumulator> make_tile_accumulator(KernelContext& context, ThreadBlock& block,
                                                       const GpuGemmPlan& plan) {
  if (plan.matrix) return std::make_unique<MatrixSums>(context, block, plan);
  return std::make_unique<ScalarSums>(context, block, plan);
}

}  // namespace ferrite::emitter
