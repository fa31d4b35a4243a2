// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a contraction is computed: which variables are rows, columns, depth and batch, how each operand is
// reached, and the sizes of the register block and of a task's tile. Everything is decided from the kernel
// and the target alone, so that proposing, packing and emitting agree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "ferrite/emitter/contract.h"
#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Some variables of the statement seen as one: the last varies fastest.
struct Axis {
  std::vector<loop::Var> vars;
  int64_t extent = 1;
  index::Symbol symbol = 0;  ///< the flat coordinate
};

/// The rows of a contraction as `lines` x `places` results, each of which reads `line_taps` x `place_taps` positions of every
/// channel. The copy has a position (y, x) for each that any result of a line, or of a place, reads.
struct Window {
  loop::Statement statement;  ///< the operand's value by the batch variables, y, x and the channel
  /// The copy: element (outer, inner). Interleaved: (y, x) and the channel; planar: (y, channel) and x.
  Axis outer, inner;
  bool planar = false;
  int64_t lines = 1, places = 1;          ///< results
  int64_t line_step = 1, place_step = 1;  ///< positions from one result to the next
  int64_t line_taps = 1, place_taps = 1;
  int64_t channels = 1;  ///< that are summed; channelwise: 1
  /// Positions that the operand has, first to last of y and of x; all others are zero, and the statement's load, whose mask they
  /// were, has none. Nothing where the operand is computed, or masked otherwise: the statement then says what each position is.
  struct Region {
    int64_t y_from = 0, y_to = 0, x_from = 0, x_to = 0;
  };
  std::optional<Region> region;
  /// With a region: the load that the operand is, but for casts to wider floats; none: it is computed.
  loop::OpId load = loop::none;
  /// Interleaved, with a region: the micro-kernel begins with the first tap line that the operand has and ends with the last. Every
  /// result has one.
  bool skips_lines = false;

  /// Positions that so many lines of results read.
  int64_t height(int64_t count) const { return (count - 1) * line_step + line_taps; }
  int64_t width() const { return (places - 1) * place_step + place_taps; }
  /// Rows of the copy that one line of positions takes.
  int64_t across() const { return planar ? channels : width(); }
  /// Of all lines' taps together, the share that the region has.
  double share_of_taps() const;
};

/// The windows in tiles of results (contract_winograd.h). The window then has whole tiles, rows and columns of the plan what there is.
struct Winograd {
  int64_t lines = 1, places = 1;  ///< tiles
  int64_t tile_lines = 1;         ///< lines of tiles of a task
  int64_t tiles_at_once = 1;      ///< of a task, whose products lie in the workspace
};

/// How the micro-kernel reaches an operand.
enum class Access {
  direct,    ///< in place, by constant strides along row or column and depth
  constant,  ///< in the layout that was proposed, packed once when the program is loaded
  block,     ///< packed by each task into its workspace
  window     ///< rows: what the windows of a task's lines read, copied once into its workspace
};

struct Operand {
  loop::OpId value = loop::none;  ///< the factor of the product
  loop::OpId load =
      loop::none;  ///< the load that it is, when nothing but widening casts is between; none: it is computed
  Access access = Access::block;
  DType dtype = DType::none;  ///< of the elements that the micro-kernel reads
  index::Expr address;        ///< direct: element number by the flat coordinates
  int64_t stride = 0;         ///< from row to row (columns: 1), in elements
  int64_t step = 0;           ///< from k to k + 1, in elements
  Axis batch;                 ///< constant: the batch variables that the operand depends on
  index::Expr batch_number;   ///< constant: its coordinate by the flat batch coordinate
  bool depth_inside = false;  ///< block: rows are packed with k varying fastest
  /// block: columns are contiguous along k, or computed of what is
  bool transposed = false;
};

struct ContractPlan {
  loop::Statement statement;  ///< all statements as one, with addresses in place of indices
  /// Loads that get the value of an earlier operation, rounded as memory of `dtype` would round it.
  struct Forward {
    loop::OpId load, source;
  };
  std::vector<Forward> forwards;

  Axis batch, rows, columns, depth;
  Operand row, column;
  std::optional<Window> window;  ///< of the rows, where that is how they are reached
  std::optional<Winograd> winograd;
  /// Bf16 rows and columns that are multiplied tile by tile; windows are copied as bf16.
  bool matrix_tiles = false;
  /// While a panel of columns is multiplied the next one is asked for, some lines of each step by each block of rows.
  bool asks_panels = false;
  bool far_columns = false;  ///< read in place, each step of the depth a page or so from the one before
  bool in_runs =
      false;  ///< far columns are read in the order of memory, some steps side by side, not panel by panel
  /// Of these: a run is taken in one go, with the elements of the rows in registers.
  bool whole_runs = false;
  int64_t ahead =
      0;  ///< steps of the depth (dot products: elements along it) from what is multiplied to what is asked for; 0: nothing is
  /// Columns that one dot product after the other is made of at once, with vectors along the depth; 0: vectors lie along the columns.
  int dots = 0;
  bool channelwise = false;  ///< rows depend on the columns too: a vector of them takes a vector of rows
  bool in_lines = false;     ///< columns that are packed lie as rows do: each along the depth
  DType accumulator = DType::none;

  int lanes = 1;
  int block_rows = 1, block_vectors = 1;    ///< of the register block
  int64_t tile_rows = 1, tile_columns = 1;  ///< of a task; multiples of the register block
  int64_t row_tiles = 1, column_tiles = 1;
  /// A task goes over its tile once for each so many steps of the depth: what it reads again then stays in the caches, while its
  /// sums wait in the workspace. The whole depth: one pass, sums in registers. Of columns that are read in runs: the steps side
  /// by side.
  int64_t depth_tile = 1;
  /// Rows of the tile that a pass over the depth takes at a time, so that they stay in the second-level cache while the columns go
  /// by; those are packed once for all of them. 0: the whole tile.
  int64_t near_rows = 0;
  bool rows_outside =
      false;          ///< within a task blocks of rows are the outer loop, panels of columns the inner one
  double cycles = 0;  ///< that one worker takes for the sums, estimated
  bool columns_first = false;  ///< neighbouring tasks share their rows, not their columns
  /// Register blocks with their estimated times, where the planner chose among them.
  struct Block {
    int rows, vectors;
    double time;
  };
  std::vector<Block> blocks;

  /// Rows that a register block may span: those of a line of windows, or all.
  int64_t line_rows() const { return window ? window->places : rows.extent; }
  int64_t block_columns() const { return static_cast<int64_t>(block_vectors) * lanes; }
  /// Of all lines' steps of the depth together, the share that is not left out.
  double share_of_steps() const { return window && window->skips_lines ? window->share_of_taps() : 1; }
  bool deep() const { return depth_tile < depth.extent; }
  int64_t rows_at_once() const { return near_rows > 0 ? std::min(near_rows, tile_rows) : tile_rows; }
  int64_t tasks() const { return batch.extent * row_tiles * column_tiles; }
};

/// The plan, or nothing when the kernel is not a contraction that this emitter handles. `assume_packed` plans
/// as if each layout that contract_options asks for were granted. Nothing too where `config` has a register block
/// that the registers do not hold. Turns the kernel's strided buffers
/// into one-dimensional ones.
std::optional<ContractPlan> plan_contract(const Target& target, loop::Kernel& kernel, bool assume_packed,
                                          const ContractConfig& config = {});

/// The plan of one contract statement that shares loops with other statements, which run between its blocks of rows: the rows are the
/// values of the last shared variable, the other shared ones lead the batch. Nothing where it is no product of rows and columns in these
/// loops, or an operand is packed. `tile_rows` is the caller's to set, to a multiple of the register block. Turns the kernel's
/// strided buffers into one-dimensional ones; make_addresses() has been called for all other statements.
std::optional<ContractPlan> plan_contract_inside(const Target& target, loop::Kernel& kernel, size_t statement,
                                                 const ContractConfig& config = {});

/// What of the plan does not depend on how a grid computes it: the statement, the axes, which of the factors has the rows, the type of the
/// sums. Nothing where the kernel is no product of rows and columns. `assume_packed`: constants that lie neither along the depth nor
/// across are as they were packed. Turns the kernel's buffers into one-dimensional ones, packed ones too.
std::optional<ContractPlan> plan_contract_of_grid(const Target& target, loop::Kernel& kernel,
                                                  bool assume_packed);

/// Stored dims of a constant operand: [batch][panel][k][column] for columns, with matrix tiles [batch][panel][k / 2][column][k % 2], of
/// tiles of results [batch][panel][product][channel][column]; [batch][row][k] for rows, and for columns in lines.
std::vector<int64_t> packed_dims(const ContractPlan& plan, bool columns);

/// The layouts that the plan's constants are packed in, by the statement that it is of, before its accesses were addresses.
std::vector<OperandLayout> layouts_of(const ContractPlan& plan, const loop::Statement& statement,
                                      index::Pool& pool);

}  // namespace ferrite::emitter
