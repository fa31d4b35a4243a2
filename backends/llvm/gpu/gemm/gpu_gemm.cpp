// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gpu/gemm/gpu_gemm.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <memory>

#include "backends/llvm/gemm/epilogue.h"
#include "backends/llvm/gpu/gemm/shared_tile_loader.h"
#include "backends/llvm/gpu/gemm/tile_accumulator.h"

namespace ferrite::emitter {

namespace {

// Row tiles per group: their blocks run concurrently for each column tile.
constexpr int64_t grouped_tiles = 8;

class GpuGemm {
 public:
  GpuGemm(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan)
      : context_(context),
        builder_(context.builder),
        block_(block),
        plan_(plan),
        rows_(context, block, plan, false),
        columns_(context, block, plan, true),
        copies_(plan.row.copied || plan.column.copied),
        sums_(make_tile_accumulator(context, block, plan)) {
    // The sums reuse the memory of the operand tiles on their way to the epilogue.
    memory_ = block.shared(builder_.getInt8Ty(), plan.shared_bytes());
    rows_.set_memory(memory_);
    columns_.set_memory(builder_.CreateConstInBoundsGEP1_64(
        builder_.getInt8Ty(), memory_, static_cast<uint64_t>(plan.tile_bytes(plan.row))));
  }

  void emit() {
    find_tile();
    const auto& tile = plan_.tile;
    const int64_t stage = plan_.stage_bytes(), ahead = tile.stages - 1;
    // Prologue: fill all stages but one.
    for (int64_t step = 0; step < ahead; ++step) {
      auto *depth = builder_.CreateNSWAdd(depth_, context_.i64(step * tile.depth)),
           *to = context_.i64(step * stage);
      load_async(depth, to, 0, 1);
      write(to);
      if (copies_) block_.close_copies();
    }
    arrive();
    sums_->begin(tiles(context_.i64(0)));
    // `read`: the stage of the current step. `free`: the stage of the previous step, which receives the next
    // load.
    auto* read = context_.slot(builder_.getInt64Ty(), "read");
    auto* free = context_.slot(builder_.getInt64Ty(), "free");
    builder_.CreateStore(context_.i64(0), read);
    builder_.CreateStore(context_.i64(ahead * stage), free);
    context_.loop(context_.i64(0), context_.i64(plan_.steps_of_block()), 1, "step", [&](llvm::Value* step) {
      auto* from = builder_.CreateLoad(builder_.getInt64Ty(), read);
      auto* to = builder_.CreateLoad(builder_.getInt64Ty(), free);
      auto* further = builder_.CreateNSWAdd(from, context_.i64(stage));
      auto* next = builder_.CreateSelect(builder_.CreateICmpEQ(further, context_.i64(tile.stages * stage)),
                                         context_.i64(0), further);
      auto* further_in =
          builder_.CreateNSWMul(builder_.CreateNSWAdd(step, context_.i64(ahead)), context_.i64(tile.depth));
      auto* depth = builder_.CreateNSWAdd(depth_, further_in);
      GemmStep work;
      work.tiles = tiles(from);
      work.next = tiles(next);
      work.load_async = [&](int64_t part, int64_t parts) {
        load_async(depth, to, part, parts);
        if (part + 1 == parts && copies_) block_.close_copies();
      };
      work.arrive = [&] {
        write(to);
        arrive();
      };
      sums_->add_products(work);
      builder_.CreateStore(next, read);
      builder_.CreateStore(from, free);
    });
    // The sums overwrite the operand tiles, which other threads may still read and which may still be in
    // flight.
    if (copies_) block_.wait_for_copies(0);
    block_.barrier();
    finish();
  }

 private:
  SharedTiles tiles(llvm::Value* stage) { return {rows_.tile(stage), columns_.tile(stage)}; }
  void load_async(llvm::Value* depth, llvm::Value* stage, int64_t part, int64_t parts) {
    rows_.load_async(depth, stage, part, parts);
    columns_.load_async(depth, stage, part, parts);
  }
  void write(llvm::Value* stage) {
    rows_.write(stage);
    columns_.write(stage);
  }
  /// Afterwards, all threads see the tiles of the next step.
  void arrive() {
    if (copies_) block_.wait_for_copies(plan_.tile.stages - 2);
    block_.barrier();
  }

  /// Maps blocks to tiles such that blocks that run concurrently share operands in the cache: a few row tiles
  /// by many column tiles.
  void find_tile() {
    const int64_t row_tiles = plan_.row_tiles, column_tiles = plan_.column_tiles;
    auto* number = block_.number();
    block_.make_resident(plan_.resident);
    split_ = context_.i64(0);
    if (const int64_t splits = plan_.tile.splits; splits > 1) {
      block_.make_cluster(splits);
      split_ = builder_.CreateURem(number, context_.i64(splits));
      number = builder_.CreateUDiv(number, context_.i64(splits));
    }
    batch_ = builder_.CreateUDiv(number, context_.i64(row_tiles * column_tiles));
    number = builder_.CreateURem(number, context_.i64(row_tiles * column_tiles));
    auto* group = builder_.CreateUDiv(number, context_.i64(grouped_tiles * column_tiles));
    auto* within = builder_.CreateURem(number, context_.i64(grouped_tiles * column_tiles));
    auto* first = builder_.CreateNSWMul(group, context_.i64(grouped_tiles));
    auto* size = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin,
                                                builder_.CreateNSWSub(context_.i64(row_tiles), first),
                                                context_.i64(grouped_tiles));
    auto* row = builder_.CreateNSWAdd(first, builder_.CreateURem(within, size));
    row_ = builder_.CreateNSWMul(row, context_.i64(plan_.tile.rows));
    column_ = builder_.CreateNSWMul(builder_.CreateUDiv(within, size), context_.i64(plan_.tile.columns));
    const int64_t depth = plan_.steps_of_block() * plan_.tile.depth;
    depth_ = builder_.CreateNSWMul(split_, context_.i64(depth));
    auto* depth_end = builder_.CreateNSWAdd(depth_, context_.i64(depth));
    rows_.begin(batch_, row_, depth_end);
    columns_.begin(batch_, column_, depth_end);
  }

  void finish() {
    const auto& contract = plan_.contract;
    GemmEpilogue epilogue(context_, contract);
    auto* type = context_.value_type(contract.accumulator);
    const int64_t rows = rows_of_round(plan_), columns = plan_.tile.columns, line = plan_.sums_line();
    const int64_t lanes = contract.lanes;
    // With split-K, each block of the cluster finishes a part of the tile, from the sums of all its blocks.
    const int64_t count = rows * columns / lanes / plan_.tile.splits;
    auto* first = builder_.CreateNSWMul(split_, context_.i64(count));
    for (int64_t round = 0; round < sums_->rounds(); ++round) {
      sums_->write(round, memory_, line);
      meet();
      block_.divide(count, plan_.threads, "finish", [&](llvm::Value* number) {
        auto* flat = builder_.CreateNSWAdd(first, number);
        auto* row = builder_.CreateUDiv(flat, context_.i64(columns / lanes));
        auto* column = builder_.CreateNSWMul(builder_.CreateURem(flat, context_.i64(columns / lanes)),
                                             context_.i64(lanes));
        auto* offset = builder_.CreateNSWAdd(builder_.CreateNSWMul(row, context_.i64(line)), column);
        const GemmCoordinates at{batch_, builder_.CreateNSWAdd(row_, sums_->row_of(round, row)),
                                 builder_.CreateNSWAdd(column_, column)};
        context_.when(builder_.CreateICmpSLT(at.row, context_.i64(contract.rows.extent)), "exists", [&] {
          const int64_t extent = contract.columns.extent;
          block_.vector(builder_.CreateNSWSub(context_.i64(extent), at.column), extent, lanes, columns,
                        [&](llvm::Value* mask) {
                          auto* from = builder_.CreateInBoundsGEP(type, memory_, offset);
                          epilogue.emit_vector(at, sums_at(from), mask);
                        });
        });
        // The next round overwrites the sums; with split-K, other blocks may still read this block's memory.
      });
      if (round + 1 < sums_->rounds() || plan_.tile.splits > 1) meet();
    }
  }

  /// Loads a vector of sums; with split-K, adds those of all blocks in depth order, so that the result is
  /// deterministic.
  llvm::Value* sums_at(llvm::Value* address) {
    const int64_t lanes = plan_.contract.lanes;
    auto* type = context_.value_type(plan_.contract.accumulator, static_cast<unsigned>(lanes));
    const int64_t bytes = lanes * bits_of(plan_.contract.accumulator) / 8;
    const llvm::Align align(static_cast<uint64_t>(std::min(bytes, bytes_of_access)));
    if (plan_.tile.splits == 1) return builder_.CreateAlignedLoad(type, address, align);
    llvm::Value* sum = nullptr;
    for (int64_t split = 0; split < plan_.tile.splits; ++split) {
      auto* part = builder_.CreateAlignedLoad(type, block_.in_block(address, context_.i64(split)), align);
      sum = sum ? builder_.CreateFAdd(sum, part) : part;
    }
    return sum;
  }

  /// A barrier of all threads that finish a tile together.
  void meet() { plan_.tile.splits > 1 ? block_.cluster_barrier() : block_.barrier(); }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  ThreadBlock& block_;
  const GpuGemmPlan& plan_;
  SharedTileLoader rows_, columns_;
  const bool copies_;
  std::unique_ptr<TileAccumulator> sums_;
  llvm::Value* memory_ = nullptr;
  llvm::Value *batch_ = nullptr, *row_ = nullptr, *column_ = nullptr;
  llvm::Value* split_ = nullptr;  // number of this block among those that divide the depth
  llvm::Value* depth_ = nullptr;  // where the depth begins for this block
};

}  // namespace

void emit_gpu_gemm(KernelContext& context, ThreadBlock& block, const GpuGemmPlan& plan) {
  GpuGemm(context, block, plan).emit();
}

}  // namespace ferrite::emitter
