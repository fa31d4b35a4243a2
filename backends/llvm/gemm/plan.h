// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plan of a matrix product or convolution: which variables are rows, columns, depth, batch; how each
// operand is accessed, and the sizes of the register block and of a task's tile. The plan depends on the
// kernel and the target alone, so proposing, packing and emitting agree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backends/llvm/analysis/statement_values.h"
#include "ferrite/emitter/gemm.h"
#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// The rows of a contraction as `lines` x `places` results, each of which reads `line_taps` x `place_taps`
/// positions of every channel. The copy of the operand has a position (y, x) for each one that some result of
/// a line, or of a place, reads.
struct Window {
  /// the operand's value as a function of the batch variables, y, x and the channel
  loop::Statement statement;
  /// Axes of the copy, element (outer, inner). Interleaved: (y, x) and the channel; planar: (y, channel) and
  /// x.
  Axis outer, inner;
  bool planar = false;
  int64_t lines = 1, places = 1;          ///< results
  int64_t line_step = 1, place_step = 1;  ///< positions from one result to the next
  int64_t line_taps = 1, place_taps = 1;
  int64_t channels = 1;  ///< channels in the sum; 1 if channelwise
  /// The positions that exist in the operand, [first, last) in y and x. All other positions are zero, and the
  /// statement's load no longer carries the mask that said so. Absent if the operand is computed or has
  /// another mask: the statement then gives the value at each position.
  struct Region {
    int64_t y_from = 0, y_to = 0, x_from = 0, x_to = 0;
  };
  std::optional<Region> region;
  /// With a region: the load of the operand, possibly followed by casts to wider floats; none: the operand is
  /// computed.
  loop::OpId load = loop::none;
  /// For interleaved copies with a region: the micro-kernel iterates only over tap lines that exist in the
  /// operand. Every result has at least one.
  bool skips_lines = false;

  /// Positions that `count` lines of results read.
  int64_t height(int64_t count) const { return (count - 1) * line_step + line_taps; }
  int64_t width() const { return (places - 1) * place_step + place_taps; }
  /// Rows of the copy per line of positions.
  int64_t across() const { return planar ? channels : width(); }
  /// The fraction of all lines' taps that lie inside the region.
  double tap_fraction() const;
};

/// Winograd blocks of a convolution's results (winograd.h). The window is then rounded up to whole blocks;
/// the plan's rows and columns are not.
struct Winograd {
  int64_t lines = 1, places = 1;  ///< Winograd blocks in each direction
  int64_t block_lines = 1;        ///< block lines of a task
  int64_t blocks_at_once = 1;     ///< blocks whose products are in the workspace at the same time
};

/// How the micro-kernel reaches an operand.
enum class Access {
  direct,  ///< in place, by constant strides along row or column and depth
  packed,  ///< in the proposed layout: constants, packed at load, and other weights of Winograd blocks
  block,   ///< packed by each task into its workspace
  window   ///< rows: the positions that a task's window lines read, copied once into its workspace
};

struct Operand {
  loop::OpId value = loop::none;  ///< the factor of the product
  /// The load, if only widening casts lie between it and the factor; none: the factor is computed.
  loop::OpId load = loop::none;
  Access access = Access::block;
  DType dtype = DType::none;  ///< type of the elements that the micro-kernel reads
  index::Expr address;        ///< direct: element number by the flat coordinates
  int64_t stride = 0;         ///< from row to row (columns: 1), in elements
  int64_t step = 0;           ///< from k to k + 1, in elements
  Axis batch;                 ///< packed: the batch variables that the operand depends on
  bool each_run = false;      ///< packed: before each launch, because it is not constant
  index::Expr batch_number;   ///< packed: the coordinate of `batch`, from the flat batch coordinate
  bool depth_inside = false;  ///< block: rows are packed with k varying fastest
  /// block: columns are contiguous along k, or computed from operands that are
  bool transposed = false;
};

struct GemmPlan {
  loop::Statement statement;  ///< all statements merged into one, with addresses in place of indices
  std::vector<Forward> forwards;

  Axis batch, rows, columns, depth;
  Operand row, column;
  std::optional<Window> window;  ///< if the rows are read through windows
  std::optional<Winograd> winograd;
  /// Bf16 rows and columns are multiplied with AMX registers; windows are copied as bf16.
  bool amx = false;
  /// The next panel of columns is prefetched while this one is multiplied: each row block prefetches some
  /// lines per depth step.
  bool prefetches_panels = false;
  /// columns are read in place, and successive depth steps are about a page or more apart
  bool far_columns = false;
  /// Columns are packed from such depth steps: a few steps of all panels of a task at a time, so that each
  /// page is visited once.
  bool packs_far = false;
  /// Far columns are read in runs of adjacent elements, a few depth steps in parallel, not panel by panel.
  bool in_runs = false;
  /// For in_runs: a micro-kernel processes a whole run, with the row operand's elements in registers.
  bool whole_runs = false;
  /// Prefetch distance in depth steps, or in elements along the depth for dot products; 0: no prefetch.
  int64_t ahead = 0;
  /// Columns whose dot products are computed in parallel, with vectors along the depth; 0: vectors lie along
  /// the columns.
  int dots = 0;
  bool channelwise = false;  ///< rows depend on the columns too: a vector of columns takes a vector of rows
  bool in_lines = false;     ///< packed columns have the layout of rows: each is contiguous along the depth
  DType accumulator = DType::none;

  int lanes = 1;
  int block_rows = 1, block_vectors = 1;    ///< size of the register block
  int64_t tile_rows = 1, tile_columns = 1;  ///< tile of a task; multiples of the register block
  int64_t row_tiles = 1, column_tiles = 1;
  /// A task iterates over its tile once per `depth_tile` steps of the depth. The operands that it reuses then
  /// stay in the caches, while its sums are kept in the workspace. If it equals the whole depth there is one
  /// pass, with the sums in registers. For columns read in runs: the number of steps read in parallel.
  int64_t depth_tile = 1;
  /// Rows of the tile that each pass over the depth processes at a time, so that they stay in the
  /// second-level cache while it iterates over the columns. The columns are packed once for all of them. 0:
  /// the whole tile.
  int64_t near_rows = 0;
  /// Within a task, row blocks are the outer loop and column panels the inner one.
  bool rows_outside = false;
  double cycles = 0;           ///< estimated cycles that one worker needs for the sums
  bool columns_first = false;  ///< neighbouring tasks share their rows, not their columns
  /// Register blocks that the planner considered, with their estimated times.
  struct Block {
    int rows, vectors;
    double time;
  };
  std::vector<Block> blocks;

  /// Rows that a register block may span: one line of windows, or all rows.
  int64_t line_rows() const { return window ? window->places : rows.extent; }
  int64_t block_columns() const { return static_cast<int64_t>(block_vectors) * lanes; }
  /// The fraction of all lines' depth steps that is not skipped.
  double step_fraction() const { return window && window->skips_lines ? window->tap_fraction() : 1; }
  bool deep() const { return depth_tile < depth.extent; }
  int64_t rows_at_once() const { return near_rows > 0 ? std::min(near_rows, tile_rows) : tile_rows; }
  int64_t tasks() const { return batch.extent * row_tiles * column_tiles; }
  /// The number of batch entries that the statement computes at each point of its first `shared` loops.
  int64_t own_batches(uint32_t shared) const {
    int64_t batches = 1;
    for (const auto& var : batch.vars) {
      const auto place = std::ranges::find(statement.vars, var.symbol, &loop::Var::symbol);
      if (place - statement.vars.begin() >= static_cast<std::ptrdiff_t>(shared)) batches *= var.extent;
    }
    return batches;
  }
};

/// Returns the plan, or nullopt if this emitter does not handle the kernel as a contraction, or if the
/// registers do not hold the register block that `config` requests. `assume_packed` plans as if each layout
/// in gemm_options() were granted. Makes the kernel's strided buffers one-dimensional.
std::optional<GemmPlan> plan_gemm(const Target& target, loop::Kernel& kernel, bool assume_packed,
                                  const GemmConfig& config = {});

/// Plans one contract statement that shares loops with other statements, which run between its row blocks.
/// The rows are the values of the last shared variable; the other shared variables lead the batch. Returns
/// nullopt if the statement is no product of rows and columns in these loops, or if an operand is packed. The
/// caller sets `tile_rows` to a multiple of the register block's rows. Makes the kernel's strided buffers
/// one-dimensional; make_addresses() must have run on all other statements.
std::optional<GemmPlan> plan_gemm_inside(const Target& target, loop::Kernel& kernel, size_t statement,
                                         const GemmConfig& config = {});

/// The part of a plan that does not depend on how a GPU computes it: the statement, the axes, the factor with
/// the rows, the type of the sums. Returns nullopt if the kernel is no product of rows and columns.
/// `assume_packed`: constants that are contiguous along neither the depth nor the rows or columns count as
/// packed. Makes all buffers of the kernel one-dimensional, packed ones included.
std::optional<GemmPlan> plan_gemm_for_gpu(const Target& target, loop::Kernel& kernel, bool assume_packed);

/// Stored dims of a constant operand. Columns: [batch][panel][k][column]; with AMX
/// [batch][panel][k / 2][column][k % 2]; for Winograd blocks [batch][panel][product][channel][column].
/// Rows, and columns with the layout of rows: [batch][row][k].
std::vector<int64_t> packed_dims(const GemmPlan& plan, bool columns);

/// The number of the statement's loads from a buffer.
size_t loads_of(const loop::Statement& statement, loop::BufferId buffer);
/// Whether each packed buffer is the operand that it was packed for, with the layout that the plan proposes.
bool packings_match(const GemmPlan& plan, const loop::Kernel& kernel);

/// The packed layouts of the plan's constants, in terms of the plan's statement before its accesses became
/// addresses.
std::vector<OperandLayout> layouts_of(const GemmPlan& plan, const loop::Statement& statement,
                                      index::Pool& pool);

}  // namespace ferrite::emitter
