// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/observe/kernel_facts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/observe/minimal_filtering.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::observe {
namespace {

using loop::BodyOp;
using loop::VarKind;

double points_of(const loop::Statement& statement) {
  double points = 1;
  for (const auto& var : statement.vars) points *= static_cast<double>(var.extent);
  return points;
}

double parallel_points_of(const loop::Statement& statement) {
  double points = 1;
  for (const auto& var : statement.vars)
    if (var.kind == VarKind::parallel) points *= static_cast<double>(var.extent);
  return points;
}

const char* name_of_kind(uint32_t kind) {
  switch (kind) {
    case FE_STATEMENT_REDUCE: return "reduce";
    case FE_STATEMENT_CONTRACT: return "contract";
    case FE_STATEMENT_SCATTER: return "scatter";
    case FE_STATEMENT_SERIAL: return "serial";
    default: return "map";
  }
}

/// The rank of a statement as the main one of its kernel: statements around a contraction or a reduction only
/// serve it.
int rank_of(uint32_t kind) { return kind == FE_STATEMENT_CONTRACT ? 2 : kind == FE_STATEMENT_MAP ? 0 : 1; }

/// The stride, in elements, of a load's address in `var`, taken at the first point; none if the address is
/// not affine there. Computed indices count as 0.
int64_t step_of(const loop::Kernel& kernel, const BodyOp& load, loop::index::Symbol var) {
  const auto& buffer = kernel.buffers[load.buffer];
  if (buffer.strides.size() != load.index.size()) return 0;
  std::vector<int64_t> here(kernel.pool.symbol_count()), next(here);
  next[var] = 1;
  int64_t step = 0;
  for (size_t d = 0; d < load.index.size(); ++d)
    step +=
        (kernel.pool.eval(load.index[d], next) - kernel.pool.eval(load.index[d], here)) * buffer.strides[d];
  return step;
}

/// Whether the loads of a reduction are contiguous along a reduced or along a kept dim; the largest buffer
/// decides.
std::string reduction_hint_of(const loop::Kernel& kernel, const loop::Statement& statement) {
  const BodyOp* largest = nullptr;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD && kernel.buffers[op.buffer].kind != FE_BUFFER_LOCAL &&
        (!largest || kernel.buffers[op.buffer].bytes() > kernel.buffers[largest->buffer].bytes()))
      largest = &op;
  if (!largest) return {};
  for (const auto& var : statement.vars)
    if (var.extent > 1 && step_of(kernel, *largest, var.symbol) == 1) {
      if (var.kind == VarKind::reduction) return "inner";
      if (var.kind == VarKind::parallel) return "outer";
    }
  return {};
}

/// Counts how often each operation of a statement must be executed: once at each point of the loops over
/// which its value varies. A contraction's prologue counts once per operand element. Address and mask
/// computations do not count.
class Work {
 public:
  Work(const loop::Kernel& kernel, const loop::Statement& statement)
      : kernel_(kernel),
        statement_(statement),
        counted_(statement.ops.size()),
        times_(statement.ops.size(), 1) {
    mark_values();
    find_times();
  }

  double total() const {
    double sum = 0;
    for (size_t k = 0; k < statement_.ops.size(); ++k)
      if (counted_[k] && statement_.ops[k].is_prim()) sum += times_[k];
    return sum;
  }

 private:
  /// Marks the operations that results are computed from, without masks and computed indices.
  void mark_values() {
    const auto mark = [&](loop::OpId id) {
      if (id != loop::none) counted_[id] = true;
    };
    for (const auto& store : statement_.stores) mark(store.value);
    for (const auto& reduction : statement_.reductions) {
      mark(reduction.element);
      mark(reduction.index);
    }
    for (const auto& carry : statement_.carries) mark(carry.next);
    for (size_t k = statement_.ops.size(); k-- > 0;) {
      if (!counted_[k]) continue;
      const auto& op = statement_.ops[k];
      if (op.code == FE_OP_LOAD)
        mark(op.b);
      else if (op.is_prim())
        for (const auto id : {op.a, op.b, op.c}) mark(id);
    }
  }

  void find_times() {
    const size_t vars = statement_.vars.size();
    std::vector<std::vector<bool>> varies(statement_.ops.size(), std::vector<bool>(vars));
    // Element counts of the largest buffer that each operation depends on.
    std::vector<double> elements(statement_.ops.size());
    for (size_t k = 0; k < statement_.ops.size(); ++k) {
      const auto& op = statement_.ops[k];
      const auto take = [&](size_t from) {
        for (size_t v = 0; v < vars; ++v) varies[k][v] = varies[k][v] || varies[from][v];
        elements[k] = std::max(elements[k], elements[from]);
      };
      for (const auto id : {op.a, op.b, op.c})
        if (id != loop::none) take(id);
      for (const auto expr : op.index) {
        for (size_t v = 0; v < vars; ++v)
          varies[k][v] = varies[k][v] || kernel_.pool.depends_on(expr, statement_.vars[v].symbol);
        for (size_t j = 0; j < k; ++j)
          if (statement_.ops[j].code == FE_OP_INDIRECT &&
              kernel_.pool.depends_on(expr, statement_.ops[j].symbol))
            take(j);
      }
      if (op.code == FE_OP_LOAD) elements[k] = static_cast<double>(kernel_.buffers[op.buffer].elements());
      for (size_t v = 0; v < vars; ++v) {
        // The result of a reduction exists once per point of the parallel loops.
        if (op.code == FE_OP_REDUCED) varies[k][v] = statement_.vars[v].kind == VarKind::parallel;
        // A carried value differs at each step.
        if (op.code == FE_OP_CARRIED) varies[k][v] = true;
        if (varies[k][v]) times_[k] *= static_cast<double>(statement_.vars[v].extent);
      }
    }
    if (statement_.kind != FE_STATEMENT_CONTRACT) return;
    std::vector<bool> of_operand(statement_.ops.size());
    for (const auto root : {statement_.contract_a, statement_.contract_b}) of_operand[root] = true;
    const auto& element = statement_.ops[statement_.reductions[0].element];
    for (const auto id : {element.a, element.b})
      if (id != loop::none) of_operand[id] = true;  // casts of the operands to the type of the product
    for (size_t k = statement_.ops.size(); k-- > 0;) {
      if (!of_operand[k]) continue;
      const auto& op = statement_.ops[k];
      for (const auto id : {op.a, op.b, op.c})
        if (id != loop::none) of_operand[id] = true;
      if (elements[k] > 0) times_[k] = std::min(times_[k], elements[k]);
    }
  }

  const loop::Kernel& kernel_;
  const loop::Statement& statement_;
  std::vector<bool> counted_;
  std::vector<double> times_;
};

}  // namespace

Facts facts_of(const loop::Kernel& kernel) {
  Facts facts;
  const loop::Statement* main = nullptr;
  std::pair<int, double> most;
  facts.loops = kernel.statements.empty() ? 0 : kernel.shared;
  // The bytes that loads and stores can reach, by buffer.
  std::vector<double> read(kernel.buffers.size()), written(kernel.buffers.size());
  std::set<loop::BufferId> made;  // by earlier statements: reading them again causes no traffic
  for (const auto& statement : kernel.statements) {
    const double points = points_of(statement), parallel = parallel_points_of(statement);
    double work = Work(kernel, statement).total();
    const auto finish = ferrite::loop::place(kernel.pool, statement).finish;
    for (size_t k = 0; k < statement.ops.size(); ++k) {
      const auto& op = statement.ops[k];
      const double times = finish[k] ? parallel : points;
      if (op.code != FE_OP_LOAD) continue;
      const auto& buffer = kernel.buffers[op.buffer];
      if (buffer.kind == FE_BUFFER_LOCAL) continue;
      ++facts.loads;
      if (!made.contains(op.buffer))
        read[op.buffer] += times * static_cast<double>(bytes_of(buffer.dtype, 1));
    }
    work += points * static_cast<double>(statement.reductions.size());  // the combining operations
    // Minimal filtering computes other products than those at the points of the loops.
    if (const auto filtering = minimal_filtering_operations(kernel, statement))
      work += *filtering - 2 * points;
    facts.operations += work;
    const double stored = statement.kind == FE_STATEMENT_SERIAL ? points : parallel;
    for (const auto& store : statement.stores) {
      const auto& buffer = kernel.buffers[store.buffer];
      if (store.mode != FE_STORE_SET) {
        ++facts.atomics;
        read[store.buffer] += stored * static_cast<double>(bytes_of(buffer.dtype, 1));
      }
      if (buffer.kind == FE_BUFFER_LOCAL) continue;
      ++facts.stores;
      made.insert(store.buffer);
      written[store.buffer] += stored * static_cast<double>(bytes_of(buffer.dtype, 1));
    }
    facts.loops += statement.vars.size() - std::min<size_t>(kernel.shared, statement.vars.size());
    const std::pair weight(rank_of(statement.kind), std::max(work, points));
    if (!main || weight > most) {
      most = weight;
      main = &statement;
    }
  }
  if (main) {
    facts.category = name_of_kind(main->kind);
    for (const auto& var : main->vars)
      (var.kind == VarKind::reduction ? facts.reduced : facts.sizes).push_back(var.extent);
    if (main->kind == FE_STATEMENT_REDUCE) facts.reduction_hint = reduction_hint_of(kernel, *main);
  }
  for (size_t b = 0; b < kernel.buffers.size(); ++b) {
    const auto& buffer = kernel.buffers[b];
    if (buffer.kind == FE_BUFFER_LOCAL) continue;
    const int64_t bytes = buffer.bytes();
    const int64_t times = read[b] > 0 && written[b] > 0 ? 2 : 1;
    facts.argument_bytes += times * bytes;
    for (const double reached : {read[b], written[b]})
      facts.moved_bytes += static_cast<int64_t>(std::min(reached, static_cast<double>(bytes)));
  }
  return facts;
}

}  // namespace ferrite::core::observe
