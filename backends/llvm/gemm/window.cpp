// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/gemm/window.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "backends/llvm/analysis/statement_values.h"

namespace ferrite::emitter {
namespace {

using loop::Var;

/// A result's position and a tap's position that address one dim together: step * row + tap.
struct Pair {
  Var row, tap;
  int64_t step = 1;
};

const Var* find(std::span<const Var> vars, index::Symbol symbol) {
  const auto found = std::ranges::find(vars, symbol, &Var::symbol);
  return found == vars.end() ? nullptr : &*found;
}

/// Collects the pairs from all affine indices of the operand's loads and masks; returns false if a sum has
/// another form. Other indices, such as those of nearest-neighbour resampling, are left to moves_as_one().
bool find_pairs(const index::Pool& pool, const loop::Statement& original, const std::vector<bool>& needed,
                std::span<const Var> rows, std::span<const Var> depth, std::vector<Pair>& pairs) {
  for (size_t k = 0; k < original.ops.size(); ++k) {
    if (!needed[k]) continue;
    for (const auto expr : original.ops[k].index) {
      const auto affine = pool.affine(expr);
      if (!affine.rest.empty()) continue;
      const Var *row = nullptr, *tap = nullptr;
      int64_t row_step = 0, tap_step = 0;
      for (const auto& [symbol, coefficient] : affine.terms) {
        if (const auto* var = find(rows, symbol)) {
          if (row) return false;
          row = var, row_step = coefficient;
        } else if (const auto* reduced = find(depth, symbol)) {
          if (tap) return false;
          tap = reduced, tap_step = coefficient;
        }
      }
      if (!row || !tap) continue;
      if (tap_step != 1 || row_step < 1) return false;
      const auto same = [&](const Pair& pair) { return pair.row.symbol == row->symbol; };
      const auto known = std::ranges::find_if(pairs, same);
      if (known == pairs.end())
        pairs.push_back({*row, *tap, row_step});
      else if (known->tap.symbol != tap->symbol || known->step != row_step)
        return false;
    }
  }
  return !pairs.empty();
}

/// Whether every index of the operand depends on the pair only through its position.
bool moves_as_one(index::Pool& pool, const loop::Statement& statement, const std::vector<bool>& needed,
                  const Pair& pair) {
  const int64_t last = pair.step * (pair.row.extent - 1) + pair.tap.extent - 1;
  const auto position = pool.new_symbol({0, last});
  // Substitute the position for the pair and back: an index that changes depends on more than the position.
  const index::Term parts[] = {{pool.symbol(pair.row.symbol), pair.step}, {pool.symbol(pair.tap.symbol), 1}};
  const std::pair<index::Symbol, index::Expr> to_position[] = {{pair.row.symbol, pool.constant(0)},
                                                               {pair.tap.symbol, pool.symbol(position)}},
                                              back[] = {{position, pool.linear(0, parts)}};
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    if (!needed[k]) continue;
    if (statement.ops[k].code == FE_OP_INDIRECT) return false;
    for (const auto expr : statement.ops[k].index)
      if (pool.substitute(pool.substitute(expr, to_position), back) != expr) return false;
  }
  return true;
}

/// One direction of the window: the new variable for the position in the copy, with the variables that it
/// replaces.
struct Direction {
  int64_t results = 1, step = 1, taps = 1;
  std::optional<Var> tap, position;

  int64_t extent() const { return (results - 1) * step + taps; }
};

Direction direction_of(index::Pool& pool, const Var* row, std::span<const Pair> pairs,
                       Replacements& replacements) {
  Direction direction;
  if (!row) return direction;
  direction.results = row->extent;
  const auto pair =
      std::ranges::find_if(pairs, [&](const Pair& each) { return each.row.symbol == row->symbol; });
  if (pair != pairs.end()) {
    direction.step = pair->step;
    direction.taps = pair->tap.extent;
    direction.tap = pair->tap;
  }
  const auto symbol = pool.new_symbol({0, direction.extent() - 1});
  direction.position = Var{symbol, direction.extent(), loop::VarKind::parallel};
  // If the first result had as many taps as there are positions, its taps would be the positions.
  if (direction.tap) replacements.emplace_back(direction.tap->symbol, pool.symbol(symbol));
  replacements.emplace_back(row->symbol, direction.tap ? pool.constant(0) : pool.symbol(symbol));
  return direction;
}

/// Whether the operand's first load is contiguous along the variable.
bool contiguous(const index::Pool& pool, const loop::Statement& statement, const std::vector<bool>& needed,
                index::Symbol symbol) {
  for (size_t k = 0; k < statement.ops.size(); ++k)
    if (needed[k] && statement.ops[k].code == FE_OP_LOAD && statement.ops[k].index.size() == 1)
      return pool.coefficient(statement.ops[k].index[0], symbol) == 1;
  return false;
}

/// Narrows the region by a mask that compares positions with constants; returns false for any other mask.
bool narrow(const index::Pool& pool, const loop::Statement& statement, loop::OpId mask, const Var& y,
            const Var& x, Window::Region& region) {
  const auto& op = statement.ops[mask];
  if (!op.is_prim()) return false;
  if (op.prim() == Prim::and_)
    return narrow(pool, statement, op.a, y, x, region) && narrow(pool, statement, op.b, y, x, region);
  if (op.prim() != Prim::ge_ && op.prim() != Prim::lt_) return false;
  const auto &position = statement.ops[op.a], &bound = statement.ops[op.b];
  if (position.code != FE_OP_INDEX || bound.code != FE_OP_CONSTANT || bound.dtype != DType::i64_)
    return false;
  const auto affine = pool.affine(position.index[0]);
  if (!affine.rest.empty() || affine.terms.size() != 1 || affine.terms[0].second != 1) return false;
  const auto symbol = affine.terms[0].first;
  if (symbol != y.symbol && symbol != x.symbol) return false;
  const int64_t at = static_cast<int64_t>(bound.bits) - affine.constant;
  auto& from = symbol == y.symbol ? region.y_from : region.x_from;
  auto& to = symbol == y.symbol ? region.y_to : region.x_to;
  if (op.prim() == Prim::ge_)
    from = std::min(std::max(from, at), to);
  else
    to = std::max(std::min(to, at), from);
  return true;
}

/// Removes the mask from the operand's load if it only states which positions exist.
void find_region(const index::Pool& pool, loop::OpId operand, const Var& y, const Var& x, Window& window) {
  auto value = operand;
  auto& ops = window.statement.ops;
  bool exact = true;  // the load has the operand's exact value
  while (ops[value].is_prim() && ops[value].prim() == Prim::cast_) {
    exact = exact && widens_float(window.statement, ops[value]);
    value = ops[value].a;
  }
  auto& load = ops[value];
  if (load.code != FE_OP_LOAD || !is_float(load.dtype)) return;
  Window::Region region{0, y.extent, 0, x.extent};
  if (load.a != loop::none) {
    const auto& other = ops[load.b];
    // Positions outside the region must be zero, since the copy writes zeros there.
    if (other.code != FE_OP_CONSTANT || other.bits != 0) return;
    if (!narrow(pool, window.statement, load.a, y, x, region)) return;
    load.a = load.b = loop::none;
  }
  window.region = region;
  if (exact) window.load = value;
}

/// By line of results: the number of its taps on lines that exist in the operand.
std::vector<int64_t> taps_inside(const Window& window) {
  std::vector<int64_t> taps;
  for (int64_t line = 0; line < window.lines; ++line) {
    const int64_t first = line * window.line_step;
    taps.push_back(std::min(window.region->y_to, first + window.line_taps) -
                   std::max(window.region->y_from, first));
  }
  return taps;
}

/// Whether there are enough lines of zeros that skipping them pays for a loop with a run-time trip count.
bool should_skip_lines(const Window& window) {
  constexpr double worth = 1.0 / 32;
  return window.region && !window.planar && window.lines > 0 && std::ranges::min(taps_inside(window)) > 0 &&
         window.tap_fraction() <= 1 - worth;
}

}  // namespace

double Window::tap_fraction() const {
  const auto taps = taps_inside(*this);
  return static_cast<double>(std::accumulate(taps.begin(), taps.end(), int64_t{0})) /
         static_cast<double>(lines * line_taps);
}

std::optional<Window> find_window(index::Pool& pool, const loop::Statement& original,
                                  const loop::Statement& merged, loop::OpId operand,
                                  std::span<const Var> rows, std::vector<Var>& depth, const Var* channel) {
  if (rows.size() < 2) return std::nullopt;
  const std::array roots{operand};
  const auto needed = needed_operations(merged, pool, roots);
  std::vector<Pair> pairs;
  if (!find_pairs(pool, original, needed, rows, depth, pairs)) return std::nullopt;
  const Var &line = rows[rows.size() - 2], &place = rows.back();
  for (const auto& pair : pairs) {
    if (pair.row.symbol != line.symbol && pair.row.symbol != place.symbol) return std::nullopt;
    if (!moves_as_one(pool, merged, needed, pair)) return std::nullopt;
  }
  std::vector<Var> summed;
  for (const auto& var : depth)
    if (std::ranges::none_of(pairs, [&](const Pair& pair) { return pair.tap.symbol == var.symbol; }))
      summed.push_back(var);
  if (summed.size() > (channel ? 0 : 1)) return std::nullopt;

  Window window;
  const Var* inner = channel ? channel : summed.empty() ? nullptr : &summed[0];
  window.planar = !inner || !contiguous(pool, merged, needed, inner->symbol);
  if (window.planar && channel) return std::nullopt;
  Replacements replacements;
  const auto y = direction_of(pool, &line, pairs, replacements);
  const auto x = direction_of(pool, &place, pairs, replacements);
  window.lines = y.results, window.line_step = y.step, window.line_taps = y.taps;
  window.places = x.results, window.place_step = x.step, window.place_taps = x.taps;
  window.channels = summed.empty() ? 1 : summed[0].extent;

  window.statement = keep_operations(merged, needed, false);
  window.statement.reductions.clear();
  substitute(window.statement, pool, replacements);
  window.statement.vars.push_back(*y.position);
  window.statement.vars.push_back(*x.position);
  find_region(pool, operand, *y.position, *x.position, window);
  std::vector<Var> outer{*y.position};
  if (window.planar) {
    outer.insert(outer.end(), summed.begin(), summed.end());
    window.inner = make_axis(pool, {*x.position});
  } else {
    outer.push_back(*x.position);
    window.inner = make_axis(pool, {*inner});
  }
  window.outer = make_axis(pool, std::move(outer));
  window.skips_lines = should_skip_lines(window);

  // The order in which the micro-kernel traverses the copy: planar copies have the channel outermost,
  // interleaved ones innermost.
  depth.clear();
  if (window.planar) depth = summed;
  for (const auto* direction : {&y, &x})
    if (direction->tap) depth.push_back(*direction->tap);
  if (!window.planar) depth.insert(depth.end(), summed.begin(), summed.end());
  return window;
}

bool exceeds_cache(const Window& window, DType dtype, const Target& target) {
  const int64_t bytes = window.width() * window.channels * window.line_taps * (bits_of(dtype) / 8);
  return window.load == loop::none && bytes > target.l2_bytes / 4;
}

}  // namespace ferrite::emitter
