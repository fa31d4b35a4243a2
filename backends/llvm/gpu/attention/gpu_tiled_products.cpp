// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/attention/gpu_tiled_products.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/DerivedTypes.h>
#include <llvm/IR/Intrinsics.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backends/llvm/gemm/tile_sizes.h"
#include "backends/llvm/gpu/attention/lane_rows.h"
#include "backends/llvm/gpu/attention/operand_tiles.h"
#include "backends/llvm/gpu/gemm/matrix_instruction.h"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

namespace {

class TiledProductsEmitter {
 public:
  TiledProductsEmitter(KernelContext& context, ThreadBlock& block, const GpuTiledProductsPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        products_(plan.products),
        machine_(*plan.matrix),
        matrix_(context, block, machine_),
        lane_rows_(rows_of_lane(machine_)),
        between_(context, plan.products.between) {
    for (const auto& output : products_.outputs) finish_.emplace_back(context, output.finish);
  }

  void emit() {
    find_block();
    make_tiles();
    const bool copies = walked_tiles_[0].copies();
    auto* zero = context_.i64(0);
    for (auto& tile : kept_) tile.load_async(first_kept_, zero);
    load_async(zero, zero);
    if (!copies) write(zero);
    for (auto& tile : kept_)
      if (!copies) tile.write(zero);
    for (const auto& output : products_.outputs)
      results_.emplace_back(context_, machine_, plan_.fragments, tiles_of(output.feature.extent));
    for (size_t k = 0; k < products_.inputs.size(); ++k)
      inputs_.emplace_back(context_, machine_, plan_.fragments, tiles_of(plan_.walked));
    for (size_t k = 0; k < products_.outputs.size(); ++k)
      weights_.emplace_back(context_, machine_, plan_.fragments, tiles_of(plan_.walked));
    const int64_t tiles = ceil_div(products_.walked.extent, plan_.walked);
    context_.loop(zero, context_.i64(tiles), 1, "tile", [&](llvm::Value* number) {
      auto* next = builder_.CreateNSWAdd(number, context_.i64(1));
      auto* other = builder_.CreateAnd(next, context_.i64(1));
      // Waits for the current tile; the barrier also ends all reads of the other buffer, which the next load
      // overwrites.
      if (copies) block_.wait_for_copies(0);
      block_.barrier();
      // Past the last tile, no element exists: the load reads nothing.
      load_async(builder_.CreateNSWMul(next, context_.i64(plan_.walked)), other);
      take(builder_.CreateNSWMul(number, context_.i64(plan_.walked)),
           builder_.CreateAnd(number, context_.i64(1)));
      if (!copies) write(other);
    });
    store();
  }

 private:
  int64_t tiles_of(int64_t extent) const { return extent / machine_.columns; }

  // Coordinates.

  void find_block() {
    const auto shared = std::span(products_.between.vars).first(context_.kernel.shared);
    auto* tiles = context_.i64(plan_.tiles);
    const auto values = context_.coordinates(shared, builder_.CreateUDiv(block_.number(), tiles));
    for (size_t k = 0; k < values.size(); ++k) point_.set(shared[k].symbol, values[k]);
    for (const auto& var : {products_.kept, products_.walked}) point_.set(var.symbol, context_.i64(0));
    for (const auto& input : products_.inputs) point_.set(input.depth.symbol, context_.i64(0));
    for (const auto& output : products_.outputs) point_.set(output.feature.symbol, context_.i64(0));
    first_kept_ =
        builder_.CreateNSWMul(builder_.CreateURem(block_.number(), tiles), context_.i64(plan_.tile_rows()));
    row_of_warp_ = builder_.CreateNSWMul(matrix_.warp(), context_.i64(plan_.fragments * machine_.rows));
    const auto [line, column] = matrix_.place_of_sum(lane_rows_[0].sums[0]);
    lane_column_ = column;
    auto* first = builder_.CreateNSWAdd(builder_.CreateNSWAdd(first_kept_, row_of_warp_), line);
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (const auto& lane_row : lane_rows_) {
        const int64_t offset = f * machine_.rows + lane_row.line - lane_rows_[0].line;
        rows_.push_back(builder_.CreateNSWAdd(first, context_.i64(offset)));
      }
  }
  llvm::Value* row_of(int64_t fragment, size_t lane_row) const {
    return rows_[static_cast<size_t>(fragment) * lane_rows_.size() + lane_row];
  }

  // Operands in shared memory.

  void make_tiles() {
    between_.start(point_);
    const auto make = [&](const loop::ProductOperand& operand, const loop::Var& along, const loop::Var& other,
                          bool along_is_depth, int64_t extent, int64_t buffers) {
      OperandTiles::Shape shape{.dtype = products_.dtype,
                                .along = along,
                                .other = other,
                                .along_is_depth = along_is_depth,
                                .extent = extent,
                                .whole = machine_.depth,
                                .buffers = buffers,
                                .threads = plan_.threads(block_.machine())};
      return OperandTiles(context_, block_, operand, shape, between_.index(operand.address));
    };
    // Depths are rounded up; the padding is multiplied with zeros and must not be NaN or infinite.
    bool cleared = false;
    const auto clear_rest = [&](OperandTiles& tiles, const loop::Var& depth) {
      if (depth.extent % machine_.depth == 0) return;
      tiles.clear();
      cleared = true;
    };
    for (const auto& input : products_.inputs) {
      kept_.push_back(make(input.kept, products_.kept, input.depth, false, plan_.tile_rows(), 1));
      clear_rest(kept_.back(), input.depth);
      walked_tiles_.push_back(make(input.walked, products_.walked, input.depth, false, plan_.walked, 2));
      clear_rest(walked_tiles_.back(), input.depth);
    }
    for (const auto& output : products_.outputs) {
      const auto same = std::ranges::find_if(products_.inputs, [&](const auto& input) {
        return is_same(input.walked, input.depth, output.values, output.feature);
      });
      const bool is_input = same != products_.inputs.end();
      values_.push_back(
          {is_input ? static_cast<size_t>(same - products_.inputs.begin()) : walked_tiles_.size(), is_input});
      if (!is_input)
        walked_tiles_.push_back(make(output.values, products_.walked, output.feature, true, plan_.walked, 2));
    }
    if (cleared) block_.barrier();
  }
  /// Whether the values are an input's operand, whose depth is the feature then: they share tiles.
  bool is_same(const loop::ProductOperand& operand, const loop::Var& depth,
               const loop::ProductOperand& values, const loop::Var& feature) const {
    auto& pool = context_.kernel.pool;
    return operand.buffer == values.buffer && depth.extent == feature.extent &&
           pool.substitute(values.address, {{{feature.symbol, pool.symbol(depth.symbol)}}}) ==
               operand.address;
  }
  void load_async(llvm::Value* start, llvm::Value* buffer) {
    for (auto& tile : walked_tiles_) tile.load_async(start, buffer);
    if (walked_tiles_[0].copies()) block_.close_copies();
  }
  void write(llvm::Value* buffer) {
    for (auto& tile : walked_tiles_) tile.write(buffer);
  }

  // One tile.

  /// Processes the tile in the buffer, which begins at `start`.
  void take(llvm::Value* start, llvm::Value* buffer) {
    auto* zero = context_.i64(0);
    for (size_t k = 0; k < products_.inputs.size(); ++k) {
      inputs_[k].clear();
      const auto rows = kept_[k].tile(zero), columns = walked_tiles_[k].tile(buffer);
      const int64_t steps = ceil_div(products_.inputs[k].depth.extent, machine_.depth);
      for (int64_t step = 0; step < steps; ++step) {
        const auto row_operands =
            matrix_.row_operands(rows, row_of_warp_, step * machine_.depth, plan_.fragments);
        const auto column_operands =
            matrix_.column_operands(columns, zero, step * machine_.depth, inputs_[k].tiles());
        for (int64_t f = 0; f < plan_.fragments; ++f)
          for (int64_t c = 0; c < inputs_[k].tiles(); ++c)
            matrix_.multiply(row_operands[static_cast<size_t>(f)], column_operands[static_cast<size_t>(c)],
                             inputs_[k].at(f, c));
      }
    }
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (size_t r = 0; r < lane_rows_.size(); ++r)
        for (int64_t c = 0; c < tiles_of(plan_.walked); ++c) weigh(f, r, c, start);
    for (size_t k = 0; k < products_.outputs.size(); ++k) {
      const auto& tiles = walked_tiles_[values_[k].tiles];
      const auto values = values_[k].turned ? tiles.turned(buffer) : tiles.tile(buffer);
      for (int64_t step = 0; step < plan_.walked / machine_.depth; ++step) {
        const auto operands =
            matrix_.column_operands(values, zero, step * machine_.depth, results_[k].tiles());
        for (int64_t f = 0; f < plan_.fragments; ++f) {
          const auto weights = weights_[k].as_rows(f, step, products_.dtype);
          for (int64_t n = 0; n < results_[k].tiles(); ++n)
            matrix_.multiply(weights, operands[static_cast<size_t>(n)], results_[k].at(f, n));
        }
      }
    }
  }
  /// Computes the weights of the lane's adjacent columns in one row of one instruction's results; 0 past the
  /// last column.
  void weigh(int64_t fragment, size_t lane_row, int64_t tile, llvm::Value* start) {
    const auto& sums = lane_rows_[lane_row].sums;
    const auto lanes = static_cast<int64_t>(sums.size());
    const int64_t rows = products_.kept.extent, extent = products_.walked.extent;
    auto* wanted = builder_.CreateNSWAdd(builder_.CreateNSWAdd(start, lane_column_),
                                         context_.i64(tile * machine_.columns));
    const auto at_most = [&](llvm::Value* value, int64_t most) {
      return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, value, context_.i64(most));
    };
    // Rows past the end are computed like the last one, and not stored. Columns past the end are evaluated at
    // the last whole group, where all loads are valid.
    const bool even = extent % plan_.walked == 0;
    auto* row = row_of(fragment, lane_row);
    auto* first = even ? wanted : at_most(wanted, (extent - 1) / lanes * lanes);
    auto point = point_;
    point.set(products_.kept.symbol, rows % plan_.tile_rows() == 0 ? row : at_most(row, rows - 1));
    point.set(products_.walked.symbol, first);
    point.vector = products_.walked.symbol;
    point.lanes = static_cast<unsigned>(lanes);
    point.aligned = true;
    if (extent % lanes != 0)
      point.mask = context_.lane_mask(builder_.CreateNSWSub(context_.i64(extent), first), point.lanes);
    between_.start(point);
    for (size_t k = 0; k < inputs_.size(); ++k)
      between_.bind_reduced(k, inputs_[k].values(fragment, tile, sums));
    for (size_t k = 0; k < weights_.size(); ++k) {
      auto* value = between_.lanes_of(products_.outputs[k].weight);
      if (!even) {
        llvm::Value* left = context_.splat(builder_.CreateNSWSub(context_.i64(extent), wanted), point.lanes);
        llvm::Value* number =
            lanes == 1 ? context_.i64(0) : context_.iota(builder_.getInt64Ty(), point.lanes);
        value = builder_.CreateSelect(builder_.CreateICmpSLT(number, left), value,
                                      llvm::Constant::getNullValue(value->getType()));
      }
      weights_[k].set(fragment, tile, sums, value);
    }
  }

  void store() {
    for (int64_t f = 0; f < plan_.fragments; ++f)
      for (size_t r = 0; r < lane_rows_.size(); ++r) {
        const auto& sums = lane_rows_[r].sums;
        auto* row = row_of(f, r);
        context_.when(builder_.CreateICmpSLT(row, context_.i64(products_.kept.extent)), "row", [&] {
          for (size_t k = 0; k < products_.outputs.size(); ++k)
            for (int64_t n = 0; n < results_[k].tiles(); ++n) {
              const auto feature = products_.outputs[k].feature.symbol;
              auto point = point_;
              point.set(products_.kept.symbol, row);
              point.set(feature, builder_.CreateNSWAdd(lane_column_, context_.i64(n * machine_.columns)));
              point.vector = feature;
              point.lanes = static_cast<unsigned>(sums.size());
              point.aligned = true;
              finish_[k].start(point);
              finish_[k].bind_reduced(0, results_[k].values(f, n, sums));
              finish_[k].store(finish_[k].finish_stores());
            }
        });
      }
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuTiledProductsPlan& plan_;
  const loop::TiledProducts& products_;
  const GpuMachine::Matrix& machine_;
  MatrixInstruction matrix_;
  const std::vector<LaneRow> lane_rows_;
  BodyEmitter between_;
  std::vector<BodyEmitter> finish_;  ///< by output
  Point point_;                      ///< point of the shared loops; all other variables are 0
  llvm::Value *first_kept_ = nullptr, *row_of_warp_ = nullptr;
  llvm::Value* lane_column_ = nullptr;      ///< column of the lane's first sum
  std::vector<llvm::Value*> rows_;          ///< by fragment and row of the lane
  std::vector<OperandTiles> kept_;          ///< by input
  std::vector<OperandTiles> walked_tiles_;  ///< of the inputs, then of outputs whose values are no input
  struct Values {
    size_t tiles = 0;     ///< number of walked tiles
    bool turned = false;  ///< they are those of an input, whose depth is the feature
  };
  std::vector<Values> values_;  ///< by output
  std::vector<LaneSums> inputs_, weights_, results_;
};

}  // namespace

std::optional<GpuTiledProductsPlan> plan_gpu_tiled_products(const Target& target, loop::Kernel& kernel) {
  const auto& machine = *target.grid;
  if (machine.lanes.name.empty() || kernel.statements.size() < 3) return std::nullopt;
  GpuTiledProductsPlan plan;
  plan.products = loop::find_tiled_products(kernel.pool, kernel);
  if (!plan.products) return std::nullopt;
  plan.matrix = machine.matrix_of(plan.products.dtype, f32);
  if (!plan.matrix || !gives_what_it_takes(*plan.matrix)) return std::nullopt;
  for (const auto& var : std::span(plan.products.between.vars).first(kernel.shared)) plan.batch *= var.extent;
  plan.tiles = ceil_div(plan.products.kept.extent, plan.tile_rows());
  // Sums of long rows leave few registers for the matrices.
  constexpr int64_t many_features = 160;
  int64_t features = 0;
  for (const auto& output : plan.products.outputs) features += output.feature.extent;
  if (features > many_features) plan.walked = std::max<int64_t>(32, plan.matrix->depth);
  // Tiles of the inputs, those of the walked dim twice, with lines that are one vector longer.
  const auto shared_bytes = [&] {
    int64_t lines = 0;
    for (const auto& input : plan.products.inputs)
      lines += (plan.tile_rows() + 2 * plan.walked) * (input.depth.extent + loop::product_lanes);
    return lines * bits_of(plan.products.dtype) / 8;
  };
  while (shared_bytes() > machine.shared_bytes && plan.walked > plan.matrix->depth) plan.walked /= 2;
  return plan;
}

double gpu_tiled_products_seconds(const Target& target, const GpuTiledProductsPlan& plan) {
  // The work per weight besides the products costs about as much as this many multiply-adds.
  constexpr double of_weight = 96;
  const auto& products = plan.products;
  double each = 0;
  for (const auto& input : products.inputs) each += static_cast<double>(input.depth.extent);
  for (const auto& output : products.outputs) each += static_cast<double>(output.feature.extent) + of_weight;
  const double points =
      static_cast<double>(plan.blocks() * plan.tile_rows()) * static_cast<double>(products.walked.extent);
  return points * each /
         (static_cast<double>(plan.matrix->products) * target.grid->multiprocessors *
          target.cycles_per_second);
}

void emit_gpu_tiled_products(KernelContext& context, ThreadBlock& block, const GpuTiledProductsPlan& plan) {
  TiledProductsEmitter(context, block, plan).emit();
}

}  // namespace ferrite::emitter
