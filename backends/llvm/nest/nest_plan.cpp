// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/nest/nest_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ferrite/analysis/moved_values.hpp"
#include "ferrite/analysis/stores_apart.hpp"
#include "ferrite/emitter/body_emitter.h"

namespace ferrite::emitter {

double operation_cost(const loop::BodyOp& op) {
  if (!op.is_prim()) return op.code == FE_OP_INDEX ? 1 : 0.1;
  switch (op.prim()) {
    case Prim::div_:
    case Prim::mod_:
    case Prim::rem_: return is_float(op.dtype) ? 4 : 30;
    case Prim::sqrt_:
    case Prim::rsqrt_:
    case Prim::reciprocal_: return 5;
    case Prim::pow_:
    case Prim::atan2_:
    case Prim::erf_: return 30;
    default: return op.prim() >= Prim::exp_ && op.prim() <= Prim::atanh_ ? 12 : 0.6;
  }
}

namespace {

using loop::VarKind;

/// Calls visit(expr, buffer, is_store) for each access's address, and (expr, none, false) for each index
/// value.
template <class Visit>
void each_expression(index::Pool& pool, const loop::Kernel& kernel, const loop::Statement& statement,
                     Visit&& visit) {
  for (const auto& op : statement.ops) {
    if (op.code == FE_OP_LOAD)
      visit(element_address(pool, kernel.buffers[op.buffer], op.index), op.buffer, false);
    if (op.code == FE_OP_INDEX) visit(op.index[0], loop::none, false);
  }
  for (const auto& store : statement.stores)
    visit(element_address(pool, kernel.buffers[store.buffer], store.index), store.buffer, true);
}

void substitute(index::Pool& pool, loop::Statement& statement,
                std::span<const std::pair<index::Symbol, index::Expr>> replacements) {
  for (auto& op : statement.ops)
    for (auto& expr : op.index) expr = pool.substitute(expr, replacements);
  for (auto& store : statement.stores)
    for (auto& expr : store.index) expr = pool.substitute(expr, replacements);
}

/// Removes variables with a single value after the first `fixed`.
void drop_unit_variables(index::Pool& pool, loop::Statement& statement, size_t fixed) {
  for (size_t k = statement.vars.size(); k-- > fixed;) {
    if (statement.vars[k].extent != 1 || statement.vars[k].kind == VarKind::serial) continue;
    const std::pair<index::Symbol, index::Expr> zero[] = {{statement.vars[k].symbol, pool.constant(0)}};
    substitute(pool, statement, zero);
    statement.vars.erase(statement.vars.begin() + static_cast<std::ptrdiff_t>(k));
  }
}

/// Turn variables i (of n) and j (of m), neighbours of one kind, into one q of n*m with i = q // m, j = q mod
/// m, if every address and index value stays affine in q.
bool merge(loop::Kernel& kernel, loop::Statement& statement, size_t first) {
  auto& pool = kernel.pool;
  const auto a = statement.vars[first], b = statement.vars[first + 1];
  if (a.kind != b.kind || a.kind == VarKind::serial || a.extent == 0 || b.extent == 0) return false;
  // Fast check: the coefficients rule out most pairs.
  bool possible = true;
  each_expression(pool, kernel, statement, [&](index::Expr expr, loop::BufferId, bool) {
    auto outer = pool.coefficient(expr, a.symbol), inner = pool.coefficient(expr, b.symbol);
    if (outer && inner && *outer != *inner * b.extent) possible = false;
  });
  if (!possible) return false;
  auto merged = pool.new_symbol({0, a.extent * b.extent - 1});
  auto q = pool.symbol(merged);
  const std::pair<index::Symbol, index::Expr> replacements[] = {{a.symbol, pool.floordiv(q, b.extent)},
                                                                {b.symbol, pool.mod(q, b.extent)}};
  auto candidate = statement;
  substitute(pool, candidate, replacements);
  each_expression(pool, kernel, candidate, [&](index::Expr expr, loop::BufferId, bool) {
    if (!pool.coefficient(expr, merged)) possible = false;
  });
  if (!possible) return false;
  candidate.vars[first] = {merged, a.extent * b.extent, a.kind};
  candidate.vars.erase(candidate.vars.begin() + static_cast<std::ptrdiff_t>(first) + 1);
  statement = std::move(candidate);
  return true;
}

/// Bytes of the widest type in the data flow. Values that only compute indices and masks do not count; values
/// that are only moved count in their stored form.
unsigned widest(const loop::Kernel& kernel, const loop::Statement& statement) {
  unsigned bytes = 1;
  const auto moved = loop::moved_values(statement);
  std::vector<bool> computed(statement.ops.size()), stored(statement.ops.size());
  const auto take = [&](DType dtype) { bytes = std::max(bytes, static_cast<unsigned>(bits_of(dtype)) / 8); };
  auto mark = [&](loop::OpId id) {
    if (id != loop::none) computed[id] = true;
  };
  auto mark_stored = [&](loop::OpId id) {
    if (id != loop::none) (moved.part[id] ? stored : computed)[id] = true;
  };
  for (const auto& store : statement.stores) {
    const DType dtype = kernel.buffers[store.buffer].dtype;
    const bool moves = store.mode == FE_STORE_SET && moved.part[store.value];
    take(moves ? dtype : compute_type(dtype));
    moves ? mark_stored(store.value) : mark(store.value);
  }
  for (const auto& reduction : statement.reductions) mark(reduction.element);
  for (size_t k = 0; k < statement.carries.size(); ++k)
    moved.carries[k] ? mark_stored(statement.carries[k].next) : mark(statement.carries[k].next);
  for (size_t k = statement.ops.size(); k-- > 0;) {
    const auto& op = statement.ops[k];
    if ((!computed[k] && !stored[k]) || op.code == FE_OP_INDEX || op.code == FE_OP_INDIRECT) continue;
    if (op.code != FE_OP_CONSTANT) take(computed[k] ? compute_type(op.dtype) : op.dtype);
    const bool choice = op.code == FE_OP_LOAD || (op.is_prim() && op.prim() == Prim::where_);
    if (stored[k]) {
      if (!choice) mark_stored(op.a);
      mark_stored(op.b), mark_stored(op.c);
    }
    if (!computed[k]) continue;
    if (op.code == FE_OP_LOAD) {
      mark(op.b);
    } else if (op.is_prim()) {
      const bool comparison = info_of(op.prim()).gives_bool;
      if (!choice && !comparison) mark(op.a);
      if (!comparison) mark(op.b), mark(op.c);
      if (comparison && op.a != loop::none && statement.ops[op.a].code == FE_OP_LOAD) mark(op.a);
    }
  }
  return bytes;
}

bool addressed_by_data(const index::Pool& pool, const loop::Statement& statement, index::Expr address) {
  return std::ranges::any_of(statement.ops, [&](const loop::BodyOp& op) {
    return op.code == FE_OP_INDIRECT && pool.depends_on(address, op.symbol);
  });
}

/// The parallel variable after the first `fixed` along which an address of a map is contiguous while it jumps
/// along the vector variable. Both must be long enough for a transposition block; else nullopt.
std::optional<size_t> transposed_along(index::Pool& pool, const loop::Statement& statement, size_t fixed,
                                       index::Expr address, const loop::Var& vector, unsigned lanes) {
  const auto jump = pool.coefficient(address, vector.symbol);
  if (statement.kind != FE_STATEMENT_MAP || lanes < 4 || vector.extent < lanes) return std::nullopt;
  if (!jump || std::abs(*jump) <= 2) return std::nullopt;
  if (addressed_by_data(pool, statement, address)) return std::nullopt;
  for (size_t k = fixed; k < statement.vars.size(); ++k)
    if (const auto& var = statement.vars[k];
        var.kind == VarKind::parallel && var.extent >= lanes && pool.coefficient(address, var.symbol) == 1)
      return k;
  return std::nullopt;
}

/// Estimated cycles of a statement in two parts: operations at every point, and those once per point of the
/// parallel variables (the finish part and values that do not vary over the reduction variables).
struct Cost {
  const Target& target;
  loop::Kernel& kernel;
  const loop::Statement& statement;
  size_t fixed;
  std::vector<bool> element;
  bool reduces;

  Cost(const Target& target_, loop::Kernel& kernel_, const loop::Statement& statement_, size_t fixed_)
      : target(target_),
        kernel(kernel_),
        statement(statement_),
        fixed(fixed_),
        element(element_part(kernel_.pool, statement_)),
        reduces(statement_.has(VarKind::reduction)) {}

  bool at_elements(size_t op) const { return !reduces || element[op]; }
  bool at_elements(const loop::Store& store) const {
    return !reduces || stores_elements(kernel.pool, statement, store, element);
  }
  double access(loop::BufferId buffer, const std::vector<index::Expr>& index, const loop::Var* along,
                unsigned lanes, bool is_store) const {
    // The constants are relative costs of a vector access by its stride: broadcast, contiguous, reversed,
    // pairs, transposed, shuffled from a window, gathered.
    if (!along) return 0.7;
    const auto address = element_address(kernel.pool, kernel.buffers[buffer], index);
    auto step = kernel.pool.coefficient(address, along->symbol);
    if (step == 0) return is_store ? lanes * 2.0 : 0.5;
    if (step == 1) return 1;
    if (step == -1) return 1.6;
    if (step == 2 && !is_store) return 2.5;
    if (!is_store && transposed_along(kernel.pool, statement, fixed, address, *along, lanes)) return 5;
    if (!is_store && !addressed_by_data(kernel.pool, statement, address)) {
      const auto offsets = lane_offsets(kernel.pool, address, along->symbol, lanes);
      if (const auto vectors = vectors_of_window(offsets); vectors > 0) return 1.5 * vectors;
    }
    // Lines whole pages apart map to one set of the first-level cache. If there are more than it holds, each
    // is evicted before its next step.
    constexpr unsigned lines_of_set = 8;
    const int64_t bytes = KernelContext::storage_bytes(kernel.buffers[buffer].dtype);
    if (statement.has(VarKind::serial) && step && *step * bytes % page_bytes == 0 && lanes > lines_of_set)
      return lanes * 6.0;
    return lanes * (is_store ? 1.5 : target.gathers ? 0.7 : 1.2);
  }
  /// Cycles of one vector along a variable, or of one point if null.
  double part(bool elements, const loop::Var* along, unsigned lanes) const {
    double cycles = 0.3;
    for (size_t k = 0; k < statement.ops.size(); ++k) {
      const auto& op = statement.ops[k];
      if (at_elements(k) != elements) continue;
      cycles += operation_cost(op);
      if (op.code == FE_OP_LOAD) cycles += access(op.buffer, op.index, along, lanes, false);
    }
    for (const auto& store : statement.stores)
      if (at_elements(store) == elements) cycles += access(store.buffer, store.index, along, lanes, true);
    if (elements) cycles += 0.5 * static_cast<double>(statement.reductions.size());
    return cycles;
  }
};

/// Whether lanes along the variable may be computed together.
bool may_vectorise(loop::Kernel& kernel, const loop::Statement& statement, size_t index) {
  const auto& var = statement.vars[index];
  auto& pool = kernel.pool;
  if (var.kind == VarKind::serial || var.extent < 2) return false;
  if (statement.kind == FE_STATEMENT_SCATTER)
    return var.kind == VarKind::parallel && loop::stores_apart(pool, statement, index);
  for (const auto& store : statement.stores) {
    auto address = element_address(pool, kernel.buffers[store.buffer], store.index);
    if (store.mode != FE_STORE_SET &&
        (var.kind != VarKind::parallel || !loop::stores_apart(pool, statement, index)))
      return false;
    if (var.kind == VarKind::parallel && !pool.depends_on(address, var.symbol)) {
      bool indirect = false;
      for (const auto& op : statement.ops)
        indirect = indirect || (op.code == FE_OP_INDIRECT && pool.depends_on(address, op.symbol));
      if (!indirect) return false;
    }
  }
  return true;
}

/// For strided reads of a map, iterate over the contiguous variable next, so that each cache line is used
/// while it is cached. If transposition blocks are possible, such operands are read line by line.
void plan_transposed_reads(loop::Kernel& kernel, StatementPlan& plan) {
  const auto& work = plan.statement;
  const auto& var = work.vars[*plan.vector];
  if (work.kind != FE_STATEMENT_MAP) return;
  each_expression(kernel.pool, kernel, work, [&](index::Expr expr, loop::BufferId buffer, bool is_store) {
    if (buffer == loop::none || is_store || plan.inside) return;
    auto along = kernel.pool.coefficient(expr, var.symbol);
    if (!along || *along == 0 || std::abs(*along) <= 2) return;
    for (size_t k : plan.outer)
      if (kernel.pool.coefficient(expr, work.vars[k].symbol) == 1) plan.inside = k;
  });
  if (!plan.inside) return;
  plan.outer.erase(std::find(plan.outer.begin(), plan.outer.end(), *plan.inside));
  unsigned bytes = 0;
  for (loop::OpId k = 0; k < work.ops.size(); ++k) {
    const auto& op = work.ops[k];
    if (op.code != FE_OP_LOAD || op.a != loop::none) continue;
    const auto address = element_address(kernel.pool, kernel.buffers[op.buffer], op.index);
    if (transposed_along(kernel.pool, work, plan.fixed, address, var, plan.lanes) != plan.inside) continue;
    plan.transposed.push_back(k);
    bytes = std::max(bytes, KernelContext::storage_bytes(kernel.buffers[op.buffer].dtype));
  }
  if (plan.transposed.empty()) {
    plan.unroll = 1;
    return;
  }
  // Memory is slow if only a few bytes are read from each of many rows.
  constexpr int64_t line_bytes = 512, row_bytes = 2048;
  const auto up = [&](int64_t extent) { return (extent + plan.lanes - 1) / plan.lanes * plan.lanes; };
  plan.transpose_lines = std::min(up(work.vars[*plan.inside].extent), up(line_bytes / bytes));
  plan.transpose_row = std::min(up(var.extent), up(row_bytes / bytes));
}

/// A reduction over rows that are far apart reads a long segment of a few rows at a time, and keeps the
/// segment's states in the first-level cache. Reading one or two lines per row is the slowest access to
/// memory.
void plan_strip(const Target& target, loop::Kernel& kernel, StatementPlan& plan) {
  const auto& work = plan.statement;
  const auto& var = work.vars[*plan.vector];
  if (plan.reductions.empty() || plan.unroll_reduction || target.unroll > 0) return;
  const auto& row = work.vars[plan.reductions.back()];
  if (row.extent < 2 * rows_of_strip || var.extent <= int64_t{plan.lanes} * plan.unroll) return;
  int64_t state_bytes = 0;
  for (const auto& reduction : work.reductions) {
    const auto bits = bits_of(compute_type(work.ops[reduction.element].dtype));
    if (reduction.index != loop::none || bits < 8 || reduction.kind == FE_REDUCE_ANY ||
        reduction.kind == FE_REDUCE_ALL)
      return;
    state_bytes += std::max<int64_t>(4, static_cast<int64_t>(bits) / 8);
  }
  bool far = false;
  each_expression(kernel.pool, kernel, work, [&](index::Expr expr, loop::BufferId buffer, bool is_store) {
    if (buffer == loop::none || is_store || kernel.pool.coefficient(expr, var.symbol) != 1) return;
    const auto step = kernel.pool.coefficient(expr, row.symbol);
    far = far || (step && std::abs(*step) >= var.extent && kernel.buffers[buffer].bytes() > target.l2_bytes);
  });
  if (!far) return;
  const int64_t unit = int64_t{plan.lanes} * plan.unroll;
  plan.strip = std::min(var.extent, std::max<int64_t>(1, target.l1_bytes / 4 / state_bytes / unit) * unit);
  plan.unroll = 1;
}

/// Whether a result leaves the caches before anyone reads it: the kernel's data exceeds the last-level cache
/// one and a half times.
bool passes_caches(const Target& target, const loop::Kernel& kernel, loop::BufferId result) {
  // Fraction of the last-level cache: a smaller result may still be cached when it is read.
  constexpr int64_t least_share = 4;
  int64_t moved = 0;
  for (const auto& buffer : kernel.buffers)
    if (buffer.kind == FE_BUFFER_OUTPUT || buffer.kind == FE_BUFFER_INPUT) moved += buffer.bytes();
  return moved > target.last_level_bytes * 3 / 2 &&
         kernel.buffers[result].bytes() > target.last_level_bytes / least_share;
}

/// By store: whether to bypass the caches. This pays for large results that are written in order, in whole
/// aligned vectors, and that this kernel does not read.
std::vector<bool> find_streams(const Target& target, loop::Kernel& kernel, const StatementPlan& plan) {
  const auto& work = plan.statement;
  std::vector<bool> streams(work.stores.size());
  // Scatters may write an element twice, and streaming stores are not ordered.
  if (!target.streaming_stores || work.kind == FE_STATEMENT_SCATTER || work.has(VarKind::serial))
    return streams;
  if (plan.inside && plan.transposed.empty()) return streams;
  const auto vector = work.vars[*plan.vector];
  for (size_t k = 0; k < work.stores.size(); ++k) {
    const auto& store = work.stores[k];
    const auto& buffer = kernel.buffers[store.buffer];
    const auto bytes = static_cast<int64_t>(KernelContext::storage_bytes(buffer.dtype));
    constexpr int64_t least_vector = 16, least_run = 512;
    if (buffer.kind != FE_BUFFER_OUTPUT || !passes_caches(target, kernel, store.buffer) ||
        store.mode != FE_STORE_SET || store.mask != loop::none || plan.lanes * bytes < least_vector ||
        vector.extent * bytes < least_run)
      continue;
    size_t uses = 0;
    for (const auto& statement : kernel.statements) {
      uses += static_cast<size_t>(std::ranges::count(statement.stores, store.buffer, &loop::Store::buffer));
      uses += static_cast<size_t>(std::ranges::count_if(statement.ops, [&](const loop::BodyOp& op) {
        return op.code == FE_OP_LOAD && op.buffer == store.buffer;
      }));
    }
    const auto place = element_address(kernel.pool, buffer, store.index);
    const auto address = kernel.pool.affine(place);
    streams[k] = uses == 1 && address.rest.empty() && address.constant % plan.lanes == 0 &&
                 kernel.pool.coefficient(place, vector.symbol) == 1 &&
                 std::ranges::all_of(address.terms, [&](const auto& term) {
                   return term.first == vector.symbol || term.second % plan.lanes == 0;
                 });
  }
  return streams;
}

}  // namespace

int64_t least_block(const StatementPlan& plan) {
  if (!plan.transposed.empty()) return plan.transpose_row;
  return std::max(plan.strip, int64_t{plan.lanes} * plan.unroll);
}

StatementPlan plan_statement(const Target& target, loop::Kernel& kernel, const loop::Statement& statement,
                             size_t fixed) {
  StatementPlan plan;
  plan.statement = statement;
  plan.fixed = fixed;
  plan.streams.resize(statement.stores.size());
  auto& work = plan.statement;
  drop_unit_variables(kernel.pool, work, fixed);
  if (work.kind != FE_STATEMENT_SCATTER) {
    for (size_t k = work.vars.size() < 2 ? 0 : work.vars.size() - 1; k-- > fixed;)
      if (k + 1 < work.vars.size()) merge(kernel, work, k);
  }

  // Choose the variable for which a vectorised point of the whole domain is cheapest; ties go to the
  // innermost.
  const unsigned bytes = widest(kernel, work);
  const unsigned most = std::max(1u, std::min(64u, target.lanes(bytes)));
  double reduced = 1;  // reduction steps per point of the parallel variables
  for (size_t k = fixed; k < work.vars.size(); ++k)
    if (work.vars[k].kind != VarKind::parallel)
      reduced *= static_cast<double>(std::max<int64_t>(1, work.vars[k].extent));
  const Cost cost(target, kernel, work, fixed);
  const double finish = cost.reduces ? cost.part(false, nullptr, 1) : 0;
  double best = cost.part(true, nullptr, 1) + finish / reduced;
  for (size_t k = work.vars.size(); k-- > fixed;) {
    const auto& var = work.vars[k];
    if (most < 2 || !may_vectorise(kernel, work, k)) continue;
    auto lanes =
        static_cast<unsigned>(std::min<uint64_t>(most, std::bit_ceil(static_cast<uint64_t>(var.extent))));
    const double steps = std::ceil(static_cast<double>(var.extent) / lanes),
                 extent = static_cast<double>(var.extent);
    const double tail = var.extent % lanes != 0 && !target.masks ? lanes : 0;
    double cycles = (steps * cost.part(true, &var, lanes) + tail) / extent;
    if (var.kind == VarKind::reduction) {
      cycles += (finish + 3 * std::log2(lanes) * static_cast<double>(work.reductions.size())) / reduced;
    } else if (finish != 0) {
      cycles += steps * cost.part(false, &var, lanes) / extent / reduced;
    }
    // The margin keeps rounding errors from deciding ties.
    if (cycles < best * 0.999) best = cycles, plan.vector = k, plan.lanes = lanes;
  }
  plan.cycles = best * reduced;

  for (size_t k = fixed; k < work.vars.size(); ++k) {
    if (k == plan.vector) continue;
    if (work.vars[k].kind == VarKind::parallel) plan.outer.push_back(k);
    if (work.vars[k].kind == VarKind::reduction) plan.reductions.push_back(k);
  }
  if (!plan.vector) return plan;

  const auto& var = work.vars[*plan.vector];
  const auto vectors = static_cast<unsigned>(std::min<int64_t>(8, var.extent / plan.lanes));
  bool wide_state =
      std::any_of(work.reductions.begin(), work.reductions.end(), [](const loop::Reduction& reduction) {
        return reduction.kind == FE_REDUCE_ARGMAX || reduction.kind == FE_REDUCE_ARGMIN;
      });
  double element_ops = 0;
  for (size_t k = 0; k < work.ops.size(); ++k)
    element_ops += cost.at_elements(k) ? operation_cost(work.ops[k]) + 1 : 0;
  // Independent vectors hide each other's latency. If one vector has enough operations, or there are few
  // vectors in total, unrolling only adds code and compile time.
  constexpr double hides = 60, hides_in_part = 20;
  constexpr int64_t few_vectors = 1024;
  const bool few = work.points(VarKind::parallel) * std::max<int64_t>(1, work.points(VarKind::reduction)) <=
                   few_vectors * plan.lanes;
  if (element_ops > (few ? hides_in_part : hides)) {
    plan.unroll = 1;
  } else if (cost.reduces && vectors >= 2) {
    plan.unroll = std::bit_floor(std::min(vectors, wide_state || work.reductions.size() > 2 ? 2u : 4u));
  } else if (vectors >= 4 && work.kind == FE_STATEMENT_MAP) {
    // For long chains, four vectors hide the latency, and more would exceed the registers.
    plan.unroll = element_ops <= 12 ? 2 : 4;
  }
  if (target.unroll > 0 && (cost.reduces || work.kind == FE_STATEMENT_MAP))
    plan.unroll = std::bit_floor(std::max(1u, std::min(vectors, target.unroll)));
  if (plan.vector_is_parallel()) {
    double straight = 1;
    for (size_t k : plan.reductions) straight *= static_cast<double>(work.vars[k].extent);
    if (!plan.reductions.empty() && straight > 0 && straight <= 32 && straight * element_ops <= 500) {
      plan.unroll_reduction = true;
      if (straight * element_ops * plan.unroll > 160) plan.unroll = 1;
    }
    plan_transposed_reads(kernel, plan);
    plan_strip(target, kernel, plan);
  }
  plan.streams = find_streams(target, kernel, plan);
  return plan;
}

bool independent(index::Pool& pool, const loop::Statement& statement, size_t var) {
  bool accumulates = std::any_of(statement.stores.begin(), statement.stores.end(),
                                 [](const loop::Store& store) { return store.mode != FE_STORE_SET; });
  bool ordered = statement.kind == FE_STATEMENT_SCATTER || statement.has(VarKind::serial) || accumulates;
  return !ordered || loop::stores_apart(pool, statement, var);
}

double points_of(const StatementPlan& plan) {
  double points = 1;
  for (size_t k = plan.fixed; k < plan.statement.vars.size(); ++k)
    if (plan.statement.vars[k].kind != VarKind::reduction)
      points *= static_cast<double>(plan.statement.vars[k].extent);
  return points;
}

bool is_empty(const loop::Statement& statement) {
  return std::any_of(statement.vars.begin(), statement.vars.end(),
                     [](const loop::Var& var) { return var.extent == 0 && var.kind != VarKind::reduction; });
}

}  // namespace ferrite::emitter
