// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/attention/gpu_attention.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <span>

#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gpu/attention/lane_rows.h"
#include "backends/llvm/gpu/attention/operand_tiles.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

using Values = std::vector<llvm::Value*>;
using Slots = std::vector<llvm::AllocaInst*>;

class AttentionEmitter {
 public:
  AttentionEmitter(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        products_(plan.products),
        machine_(*plan.matrix),
        matrix_(context, block, machine_),
        lane_rows_(rows_of_lane(machine_)),
        type_(builder_.getFloatTy()),
        element_(context.storage_type(plan.products.dtype)),
        between_(context, plan.products.between),
        finish_(context, plan.products.finish) {}

  void emit() {
    find_block();
    read_rows();
    make_tiles();
    start();
    const int64_t tiles = ceil_div(products_.column.extent, plan_.columns);
    const bool copies = tiles_[0].copies();
    load_async(context_.i64(0), context_.i64(0));
    if (!copies) write(context_.i64(0));
    context_.loop(context_.i64(0), context_.i64(tiles), 1, "tile", [&](llvm::Value* number) {
      auto* next = builder_.CreateNSWAdd(number, context_.i64(1));
      auto* other = builder_.CreateAnd(next, context_.i64(1));
      // Waits for the current tile; the barrier also ends all reads of the other buffer, which the next load
      // overwrites.
      if (copies) block_.wait_for_copies(0);
      block_.barrier();
      // Past the last tile, no column exists: the load reads nothing.
      load_async(builder_.CreateNSWMul(next, context_.i64(plan_.columns)), other);
      take(builder_.CreateNSWMul(number, context_.i64(plan_.columns)),
           builder_.CreateAnd(number, context_.i64(1)));
      if (!copies) write(other);
    });
    store();
  }

 private:
  int64_t column_tiles() const { return plan_.columns / machine_.columns; }
  int64_t feature_tiles() const { return products_.feature.extent / machine_.columns; }
  int64_t depth_steps() const { return ceil_div(products_.depth.extent, machine_.depth); }
  llvm::Type* vector(llvm::Type* type, size_t lanes) const {
    return lanes == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(lanes));
  }
  llvm::Constant* number(double value) { return llvm::ConstantFP::get(type_, value); }

  // Coordinates.

  void find_block() {
    const auto& kernel = context_.kernel;
    const auto shared = std::span(products_.between.vars).first(kernel.shared);
    auto* tiles = context_.i64(plan_.row_tiles);
    auto* batch = builder_.CreateUDiv(block_.number(), tiles);
    auto values = context_.coordinates(shared.first(shared.size() - 1), batch);
    const auto set = [&](index::Symbol between, index::Symbol second, llvm::Value* value) {
      point_.set(between, value);
      point_.set(second, value);
    };
    const auto& second = kernel.statements[products_.second].vars;
    for (size_t k = 0; k < values.size(); ++k) set(shared[k].symbol, second[k].symbol, values[k]);
    row_symbols_ = {shared.back().symbol, second[shared.size() - 1].symbol};
    for (const auto& var : {products_.column, products_.depth, products_.summed, products_.feature})
      point_.set(var.symbol, context_.i64(0));
    const auto [line, column] = matrix_.place_of_sum(lane_rows_[0].sums[0]);
    lane_column_ = column;
    auto* first =
        builder_.CreateNSWMul(builder_.CreateURem(block_.number(), tiles), context_.i64(plan_.tile_rows()));
    first = builder_.CreateNSWAdd(
        first, builder_.CreateNSWMul(matrix_.warp(), context_.i64(plan_.fragments * machine_.rows)));
    first = builder_.CreateNSWAdd(first, line);
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (const auto& lane_row : lane_rows_) {
        const int64_t offset = f * machine_.rows + lane_row.line - lane_rows_[0].line;
        rows_.push_back(builder_.CreateNSWAdd(first, context_.i64(offset)));
      }
    // Rows past the end read the last row; their results are not stored.
    for (auto* row : rows_)
      read_rows_.push_back(plan_.products.row.extent % plan_.tile_rows() == 0
                               ? row
                               : builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, row,
                                                                context_.i64(products_.row.extent - 1)));
  }
  llvm::Value* row_of(int64_t fragment, size_t lane_row, bool read) const {
    return (read ? read_rows_ : rows_)[static_cast<size_t>(fragment) * lane_rows_.size() + lane_row];
  }
  Point point_of_row(llvm::Value* row) const {
    auto point = point_;
    point.set(row_symbols_.first, row);
    point.set(row_symbols_.second, row);
    return point;
  }

  // Rows of the first product, which each warp keeps in registers.

  void read_rows() {
    const auto& layout = machine_.row;
    rows_operands_.resize(static_cast<size_t>(plan_.fragments));
    for (int64_t f = 0; f < plan_.fragments; ++f) {
      Values starts;
      for (size_t r = 0; r < lane_rows_.size(); ++r) {
        between_.start(point_of_row(row_of(f, r, true)));
        starts.push_back(between_.index(products_.rows.address));
      }
      for (int64_t step = 0; step < depth_steps(); ++step) {
        auto& operands = rows_operands_[static_cast<size_t>(f)].emplace_back();
        for (size_t e = 0; e < layout.elements.size(); e += layout.together) {
          const auto& at = layout.elements[e];
          const auto row = std::ranges::find(lane_rows_, at.line, &LaneRow::line) - lane_rows_.begin();
          const int64_t depth = step * machine_.depth + at.depth;
          auto* type = vector(element_, layout.together);
          if (depth >= products_.depth.extent) {
            operands.push_back(as_operand(llvm::Constant::getNullValue(type)));
            continue;
          }
          auto* offset = builder_.CreateNSWAdd(starts[static_cast<size_t>(row)],
                                               builder_.CreateNSWAdd(lane_column_, context_.i64(depth)));
          auto* from = builder_.CreateInBoundsGEP(element_, context_.base(products_.rows.buffer), offset);
          auto* load = builder_.CreateAlignedLoad(
              type, from, llvm::Align(layout.together * element_->getScalarSizeInBits() / 8));
          context_.mark(load, products_.rows.buffer);
          operands.push_back(as_operand(load));
        }
      }
    }
  }
  llvm::Value* as_operand(llvm::Value* elements) {
    return machine_.words ? builder_.CreateBitCast(elements, builder_.getInt32Ty()) : elements;
  }

  void make_tiles() {
    between_.start(point_);
    const auto make = [&](const loop::ProductOperand& operand, const loop::Var& column,
                          const loop::Var& other, bool column_is_depth) {
      OperandTiles::Shape shape{.dtype = products_.dtype,
                                .along = column,
                                .other = other,
                                .along_is_depth = column_is_depth,
                                .extent = plan_.columns,
                                .whole = machine_.depth,
                                .threads = plan_.threads(block_.machine())};
      return OperandTiles(context_, block_, operand, shape, between_.index(operand.address));
    };
    tiles_.push_back(make(products_.columns, products_.column, products_.depth, false));
    tiles_.push_back(make(products_.values, products_.summed, products_.feature, true));
    // The depth is rounded up; the padding is multiplied with zeros and must not be NaN or infinite.
    if (products_.depth.extent % machine_.depth != 0) {
      tiles_[0].clear();
      block_.barrier();
    }
  }
  /// Starts loading the tiles from this column on.
  void load_async(llvm::Value* column, llvm::Value* buffer) {
    for (auto& tile : tiles_) tile.load_async(column, buffer);
    if (tiles_[0].copies()) block_.close_copies();
  }
  void write(llvm::Value* buffer) {
    for (auto& tile : tiles_) tile.write(buffer);
  }

  // The accumulators.

  void start() {
    const auto slots = [&](Slots& list, size_t count, double value) {
      for (size_t k = 0; k < count; ++k) {
        list.push_back(context_.slot(type_, "sum"));
        builder_.CreateStore(number(value), list.back());
      }
    };
    const auto rows = static_cast<size_t>(plan_.fragments) * lane_rows_.size();
    slots(maximum_, rows, -std::numeric_limits<double>::infinity());
    slots(sum_, rows, 0);
    results_.emplace(context_, machine_, plan_.fragments, feature_tiles());
    scores_.emplace(context_, machine_, plan_.fragments, column_tiles());
  }

  /// Processes the tile in the buffer, whose first column is `column`.
  void take(llvm::Value* column, llvm::Value* buffer) {
    scores_->clear();
    const auto columns = tiles_[0].tile(buffer), values = tiles_[1].tile(buffer);
    for (int64_t step = 0; step < depth_steps(); ++step) {
      const auto operands =
          matrix_.column_operands(columns, context_.i64(0), step * machine_.depth, column_tiles());
      for (int64_t f = 0; f < plan_.fragments; ++f)
        for (int64_t c = 0; c < column_tiles(); ++c)
          matrix_.multiply(rows_operands_[static_cast<size_t>(f)][static_cast<size_t>(step)],
                           operands[static_cast<size_t>(c)], scores_->at(f, c));
    }
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (size_t r = 0; r < lane_rows_.size(); ++r) weigh(f, r, column);
    for (int64_t step = 0; step < plan_.columns / machine_.depth; ++step) {
      const auto operands =
          matrix_.column_operands(values, context_.i64(0), step * machine_.depth, feature_tiles());
      for (int64_t f = 0; f < plan_.fragments; ++f) {
        const auto weights = scores_->as_rows(f, step, products_.dtype);
        for (int64_t n = 0; n < feature_tiles(); ++n)
          matrix_.multiply(weights, operands[static_cast<size_t>(n)], results_->at(f, n));
      }
    }
  }

  /// Turns the scores of one of the lane's rows into exponentials, and rescales the row's previous sums.
  void weigh(int64_t fragment, size_t lane_row, llvm::Value* column) {
    const auto& sums = lane_rows_[lane_row].sums;
    const auto row = static_cast<size_t>(fragment) * lane_rows_.size() + lane_row;
    Values scores;
    for (int64_t c = 0; c < column_tiles(); ++c) scores.push_back(score(fragment, lane_row, c, column));
    auto* before = builder_.CreateLoad(type_, maximum_[row]);
    llvm::Value* most = before;
    const auto larger = [&](llvm::Value* x, llvm::Value* y) { return builder_.CreateMaxNum(x, y); };
    for (auto* each : scores) {
      if (sums.size() == 1) most = larger(most, each);
      for (uint64_t k = 0; sums.size() > 1 && k < sums.size(); ++k)
        most = larger(most, builder_.CreateExtractElement(each, k));
    }
    most = of_all_lanes(most, larger);
    builder_.CreateStore(most, maximum_[row]);
    // While all scores of a row are -inf, subtract 0 instead, so that no exponential is NaN; the row's sum
    // then ends as 0.
    auto* none = builder_.CreateFCmpOEQ(most, number(-std::numeric_limits<double>::infinity()));
    most = builder_.CreateSelect(none, number(0), most);
    // A mask may be the lowest finite number, whose product with log2(e) overflows. Differences of such
    // numbers are effectively infinite at any scale. A power of two scales without a rounding error, which
    // would be as large as the numbers.
    auto* large =
        builder_.CreateFCmpOGT(builder_.CreateUnaryIntrinsic(llvm::Intrinsic::fabs, most), number(1e38));
    auto* scale = builder_.CreateSelect(large, number(0.25), number(std::numbers::log2e));
    auto* shift = builder_.CreateFNeg(builder_.CreateFMul(most, scale));
    const auto power = [&](llvm::Value* score) {
      const auto lanes = static_cast<unsigned>(lanes_of(score));
      return context_.math.fast_exp2(
          builder_.CreateIntrinsic(llvm::Intrinsic::fma, {score->getType()},
                                   {score, context_.splat(scale, lanes), context_.splat(shift, lanes)}));
    };
    // Exactly 1 if the maximum is unchanged, so that rounding errors do not accumulate over tiles.
    auto* correction = builder_.CreateSelect(builder_.CreateFCmpOEQ(before, most), number(1), power(before));
    llvm::Value* total = builder_.CreateFMul(builder_.CreateLoad(type_, sum_[row]), correction);
    for (int64_t c = 0; c < column_tiles(); ++c) {
      auto* exponentials = power(scores[static_cast<size_t>(c)]);
      for (size_t k = 0; k < sums.size(); ++k)
        total = builder_.CreateFAdd(total, sums.size() == 1
                                               ? exponentials
                                               : builder_.CreateExtractElement(exponentials, uint64_t{k}));
      scores_->set(fragment, c, sums, exponentials);
    }
    builder_.CreateStore(total, sum_[row]);
    for (int64_t n = 0; n < feature_tiles(); ++n)
      for (const size_t k : sums) {
        auto* slot = results_->at(fragment, n)[k];
        builder_.CreateStore(builder_.CreateFMul(builder_.CreateLoad(type_, slot), correction), slot);
      }
  }

  static size_t lanes_of(llvm::Value* value) {
    const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
    return type ? type->getNumElements() : 1;
  }
  /// The scores of the lane's adjacent columns in one row of one instruction's results; -inf past the last
  /// column.
  llvm::Value* score(int64_t fragment, size_t lane_row, int64_t tile, llvm::Value* column) {
    const auto& sums = lane_rows_[lane_row].sums;
    const auto lanes = static_cast<int64_t>(sums.size());
    const int64_t extent = products_.column.extent;
    auto* wanted = builder_.CreateNSWAdd(builder_.CreateNSWAdd(column, lane_column_),
                                         context_.i64(tile * machine_.columns));
    auto* first = wanted;
    const bool even = extent % plan_.columns == 0;
    // Columns past the end are evaluated at the last whole group, where all loads are valid.
    if (!even)
      first = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, wanted,
                                             context_.i64((extent - 1) / lanes * lanes));
    auto point = point_of_row(row_of(fragment, lane_row, true));
    point.set(products_.column.symbol, first);
    point.vector = products_.column.symbol;
    point.lanes = static_cast<unsigned>(lanes);
    point.aligned = true;
    if (extent % lanes != 0)
      point.mask = context_.lane_mask(builder_.CreateNSWSub(context_.i64(extent), first), point.lanes);
    between_.start(point);
    between_.bind_reduced(0, scores_->values(fragment, tile, sums));
    auto* value = between_.lanes_of(products_.score);
    if (even) return value;
    llvm::Value* left = context_.splat(builder_.CreateNSWSub(context_.i64(extent), wanted), point.lanes);
    llvm::Value* number = lanes == 1 ? context_.i64(0) : context_.iota(builder_.getInt64Ty(), point.lanes);
    return builder_.CreateSelect(builder_.CreateICmpSLT(number, left), value,
                                 llvm::ConstantFP::getInfinity(value->getType(), true));
  }

  /// Combines the values of the lanes that share a row.
  template <class Combine>
  llvm::Value* of_all_lanes(llvm::Value* value, Combine&& combine) {
    for (unsigned distance = 1; distance < machine_.sums.divisor; distance *= 2)
      value = combine(value, block_.from_lane(value, distance));
    return value;
  }

  void store() {
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (size_t r = 0; r < lane_rows_.size(); ++r) {
        const auto& sums = lane_rows_[r].sums;
        const size_t number_of_row = static_cast<size_t>(f) * lane_rows_.size() + r;
        auto* sum = of_all_lanes(builder_.CreateLoad(type_, sum_[number_of_row]),
                                 [&](auto* x, auto* y) { return builder_.CreateFAdd(x, y); });
        auto* inverse_sum = builder_.CreateFDiv(number(1), sum);
        // A row that is -inf throughout has the sum 0 here; a NaN or infinite score makes the sum NaN.
        auto* is_nan = builder_.CreateFCmpUEQ(sum, number(0));
        auto* row = row_of(f, r, false);
        context_.when(builder_.CreateICmpSLT(row, context_.i64(products_.row.extent)), "row", [&] {
          store_row_results(row, builder_.CreateLoad(type_, maximum_[number_of_row]), sum);
          for (int64_t n = 0; n < feature_tiles(); ++n) {
            auto point = point_of_row(row);
            point.set(products_.feature.symbol,
                      builder_.CreateNSWAdd(lane_column_, context_.i64(n * machine_.columns)));
            point.vector = products_.feature.symbol;
            point.lanes = static_cast<unsigned>(sums.size());
            point.aligned = true;
            finish_.start(point);
            auto* result =
                builder_.CreateFMul(results_->values(f, n, sums), context_.splat(inverse_sum, point.lanes));
            if (products_.nan_as_zero)
              result = builder_.CreateSelect(is_nan, llvm::Constant::getNullValue(result->getType()), result);
            finish_.bind_reduced(0, result);
            finish_.store(finish_.finish_stores());
          }
        });
      }
  }

  /// All lanes of a row have its reductions; the one with the first column stores what is made of them.
  void store_row_results(llvm::Value* row, llvm::Value* most, llvm::Value* sum) {
    if (products_.between.stores.empty()) return;
    context_.when(builder_.CreateICmpEQ(lane_column_, context_.i64(0)), "row_results", [&] {
      // The sum of a row that is -inf throughout is NaN: its elements are -inf - -inf.
      auto* none = builder_.CreateFCmpOEQ(most, number(-std::numeric_limits<double>::infinity()));
      // The maximum here ignores NaN, which makes the sum NaN, as an infinite score does.
      auto* is_nan = builder_.CreateAnd(builder_.CreateFCmpUNO(sum, sum),
                                        builder_.CreateFCmpONE(most, llvm::ConstantFP::getInfinity(type_)));
      most = builder_.CreateSelect(is_nan, llvm::ConstantFP::getNaN(type_), most);
      between_.start(point_of_row(row));
      between_.bind_reduced(products_.most, most);
      between_.bind_reduced(products_.sum, builder_.CreateSelect(none, llvm::ConstantFP::getNaN(type_), sum));
      std::vector<size_t> stores(products_.between.stores.size());
      std::iota(stores.begin(), stores.end(), size_t{0});
      between_.store(stores);
    });
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuAttentionPlan& plan_;
  const loop::SoftmaxProducts& products_;
  const GpuMachine::Matrix& machine_;
  MatrixInstruction matrix_;
  const std::vector<LaneRow> lane_rows_;
  llvm::Type *type_, *element_;
  BodyEmitter between_, finish_;
  Point point_;  ///< point of the shared loops except the row; all other variables are 0
  std::pair<index::Symbol, index::Symbol> row_symbols_;
  llvm::Value* lane_column_ = nullptr;              ///< column of the lane's first sum
  Values rows_, read_rows_;                         ///< by fragment and row of the lane
  std::vector<std::vector<Values>> rows_operands_;  ///< by fragment and step of the depth
  std::vector<OperandTiles> tiles_;                 ///< tiles of keys and of values
  Slots maximum_, sum_;                             ///< by fragment and row of the lane
  std::optional<LaneSums> results_, scores_;
};

}  // namespace

bool has_gpu_attention(const GpuMachine& machine) {
  const std::array types = {f16, bf16};
  return !machine.lanes.name.empty() && std::ranges::all_of(types, [&](DType type) {
    const auto* matrix = machine.matrix_of(type, f32);
    return matrix && gives_what_it_takes(*matrix);
  });
}

std::optional<GpuAttentionPlan> plan_gpu_attention(const Target& target, loop::Kernel& kernel) {
  const auto& machine = *target.grid;
  if (machine.lanes.name.empty() || kernel.statements.size() < 3) return std::nullopt;
  GpuAttentionPlan plan;
  plan.products = loop::find_softmax_products(kernel.pool, kernel);
  if (!plan.products) return std::nullopt;
  plan.matrix = machine.matrix_of(plan.products.dtype, f32);
  if (!plan.matrix || !gives_what_it_takes(*plan.matrix)) return std::nullopt;
  // Two fragments fit into the registers only if rows are short.
  const auto& [depth, feature] = std::pair(plan.products.depth.extent, plan.products.feature.extent);
  constexpr int64_t short_row = 64;
  const int64_t rows = plan.products.row.extent;
  for (const auto& var : std::span(plan.products.between.vars).first(kernel.shared - 1))
    plan.batch *= var.extent;
  const auto tiles = [&] { return (rows + plan.tile_rows() - 1) / plan.tile_rows(); };
  plan.fragments = depth <= short_row && feature <= short_row ? 2 : 1;
  // Smaller tiles if the grid would not fill the machine.
  if (plan.batch * tiles() < machine.multiprocessors) plan.fragments = 1;
  plan.row_tiles = tiles();
  return plan;
}

double gpu_attention_seconds(const Target& target, const GpuAttentionPlan& plan) {
  // The work per score besides the products costs about as much as this many multiply-adds.
  constexpr double of_score = 128;
  const auto& products = plan.products;
  const double scores =
      static_cast<double>(plan.blocks() * plan.tile_rows()) * static_cast<double>(products.column.extent);
  const double each = static_cast<double>(products.depth.extent + products.feature.extent) + of_score;
  return scores * each /
         (static_cast<double>(plan.matrix->products) * target.grid->multiprocessors *
          target.cycles_per_second);
}

void emit_gpu_attention(KernelContext& context, ThreadBlock& block, const GpuAttentionPlan& plan) {
  AttentionEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
