// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions that leave workers idle become two: many of a part each, and one of what these give.
#include "core/schedule/split.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/schedule/body.h"
#include "core/schedule/traffic.h"

namespace ferrite::core::schedule {
namespace {

// Counts are chosen by these and by the shape, never by the number of workers: results do not depend on that.
constexpr int64_t few_tasks = 8;          // fewer of them leave workers of a small machine idle
constexpr int64_t many_tasks = 256;       // what a large machine has enough of
constexpr int64_t least_part = 64 << 10;  // points of a part, so that it outlasts its start many times
constexpr int64_t hand_over = 128 << 10;  // points that a launch more is worth
constexpr int64_t block_of_columns = 64;  // columns that are summed at a time, for as long as there are rows
constexpr int64_t page = 4096;            // bytes; rows that far apart are on pages of their own
constexpr int64_t most_pages = 512, near_pages = 256;  // that are looked up quickly, and that a part has

/// How a reduction walks what it reads most of.
struct Walk {
  int64_t points = 1, outputs = 1, rows = 1;
  int64_t tasks = 1;  ///< that there are without a split
  bool far = false;   ///< each step of the reduction is on another page
};

Walk walk_of(const LoopProgram& program, const Statement& statement) {
  Walk walk;
  walk.outputs = std::max<int64_t>(1, statement.points(VarKind::parallel));
  walk.rows = std::max<int64_t>(1, statement.points(VarKind::reduction));
  walk.points = walk.outputs * walk.rows;
  const BodyOp* most = nullptr;
  for (const auto& op : statement.ops)
    if (op.code == FE_OP_LOAD &&
        (!most || program.buffers[op.buffer].bytes() > program.buffers[most->buffer].bytes()))
      most = &op;
  bool columns = false;
  walk.tasks = walk.outputs;
  if (!most) return walk;
  const auto step = [&](const Var& var) { return step_of(program, most->buffer, most->index, var.symbol); };
  for (const auto& var : statement.vars)
    if (var.kind == VarKind::parallel && var.extent > 1 && step(var) == 1) {
      columns = true;
      walk.tasks = walk.outputs / var.extent * std::max<int64_t>(1, var.extent / block_of_columns);
    }
  const auto bytes = bits_of(program.buffers[most->buffer].dtype) / 8;
  walk.far = columns && walk.rows > most_pages && std::ranges::all_of(statement.vars, [&](const Var& var) {
               const auto each = step(var);
               return var.kind != VarKind::reduction || !each || std::abs(*each) * bytes >= page;
             });
  return walk;
}

/// How many parts pay; 1 where none do.
int64_t wanted_parts(const Walk& walk) {
  int64_t parts = walk.tasks < few_tasks ? many_tasks / walk.tasks : 1;
  if (walk.far) parts = std::max(parts, walk.rows / near_pages);
  parts = std::min({parts, walk.points / least_part, walk.rows / 16});
  if (parts < 2) return 1;
  const auto price = [&](int64_t points, int64_t tasks, bool far) {
    return points / std::min(tasks, few_tasks) * (far ? 2 : 1);
  };
  const int64_t whole = price(walk.points, walk.tasks, walk.far);
  const int64_t split = price(walk.points, walk.tasks * parts, false) +
                        price(parts * walk.outputs, walk.tasks, false) + hand_over;
  return split < whole ? parts : 1;
}

/// Operations that differ from one step of the reduction to the next.
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

/// By store: whether it runs at each step of the reduction. Empty where the parts cannot be told from what follows them.
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

bool picks_index(const Reduction& reduction) {
  return reduction.kind == FE_REDUCE_ARGMAX || reduction.kind == FE_REDUCE_ARGMIN;
}

/// The variable of a reduction that is cut: into so many parts of so many steps, and the rest behind them.
struct Cut {
  size_t var = 0;
  int64_t parts = 0, steps = 0, rest = 0;
};

/// Parts without a rest, of about the number that is wanted, where there are such.
Cut cut_of(const Statement& statement, int64_t wanted) {
  Cut cut;
  cut.var = statement.parallel_count();
  for (size_t k = cut.var; k < statement.vars.size(); ++k) {
    const int64_t extent = statement.vars[k].extent;
    if (extent >= wanted * 4 || extent > statement.vars[cut.var].extent) {
      cut.var = k;
      if (extent >= wanted * 4) break;
    }
  }
  const int64_t extent = statement.vars[cut.var].extent;
  cut.parts = std::min(wanted, extent);
  for (int64_t more = 0; more <= cut.parts / 2; ++more)
    for (const int64_t parts : {cut.parts + more, cut.parts - more})
      if (parts <= extent && extent % parts == 0) return {cut.var, parts, extent / parts, 0};
  cut.steps = extent / cut.parts;
  cut.rest = extent % cut.parts;
  return cut;
}

class Splitter {
 public:
  Splitter(LoopProgram& program, const ProgramStatement& whole, std::vector<bool> element_stores, Cut cut)
      : program_(program), whole_(whole), element_stores_(std::move(element_stores)), cut_(cut) {
    for (const auto& reduction : whole_.reductions) {
      const BufferId value =
          add_buffer(picks_index(reduction) ? value_type(reduction) : reduction.accumulator);
      partial_.push_back({value, picks_index(reduction) ? add_buffer(DType::i64_) : none});
    }
  }

  /// All parts; or what is left behind them, in the place behind theirs.
  ProgramStatement part(bool rest) {
    auto& pool = program_.pool;
    ProgramStatement result;
    result.kind = FE_STATEMENT_REDUCE;
    result.origins = whole_.origins;
    index::Expr number = pool.constant(cut_.parts);
    std::vector<index::Expr> at;
    if (!rest) {
      result.vars.push_back({pool.new_symbol({0, cut_.parts - 1}), cut_.parts, VarKind::parallel});
      number = pool.symbol(result.vars[0].symbol);
    }
    at.push_back(number);
    Substitution symbols;
    for (size_t k = 0; k < whole_.vars.size(); ++k) {
      Var var = whole_.vars[k];
      if (k == cut_.var) var.extent = rest ? cut_.rest : cut_.steps;
      var.symbol = pool.new_symbol({0, std::max<int64_t>(var.extent, 1) - 1});
      auto place = pool.symbol(var.symbol);
      if (var.kind == VarKind::parallel) at.push_back(place);
      if (k == cut_.var) {
        const index::Term terms[] = {{number, cut_.steps}, {place, 1}};
        place = pool.linear(0, terms);
      }
      symbols.emplace_back(whole_.vars[k].symbol, place);
      result.vars.push_back(var);
    }
    BodyWriter body(pool);
    result.reductions = whole_.reductions;
    for (size_t k = 0; k < whole_.stores.size(); ++k)
      if (element_stores_[k]) result.stores.push_back(whole_.stores[k]);
    for (auto& store : result.stores)
      for (auto& expr : store.index) expr = pool.substitute(expr, symbols);
    renumber(result, body.splice(whole_.ops, symbols, none, nullptr));
    for (size_t k = 0; k < whole_.reductions.size(); ++k) {
      const auto reduction = result.reductions[k];
      const auto keep = [&](BufferId base, DType dtype, size_t reduced) {
        BodyOp op;
        op.code = FE_OP_REDUCED;
        op.dtype = dtype;
        op.bits = reduced;
        result.stores.push_back(
            {rest ? version_of(base) : base, at, body.builder.add(std::move(op)), none, FE_STORE_SET});
      };
      if (!picks_index(reduction)) {
        keep(partial_[k].value, reduction.accumulator, k);
        continue;
      }
      // The element that the index names goes with it, to be compared with those of the other parts.
      result.reductions.push_back({reduction.kind == FE_REDUCE_ARGMAX ? FE_REDUCE_MAX : FE_REDUCE_MIN,
                                   reduction.element, none, value_type(reduction)});
      keep(partial_[k].value, value_type(reduction), result.reductions.size() - 1);
      keep(partial_[k].index, DType::i64_, k);
    }
    result.ops = std::move(body.ops);
    remove_dead(pool, result);
    return result;
  }

  /// What the whole stored when it was done, of what the parts have stored.
  ProgramStatement combined() {
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
      op.buffer = cut_.rest > 0 ? version_of(base) : base;
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

 private:
  struct Partial {
    uint32_t value = none, index = none;  ///< buffers, or operations that load them
  };

  DType value_type(const Reduction& reduction) const { return whole_.ops[reduction.element].dtype; }

  BufferId add_buffer(DType dtype) {
    ProgramBuffer buffer;
    buffer.dtype = dtype;
    buffer.kind = FE_BUFFER_OUTPUT;
    buffer.dims.push_back(cut_.parts + (cut_.rest > 0 ? 1 : 0));
    for (size_t k = 0; k < whole_.parallel_count(); ++k) buffer.dims.push_back(whole_.vars[k].extent);
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    program_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }
  /// What the rest makes of a buffer that the parts have written.
  BufferId version_of(BufferId base) {
    for (BufferId b = base; b < program_.buffers.size(); ++b)
      if (program_.buffers[b].base == base) return b;
    ProgramBuffer version = program_.buffers[base];
    version.base = base;
    version.version = 1;
    program_.buffers.push_back(std::move(version));
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }

  LoopProgram& program_;
  const ProgramStatement whole_;
  const std::vector<bool> element_stores_;
  const Cut cut_;
  std::vector<Partial> partial_;  ///< by reduction
};

bool reads_only_constants(const LoopProgram& program, const Statement& statement) {
  return std::ranges::none_of(statement.ops, [&](const BodyOp& op) {
    return op.code == FE_OP_LOAD && program.buffers[program.storage(op.buffer)].role != Role::constant;
  });
}

/// The one reduction of a group of maps and it, where a split of it would pay; else none.
uint32_t reduction_of(const LoopProgram& program, const Group& group) {
  uint32_t found = none;
  for (uint32_t s : group.statements) {
    const auto& statement = program.statements[s];
    if (statement.kind == FE_STATEMENT_REDUCE ? found != none : statement.kind != FE_STATEMENT_MAP)
      return none;
    if (statement.kind == FE_STATEMENT_REDUCE) found = s;
  }
  if (found == none) return none;
  const auto& statement = program.statements[found];
  return statement.points(VarKind::reduction) > 1 && statement.points(VarKind::parallel) > 0 &&
                 !reads_only_constants(program, statement) && parts_that_pay(program, statement) > 1
             ? found
             : none;
}

}  // namespace

int64_t parts_that_pay(const LoopProgram& program, const Statement& statement) {
  return wanted_parts(walk_of(program, statement));
}

void split_reductions(Schedule& schedule, Ledger& ledger) {
  auto& program = schedule.program;
  std::vector<bool> apart;
  for (const auto& group : schedule.groups) apart.push_back(reduction_of(program, group) == none);
  if (std::ranges::all_of(apart, [](bool stays) { return stays; })) return;
  // What stands around such a reduction is a part of it, or behind it.
  merge_statements(schedule, apart);
  std::vector<Group> groups;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    const auto whole = group.statements[0];
    const auto stores = !apart[g] && group.statements.size() == 1
                            ? element_stores(program, program.statements[whole])
                            : std::vector<bool>();
    const auto walk = walk_of(program, program.statements[whole]);
    const auto cut = stores.empty() ? Cut() : cut_of(program.statements[whole], wanted_parts(walk));
    // What each step stores has one statement that writes it.
    const bool stored_twice = cut.rest > 0 && std::ranges::find(stores, true) != stores.end();
    if (cut.parts < 2 || stored_twice) {
      groups.push_back(group);
      continue;
    }
    Splitter splitter(program, program.statements[whole], stores, cut);
    const auto add = [&](ProgramStatement statement) {
      groups.push_back({{static_cast<uint32_t>(program.statements.size())},
                        static_cast<uint32_t>(statement.parallel_count())});
      program.statements.push_back(std::move(statement));
    };
    ledger.add({"split",
                origin_names(program.statements[whole]),
                {},
                "split",
                {},
                fmt::format("{} parts of {}{}", cut.parts,
                            walk.rows / (cut.parts * cut.steps + cut.rest) * cut.steps,
                            cut.rest > 0 ? fmt::format(", and {} more", cut.rest) : ""),
                static_cast<double>(walk.points)});
    add(splitter.part(false));
    if (cut.rest > 0) add(splitter.part(true));
    add(splitter.combined());
  }
  schedule.groups = std::move(groups);
  number_by_group(schedule);
}

}  // namespace ferrite::core::schedule
