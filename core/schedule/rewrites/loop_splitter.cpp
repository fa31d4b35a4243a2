// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/loop_splitter.h"

#include <algorithm>

namespace ferrite::core::schedule {
namespace {

/// By operation, whether its value differs between steps of the reduction.
std::vector<bool> element_part(const LoopProgram& program, const Statement& statement) {
  std::vector<bool> element(statement.ops.size());
  const auto varies = [&](const std::vector<index::Expr>& index, size_t before) {
    return std::ranges::any_of(index, [&](index::Expr expr) {
      for (const auto& var : statement.vars)
        if (var.kind == VarKind::reduction && program.pool.depends_on(expr, var.symbol)) return true;
      for (size_t j = 0; j < before; ++j)
        if (element[j] && statement.ops[j].code == FE_OP_INDIRECT &&
            program.pool.depends_on(expr, statement.ops[j].symbol))
          return true;
      return false;
    });
  };
  for (size_t k = 0; k < element.size(); ++k) {
    const auto& op = statement.ops[k];
    const auto of = [&](OpId id) { return id != none && element[id]; };
    element[k] = op.code != FE_OP_REDUCED && (of(op.a) || of(op.b) || of(op.c) || varies(op.index, k));
  }
  return element;
}

DType value_type(const Statement& whole, const Reduction& reduction) {
  return whole.ops[reduction.element].dtype;
}

bool picks_index(const Reduction& reduction) {
  return reduction.kind == FE_REDUCE_ARGMAX || reduction.kind == FE_REDUCE_ARGMIN;
}

}  // namespace

std::vector<bool> element_stores(const LoopProgram& program, const Statement& statement) {
  const auto element = element_part(program, statement);
  std::vector<bool> finish(statement.ops.size()), result;
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    const auto& op = statement.ops[k];
    const auto of = [&](const std::vector<bool>& list, OpId id) { return id != none && list[id]; };
    finish[k] = op.code == FE_OP_REDUCED || of(finish, op.a) || of(finish, op.b) || of(finish, op.c);
    if (finish[k] && (element[k] || op.code == FE_OP_INDIRECT)) return {};
  }
  for (const auto& store : statement.stores) {
    if (store.mode != FE_STORE_SET) return {};
    const bool steps = element[store.value] || (store.mask != none && element[store.mask]) ||
                       std::ranges::any_of(store.index, [&](index::Expr expr) {
                         return std::ranges::any_of(statement.vars, [&](const Var& var) {
                           return var.kind == VarKind::reduction && program.pool.depends_on(expr, var.symbol);
                         });
                       });
    if (steps && (finish[store.value] || (store.mask != none && finish[store.mask]))) return {};
    result.push_back(steps);
  }
  return result;
}

Cut cut_of(const Statement& statement, int64_t wanted) {
  // A part of many vectors and cache lines is a multiple of this many steps, so that no vector or line is
  // divided.
  constexpr int64_t even_steps = 64;
  Cut cut;
  cut.var = statement.parallel_count();
  // The first loop that is long enough is split, else the longest one.
  for (size_t k = cut.var; k < statement.vars.size(); ++k) {
    const int64_t extent = statement.vars[k].extent;
    if (extent >= wanted * 4 || extent > statement.vars[cut.var].extent) {
      cut.var = k;
      if (extent >= wanted * 4) break;
    }
  }
  const int64_t extent = statement.vars[cut.var].extent;
  cut.parts = std::min(wanted, extent);
  // Equal parts are preferred, with a count as close as possible to the requested one: a remainder costs a
  // statement more.
  for (int64_t more = 0; more <= cut.parts / 2; ++more)
    for (const int64_t parts : {cut.parts + more, cut.parts - more})
      if (parts > 1 && parts <= extent && extent % parts == 0) return {cut.var, parts, extent / parts, 0};
  cut.steps = extent / cut.parts;
  if (cut.steps >= even_steps * 16) {
    cut.steps = (cut.steps + even_steps - 1) / even_steps * even_steps;
    cut.parts = extent / cut.steps;
  }
  cut.rest = extent - cut.parts * cut.steps;
  return cut;
}

int64_t bytes_of_part(const Statement& whole) {
  int64_t bytes = 0;
  for (const auto& reduction : whole.reductions) {
    const DType dtype = picks_index(reduction) ? value_type(whole, reduction) : reduction.accumulator;
    bytes += bits_of(dtype) / 8 + (picks_index(reduction) ? bits_of(DType::i64_) / 8 : 0);
  }
  return bytes * std::max<int64_t>(1, whole.points(VarKind::parallel));
}

Cut cut_within(const Statement& statement, int64_t wanted, int64_t part_bytes, int64_t allowed) {
  constexpr int64_t slack = 1 << 10, largest = 1 << 20, share = 64;
  const int64_t points = executions(statement);
  const int64_t most =
      std::max(allowed, std::clamp(points * bits_of(DType::f32_) / 8 / share, slack, largest));
  for (wanted = std::min(wanted, most / part_bytes); wanted > 1; wanted = wanted * 3 / 4) {
    const auto cut = cut_of(statement, wanted);
    if ((cut.parts + (cut.rest > 0 ? 1 : 0)) * part_bytes <= most) return cut;
  }
  return {};
}

bool reads_only_constants(const LoopProgram& program, const Statement& statement) {
  return std::ranges::none_of(statement.ops, [&](const BodyOp& op) {
    return op.code == FE_OP_LOAD && program.buffers[program.storage(op.buffer)].role != Role::constant;
  });
}

PartLoops::PartLoops(index::Pool& pool, const Statement& whole, const Cut& cut, bool rest) {
  auto number = pool.constant(cut.parts);
  if (!rest) {
    vars.push_back({pool.new_symbol({0, cut.parts - 1}), cut.parts, VarKind::parallel});
    number = pool.symbol(vars[0].symbol);
  }
  at.push_back(number);
  for (size_t k = 0; k < whole.vars.size(); ++k) {
    Var var = whole.vars[k];
    if (k == cut.var) var.extent = rest ? cut.rest : cut.steps;
    var.symbol = pool.new_symbol({0, std::max<int64_t>(var.extent, 1) - 1});
    auto place = pool.symbol(var.symbol);
    if (var.kind == VarKind::parallel) at.push_back(place);
    if (k == cut.var) {
      const index::Term terms[] = {{number, cut.steps}, {place, 1}};
      place = pool.linear(0, terms);
    }
    symbols.emplace_back(whole.vars[k].symbol, place);
    vars.push_back(var);
  }
}

Splitter::Splitter(LoopProgram& program, const ProgramStatement& whole, std::vector<bool> element_stores,
                   Cut cut)
    : program_(program), whole_(whole), element_stores_(std::move(element_stores)), cut_(cut) {
  for (const auto& reduction : whole_.reductions) {
    const BufferId value =
        add_buffer(picks_index(reduction) ? value_type(whole_, reduction) : reduction.accumulator);
    partial_.push_back({value, picks_index(reduction) ? add_buffer(DType::i64_) : none});
  }
}

ProgramStatement Splitter::part(bool rest) {
  auto& pool = program_.pool;
  ProgramStatement result;
  result.kind = FE_STATEMENT_REDUCE;
  result.origins = whole_.origins;
  const PartLoops loops(pool, whole_, cut_, rest);
  result.vars = loops.vars;
  BodyWriter body(pool);
  result.reductions = whole_.reductions;
  for (size_t k = 0; k < whole_.stores.size(); ++k)
    if (element_stores_[k]) result.stores.push_back(whole_.stores[k]);
  for (auto& store : result.stores)
    for (auto& expr : store.index) expr = pool.substitute(expr, loops.symbols);
  renumber(result, body.splice(whole_.ops, loops.symbols, none, nullptr));
  for (size_t k = 0; k < whole_.reductions.size(); ++k) {
    const auto reduction = result.reductions[k];
    const auto keep = [&](BufferId base, DType dtype, size_t reduced) {
      BodyOp op;
      op.code = FE_OP_REDUCED;
      op.dtype = dtype;
      op.bits = reduced;
      result.stores.push_back(
          {rest ? rest_version(base) : base, loops.at, body.builder.add(std::move(op)), none, FE_STORE_SET});
    };
    if (!picks_index(reduction)) {
      keep(partial_[k].value, reduction.accumulator, k);
      continue;
    }
    // The value of the selected element is stored with its index, to be compared with those of the other
    // parts.
    result.reductions.push_back({reduction.kind == FE_REDUCE_ARGMAX ? FE_REDUCE_MAX : FE_REDUCE_MIN,
                                 reduction.element, none, value_type(whole_, reduction)});
    keep(partial_[k].value, value_type(whole_, reduction), result.reductions.size() - 1);
    keep(partial_[k].index, DType::i64_, k);
  }
  result.ops = std::move(body.ops);
  remove_dead(pool, result);
  return result;
}

ProgramStatement Splitter::combined() {
  auto& pool = program_.pool;
  ProgramStatement result = whole_;
  const int64_t count = cut_.parts + (cut_.rest > 0 ? 1 : 0);
  result.vars.resize(whole_.parallel_count());
  const Var number{pool.new_symbol({0, count - 1}), count, VarKind::reduction};
  std::vector<index::Expr> at = {pool.symbol(number.symbol)};
  for (const auto& var : result.vars) at.push_back(pool.symbol(var.symbol));
  result.vars.push_back(number);
  result.stores.clear();
  for (size_t k = 0; k < whole_.stores.size(); ++k)
    if (!element_stores_[k]) result.stores.push_back(whole_.stores[k]);
  BodyWriter body(pool);
  const auto load = [&](BufferId base) {
    BodyOp op;
    op.code = FE_OP_LOAD;
    op.buffer = cut_.rest > 0 ? rest_version(base) : base;
    op.dtype = program_.buffers[base].dtype;
    op.index = at;
    return body.builder.add(std::move(op));
  };
  std::vector<Partial> loaded;
  for (const auto& [value, index] : partial_)
    loaded.push_back({load(value), index == none ? none : load(index)});
  renumber(result, body.splice(whole_.ops, {}, none, nullptr));
  for (size_t k = 0; k < loaded.size(); ++k) {
    result.reductions[k].element = loaded[k].value;
    result.reductions[k].index = loaded[k].index;
  }
  result.ops = std::move(body.ops);
  remove_dead(pool, result);
  return result;
}

BufferId Splitter::add_buffer(DType dtype) {
  ProgramBuffer buffer;
  buffer.dtype = dtype;
  buffer.kind = FE_BUFFER_OUTPUT;
  buffer.dims.push_back(cut_.parts + (cut_.rest > 0 ? 1 : 0));
  for (size_t k = 0; k < whole_.parallel_count(); ++k) buffer.dims.push_back(whole_.vars[k].extent);
  buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
  program_.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(program_.buffers.size() - 1);
}

BufferId Splitter::rest_version(BufferId base) {
  for (BufferId b = base; b < program_.buffers.size(); ++b)
    if (program_.buffers[b].base == base) return b;
  return program_.add_version(base);
}

}  // namespace ferrite::core::schedule
