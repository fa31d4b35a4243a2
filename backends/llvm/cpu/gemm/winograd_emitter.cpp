// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/winograd_emitter.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "backends/llvm/cpu/gemm/block_epilogue.h"
#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/pack.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gemm/winograd.h"

namespace ferrite::emitter {
namespace {

/// Lavin and Gray's F(2, 3) in one direction: the transforms of inputs and products.
constexpr double of_positions[][winograd_points] = {
    {1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, 1, 0, -1}};
constexpr double of_products[][winograd_points] = {{1, 1, 1, 0}, {0, 1, -1, -1}};

/// Each task computes some lines of Winograd blocks and some column panels. Its transformed inputs stay in
/// the workspace for the next task, which has the same lines and other columns.
class WinogradEmitter {
 public:
  WinogradEmitter(KernelContext& context, const GemmPlan& plan)
      : context_(context),
        builder_(context.builder),
        plan_(plan),
        winograd_(*plan.winograd),
        packer_(context, plan),
        finish_(context, plan),
        accumulator_(context.value_type(plan.accumulator)),
        vector_(llvm::FixedVectorType::get(accumulator_, static_cast<unsigned>(plan.lanes))),
        align_(static_cast<uint64_t>(bits_of(plan.accumulator)) / 8) {}

  void emit() {
    make_blocks();
    make_micro_kernels();
    context_.loop(context_.begin, context_.end, 1, "task", [&](llvm::Value* task) { emit_task(task); });
  }

 private:
  using Vectors = std::vector<llvm::Value*>;

  /// Rounds up to whole vectors, and avoids strides that are a multiple of a page: they map all rows to the
  /// same few sets of the first-level cache.
  int64_t apart(int64_t count) const {
    const int64_t whole = ceil_div(count, plan_.lanes) * plan_.lanes;
    return whole * bits_of(plan_.accumulator) / 8 % 2048 == 0 ? whole + plan_.lanes : whole;
  }
  /// Vectors of all columns, at least those of a register block.
  int64_t vectors() const { return ceil_div(plan_.columns.extent, plan_.lanes); }
  llvm::Value* take(int64_t elements) {
    return context_.take_workspace(elements * bits_of(plan_.accumulator) / 8);
  }

  void make_blocks() {
    const auto& window = *plan_.window;
    const int64_t channels = ceil_div(window.channels, plan_.lanes) * plan_.lanes;
    copy_row_ = channels;
    copy_ = take(window.height(winograd_.block_lines * winograd_results) * window.width() * copy_row_);
    row_ = apart(channels);
    row_product_ = apart(winograd_.blocks_at_once * row_);
    rows_ = take(winograd_products * row_product_);
    sum_product_ = apart(winograd_.blocks_at_once * plan_.block_columns());
    sums_ = take(winograd_products * sum_product_);
  }

  /// One micro-kernel for each number of rows and vectors that occurs.
  void make_micro_kernels() {
    const int64_t last_lines = winograd_.lines - (plan_.row_tiles - 1) * winograd_.block_lines;
    std::set<int64_t> rows;
    for (const int64_t lines : {winograd_.block_lines, last_lines}) {
      const int64_t blocks = lines * winograd_.places;
      for (const int64_t count :
           {std::min(blocks, winograd_.blocks_at_once), blocks % winograd_.blocks_at_once}) {
        if (count >= plan_.block_rows) rows.insert(plan_.block_rows);
        rows.insert(count % plan_.block_rows);
      }
    }
    rows.erase(0);
    std::set<int64_t> widths{plan_.block_vectors};
    if (vectors() % plan_.block_vectors != 0) widths.insert(vectors() % plan_.block_vectors);

    MicroShape shape;
    shape.lanes = plan_.lanes;
    shape.depth = plan_.window->channels;
    shape.fused = context_.target.fused_multiply_add;
    shape.accumulator = shape.row_type = shape.column_type = accumulator_;
    shape.row_stride = row_;
    shape.row_step = 1;
    shape.column_step = shape.tile_stride = plan_.block_columns();
    shape.ahead = plan_.ahead;
    for (const int64_t count : rows)
      for (const int64_t width : widths) {
        shape.rows = static_cast<int>(count);
        shape.vectors = static_cast<int>(width);
        micro_[{count, width}] = emit_micro_kernel(
            context_.module,
            context_.function->getName() + ".micro" + llvm::Twine(count) + "x" + llvm::Twine(width), shape,
            micro_attributes(context_));
      }
  }

  void emit_task(llvm::Value* task) {
    auto* column_tile = builder_.CreateURem(task, context_.i64(plan_.column_tiles));
    auto* rest = builder_.CreateUDiv(task, context_.i64(plan_.column_tiles));
    auto* row_tile = builder_.CreateURem(rest, context_.i64(plan_.row_tiles));
    batch_ = builder_.CreateUDiv(rest, context_.i64(plan_.row_tiles));
    line_from_ = times(row_tile, winograd_.block_lines);
    auto* lines = smaller(context_.i64(winograd_.block_lines),
                          builder_.CreateSub(context_.i64(winograd_.lines), line_from_));
    column_from_ = times(column_tile, plan_.tile_columns);
    column_to_ = smaller(builder_.CreateAdd(column_from_, context_.i64(plan_.tile_columns)),
                         context_.i64(plan_.columns.extent));

    auto* first = builder_.CreateOr(builder_.CreateICmpEQ(task, context_.begin),
                                    builder_.CreateICmpEQ(column_tile, context_.i64(0)));
    context_.when(first, "copy", [&] {
      auto* from = times(line_from_, winograd_results);
      auto* to = builder_.CreateAdd(
          from, builder_.CreateAdd(times(lines, winograd_results), context_.i64(winograd_taps - 1)));
      packer_.emit(batch_, copy_, copy_row_, from, to, context_.i64(0), nullptr);
    });
    // Only then do the transformed inputs of all the task's blocks exist together, so that the next task can
    // reuse them.
    const bool at_once = winograd_.blocks_at_once == winograd_.block_lines * winograd_.places;
    auto* blocks = times(lines, winograd_.places);
    context_.loop(context_.i64(0), blocks, winograd_.blocks_at_once, "winograd", [&](llvm::Value* from) {
      block_from_ = from;
      block_count_ = smaller(context_.i64(winograd_.blocks_at_once), builder_.CreateSub(blocks, from));
      context_.when(at_once ? first : builder_.getTrue(), "rows", [&] { make_rows(); });
      context_.loop(column_from_, column_to_, plan_.block_columns(), "panel", [&](llvm::Value* column) {
        multiply(column);
        make_results(column);
      });
    });
  }

  /// Input transform: turns each block's positions into rows of the 16 products.
  void make_rows() {
    const auto& window = *plan_.window;
    each_block([&](llvm::Value* block, llvm::Value* line, llvm::Value* place) {
      auto* position =
          builder_.CreateAdd(times(line, window.width() * winograd_results), times(place, winograd_results));
      auto* from = at(copy_, times(position, copy_row_));
      auto* to = at(rows_, times(block, row_));
      context_.loop(
          context_.i64(0), context_.i64(window.channels), plan_.lanes, "channel", [&](llvm::Value* channel) {
            Vectors values;
            for (int64_t y = 0; y < winograd_points; ++y)
              for (int64_t x = 0; x < winograd_points; ++x)
                values.push_back(load(at(
                    from, builder_.CreateAdd(channel, context_.i64((y * window.width() + x) * copy_row_)))));
            const auto made = transform(of_positions, values);
            for (size_t k = 0; k < made.size(); ++k)
              store(made[k], at(to, builder_.CreateAdd(
                                        channel, context_.i64(static_cast<int64_t>(k) * row_product_))));
          });
    });
  }

  /// Computes the products of the panel that begins at `column`.
  void multiply(llvm::Value* column) {
    const int64_t width = plan_.block_columns(), depth = plan_.window->channels;
    const int64_t panels = ceil_div(plan_.columns.extent, width);
    finish_.start({batch_, context_.i64(0), column});
    auto* panel = builder_.CreateAdd(times(finish_.body().index(plan_.column.batch_number), panels),
                                     builder_.CreateUDiv(column, context_.i64(width)));
    const auto buffer = plan_.statement.ops[plan_.column.load].buffer;
    auto* weights = at(context_.base(buffer), times(panel, winograd_products * depth * width));
    context_.loop(context_.i64(0), context_.i64(winograd_products), 1, "product", [&](llvm::Value* product) {
      auto* rows = at(rows_, times(product, row_product_));
      auto* columns = at(weights, times(product, depth * width));
      auto* sums = at(sums_, times(product, sum_product_));
      context_.loop(context_.i64(0), block_count_, plan_.block_rows, "block", [&](llvm::Value* row) {
        builder_.CreateCall(micro_type(builder_.getContext(), false, false), micro_at(row, column),
                            {at(rows, times(row, row_)), columns, at(sums, times(row, width))});
      });
    });
  }

  /// The micro-kernel for the remaining rows and columns.
  llvm::Value* micro_at(llvm::Value* row, llvm::Value* column) {
    auto* rows = smaller(context_.i64(plan_.block_rows), builder_.CreateSub(block_count_, row));
    auto* whole =
        builder_.CreateICmpSLE(column, context_.i64(vectors() * plan_.lanes - plan_.block_columns()));
    llvm::Value* chosen = nullptr;
    for (const auto& [size, micro] : micro_) {
      auto* fits = builder_.CreateICmpEQ(rows, context_.i64(size.first));
      auto* wide = size.second == plan_.block_vectors ? whole : builder_.CreateNot(whole);
      chosen = chosen ? builder_.CreateSelect(builder_.CreateAnd(fits, wide), micro, chosen) : micro;
    }
    return chosen;
  }

  /// Output transform: turns the panel's products into results and runs the epilogue.
  void make_results(llvm::Value* column) {
    auto* column_end = smaller(builder_.CreateAdd(column, context_.i64(plan_.block_columns())), column_to_);
    constexpr int64_t results = winograd_results * winograd_results;
    each_block([&](llvm::Value* block, llvm::Value* line, llvm::Value* place) {
      auto* first_line = times(builder_.CreateAdd(line_from_, line), winograd_results);
      auto* first_place = times(place, winograd_results);
      auto* from = at(sums_, times(block, plan_.block_columns()));
      context_.loop(column, column_end, plan_.lanes, "vector", [&](llvm::Value* start) {
        auto* first = at(from, builder_.CreateSub(start, column));
        Vectors values;
        for (int64_t product = 0; product < winograd_products; ++product)
          values.push_back(load(at(first, context_.i64(product * sum_product_))));
        const auto made = transform(of_products, values);
        auto* mask = plan_.columns.extent % plan_.lanes == 0
                         ? nullptr
                         : context_.lane_mask(builder_.CreateSub(context_.i64(plan_.columns.extent), start),
                                              static_cast<unsigned>(plan_.lanes));
        const auto finish = [&](llvm::Value* y, llvm::Value* x, llvm::Value* sums) {
          finish_result(builder_.CreateAdd(first_line, y), builder_.CreateAdd(first_place, x), start, sums,
                        mask);
        };
        if (finish_.in_registers()) {
          for (size_t k = 0; k < made.size(); ++k)
            finish(context_.i64(static_cast<int64_t>(k) / winograd_results),
                   context_.i64(static_cast<int64_t>(k) % winograd_results), made[k]);
          return;
        }
        // A long epilogue is emitted once, in a loop over the four results.
        auto* slot = context_.slot(llvm::ArrayType::get(vector_, results), "results");
        for (size_t k = 0; k < made.size(); ++k)
          builder_.CreateStore(made[k], builder_.CreateConstInBoundsGEP1_64(vector_, slot, k));
        context_.loop(context_.i64(0), context_.i64(results), 1, "result", [&](llvm::Value* k) {
          auto* sums = builder_.CreateLoad(vector_, builder_.CreateInBoundsGEP(vector_, slot, k));
          finish(builder_.CreateUDiv(k, context_.i64(winograd_results)),
                 builder_.CreateURem(k, context_.i64(winograd_results)), sums);
        });
      });
    });
  }

  /// Runs the epilogue of one result for a vector of columns. The last blocks may exceed the rows; such
  /// results are skipped.
  void finish_result(llvm::Value* line, llvm::Value* place, llvm::Value* column, llvm::Value* sums,
                     llvm::Value* mask) {
    const int64_t lines = plan_.rows.vars[0].extent, places = plan_.rows.vars[1].extent;
    llvm::Value* exists = builder_.getTrue();
    if (lines % winograd_results != 0) exists = builder_.CreateICmpSLT(line, context_.i64(lines));
    if (places % winograd_results != 0)
      exists = builder_.CreateAnd(exists, builder_.CreateICmpSLT(place, context_.i64(places)));
    context_.when(exists, "exists", [&] {
      finish_.emit_vector({batch_, builder_.CreateAdd(times(line, places), place), column}, sums, mask);
    });
  }

  /// Calls `body` with the index of each block in the current group, and its line and place in the task.
  void each_block(const std::function<void(llvm::Value*, llvm::Value*, llvm::Value*)>& body) {
    context_.loop(context_.i64(0), block_count_, 1, "winograd.block", [&](llvm::Value* block) {
      auto* number = builder_.CreateAdd(block_from_, block);
      body(block, builder_.CreateUDiv(number, context_.i64(winograd_.places)),
           builder_.CreateURem(number, context_.i64(winograd_.places)));
    });
  }

  /// Computes matrix * values * transposed matrix for a square of values.
  template <size_t Rows, size_t Size>
  Vectors transform(const double (&matrix)[Rows][Size], const Vectors& values) {
    std::vector<Vectors> columns;
    for (size_t x = 0; x < Size; ++x) {
      Vectors column;
      for (size_t y = 0; y < Size; ++y) column.push_back(values[y * Size + x]);
      columns.push_back(multiply(matrix, column));
    }
    Vectors result;
    for (size_t y = 0; y < Rows; ++y) {
      Vectors line;
      for (const auto& column : columns) line.push_back(column[y]);
      for (auto* value : multiply(matrix, line)) result.push_back(value);
    }
    return result;
  }

  /// Multiplies with a matrix of 1, -1 and 0. Each row has a 1, with which its sum starts.
  template <size_t Rows, size_t Size>
  Vectors multiply(const double (&matrix)[Rows][Size], const Vectors& values) {
    Vectors result;
    for (const auto& factors : matrix) {
      const auto first = static_cast<size_t>(std::ranges::find(factors, 1.0) - std::begin(factors));
      auto* sum = values[first];
      for (size_t k = 0; k < Size; ++k)
        if (k != first && factors[k] != 0)
          sum = factors[k] > 0 ? builder_.CreateFAdd(sum, values[k]) : builder_.CreateFSub(sum, values[k]);
      result.push_back(sum);
    }
    return result;
  }

  llvm::Value* at(llvm::Value* base, llvm::Value* element) {
    return builder_.CreateInBoundsGEP(accumulator_, base, element);
  }
  llvm::Value* load(llvm::Value* place) { return builder_.CreateAlignedLoad(vector_, place, align_); }
  void store(llvm::Value* value, llvm::Value* place) { builder_.CreateAlignedStore(value, place, align_); }
  llvm::Value* times(llvm::Value* a, int64_t b) { return builder_.CreateMul(a, context_.i64(b)); }
  llvm::Value* smaller(llvm::Value* a, llvm::Value* b) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GemmPlan& plan_;
  const Winograd& winograd_;
  WindowPacker packer_;
  BlockEpilogue finish_;
  llvm::Type* accumulator_;
  llvm::FixedVectorType* vector_;
  llvm::Align align_;

  std::map<std::pair<int64_t, int64_t>, llvm::Function*> micro_;  // by rows, then vectors
  // Positions of the task, rows of the products, sums of the products; then elements from one position, row
  // and product to the next.
  llvm::Value *copy_ = nullptr, *rows_ = nullptr, *sums_ = nullptr;
  int64_t copy_row_ = 0, row_ = 0, row_product_ = 0, sum_product_ = 0;
  llvm::Value *batch_ = nullptr, *line_from_ = nullptr, *column_from_ = nullptr, *column_to_ = nullptr;
  llvm::Value *block_from_ = nullptr, *block_count_ = nullptr;
};

}  // namespace

void emit_winograd(KernelContext& context, const GemmPlan& plan) { WinogradEmitter(context, plan).emit(); }

}  // namespace ferrite::emitter
