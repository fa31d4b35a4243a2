// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gemm/tile_sizes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/llvm/gemm/winograd.h"

namespace ferrite::emitter {
namespace {

/// Takes the form of the kernel first (Winograd, AMX, dot products, a single row in whole runs, or a register
/// block), then the depth of a pass, then the tile of a task.
class Sizes {
 public:
  Sizes(const Target& target, const GemmConfig& config, bool shared, GemmPlan& plan)
      : target_(target), config_(config), shared_(shared), plan_(plan) {}

  bool choose() {
    if (plan_.winograd) return choose_winograd();
    plan_.in_runs = plan_.far_columns && !shared_ && !plan_.window;
    if (plan_.amx) {
      take_amx_registers();
    } else if (plan_.dots == 0) {
      if (config_.rows == 0 && plan_.in_runs && plan_.rows.extent == 1)
        choose_whole_runs();
      else if (config_.rows == 0)
        plan_.cycles = choose_block(plan_.line_rows()) * steps();
      else if (!take_block())
        return false;
    }
    choose_depth_tile();
    choose_tiles();
    plan_.prefetches_panels = reads_panels_from_afar();
    if (!plan_.prefetches_panels && reads_once_from_afar()) {
      constexpr int64_t bytes_ahead = 2048, bytes_ahead_of_several = 4096;
      const int64_t step = plan_.block_columns() * bits_of(plan_.column.dtype) / 8;
      plan_.ahead =
          std::max<int64_t>(1, (plan_.rows.extent > 1 ? bytes_ahead_of_several : bytes_ahead) / step);
    }
    return true;
  }

 private:
  /// Whole runs are for a single row, whose elements of some depth steps stay in registers. Four rows already
  /// take as long as register blocks do, or longer.
  void choose_whole_runs() {
    plan_.whole_runs = true;
    plan_.block_rows = 1;
    plan_.block_vectors = static_cast<int>(std::min<int64_t>(2, ceil_div(plan_.columns.extent, plan_.lanes)));
    plan_.cycles = static_cast<double>(plan_.batch.extent * ceil_div(plan_.columns.extent, plan_.lanes) *
                                       plan_.depth.extent);
  }

  /// Uses the register block of the configuration; returns false if it is not possible.
  bool take_block() {
    const int64_t r = config_.rows, v = config_.vectors;
    if (r < 1 || v < 1 || v > 8 || !fits_registers(r, v)) return false;
    plan_.block_rows = config_.rows;
    plan_.block_vectors = config_.vectors;
    plan_.cycles = time_in_blocks(plan_.line_rows(), r, v) * steps();
    return true;
  }

  /// Two by two AMX registers. A multiplication takes as many cycles as the register has rows.
  void take_amx_registers() {
    plan_.block_rows = 2 * amx_rows;
    plan_.block_vectors = 2;
    const auto registers = [](int64_t count) { return static_cast<double>(ceil_div(count, amx_rows)); };
    plan_.cycles =
        registers(plan_.line_rows()) * registers(plan_.columns.extent) * steps() * amx_rows / amx_depth;
  }

  /// Registers hold the sums, the columns of a step and a row's element. Without fused multiply-adds, some
  /// products also need registers, several at a time so that none waits for the previous one.
  bool fits_registers(int64_t r, int64_t v) const {
    const int64_t products = target_.fused_multiply_add ? 0 : 4;
    return r * v + v + (v > 1) + products <= static_cast<int64_t>(target_.vector_registers);
  }

  /// Overhead in cycles of each panel-wide segment of a row of results. Elements of the row are loaded again
  /// for every panel of columns, unless all rows stay in the first-level cache, and writing a row in segments
  /// is slower. The constants minimise the time over the blocks of 210 products and convolutions of six
  /// networks, measured in 8 to 11 shapes each on a Xeon (bench/results/contraction-candidates.json): the
  /// chosen blocks are 3 % above the fastest ones; without this term they are 8 % above, and channelwise ones
  /// 10 %.
  double segment_overhead() const {
    constexpr double channelwise = 16, usual = 20, far_line = 2;
    constexpr int64_t most_lines = 16, long_depth = 512;
    if (plan_.channelwise) return channelwise;
    // Windows are copied, so the choice of block does not change how often they are read.
    if (shared_ || plan_.in_runs || plan_.window) return 0;
    const int64_t row = plan_.depth.extent * static_cast<int64_t>(bits_of(plan_.row.dtype)) / 8;
    const int64_t rows = plan_.rows.extent * row;
    if (rows <= target_.l1_bytes) return 0;
    const bool far = rows > target_.l2_bytes * 3 / 4;
    if (far && plan_.depth.extent > long_depth) return 0;  // passes over the depth keep them in a near cache
    return usual +
           (far ? far_line * static_cast<double>(std::min(most_lines, ceil_div(row, cache_line))) : 0);
  }

  /// Cycles of one depth step over all rows and columns in blocks of r x v: the fused multiply-adds or the
  /// loads, two of which run in a cycle, whichever take longer, but at least the latency of a chain of sums;
  /// and shares of what a block costs once: by its rows and columns, and to store its sums. Edge blocks count
  /// with their own size.
  double time_in_blocks(int64_t rows, int64_t r, int64_t v) const {
    const int64_t vectors = ceil_div(plan_.columns.extent, plan_.lanes);
    const auto time = [&](int64_t of_rows, int64_t of_vectors) {
      if (plan_.channelwise) return channelwise_time(of_rows, of_vectors);
      const double sums = static_cast<double>(of_rows * of_vectors) * 0.5,
                   loads = static_cast<double>(of_rows + of_vectors) * 0.5;
      return std::max({sums, loads, 4.0}) + 0.012 * static_cast<double>(of_rows + of_vectors * 16) +
             8.0 * static_cast<double>(of_rows * of_vectors) / 512.0;
    };
    const int64_t full_rows = rows / r, rest_rows = rows % r, full = vectors / v, rest = vectors % v;
    double total = static_cast<double>(full_rows * full) * time(r, v);
    if (rest_rows) total += static_cast<double>(full) * time(rest_rows, v);
    if (rest) total += static_cast<double>(full_rows) * time(r, rest);
    if (rest_rows && rest) total += time(rest_rows, rest);
    const auto segments = static_cast<double>(rows * ceil_div(vectors, v));
    total += segments * segment_overhead() / static_cast<double>(std::max<int64_t>(1, steps_of_line()));
    // Each further micro-kernel costs compile time.
    return total * (1.0 + 0.015 * ((rest_rows ? 2 : 1) * (rest ? 2 : 1) - 1));
  }

  /// Chooses the register block with the least estimated time, and returns the time of one depth step.
  double choose_block(int64_t rows) {
    const int64_t vectors = ceil_div(plan_.columns.extent, plan_.lanes);
    double best = std::numeric_limits<double>::max();
    const int64_t most = plan_.in_runs ? 4 : 8;  // narrow, because all runs advance together
    for (int64_t v = 1; v <= std::min(most, std::max<int64_t>(1, vectors)); ++v)
      for (int64_t r = 1; r <= std::max<int64_t>(1, rows) && (fits_registers(r, v) || r * v == 1); ++r) {
        const double total = time_in_blocks(rows, r, v);
        plan_.blocks.push_back({static_cast<int>(r), static_cast<int>(v), total});
        if (total < best) {
          best = total;
          plan_.block_rows = static_cast<int>(r);
          plan_.block_vectors = static_cast<int>(v);
        }
      }
    return best;
  }

  int64_t steps_of_line() const { return plan_.channelwise ? plan_.window->line_taps : plan_.depth.extent; }
  /// Depth steps of all lines of rows. The unit of a channelwise time is a line of taps, otherwise one step.
  double steps() const {
    const auto steps = static_cast<double>(steps_of_line());
    const auto lines = static_cast<double>(plan_.batch.extent * (plan_.window ? plan_.window->lines : 1));
    return steps * lines * plan_.step_fraction();
  }

  /// Returns false if not even the Winograd blocks of one register block stay in the second-level cache.
  bool choose_winograd() {
    plan_.depth_tile = plan_.depth.extent;
    if (!choose_winograd_lines()) return false;
    const auto& winograd = *plan_.winograd;
    const auto& window = *plan_.window;
    const int64_t bytes = bits_of(plan_.accumulator) / 8;
    const int64_t vectors = ceil_div(plan_.columns.extent, plan_.lanes);
    const auto depth = static_cast<double>(window.channels);
    const double step = choose_block(winograd.blocks_at_once);
    const auto all_blocks = static_cast<double>(plan_.batch.extent * winograd.lines * winograd.places);
    const double segments = all_blocks / static_cast<double>(winograd.blocks_at_once);
    const double blocks = static_cast<double>(ceil_div(winograd.blocks_at_once, plan_.block_rows) *
                                              ceil_div(vectors, plan_.block_vectors));
    // Cycles per vector of a transform: a load, a few additions and a store, for inputs and for outputs.
    constexpr double of_vector = 3, of_block = 20;
    // Cycles to make 16 weights of the 9 of a filter, where weights are no constants.
    constexpr double of_weight = 20;
    const double changes = depth / plan_.lanes + static_cast<double>(vectors);
    // Each of the 16 products has its own weights, instead of 9 taps: more weights are read.
    constexpr double bytes_a_cycle = 8;
    const int64_t weights = plan_.columns.extent * window.channels * bytes;
    const auto more_weights =
        static_cast<double>(weights * (winograd_products - winograd_taps * winograd_taps));
    plan_.cycles = static_cast<double>(winograd_products) *
                       (segments * (step * depth + of_block * blocks) + all_blocks * changes * of_vector) +
                   static_cast<double>(plan_.column.batch.extent) * more_weights / bytes_a_cycle;
    if (plan_.column.each_run)
      plan_.cycles +=
          of_weight * static_cast<double>(plan_.column.batch.extent * plan_.columns.extent) * depth;
    // Weights that come from memory are prefetched one page ahead.
    if (weights * winograd_products > target_.l2_bytes / 2)
      plan_.ahead = std::max<int64_t>(1, page_bytes / (plan_.block_columns() * bytes));
    choose_winograd_tasks(weights * winograd_products);
    return true;
  }

  /// Chooses the block lines of a task, and the number of blocks whose intermediate values stay in the
  /// second-level cache.
  bool choose_winograd_lines() {
    auto& winograd = *plan_.winograd;
    const auto& window = *plan_.window;
    constexpr int64_t most_bytes = 7 << 17;  // below the 1 MiB a worker of MemoryLimit (core/schedule/memory)
    constexpr int64_t widest = 4, highest = 14;
    const int64_t bytes = bits_of(plan_.accumulator) / 8,
                  budget = std::min(most_bytes, target_.l2_bytes * 7 / 8);
    const int64_t vectors = std::min(widest, ceil_div(plan_.columns.extent, plan_.lanes));
    const int64_t block = winograd_products * (window.channels + (1 + vectors) * plan_.lanes) * bytes;
    const int64_t position_line = window.width() * window.channels * bytes;
    const auto copied = [&](int64_t lines) {
      return (lines * winograd_results + winograd_taps - 1) * position_line;
    };
    const auto fits = [&](int64_t lines) {
      return copied(lines) + lines * winograd.places * block <= budget;
    };
    int64_t most_lines = 1;
    while (most_lines < winograd.lines && fits(most_lines + 1)) ++most_lines;
    // Prefer a number of lines that divides all lines, unless it makes many more tasks.
    winograd.block_lines = ceil_div(winograd.lines, ceil_div(winograd.lines, most_lines));
    for (int64_t lines = most_lines; lines * 2 > most_lines; --lines)
      if (winograd.lines % lines == 0) {
        winograd.block_lines = lines;
        break;
      }
    winograd.blocks_at_once = winograd.block_lines * winograd.places;
    if (!fits(winograd.block_lines)) {
      // A multiple of the largest number of rows in a register block, so that blocks are full.
      const int64_t left = (budget - copied(1)) / block / highest * highest;
      if (left <= 0) return false;
      winograd.blocks_at_once = std::min(left, winograd.blocks_at_once);
    }
    return true;
  }

  /// Weights that exceed the cache are read once for each range of block lines; divide the columns among
  /// tasks then.
  void choose_winograd_tasks(int64_t weight_bytes) {
    const auto& winograd = *plan_.winograd;
    const int64_t panels = ceil_div(plan_.columns.extent, plan_.block_columns()), each = tasks_of_entry();
    plan_.columns_first = true;
    plan_.row_tiles = ceil_div(winograd.lines, winograd.block_lines);
    plan_.tile_rows = winograd.block_lines * winograd_results * plan_.window->places;
    const int64_t column_tiles =
        std::min(panels, weight_bytes > target_.l2_bytes / 2 ? each : ceil_div(each, plan_.row_tiles));
    plan_.tile_columns = ceil_div(panels, column_tiles) * plan_.block_columns();
    plan_.column_tiles = ceil_div(plan_.columns.extent, plan_.tile_columns);
  }

  /// Time of a channelwise block and one line of taps. Neighbouring results read mostly the same positions.
  double channelwise_time(int64_t r, int64_t v) const {
    const auto taps = plan_.window->place_taps;
    const int64_t positions = plan_.window->place_step == 1 ? r + taps - 1 : r * taps;
    const auto sums = static_cast<double>(r * v * taps) * 0.5,
               loads = static_cast<double>((positions + taps) * v) * 0.5;
    const bool spills = (r + taps) * v + 2 > static_cast<int64_t>(target_.vector_registers);
    return std::max({sums, loads, 4.0 * static_cast<double>(taps)}) * (spills ? 1.3 : 1.0) + 2.0;
  }

  /// Tasks take whole lines of windows. Neighbouring tasks share the copy, except in channelwise
  /// contractions, where each needs only its own channels.
  void choose_window_tiles(int64_t panels, int64_t each) {
    const auto& window = *plan_.window;
    const int64_t bytes = bits_of(plan_.row.dtype) / 8;
    // Each channelwise task copies its own channels: take enough of them to read several adjacent cache
    // lines.
    constexpr int64_t least_run = 4;
    int64_t column_tiles = 1;
    if (plan_.channelwise)
      column_tiles =
          ceil_div(panels, std::max<int64_t>(1, least_run * cache_line / (plan_.block_columns() * bytes)));
    const int64_t channels =
        plan_.channelwise ? ceil_div(panels, column_tiles) * plan_.block_columns() : window.channels;
    const int64_t line_bytes = std::max<int64_t>(1, window.width() * channels * window.line_step * bytes);
    const int64_t budget = std::max<int64_t>(1, target_.l2_bytes / 4 / line_bytes);
    const int64_t least_lines = std::min(window.lines, ceil_div(window.lines, budget));
    // Weights that exceed the cache are read once for each range of lines; divide the columns among tasks
    // then.
    const int64_t weight_bytes = plan_.depth.extent * plan_.columns.extent * bytes;
    if (!plan_.channelwise && weight_bytes > target_.l2_bytes / 2) column_tiles = std::min(panels, each);
    const int64_t line_tiles = std::clamp<int64_t>(ceil_div(each, column_tiles), least_lines, window.lines);
    if (!plan_.channelwise && column_tiles == 1)
      column_tiles = std::min(panels, ceil_div(std::min<int64_t>(each, 16), line_tiles));
    plan_.columns_first = true;
    const int64_t lines = ceil_div(window.lines, line_tiles), column_panels = ceil_div(panels, column_tiles);
    plan_.tile_rows = lines * window.places;
    plan_.tile_columns = column_panels * plan_.block_columns();
    plan_.row_tiles = ceil_div(window.lines, lines);
    plan_.column_tiles = ceil_div(panels, column_panels);
  }

  /// Whether packed columns exceed the second-level cache.
  bool packs_columns_afar() const {
    if (plan_.column.access != Access::packed || plan_.dots > 0 || shared_) return false;
    const int64_t bytes = bits_of(plan_.column.dtype) / 8;
    return plan_.depth.extent * plan_.columns.extent * bytes > target_.l2_bytes / 2;
  }

  /// Whether such columns are read once, for a few rows.
  bool reads_once_from_afar() const {
    return packs_columns_afar() && !plan_.amx && !plan_.window && plan_.rows.extent <= plan_.block_rows;
  }

  /// Whether each panel of such columns serves enough row blocks to prefetch the next panel meanwhile.
  /// Hardware prefetchers stop at the end of each page.
  bool reads_panels_from_afar() const {
    return packs_columns_afar() && !plan_.channelwise && !plan_.rows_outside &&
           (plan_.amx || plan_.rows_at_once() >= plan_.block_rows * lines_of_step(plan_));
  }

  /// The passes over the depth, as in Goto and van de Geijn, "Anatomy of high-performance matrix
  /// multiplication" (2008): the depth of a pass is such that a panel of columns stays in the first-level
  /// cache and the tile's rows in the second-level cache.
  void choose_depth_tile() {
    plan_.depth_tile = plan_.depth.extent;
    if (plan_.in_runs) {
      // As many streams as hardware prefetchers follow. With several rows, longer passes amortise the loads
      // and stores of more sums.
      constexpr int64_t of_one = 8, of_several = 16;
      plan_.ahead = plan_.depth_tile = plan_.rows.extent > 1 ? of_several : of_one;
      plan_.depth_tile = std::min(plan_.depth_tile, plan_.depth.extent);
      plan_.whole_runs = plan_.whole_runs && plan_.deep();
      return;
    }
    if (plan_.window || plan_.amx || plan_.dots > 0 || plan_.rows.extent <= 2 * plan_.block_rows) return;
    const int64_t bytes = bits_of(plan_.accumulator) / 8, depth = plan_.depth.extent;
    const int64_t most = std::clamp<int64_t>(target_.l1_bytes / (plan_.block_columns() * bytes), 256, 512);
    // Not worth it if one pass is only slightly too deep, or all rows stay in the cache anyway. A pass over
    // columns that are packed from pages far apart is short, so that it packs many of them.
    if (depth <= most + most / 2 || (plan_.rows.extent * depth * bytes <= row_budget() && !plan_.packs_far))
      return;
    constexpr int64_t even = 16;  // whole vectors, and whole unrolled iterations
    plan_.depth_tile = ceil_div(ceil_div(depth, ceil_div(depth, most)), even) * even;
  }

  /// Chooses tiles whose sums stay in the first-level cache while the columns stream by. Runs are long, but
  /// there are eight tasks if that leaves enough length.
  void choose_tiles_of_runs(int64_t blocks, int64_t panels, int64_t each) {
    constexpr int64_t least_run = 1024, usual_run = 8192, least_tasks = 8;  // bytes of a run
    const int64_t bytes = bits_of(plan_.accumulator) / 8, width = plan_.block_columns();
    const int64_t row_bytes = plan_.columns.extent * bytes;
    const int64_t run = std::clamp(row_bytes / std::min(each, least_tasks), least_run, usual_run);
    const int64_t near = target_.l1_bytes / 2 / std::max<int64_t>(1, plan_.rows.extent);
    const int64_t most_panels = std::max<int64_t>(1, std::max(near, run) / bytes / width);
    set_tiles(blocks, panels, 1,
              std::max(ceil_div(panels, most_panels), std::min(each, ceil_div(row_bytes, run))));
  }

  /// Bytes of the second-level cache for rows; the current panel and the results need the rest.
  int64_t row_budget() const { return target_.l2_bytes * 9 / 16; }

  /// The number of rows that do not evict each other from the second-level cache. Rows whose distance is a
  /// multiple of a power of two that is longer than a pass reads use only some of the cache sets.
  int64_t rows_apart() const {
    const bool packed = plan_.row.access == Access::block;
    const int64_t bytes = bits_of(plan_.accumulator) / 8;
    const int64_t stride =
        packed ? 0 : std::abs(plan_.row.stride) * static_cast<int64_t>(bits_of(plan_.row.dtype)) / 8;
    const int64_t step = std::max(stride & -stride, plan_.depth_tile * bytes);
    return row_budget() / step;
  }

  /// Tiles for several passes over the depth. Tasks share nothing that is packed, so each takes all columns
  /// if possible, and at least enough to amortise reading the rows.
  void choose_deep_tiles(int64_t blocks, int64_t panels, int64_t wanted, int64_t row_limit) {
    const int64_t bytes = bits_of(plan_.accumulator) / 8, width = plan_.block_columns();
    const bool packs_rows = plan_.row.access == Access::block,
               packs_columns = plan_.column.access == Access::block;
    // Each further task packs again: enough tasks for sixteen workers, and more only if each is long.
    constexpr int64_t least_packing = 16, most_packing = 32,
                      long_task = 1 << 29;  // in multiply-adds
    const int64_t packing_tasks =
        std::clamp(plan_.rows.extent * plan_.columns.extent * plan_.depth.extent / long_task, least_packing,
                   most_packing);
    const int64_t each = packs_columns ? std::min(wanted, packing_tasks) : wanted;
    constexpr int64_t least_columns = 64, least_blocks = 4;
    const int64_t least_panels = ceil_div(least_columns, width);
    // Columns, packed or not, and the sums of the current rows may take a quarter of a core's last-level
    // cache.
    const auto columns_for = [&](int64_t row_tiles) {
      const int64_t rows = ceil_div(blocks, row_tiles) * plan_.block_rows;
      const int64_t beside = std::max(rows, packs_columns ? plan_.depth_tile : 0);
      const int64_t most_panels =
          std::max<int64_t>(1, target_.l3_bytes_per_core / 4 / (bytes * width * beside));
      return std::max(ceil_div(panels, most_panels),
                      std::min(ceil_div(panels, least_panels), ceil_div(each, row_tiles)));
    };
    // Each column tile reads or packs the rows again; each row tile packs the columns again.
    constexpr int64_t packing = 4;  // cost of a packed byte, relative to a byte read in order
    const auto cost = [&](int64_t row_tiles) {
      return columns_for(row_tiles) * plan_.rows.extent * (packs_rows ? packing : 1) +
             (packs_columns ? row_tiles * plan_.columns.extent * packing : 0);
    };
    const int64_t most_rows = std::min(ceil_div(blocks, least_blocks), each);
    int64_t row_tiles = packs_columns ? 1 : ceil_div(blocks, row_limit);
    if (packs_rows || packs_columns)
      for (int64_t rows = row_tiles + 1; rows <= most_rows; ++rows)
        if (cost(rows) < cost(row_tiles)) row_tiles = rows;
    const int64_t column_tiles = columns_for(row_tiles);
    row_tiles = std::max(row_tiles, std::min(ceil_div(blocks, least_blocks),
                                             ceil_div(std::min<int64_t>(each, 16), column_tiles)));
    set_tiles(blocks, panels, row_tiles, column_tiles);
    const int64_t tile_blocks = ceil_div(plan_.tile_rows, plan_.block_rows);
    const int64_t near_blocks = std::min(row_limit, std::max(least_blocks, rows_apart() / plan_.block_rows));
    plan_.near_rows = ceil_div(tile_blocks, ceil_div(tile_blocks, near_blocks)) * plan_.block_rows;
  }

  void set_tiles(int64_t blocks, int64_t panels, int64_t row_tiles, int64_t column_tiles) {
    const int64_t row_blocks = ceil_div(blocks, row_tiles), column_panels = ceil_div(panels, column_tiles);
    plan_.tile_rows = row_blocks * plan_.block_rows;
    plan_.tile_columns = column_panels * plan_.block_columns();
    plan_.row_tiles = plan_.rows.extent == 0 ? 0 : ceil_div(blocks, row_blocks);
    plan_.column_tiles = plan_.columns.extent == 0 ? 0 : ceil_div(panels, column_panels);
  }

  /// Enough tasks per batch entry to balance many workers, while each is worth its hand-over.
  int64_t tasks_of_entry() const {
    // A single row is bound by memory, and a few rows nearly so: count them as the arithmetic of equal
    // duration.
    const double work =
        static_cast<double>(plan_.batch.extent) *
        static_cast<double>(std::max<int64_t>(plan_.rows.extent == 1 ? 64 : 16, plan_.rows.extent)) *
        static_cast<double>(plan_.columns.extent) * static_cast<double>(plan_.depth.extent);
    // Up to eight tasks if each is worth its hand-over, a few microseconds; more only if they are long enough
    // to amortise smaller tiles.
    constexpr double cycles_of_task = 8192, products_of_task = 1 << 18;
    const double short_tasks = std::max(plan_.cycles / cycles_of_task, work / products_of_task);
    const auto own =
        static_cast<int64_t>(std::max(std::clamp(short_tasks, 1.0, 8.0), std::min(work / (1 << 22), 64.0)));
    const int64_t wanted = config_.tasks < 0   ? std::max<int64_t>(1, own / 4)
                           : config_.tasks > 0 ? own * 4
                                               : own;
    return ceil_div(wanted, std::max<int64_t>(1, plan_.batch.extent));
  }

  /// Chooses tiles whose reused operands stay in the second-level cache.
  void choose_tiles() {
    const int64_t blocks = ceil_div(std::max<int64_t>(1, plan_.rows.extent), plan_.block_rows);
    const int64_t panels = ceil_div(std::max<int64_t>(1, plan_.columns.extent), plan_.block_columns());
    const int64_t depth_bytes = std::max<int64_t>(1, plan_.depth_tile) * bits_of(plan_.accumulator) / 8;
    const int64_t budget = target_.l2_bytes / 2;
    const int64_t row_limit = std::max<int64_t>(1, row_budget() / (depth_bytes * plan_.block_rows));
    const int64_t panel_limit = std::max<int64_t>(1, budget / (depth_bytes * plan_.block_columns()));
    const int64_t each = tasks_of_entry();
    if (shared_) return set_tiles(blocks, panels, blocks, 1);
    if (plan_.window) return choose_window_tiles(panels, each);
    if (plan_.in_runs) return choose_tiles_of_runs(blocks, panels, each);
    if (plan_.deep()) return choose_deep_tiles(blocks, panels, each, row_limit);
    int64_t row_tiles = 1, column_tiles = 1;
    if (plan_.column.access == Access::block) {
      // All rows of a task share the columns that it packs, so divide the columns first.
      column_tiles = std::max(ceil_div(panels, panel_limit), std::min(panels, each));
      row_tiles = std::min({blocks, ceil_div(std::min<int64_t>(each, 16), column_tiles)});
      if (plan_.row.access == Access::block) row_tiles = std::max(row_tiles, ceil_div(blocks, row_limit));
    } else {
      row_tiles = ceil_div(blocks, row_limit);
      plan_.columns_first = plan_.row.access == Access::block;
      // Each worker packs all rows if they fit one tile: columns are then read once. That needs enough
      // columns per task.
      constexpr int64_t repays = 64;
      const bool all_rows = row_tiles == 1 && plan_.columns.extent >= repays * each;
      if (plan_.columns_first && !all_rows) {
        row_tiles = std::max(row_tiles, std::min(blocks, each));
        column_tiles = std::min(panels, ceil_div(std::min<int64_t>(each, 16), row_tiles));
      } else {
        column_tiles = std::min(panels, ceil_div(each, row_tiles));
        if (!plan_.columns_first)
          row_tiles = std::max(row_tiles, std::min(blocks, ceil_div(each, column_tiles)));
      }
    }
    set_tiles(blocks, panels, row_tiles, column_tiles);
    // Keep the operand that fits the cache in the inner loop.
    plan_.rows_outside =
        plan_.tile_columns * depth_bytes <= budget && plan_.tile_rows * depth_bytes > row_budget();
  }

  const Target& target_;
  const GemmConfig& config_;
  const bool shared_;
  GemmPlan& plan_;
};

}  // namespace

int64_t lines_of_step(const GemmPlan& plan) {
  const int64_t steps = plan.amx ? amx_depth : 1;
  return ceil_div(steps * plan.block_columns() * bits_of(plan.column.dtype) / 8, cache_line);
}

int64_t lines_prefetched(const GemmPlan& plan) {
  if (!plan.amx) return 1;
  return ceil_div(lines_of_step(plan), std::max<int64_t>(1, plan.tile_rows / plan.block_rows));
}

bool choose_sizes(const Target& target, const GemmConfig& config, bool shared, GemmPlan& plan) {
  return Sizes(target, config, shared, plan).choose();
}

}  // namespace ferrite::emitter
