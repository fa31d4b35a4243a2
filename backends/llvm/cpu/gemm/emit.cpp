// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/emit.h"

#include <functional>
#include <optional>
#include <utility>

#include "backends/llvm/analysis/statement_values.h"
#include "backends/llvm/cpu/gemm/block_epilogue.h"
#include "backends/llvm/cpu/gemm/micro.h"
#include "backends/llvm/cpu/gemm/micro_kernels.h"
#include "backends/llvm/cpu/gemm/pack.h"
#include "backends/llvm/cpu/gemm/winograd_emitter.h"
#include "backends/llvm/gemm/plan.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "ferrite/emitter/gemm.h"

namespace ferrite::emitter {

/// The loops around the micro-kernel: tasks, column panels, row blocks, and the epilogue of each block.
class GemmEmitter {
  using EachBlock = std::function<void(llvm::Value* row, llvm::Value* row_end, llvm::Value* column)>;

 public:
  GemmEmitter(KernelContext& context, const GemmPlan& plan)
      : context_(context), builder_(context.builder), plan_(plan), finish_(context, plan) {}

  /// Emits the setup that precedes all tasks.
  void prepare() {
    make_blocks();
    if (!finish_.in_registers()) make_tile();
    column_step_ = plan_.column.access == Access::block    ? column_row_
                   : plan_.column.access == Access::packed ? plan_.block_columns()
                                                           : plan_.column.step;
    micro_kernels_.emplace(context_, plan_, finish_, row_row_, column_step_, tile_stride_);
  }

  void emit() {
    prepare();
    context_.loop(context_.begin, context_.end, 1, "task", [&](llvm::Value* task) { emit_task(task); });
  }

  void emit_columns(llvm::Value* batch, llvm::Value* from, llvm::Value* to, llvm::Value* column_from,
                    llvm::Value* column_to, llvm::Value* new_rows) {
    take_rows(batch, from, to);
    column_from_ = column_from;
    column_to_ = column_to;
    emit_tile(builder_.getTrue(), new_rows);
  }
  void emit_front(llvm::Value* batch, llvm::Value* from, llvm::Value* to, llvm::Value* column_to,
                  llvm::Value* fresh) {
    take_rows(batch, from, to);
    take_whole_depth();
    if (!plan_.deep() && column_block_) context_.when(fresh, "columns", [&] { pack_columns(); });
    column_to_ = column_to;
    emit_tile(builder_.getFalse(), builder_.getTrue());
  }

  /// The sums of rows [from, to) of a batch entry, over all columns: cleared, added to in passes, finished.
  void begin_sums(llvm::Value* batch, llvm::Value* from, llvm::Value* to) {
    take_rows(batch, from, to);
    begin_sums();
  }
  void add_pass(llvm::Value* from, llvm::Value* row_to) {
    auto* all = std::exchange(row_to_, row_to ? row_to : row_to_);
    add_pass(from, [&](llvm::Value* row, llvm::Value*, llvm::Value* column) {
      call_micro_kernel(row, column, sums_at(row, column));
    });
    row_to_ = all;
  }
  void add_pass(llvm::Value* from, const EachBlock& block) {
    depth_from_ = from;
    depth_count_ =
        smaller(context_.i64(plan_.depth_tile), builder_.CreateSub(context_.i64(plan_.depth.extent), from));
    if (column_block_) pack_columns();
    auto *tile_from = row_from_, *tile_to = row_to_;
    context_.loop(tile_from, tile_to, plan_.rows_at_once(), "near", [&](llvm::Value* row_from) {
      row_from_ = row_from;
      row_to_ = smaller(builder_.CreateAdd(row_from, context_.i64(plan_.rows_at_once())), tile_to);
      if (row_block_) pack_rows();
      if (plan_.whole_runs) return add_run();
      each_block(block);
    });
    row_from_ = tile_from;
    row_to_ = tile_to;
  }
  void finish_sums() {
    each_block([&](llvm::Value* row, llvm::Value* row_end, llvm::Value* column) {
      finish_block(row, row_end, column, sums_at(row, column));
    });
  }
  llvm::Value* sums_of(llvm::Value* row, llvm::Value* panel) {
    return sums_at(row, builder_.CreateAdd(column_from_, panel));
  }

  void prefetch_ahead(llvm::Value* batch, llvm::Value* number, bool by_depth) {
    const auto& operand = plan_.column;
    const int64_t inside = by_depth ? operand.stride : operand.step,
                  across = by_depth ? operand.step : operand.stride;
    if (operand.load == loop::none || inside != 1 || across == 0) return;
    auto* zero = context_.i64(0);
    depth_from_ = zero;
    auto* first = builder_.CreateGEP(context_.storage_type(load_dtype(operand)),
                                     direct_pointer(operand, batch, zero, zero), times(number, across));
    const int64_t bytes = (by_depth ? plan_.columns : plan_.depth).extent * bits_of(load_dtype(operand)) / 8;
    for (int64_t byte = 0; byte < bytes; byte += cache_line)
      KernelContext::prefetch(
          builder_, builder_.CreateConstGEP1_64(builder_.getInt8Ty(), first, static_cast<uint64_t>(byte)),
          false, KernelContext::Level::second);
  }

  void emit(llvm::Value* point, int64_t batches, llvm::Value* from, llvm::Value* to, llvm::Value* fresh) {
    if (batches == 1) return emit_rows(point, from, to, fresh);
    auto* first = times(point, batches);
    context_.loop(first, builder_.CreateAdd(first, context_.i64(batches)), 1, "batch",
                  [&](llvm::Value* batch) { emit_rows(batch, from, to, builder_.getTrue()); });
  }

 private:
  llvm::Type* accumulator() { return context_.value_type(plan_.accumulator); }
  llvm::Type* row_type() { return context_.storage_type(plan_.row.dtype); }
  int64_t row_bytes() const { return bits_of(plan_.row.dtype) / 8; }
  int64_t accumulator_bytes() const { return bits_of(plan_.accumulator) / 8; }

  /// Memory for sums that do not go straight to the epilogue: a stack slot for one register block or, with
  /// several passes over the depth, the whole tile. The tile is stored panel by panel. Rows a multiple of a
  /// page apart would share few cache sets, and loads would wait for unrelated stores (4K aliasing).
  void make_tile() {
    tile_stride_ = plan_.whole_runs ? plan_.tile_columns : plan_.block_columns();
    if (plan_.deep()) {
      tile_ = context_.take_workspace(plan_.tile_rows * plan_.tile_columns * accumulator_bytes());
      return;
    }
    auto* type = llvm::ArrayType::get(accumulator(), static_cast<uint64_t>(plan_.block_rows * tile_stride_));
    auto* slot = context_.slot(type, "tile");
    slot->setAlignment(llvm::Align(64));
    tile_ = slot;
  }

  /// Workspace for the operands that each task packs, with room for the whole vectors that packing writes.
  void make_blocks() {
    auto padded = [&](int64_t count) { return (count + plan_.lanes - 1) / plan_.lanes * plan_.lanes; };
    // A row stride that is a multiple of a page maps all rows to the same few sets of the first-level cache.
    auto row_of = [&](int64_t count) {
      const int64_t row = padded(count) + plan_.lanes;
      return row * row_bytes() % 2048 == 0 ? row + plan_.lanes : row;
    };
    if (plan_.column.access == Access::block) {
      if (plan_.column.transposed)
        transpose_packer_.emplace(context_, plan_);
      else
        column_packer_.emplace(context_, plan_, plan_.column, plan_.depth, plan_.columns);
      // The last vector of a row may be written beyond the panel; leave room for it.
      const bool beyond =
          (column_packer_ && !column_packer_->even()) || plan_.columns.extent % plan_.lanes != 0;
      column_row_ = plan_.block_columns() + (beyond ? plan_.lanes : 0);
      panel_size_ = padded(plan_.depth_tile) * column_row_ + (beyond ? plan_.lanes : 0);
      // Transposed columns: a vector of steps may follow the last one.
      const int64_t size =
          plan_.tile_columns / plan_.block_columns() * panel_size_ + plan_.lanes * column_row_;
      column_block_ = context_.take_workspace(size * accumulator_bytes());
    }
    if (plan_.window) {
      const auto& window = *plan_.window;
      row_row_ = padded(plan_.channelwise ? plan_.tile_columns : window.inner.extent);
      const int64_t lines = plan_.tile_rows / window.places;
      row_block_ = context_.take_workspace((window.height(lines) * window.across() * row_row_ + plan_.lanes) *
                                           row_bytes());
      if (window.region)
        window_packer_.emplace(context_, plan_);
      else
        row_packer_.emplace(context_, plan_, window.statement, plan_.row.value, plan_.row.dtype, window.outer,
                            window.inner);
    }
    if (plan_.row.access == Access::block) {
      const bool inside = plan_.row.depth_inside;
      const int64_t rows = plan_.rows_at_once();
      row_row_ = row_of(inside ? plan_.depth_tile : rows);
      const int64_t outer = inside ? rows : plan_.depth_tile;
      row_block_ = context_.take_workspace((outer * row_row_ + plan_.lanes) * row_bytes());
      row_packer_.emplace(context_, plan_, plan_.row, inside ? plan_.rows : plan_.depth,
                          inside ? plan_.depth : plan_.rows);
    }
  }

  llvm::Value* smaller(llvm::Value* a, llvm::Value* b) {
    return builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, a, b);
  }
  llvm::Value* times(llvm::Value* a, int64_t b) { return builder_.CreateMul(a, context_.i64(b)); }
  llvm::Value* at(llvm::Type* type, llvm::Value* base, llvm::Value* element) {
    return builder_.CreateInBoundsGEP(type, base, element);
  }

  /// Emits all columns of the rows [from, to) of a batch entry.
  void emit_rows(llvm::Value* batch, llvm::Value* from, llvm::Value* to, llvm::Value* fresh) {
    take_rows(batch, from, to);
    emit_tile(fresh, builder_.getTrue());
  }
  void take_rows(llvm::Value* batch, llvm::Value* from, llvm::Value* to) {
    batch_ = batch;
    row_from_ = from;
    row_to_ = to;
    column_from_ = context_.i64(0);
    column_to_ = context_.i64(plan_.columns.extent);
  }
  void take_whole_depth() {
    depth_from_ = context_.i64(0);
    depth_count_ = context_.i64(plan_.depth.extent);
  }

  void emit_task(llvm::Value* task) {
    const int64_t inner_tiles = plan_.columns_first ? plan_.column_tiles : plan_.row_tiles;
    const int64_t outer_tiles = plan_.columns_first ? plan_.row_tiles : plan_.column_tiles;
    auto* inner = builder_.CreateURem(task, context_.i64(std::max<int64_t>(1, inner_tiles)));
    auto* rest = builder_.CreateUDiv(task, context_.i64(std::max<int64_t>(1, inner_tiles)));
    auto* outer = builder_.CreateURem(rest, context_.i64(std::max<int64_t>(1, outer_tiles)));
    batch_ = builder_.CreateUDiv(rest, context_.i64(std::max<int64_t>(1, outer_tiles)));
    row_from_ = times(plan_.columns_first ? outer : inner, plan_.tile_rows);
    row_to_ = smaller(builder_.CreateAdd(row_from_, context_.i64(plan_.tile_rows)),
                      context_.i64(plan_.rows.extent));
    column_from_ = times(plan_.columns_first ? inner : outer, plan_.tile_columns);
    column_to_ = smaller(builder_.CreateAdd(column_from_, context_.i64(plan_.tile_columns)),
                         context_.i64(plan_.columns.extent));

    // Consecutive tasks share the outer tile's operand: each worker packs it once, at its first such task.
    auto* first = builder_.CreateOr(builder_.CreateICmpEQ(task, context_.begin),
                                    builder_.CreateICmpEQ(inner, context_.i64(0)));
    emit_tile(plan_.columns_first ? builder_.getTrue() : first,
              plan_.columns_first && !plan_.channelwise ? first : builder_.getTrue());
  }

  /// Emits the current tile. Operand blocks are packed if they are new.
  void emit_tile(llvm::Value* new_columns, llvm::Value* new_rows) {
    if (plan_.deep()) return emit_passes();
    take_whole_depth();
    if (plan_.depth.extent > 0) {
      if (column_block_) context_.when(new_columns, "columns", [&] { pack_columns(); });
      if (row_block_) context_.when(new_rows, "rows", [&] { pack_rows(); });
    }
    each_block([&](llvm::Value* row, llvm::Value* row_end, llvm::Value* column) {
      finish_.prefetch({batch_, row, column}, row_end);
      if (finish_.in_registers()) {
        const auto start = start_at(row, column);
        return finish_.call_kernel(micro_at(row, column), start, {batch_, row, column});
      }
      call_micro_kernel(row, column, tile_);
      finish_block(row, row_end, column, tile_);
    });
  }

  /// Adds to the tile's sums in passes over the depth. A register block's sums are cleared in the first pass
  /// and finished in the last, while they are in a near cache. Whole runs clear and finish the tile at once
  /// instead.
  void emit_passes() {
    const auto passes = [&](const std::function<void(llvm::Value*)>& body) {
      context_.loop(context_.i64(0), context_.i64(plan_.depth.extent), plan_.depth_tile, "pass", body);
    };
    if (plan_.whole_runs) {
      begin_sums();
      passes([&](llvm::Value* from) { add_pass(from, nullptr); });
      return finish_sums();
    }
    tile_row_from_ = row_from_;
    passes([&](llvm::Value* from) {
      auto* is_first = builder_.CreateICmpEQ(from, context_.i64(0));
      auto* is_last = builder_.CreateICmpSGE(from, context_.i64(plan_.depth.extent - plan_.depth_tile));
      add_pass(from, [&](llvm::Value* row, llvm::Value* row_end, llvm::Value* column) {
        auto* sums = sums_at(row, column);
        context_.when(is_first, "first", [&] { clear_block(context_, plan_, sums, tile_stride_); });
        context_.when(is_last, "ahead", [&] { finish_.prefetch({batch_, row, column}, row_end); });
        call_micro_kernel(row, column, sums);
        context_.when(is_last, "last", [&] { finish_block(row, row_end, column, sums); });
      });
    });
  }
  void begin_sums() {
    tile_row_from_ = row_from_;
    store_zeros(context_, accumulator(), plan_.lanes, tile_,
                context_.i64(plan_.tile_rows * plan_.tile_columns));
  }

  /// Address of a row's sums from `column` on, where a panel starts.
  llvm::Value* sums_at(llvm::Value* row, llvm::Value* column) {
    auto* line = times(builder_.CreateSub(row, tile_row_from_), tile_stride_);
    auto* inside = builder_.CreateSub(column, column_from_);
    if (!plan_.whole_runs) inside = times(inside, plan_.tile_rows);
    return at(accumulator(), tile_, builder_.CreateAdd(line, inside));
  }

  /// Calls `body` for each register block of the task: its first row, the end of its rows (all in one line),
  /// and its first column.
  void each_block(const EachBlock& body) {
    const auto panels = [&](const std::function<void(llvm::Value*)>& inner) {
      context_.loop(column_from_, column_to_, plan_.block_columns(), "panel", inner);
    };
    const auto blocks = [&](llvm::Value* from, llvm::Value* to,
                            const std::function<void(llvm::Value*, llvm::Value*)>& inner) {
      context_.loop(from, to, plan_.block_rows, "block", [&](llvm::Value* row) {
        inner(row, smaller(builder_.CreateAdd(row, context_.i64(plan_.block_rows)), to));
      });
    };
    if (plan_.rows_outside)
      return blocks(row_from_, row_to_, [&](llvm::Value* row, llvm::Value* row_end) {
        panels([&](llvm::Value* column) { body(row, row_end, column); });
      });
    panels([&](llvm::Value* column) {
      const auto lines = [&](llvm::Value* from, llvm::Value* to) {
        blocks(from, to, [&](llvm::Value* row, llvm::Value* row_end) { body(row, row_end, column); });
      };
      if (!plan_.window) return lines(row_from_, row_to_);
      context_.loop(row_from_, row_to_, plan_.window->places, "line", [&](llvm::Value* line) {
        lines(line, builder_.CreateAdd(line, context_.i64(plan_.window->places)));
      });
    });
  }

  /// Packs panel by panel; within a panel, depth steps follow each other. From pages that lie far apart, a
  /// few steps of all panels are packed at a time.
  void pack_columns() {
    constexpr int64_t steps = 8;
    if (!plan_.packs_far) return pack_columns(context_.i64(0), depth_count_);
    context_.loop(context_.i64(0), depth_count_, steps, "pack.steps", [&](llvm::Value* from) {
      auto* next = builder_.CreateAdd(from, context_.i64(steps));
      context_.loop(next, builder_.CreateAdd(next, context_.i64(steps)), 1, "ahead",
                    [&](llvm::Value* step) { prefetch_step(step); });
      pack_columns(from, smaller(context_.i64(steps), builder_.CreateSub(depth_count_, from)));
    });
  }
  /// Prefetches the task's columns of a depth step: hardware prefetchers do not look beyond a page.
  void prefetch_step(llvm::Value* step) {
    auto* width = times(builder_.CreateSub(column_to_, column_from_), bits_of(load_dtype(plan_.column)) / 8);
    auto* from = std::exchange(depth_from_, builder_.CreateAdd(depth_from_, step));
    prefetch_lines(context_, direct_pointer(plan_.column, batch_, context_.i64(0), column_from_), width);
    depth_from_ = from;
  }
  void pack_columns(llvm::Value* step, llvm::Value* count) {
    context_.loop(column_from_, column_to_, plan_.block_columns(), "pack", [&](llvm::Value* column) {
      PackedBlock block;
      block.data = at(accumulator(), panel_at(column), times(step, column_row_));
      block.row = column_row_;
      block.outer_from = builder_.CreateAdd(depth_from_, step);
      block.outer_count = count;
      block.inner_from = column;
      block.inner_count = context_.i64(plan_.block_columns());
      if (plan_.columns.extent % plan_.block_columns() != 0)
        block.inner_count = smaller(block.inner_count, builder_.CreateSub(column_to_, column));
      block.pad = plan_.columns.extent % plan_.lanes != 0;
      if (column_packer_)
        column_packer_->emit(batch_, block);
      else
        transpose_packer_->emit(batch_, block);
    });
  }

  llvm::Value* panel_at(llvm::Value* column) {
    auto* panel =
        builder_.CreateUDiv(builder_.CreateSub(column, column_from_), context_.i64(plan_.block_columns()));
    return at(accumulator(), column_block_, times(panel, panel_size_));
  }

  /// Packs the positions that the windows of the task's lines read, including those outside the operand.
  void pack_window() {
    const auto& window = *plan_.window;
    PackedBlock block;
    block.data = row_block_;
    block.row = row_row_;
    auto* line = builder_.CreateUDiv(row_from_, context_.i64(window.places));
    auto* last =
        builder_.CreateSub(builder_.CreateUDiv(row_to_, context_.i64(window.places)), context_.i64(1));
    auto* height = builder_.CreateAdd(times(builder_.CreateSub(last, line), window.line_step),
                                      context_.i64(window.line_taps));
    if (window_packer_) {
      auto* from = times(line, window.line_step);
      auto* channels = plan_.channelwise ? builder_.CreateSub(column_to_, column_from_) : nullptr;
      return window_packer_->emit(batch_, row_block_, row_row_, from, builder_.CreateAdd(from, height),
                                  plan_.channelwise ? column_from_ : context_.i64(0), channels);
    }
    block.outer_from = times(line, window.line_step * window.across());
    block.outer_count = times(height, window.across());
    block.inner_from = plan_.channelwise ? column_from_ : context_.i64(0);
    block.inner_count = plan_.channelwise ? builder_.CreateSub(column_to_, column_from_)
                                          : static_cast<llvm::Value*>(context_.i64(window.inner.extent));
    row_packer_->emit(batch_, block);
  }

  void pack_rows() {
    if (plan_.window) return pack_window();
    PackedBlock block;
    block.data = row_block_;
    block.row = row_row_;
    auto* count = builder_.CreateSub(row_to_, row_from_);
    const bool inside = plan_.row.depth_inside;
    block.outer_from = inside ? row_from_ : depth_from_;
    block.outer_count = inside ? count : depth_count_;
    block.inner_from = inside ? depth_from_ : row_from_;
    block.inner_count = inside ? depth_count_ : count;
    row_packer_->emit(batch_, block);
  }

  loop::BufferId buffer_of(const Operand& operand) const { return plan_.statement.ops[operand.load].buffer; }
  DType load_dtype(const Operand& operand) const { return plan_.statement.ops[operand.load].dtype; }

  /// Address of the element at (row, column) and the pass's first depth step, for an operand with constant
  /// strides.
  llvm::Value* direct_pointer(const Operand& operand, llvm::Value* batch, llvm::Value* row,
                              llvm::Value* column) {
    finish_.start({batch, row, column});
    auto* element = finish_.body().index(operand.address);
    const int64_t offset = context_.kernel.buffers[buffer_of(operand)].offset;
    // Not inbounds: the moved base of kept rows lies before their buffer.
    return builder_.CreateGEP(context_.storage_type(load_dtype(operand)), context_.base(buffer_of(operand)),
                              builder_.CreateAdd(builder_.CreateAdd(element, context_.i64(offset)),
                                                 times(depth_from_, operand.step)));
  }

  llvm::Value* batch_number(const Operand& operand, llvm::Value* row, llvm::Value* column) {
    finish_.start({batch_, row, column});
    return finish_.body().index(operand.batch_number);
  }

  llvm::Value* column_pointer(llvm::Value* column) {
    const auto& operand = plan_.column;
    auto* zero = context_.i64(0);
    switch (operand.access) {
      case Access::direct: return direct_pointer(operand, batch_, zero, column);
      case Access::window: break;  // rows only
      case Access::block: return panel_at(column);
      case Access::packed: break;
    }
    const int64_t width = plan_.block_columns(), panels = (plan_.columns.extent + width - 1) / width;
    auto* panel = builder_.CreateAdd(times(batch_number(operand, zero, column), panels),
                                     builder_.CreateUDiv(column, context_.i64(width)));
    return at(context_.storage_type(operand.dtype), context_.base(buffer_of(operand)),
              builder_.CreateAdd(times(panel, plan_.depth.extent * width), times(depth_from_, width)));
  }

  /// Address of the first position that the windows from flat row `row` on read.
  llvm::Value* window_pointer(llvm::Value* row, llvm::Value* column) {
    const auto& window = *plan_.window;
    auto* places = context_.i64(window.places);
    auto* local = builder_.CreateSub(row, row_from_);
    const int64_t line = window.across() * row_row_;
    auto* element = builder_.CreateAdd(
        times(builder_.CreateUDiv(local, places), window.line_step * line),
        times(builder_.CreateURem(local, places), window.place_step * (window.planar ? 1 : row_row_)));
    if (plan_.channelwise) element = builder_.CreateAdd(element, builder_.CreateSub(column, column_from_));
    return at(row_type(), row_block_, element);
  }

  llvm::Value* row_pointer(llvm::Value* row, llvm::Value* column) {
    const auto& operand = plan_.row;
    auto* zero = context_.i64(0);
    switch (operand.access) {
      case Access::direct: return direct_pointer(operand, batch_, row, zero);
      case Access::block:
        return at(row_type(), row_block_,
                  times(builder_.CreateSub(row, row_from_), operand.depth_inside ? row_row_ : 1));
      case Access::window: return window_pointer(row, column);
      case Access::packed: break;
    }
    auto* number = builder_.CreateAdd(times(batch_number(operand, row, zero), plan_.rows.extent), row);
    return at(context_.storage_type(operand.dtype), context_.base(buffer_of(operand)),
              builder_.CreateAdd(times(number, plan_.depth.extent), depth_from_));
  }

  /// Operand pointers of the micro-kernel for the block at (row, column). If lines of zeros are skipped, they
  /// start at the first tap line that exists.
  MicroStart start_at(llvm::Value* row, llvm::Value* column) {
    auto* columns = column_pointer(column);
    auto* rows = row_pointer(row, column);
    auto* prefetch_distance = plan_.prefetches_panels ? prefetch_distance_at(row) : nullptr;
    if (!plan_.window || !plan_.window->skips_lines) return {rows, columns, nullptr, prefetch_distance};
    const auto& window = *plan_.window;
    auto* line = times(builder_.CreateUDiv(row, context_.i64(window.places)), window.line_step);
    auto* from = builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smax,
                                                builder_.CreateSub(context_.i64(window.region->y_from), line),
                                                context_.i64(0));
    auto* to =
        smaller(builder_.CreateSub(context_.i64(window.region->y_to), line), context_.i64(window.line_taps));
    const int64_t steps = plan_.depth.extent / window.line_taps;
    return {at(row_type(), rows, times(from, window.across() * row_row_)),
            at(context_.storage_type(plan_.column.dtype), columns, times(from, steps * column_step_)),
            builder_.CreateSub(to, from), prefetch_distance};
  }
  /// Distance from a step's columns to the line to prefetch: the same step of the next panel. Each row block
  /// takes its own lines of the step; surplus blocks repeat the last ones.
  llvm::Value* prefetch_distance_at(llvm::Value* row) {
    const int64_t lines = lines_prefetched(plan_);
    auto* block = builder_.CreateUDiv(builder_.CreateSub(row, row_from_), context_.i64(plan_.block_rows));
    auto* line = smaller(times(block, lines), context_.i64(lines_of_step(plan_) - lines));
    const int64_t panel = plan_.depth.extent * plan_.block_columns() * bits_of(plan_.column.dtype) / 8;
    return builder_.CreateAdd(times(line, cache_line), context_.i64(panel));
  }

  /// The micro-kernel for the block at (row, column).
  llvm::Value* micro_at(llvm::Value* row, llvm::Value* column) {
    return micro_kernels_->at(row, column, depth_from_);
  }

  /// Adds the pass's products to the sums of the block at (row, column), or stores them if there is one pass.
  void call_micro_kernel(llvm::Value* row, llvm::Value* column, llvm::Value* sums) {
    const auto start = start_at(row, column);
    std::vector<llvm::Value*> arguments = {start.rows, start.columns, sums};
    if (start.trips) arguments.push_back(start.trips);
    if (start.prefetch_distance) arguments.push_back(start.prefetch_distance);
    builder_.CreateCall(micro_type(builder_.getContext(), start.trips, start.prefetch_distance),
                        micro_at(row, column), arguments);
  }

  /// Adds the pass's products for all rows, which form one block, and all columns of the tile.
  void add_run() {
    auto* width = context_.i64(plan_.block_columns());
    auto* count = builder_.CreateUDiv(builder_.CreateSub(column_to_, column_from_), width);
    auto* rest = builder_.CreateAdd(column_from_, builder_.CreateMul(count, width));
    if (plan_.columns.extent >= plan_.block_columns())
      context_.when(builder_.CreateICmpNE(count, context_.i64(0)), "run", [&] {
        const auto start = start_at(row_from_, column_from_);
        builder_.CreateCall(micro_type(builder_.getContext(), true, false), micro_at(row_from_, column_from_),
                            {start.rows, start.columns, sums_at(row_from_, column_from_), count});
      });
    if (plan_.columns.extent % plan_.block_columns() != 0)
      context_.when(builder_.CreateICmpNE(rest, column_to_), "run.rest",
                    [&] { call_micro_kernel(row_from_, rest, sums_at(row_from_, rest)); });
  }

  /// Emits the epilogue of the block at (row, column).
  void finish_block(llvm::Value* row, llvm::Value* row_end, llvm::Value* column, llvm::Value* block) {
    auto* column_end = smaller(builder_.CreateAdd(column, context_.i64(plan_.block_columns())), column_to_);
    finish_.emit_block({batch_, row, column}, row_end, column_end, block, tile_stride_);
  }

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const GemmPlan& plan_;
  BlockEpilogue finish_;
  std::optional<BlockPacker> column_packer_, row_packer_;
  std::optional<TransposePacker> transpose_packer_;
  std::optional<WindowPacker> window_packer_;
  std::optional<GemmMicroKernels> micro_kernels_;

  llvm::Value* tile_ = nullptr;
  llvm::Value *column_block_ = nullptr, *row_block_ = nullptr;
  int64_t column_row_ = 0, row_row_ = 0;  // elements from one outer coordinate of a packed block to the next
  int64_t panel_size_ = 0;                // elements of a packed panel
  int64_t column_step_ = 0;               // elements from the columns at k to those at k + 1
  int64_t tile_stride_ = 0;               // sums from one row to the next
  llvm::Value *depth_from_ = nullptr, *depth_count_ = nullptr;
  llvm::Value *batch_ = nullptr, *row_from_ = nullptr, *row_to_ = nullptr, *column_from_ = nullptr,
              *column_to_ = nullptr;
  llvm::Value* tile_row_from_ = nullptr;  // first row of the whole tile; passes narrow row_from_
};

InnerGemm::InnerGemm(KernelContext& context, const GemmPlan& plan)
    : emitter_(std::make_unique<GemmEmitter>(context, plan)),
      batches_(plan.own_batches(context.kernel.shared)) {
  emitter_->prepare();
}
InnerGemm::~InnerGemm() = default;
InnerGemm::InnerGemm(InnerGemm&&) noexcept = default;

void InnerGemm::emit(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to, llvm::Value* fresh) {
  emitter_->emit(point, batches_, row_from, row_to, fresh);
}
void InnerGemm::emit_columns(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to,
                             llvm::Value* column_from, llvm::Value* column_to, llvm::Value* new_rows) {
  emitter_->emit_columns(point, row_from, row_to, column_from, column_to, new_rows);
}
void InnerGemm::emit_front(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to,
                           llvm::Value* column_to, llvm::Value* fresh) {
  emitter_->emit_front(point, row_from, row_to, column_to, fresh);
}
void InnerGemm::begin_sums(llvm::Value* point, llvm::Value* row_from, llvm::Value* row_to) {
  emitter_->begin_sums(point, row_from, row_to);
}
void InnerGemm::prefetch_ahead(llvm::Value* point, llvm::Value* number, bool by_depth) {
  emitter_->prefetch_ahead(point, number, by_depth);
}
void InnerGemm::add_pass(llvm::Value* depth_from, llvm::Value* row_to) {
  emitter_->add_pass(depth_from, row_to);
}
llvm::Value* InnerGemm::sums_of(llvm::Value* row, llvm::Value* panel) {
  return emitter_->sums_of(row, panel);
}
void InnerGemm::finish_sums() { emitter_->finish_sums(); }

bool can_emit_gemm(const Target& target, const loop::Kernel& kernel, const GemmConfig& config) {
  auto copy = kernel;
  return plan_gemm(target, copy, false, config).has_value();
}

GemmShape emit_gemm(KernelContext& context, const GemmConfig& config) {
  auto plan = plan_gemm(context.target, context.kernel, false, config);
  if (plan->winograd)
    emit_winograd(context, *plan);
  else
    GemmEmitter(context, *plan).emit();
  return {plan->tasks(), 1};
}

}  // namespace ferrite::emitter
