// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/cpu/gemm/micro_kernels.h"

#include "backends/llvm/cpu/gemm/block_epilogue.h"
#include "backends/llvm/gemm/tile_sizes.h"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

GemmMicroKernels::GemmMicroKernels(KernelContext& context, const GemmPlan& plan, BlockEpilogue& finish,
                                   int64_t row_row, int64_t column_step, int64_t tile_stride)
    : context_(context),
      builder_(context.builder),
      plan_(plan),
      finish_(finish),
      row_row_(row_row),
      column_step_(column_step),
      tile_stride_(tile_stride) {
  make(micro_[0], plan_.depth_tile);
  if (const int64_t rest = plan_.deep() ? plan_.depth.extent % plan_.depth_tile : 0) make(micro_[1], rest);
}

/// One micro-kernel for each combination of full or last row block and full or last column panel that occurs.
void GemmMicroKernels::make(MicroKernels& micro_kernels, int64_t depth) {
  MicroShape shape;
  shape.lanes = plan_.lanes;
  shape.depth = depth;
  shape.accumulate = plan_.deep();
  shape.channelwise = plan_.channelwise;
  shape.fused = context_.target.fused_multiply_add;
  shape.memory_operands = context_.target.memory_operands;
  shape.accumulator = context_.value_type(plan_.accumulator);
  shape.row_type = context_.storage_type(plan_.row.dtype);
  shape.column_type = context_.storage_type(plan_.column.dtype);
  shape.tile_stride = tile_stride_;
  if (plan_.window) {
    walk_window(shape);
  } else if (plan_.row.access == Access::block) {
    shape.row_stride = plan_.row.depth_inside ? row_row_ : 1;
    shape.row_step = plan_.row.depth_inside ? 1 : row_row_;
  } else {
    shape.row_stride = plan_.row.stride;
    shape.row_step = plan_.row.step;
  }
  shape.column_step = column_step_;
  if (plan_.dots > 0) {
    shape.dots = plan_.dots;
    shape.column_stride = plan_.column.stride;
  }
  shape.ahead = plan_.ahead;
  shape.prefetches = plan_.prefetches_panels;
  shape.prefetched_lines = lines_prefetched(plan_);
  const auto attributes = micro_attributes(context_);
  const int64_t rest_rows = plan_.line_rows() % plan_.block_rows;
  const int64_t rest_columns = plan_.columns.extent % plan_.block_columns();
  for (int last_rows = 0; last_rows < 2; ++last_rows)
    for (int last_columns = 0; last_columns < 2; ++last_columns) {
      auto*& micro = micro_kernels[last_rows][last_columns];
      if ((last_rows && !rest_rows) || (last_columns && !rest_columns)) {
        micro = last_rows && !rest_rows ? micro_kernels[0][last_columns] : micro_kernels[last_rows][0];
        continue;
      }
      if ((!last_rows && plan_.line_rows() < plan_.block_rows) ||
          (!last_columns && plan_.columns.extent < plan_.block_columns()))
        continue;
      shape.rows = last_rows ? static_cast<int>(rest_rows) : plan_.block_rows;
      shape.vectors = plan_.block_vectors;
      shape.tail_lanes = 0;
      if (last_columns) {
        shape.vectors = static_cast<int>((rest_columns + plan_.lanes - 1) / plan_.lanes);
        // Packed panels are padded, so only columns read in place need a mask.
        if (plan_.column.access == Access::direct)
          shape.tail_lanes = static_cast<int>(rest_columns % plan_.lanes);
        // Sums are stored to memory in whole vectors, so the padded edge can use the full panel's
        // micro-kernel.
        const bool same =
            !finish_.in_registers() && shape.vectors == plan_.block_vectors && shape.tail_lanes == 0;
        if (same && micro_kernels[last_rows][0]) {
          micro = micro_kernels[last_rows][0];
          continue;
        }
      }
      const auto name = context_.function->getName() + ".micro" + llvm::Twine(shape.rows) + "x" +
                        llvm::Twine(shape.vectors);
      if (finish_.in_registers()) {
        micro = finish_.emit_kernel(name.str(), shape, last_columns ? rest_columns : plan_.block_columns(),
                                    attributes);
        continue;
      }
      const auto emit = plan_.amx                           ? emit_amx_kernel
                        : plan_.dots > 0                    ? emit_dot_kernel
                        : plan_.whole_runs && !last_columns ? emit_few_rows_kernel
                                                            : emit_micro_kernel;
      micro = emit(context_.module, name.str(), shape, attributes);
    }
}

/// Sets the loops with which the micro-kernel traverses the windows inside the copy of a task's lines.
void GemmMicroKernels::walk_window(MicroShape& shape) const {
  const auto& window = *plan_.window;
  const int64_t line = window.across() * row_row_;
  shape.counted = window.skips_lines;
  shape.row_stride = window.place_step * (window.planar ? 1 : row_row_);
  if (window.planar) {
    shape.loops = {{window.channels, row_row_}, {window.line_taps, line}};
    shape.depth = window.place_taps;
    shape.row_step = 1;
  } else if (plan_.channelwise) {
    shape.loops = {{window.line_taps, line}};
    shape.depth = window.place_taps;
    shape.row_step = row_row_;
    // The channels of a position fill whole AMX registers, and adjacent positions are contiguous.
  } else if (plan_.amx) {
    shape.loops = {{window.line_taps, line}};
    shape.depth = window.place_taps * window.channels;
    shape.row_step = 1;
  } else {
    shape.loops = {{window.line_taps, line}, {window.place_taps, row_row_}};
    shape.depth = window.channels;
    shape.row_step = 1;
  }
}

llvm::Value* GemmMicroKernels::at(llvm::Value* row, llvm::Value* column, llvm::Value* depth_from) {
  auto among = [&](llvm::Value* whole, llvm::Value* last, llvm::Value* position, int64_t size,
                   int64_t extent) {
    if (whole == last || !last) return whole;
    if (!whole) return last;
    auto* fits = builder_.CreateICmpSLE(position, context_.i64(extent - size));
    return builder_.CreateSelect(fits, whole, last);
  };
  // Row blocks do not cross lines of windows, so the position in the line decides.
  auto* place = plan_.window ? builder_.CreateURem(row, context_.i64(plan_.line_rows())) : row;
  auto by_rows = [&](const MicroKernels& micro, int last_columns) {
    return among(micro[0][last_columns], micro[1][last_columns], place, plan_.block_rows, plan_.line_rows());
  };
  auto by_place = [&](const MicroKernels& micro) {
    return among(by_rows(micro, 0), by_rows(micro, 1), column, plan_.block_columns(), plan_.columns.extent);
  };
  return among(by_place(micro_[0]), by_place(micro_[1]), depth_from, plan_.depth_tile, plan_.depth.extent);
}

}  // namespace ferrite::emitter
