// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/observe/minimal_filtering.h"

#include <cmath>
#include <set>
#include <vector>

namespace ferrite::core::observe {
namespace {

using loop::BodyOp;
using loop::VarKind;

/// A block in one direction: its taps, the sums that are made of what it reads, and its results.
struct Block {
  int64_t taps = 0, points = 0;
  int64_t results() const { return points - taps + 1; }
};

int64_t root(int64_t square) {
  const auto side = std::llround(std::sqrt(static_cast<double>(square)));
  return side * side == square ? side : 0;
}

/// The block that packed weights are for. The packed dim that no logical coordinate depends on numbers the
/// products.
std::optional<Block> block_of(const loop::Kernel& kernel, const loop::Buffer& weights) {
  if (!weights.packing || weights.packing->terms < 2) return std::nullopt;
  const auto& packing = *weights.packing;
  int64_t products = 1;
  for (size_t d = 0; d < packing.dims.size(); ++d) {
    bool addresses = false;
    for (const auto coordinate : packing.logical)
      addresses = addresses || kernel.pool.depends_on(coordinate, packing.symbols[d]);
    if (!addresses) products *= packing.dims[d];
  }
  const Block block{root(packing.terms), root(products)};
  return block.taps > 0 && block.points > block.taps ? std::optional(block) : std::nullopt;
}

/// The loops over the taps: those that address the coordinates of the weights that a term's number decides.
std::set<size_t> taps_of(const loop::Kernel& kernel, const loop::Statement& statement, const BodyOp& load) {
  std::set<size_t> taps;
  const auto& packing = *kernel.buffers[load.buffer].packing;
  for (size_t d = 0; d < packing.logical.size(); ++d) {
    if (!kernel.pool.depends_on(packing.logical[d], packing.symbols.back())) continue;
    for (size_t v = 0; v < statement.vars.size(); ++v)
      if (kernel.pool.depends_on(load.index[d], statement.vars[v].symbol)) taps.insert(v);
  }
  return taps;
}

/// The parallel loops that move together with taps: along these the results are divided into blocks.
std::set<size_t> blocked_loops(const loop::Kernel& kernel, const loop::Statement& statement,
                               const std::set<size_t>& taps) {
  std::set<size_t> loops;
  for (const auto& op : statement.ops) {
    if (op.code != FE_OP_LOAD) continue;
    for (const auto index : op.index) {
      bool moves = false;
      for (const size_t v : taps) moves = moves || kernel.pool.depends_on(index, statement.vars[v].symbol);
      for (size_t v = 0; moves && v < statement.vars.size(); ++v)
        if (statement.vars[v].kind == VarKind::parallel &&
            kernel.pool.depends_on(index, statement.vars[v].symbol))
          loops.insert(v);
    }
  }
  return loops;
}

}  // namespace

std::optional<double> minimal_filtering_operations(const loop::Kernel& kernel,
                                                   const loop::Statement& statement) {
  if (statement.kind != FE_STATEMENT_CONTRACT) return std::nullopt;
  for (const auto& op : statement.ops) {
    if (op.code != FE_OP_LOAD) continue;
    const auto block = block_of(kernel, kernel.buffers[op.buffer]);
    if (!block) continue;
    const auto taps = taps_of(kernel, statement, op);
    const auto blocked = blocked_loops(kernel, statement, taps);
    double blocks = 1, channels = 1, columns = 1;
    for (size_t v = 0; v < statement.vars.size(); ++v) {
      const auto& var = statement.vars[v];
      const auto extent = static_cast<double>(var.extent);
      bool of_weights = false;
      for (const auto index : op.index) of_weights = of_weights || kernel.pool.depends_on(index, var.symbol);
      if (blocked.contains(v))
        blocks *= std::ceil(extent / static_cast<double>(block->results()));  // the last one is whole, too
      else if (var.kind == VarKind::parallel)
        (of_weights ? columns : blocks) *= extent;
      else if (!taps.contains(v))
        channels *= extent;
    }
    const auto points = static_cast<double>(block->points * block->points);
    // Blocks of 2 x 2 results of 3 x 3 taps: 32 additions of a channel on the way in, 24 of a column on the
    // way out.
    const bool usual = block->taps == 3 && block->results() == 2;
    const double in = usual ? 32 : 0, out = usual ? 24 : 0;
    return blocks * (2 * points * channels * columns + in * channels + out * columns);
  }
  return std::nullopt;
}

}  // namespace ferrite::core::observe
