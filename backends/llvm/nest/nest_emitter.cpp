// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/nest/nest_emitter.h"

#include <algorithm>

#include "backends/llvm/ir/interleave.h"
#include "backends/llvm/ir/reduction_state.h"

namespace ferrite::emitter {

using loop::VarKind;

namespace {

/// Elements of a long sum that are added to each other before they are added to the rest.
constexpr int64_t steps_of_block = 64;

}  // namespace

StatementEmitter::StatementEmitter(KernelContext& context, const StatementPlan& plan, bool streams)
    : context_(context), plan_(plan), statement_(plan.statement), body_(context, plan.statement) {
  if (streams) body_.stream(plan.streams);
  for (const auto load : plan.transposed) {
    const auto bytes = static_cast<int64_t>(
        KernelContext::storage_bytes(context.kernel.buffers[statement_.ops[load].buffer].dtype));
    // Lines a power of two apart would evict each other from a cache: pad them by one cache line.
    constexpr int64_t apart = 64;
    const auto pitch = plan.transpose_row + apart / bytes;
    const auto row_pitch = plan.transpose_lines + apart / bytes;
    transpose_blocks_.push_back({load, context.take_workspace(plan.transpose_lines * pitch * bytes), pitch,
                                 context.take_workspace(plan.lanes * row_pitch * bytes), row_pitch});
  }
  if (plan.strip == 0) return;
  for (size_t k = 0; k < statement_.reductions.size(); ++k) {
    auto& state = strip_.emplace_back(context, body_, statement_, k, plan.lanes);
    const int64_t bits = state.type()->getScalarSizeInBits();
    const int64_t vectors = (plan.strip + plan.lanes - 1) / plan.lanes;
    strip_memory_.push_back(context.take_workspace(vectors * plan.lanes * bits / 8));
  }
}

StatementEmitter::Range StatementEmitter::bounds(size_t var) {
  for (const auto& range : ranges_)
    if (range.var == var) return range;
  return {var, context_.i64(0), context_.i64(statement_.vars[var].extent), true};
}

void StatementEmitter::emit(Point point, size_t skip, std::vector<Range> ranges) {
  ranges_ = std::move(ranges);
  walk_outer(point, skip);
}

void StatementEmitter::walk_outer(const Point& point, size_t level) {
  if (level < plan_.outer.size()) {
    size_t var = plan_.outer[level];
    auto [number, from, to, aligned] = bounds(var);
    context_.loop(from, to, 1, "outer", [&](llvm::Value* value) {
      auto inner = point;
      inner.set(statement_.vars[var].symbol, value);
      walk_outer(inner, level + 1);
    });
    return;
  }
  if (!plan_.vector_is_parallel()) return at({point});
  if (!plan_.transposed.empty()) return walk_transpose_blocks(point);
  if (plan_.strip > 0) return walk_strips(point);
  const auto row = bounds(*plan_.vector);
  if (!plan_.inside)
    return walk_vector(point, row, [&](const std::vector<Point>& points) { at(points); }, plan_.unroll);
  walk_vector(
      point, row,
      [&](const std::vector<Point>& points) {
        auto [number, from, to, aligned] = bounds(*plan_.inside);
        context_.loop(from, to, 1, "inside", [&](llvm::Value* value) {
          auto inner = points;
          for (auto& each : inner) each.set(statement_.vars[*plan_.inside].symbol, value);
          at(inner);
        });
      },
      1);
}

/// Emits the main loop of `unroll` vectors per iteration, then single vectors, then a masked tail.
void StatementEmitter::walk_vector(const Point& point, const Range& range, const Lanes& body,
                                   unsigned unroll) {
  auto& builder = context_.builder;
  const auto& var = statement_.vars[range.var];
  const auto lanes = static_cast<int64_t>(plan_.lanes);
  auto points_at = [&](llvm::Value* first, unsigned count, llvm::Value* mask) {
    std::vector<Point> points;
    for (unsigned k = 0; k < count; ++k) {
      auto each = point;
      each.vector = var.symbol;
      each.lanes = plan_.lanes;
      each.aligned = range.aligned;
      each.mask = mask;
      each.set(var.symbol, k == 0 ? first : builder.CreateNSWAdd(first, context_.i64(k * lanes)));
      points.push_back(std::move(each));
    }
    return points;
  };
  const auto vectors = [&](const std::vector<Point>& points) {
    prefetch(points[0], static_cast<unsigned>(points.size()));
    if (beside_) beside_(points);
    body(points);
  };
  auto* from = range.from;
  auto* to = range.to;
  auto* count = builder.CreateNSWSub(to, from);
  auto round_down = [&](int64_t step) {
    return builder.CreateNSWAdd(from, builder.CreateAnd(count, context_.i64(-step)));
  };
  auto* full_end = round_down(lanes);
  auto* start = from;
  if (unroll > 1) {
    auto* unrolled_end = round_down(lanes * unroll);
    context_.loop(from, unrolled_end, lanes * unroll, "vector.body",
                  [&](llvm::Value* first) { vectors(points_at(first, unroll, nullptr)); });
    start = unrolled_end;
  }
  context_.loop(start, full_end, lanes, unroll > 1 ? "vector.rest" : "vector.body",
                [&](llvm::Value* first) { vectors(points_at(first, 1, nullptr)); });
  context_.when(builder.CreateICmpSLT(full_end, to), "vector.tail", [&] {
    auto* left = builder.CreateNSWSub(to, full_end);
    // A constant condition would be folded away together with its block: keep a block of its own.
    if (llvm::isa<llvm::ConstantInt>(left)) {
      auto* tail = context_.block("vector.tail");
      builder.CreateBr(tail);
      builder.SetInsertPoint(tail);
    }
    const auto points = points_at(full_end, 1, context_.lane_mask(left, plan_.lanes));
    if (beside_) beside_(points);
    body(points);
  });
}

/// Prefetches the lines ahead of the vectors from `point` on.
void StatementEmitter::prefetch(Point point, unsigned vectors) {
  auto& builder = context_.builder;
  constexpr int64_t line = 64;
  point.vector = Point::no_symbol;
  point.lanes = 1;
  const auto& var = statement_.vars[*plan_.vector];
  auto* at = point.at(var.symbol);
  for (const auto& ahead : ahead_) {
    const auto dtype = context_.kernel.buffers[ahead.buffer].dtype;
    // Advance more slowly than the vectors, so that all statements together cover the row.
    auto* slower =
        builder.CreateUDiv(builder.CreateNSWMul(at, context_.i64(ahead.parts)), context_.i64(ahead.of));
    point.set(var.symbol, builder.CreateNSWAdd(slower, context_.i64(var.extent * ahead.first / ahead.of)));
    body_.start(point);
    auto* first =
        builder.CreateGEP(context_.storage_type(dtype), context_.base(ahead.buffer),
                          builder.CreateAdd(body_.index(ahead.address), context_.i64(ahead.distance)));
    const int64_t bytes =
        int64_t{vectors} * plan_.lanes * KernelContext::storage_bytes(dtype) * ahead.parts / ahead.of;
    for (int64_t byte = 0; byte < bytes; byte += line)
      KernelContext::prefetch(
          builder, builder.CreateConstGEP1_64(builder.getInt8Ty(), first, static_cast<uint64_t>(byte)), false,
          ahead.level);
  }
}

void StatementEmitter::at(const std::vector<Point>& points) {
  if (statement_.has(VarKind::serial)) {
    for (const auto& point : points) serial(point);
    return;
  }
  if (!statement_.reductions.empty() || statement_.has(VarKind::reduction)) {
    if (plan_.vector && !plan_.vector_is_parallel()) return reduce_along_vector(points[0]);
    return reduce(points);
  }
  each_apart(points.size(), [&](size_t k) {
    body_.start(points[k]);
    body_.store(body_.finish_stores());
  });
}

/// Runs `body` for each vector of an iteration. Their instructions are interleaved unless the order of stores
/// matters.
void StatementEmitter::each_apart(size_t count, const std::function<void(size_t)>& body) {
  const bool sets = std::ranges::all_of(statement_.stores,
                                        [](const loop::Store& store) { return store.mode == FE_STORE_SET; });
  if (sets && statement_.kind != FE_STATEMENT_SCATTER) return interleave(context_.builder, count, body);
  for (size_t k = 0; k < count; ++k) body(k);
}

void StatementEmitter::walk_reductions(const std::vector<Point>& points, size_t level, const Lanes& body) {
  if (level == plan_.reductions.size()) return body(points);
  const auto& var = statement_.vars[plan_.reductions[level]];
  auto step = [&](llvm::Value* value) {
    auto inner = points;
    for (auto& each : inner) each.set(var.symbol, value);
    walk_reductions(inner, level + 1, body);
  };
  if (plan_.unroll_reduction) {
    for (int64_t k = 0; k < var.extent; ++k) step(context_.i64(k));
    return;
  }
  const int64_t together = level + 1 == plan_.reductions.size() ? plan_.steps_at_once : 1;
  const int64_t rest = together == 1 ? 0 : var.extent / together * together;
  if (rest > 0)
    context_.loop(context_.i64(0), context_.i64(rest), together, "reduce.together", [&](llvm::Value* first) {
      for (int64_t k = 0; k < together; ++k) step(context_.builder.CreateNSWAdd(first, context_.i64(k)));
    });
  if (rest < var.extent) context_.loop(context_.i64(rest), context_.i64(var.extent), 1, "reduce", step);
}

/// Whether long sums of floats are made of the sums of blocks: the rounding error of a sum grows with the
/// length of its longest chain of additions.
bool StatementEmitter::reduces_in_blocks() const {
  return !plan_.reductions.empty() && !plan_.unroll_reduction &&
         statement_.vars[plan_.reductions.back()].extent >= 2 * steps_of_block &&
         std::ranges::all_of(statement_.reductions, [&](const loop::Reduction& reduction) {
           return reduction.kind == FE_REDUCE_SUM && is_float(statement_.ops[reduction.element].dtype);
         });
}

/// The last reduction variable goes in blocks: `body` adds to `states`, which are added to `totals` then.
void StatementEmitter::walk_blocks(const std::vector<Point>& points, size_t level,
                                   std::vector<std::vector<ReductionState>>& states,
                                   std::vector<std::vector<ReductionState>>& totals, const Lanes& body) {
  auto& builder = context_.builder;
  const auto& var = statement_.vars[plan_.reductions[level]];
  const auto at = [&](llvm::Value* value) {
    auto inner = points;
    for (auto& each : inner) each.set(var.symbol, value);
    return inner;
  };
  if (level + 1 < plan_.reductions.size())
    return context_.loop(context_.i64(0), context_.i64(var.extent), 1, "reduce", [&](llvm::Value* value) {
      walk_blocks(at(value), level + 1, states, totals, body);
    });
  const auto block = [&](llvm::Value* first, int64_t steps) {
    for (auto& vector : states)
      for (auto& state : vector) state.reset();
    const int64_t together = steps % plan_.steps_at_once == 0 ? plan_.steps_at_once : 1;
    context_.loop(first, builder.CreateNSWAdd(first, context_.i64(steps)), together, "reduce",
                  [&](llvm::Value* value) {
                    for (int64_t k = 0; k < together; ++k)
                      body(at(builder.CreateNSWAdd(value, context_.i64(k))));
                  });
    for (size_t u = 0; u < states.size(); ++u)
      for (size_t k = 0; k < states[u].size(); ++k) {
        auto& total = totals[u][k];
        total.set(total.combine(total.values(), states[u][k].values()).value);
      }
  };
  const int64_t whole = var.extent / steps_of_block * steps_of_block;
  context_.loop(context_.i64(0), context_.i64(whole), steps_of_block, "reduce.block",
                [&](llvm::Value* first) { block(first, steps_of_block); });
  if (whole < var.extent) block(context_.i64(whole), var.extent - whole);
}

/// Lanes along a parallel variable, or a single point: one state per vector, in registers during the
/// reduction.
void StatementEmitter::reduce(const std::vector<Point>& points) {
  const auto make = [&] {
    std::vector<std::vector<ReductionState>> made(points.size());
    for (auto& vector : made)
      for (size_t k = 0; k < statement_.reductions.size(); ++k) {
        vector.emplace_back(context_, body_, statement_, k, points[0].lanes);
        vector.back().reset();
      }
    return made;
  };
  auto states = make();
  const auto take = [&](const std::vector<Point>& inner) {
    each_apart(inner.size(), [&](size_t u) {
      body_.start(inner[u]);
      for (auto& state : states[u]) state.take(nullptr);
      body_.store(body_.element_stores());
    });
  };
  if (reduces_in_blocks()) {
    auto totals = make();
    walk_blocks(points, 0, states, totals, take);
    states = std::move(totals);
  } else {
    walk_reductions(points, 0, take);
  }
  for (size_t u = 0; u < points.size(); ++u) {
    body_.start(points[u]);
    for (size_t k = 0; k < states[u].size(); ++k)
      body_.bind_reduced(k, states[u][k].result(states[u][k].values()));
    body_.store(body_.finish_stores());
  }
}

/// Lanes along a reduction variable: `unroll` independent states, combined at the end.
void StatementEmitter::reduce_along_vector(const Point& point) {
  std::vector<std::vector<ReductionState>> states(plan_.unroll);
  for (auto& vector : states)
    for (size_t k = 0; k < statement_.reductions.size(); ++k) {
      vector.emplace_back(context_, body_, statement_, k, plan_.lanes);
      vector.back().reset();
    }
  walk_reductions({point}, 0, [&](const std::vector<Point>& outer) {
    walk_vector(
        outer[0], bounds(*plan_.vector),
        [&](const std::vector<Point>& inner) {
          each_apart(inner.size(), [&](size_t u) {
            body_.start(inner[u]);
            for (auto& state : states[u]) state.take(inner[u].mask);
            body_.store(body_.element_stores());
          });
        },
        plan_.unroll);
  });
  std::vector<llvm::Value*> results;
  for (size_t k = 0; k < statement_.reductions.size(); ++k) {
    std::vector<ReductionState::Values> parts;
    for (auto& vector : states) parts.push_back(vector[k].values());
    for (; parts.size() > 1; parts.resize(parts.size() / 2))
      for (size_t u = 0; u < parts.size() / 2; ++u)
        parts[u] = states[0][k].combine(parts[u], parts[u + parts.size() / 2]);
    results.push_back(states[0][k].result(states[0][k].across(parts[0])));
  }
  body_.start(point);
  for (size_t k = 0; k < results.size(); ++k) body_.bind_reduced(k, results[k]);
  body_.store(body_.finish_stores());
}

void StatementEmitter::serial(const Point& point) {
  auto& builder = context_.builder;
  std::vector<llvm::AllocaInst*> slots;
  for (size_t k = 0; k < statement_.carries.size(); ++k) {
    slots.push_back(context_.slot(body_.carried_type(k, point.lanes), "carried"));
    builder.CreateStore(context_.splat(body_.first_carried(k), point.lanes), slots.back());
  }
  std::vector<size_t> stores(statement_.stores.size());
  for (size_t k = 0; k < stores.size(); ++k) stores[k] = k;
  std::function<void(const Point&, size_t)> walk = [&](const Point& at_point, size_t var) {
    if (var < statement_.vars.size()) {
      context_.loop(context_.i64(0), context_.i64(statement_.vars[var].extent), 1, "serial",
                    [&](llvm::Value* value) {
                      auto inner = at_point;
                      inner.set(statement_.vars[var].symbol, value);
                      walk(inner, var + 1);
                    });
      return;
    }
    body_.start(at_point);
    for (size_t k = 0; k < slots.size(); ++k)
      body_.bind_carried(k, builder.CreateLoad(slots[k]->getAllocatedType(), slots[k]));
    std::vector<llvm::Value*> next;
    // All next values are computed before any is stored: they may read each other's current value.
    for (size_t k = 0; k < slots.size(); ++k) next.push_back(body_.next_carried(k));
    body_.store(stores);
    for (size_t k = 0; k < slots.size(); ++k) builder.CreateStore(next[k], slots[k]);
  };
  size_t first = 0;
  while (first < statement_.vars.size() && statement_.vars[first].kind != VarKind::serial) ++first;
  walk(point, first);
}

}  // namespace ferrite::emitter
