// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/rewrites/parallel_scatter.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/ir/loop/scalar.h"
#include "core/schedule/body.h"
#include "ferrite/analysis/stores_apart.hpp"

namespace ferrite::core::schedule {
namespace {

/// The most numbered elements for each update: all of them take memory, and all are filled and read.
constexpr int64_t most_places = 32;

/// Whether the operation reports a wrong index.
bool checks(const BodyOp& op) {
  return op.code == FE_OP_INDIRECT && (op.flags == FE_INDIRECT_WRAP || op.flags == FE_INDIRECT_CHECK);
}

bool depends_on(const LoopProgram& program, const std::vector<index::Expr>& index, index::Symbol symbol) {
  return std::ranges::any_of(index, [&](index::Expr expr) { return program.pool.depends_on(expr, symbol); });
}

/// The scatter that finds the last update of each element.
struct Numbering {
  ProgramStatement statement;   ///< its store has no buffer yet
  int64_t updates = 1;          ///< the number of different updates: points that may store to one element
  std::vector<size_t> walks;    ///< by variable of the original: the dim that it walks in full; else none
  std::vector<bool> has_place;  ///< by dim of the updated buffer: whether the numbering needs it
  std::vector<int64_t> dims;    ///< the dims of the buffer of numbers

  DType dtype() const { return statement.ops[statement.stores[0].value].dtype; }
  int64_t places() const {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    return count;
  }
  int64_t bytes() const { return places() * bits_of(dtype()) / 8; }
};

/// By variable of a scatter, the dim whose coordinate it is, over the dim's whole extent; else none. Points
/// that differ in such a variable never store to the same element, and the element's coordinate gives the
/// variable's value.
std::vector<size_t> walked_dims(const LoopProgram& program, const Statement& whole) {
  const auto& store = whole.stores[0];
  std::vector<size_t> result;
  for (const auto& var : whole.vars) {
    size_t d = 0;
    while (d < store.index.size() && (program.pool.as_symbol(store.index[d]) != var.symbol ||
                                      program.buffers[store.buffer].dims[d] != var.extent))
      ++d;
    result.push_back(d < store.index.size() ? d : none);
  }
  return result;
}

/// Turn this: scatter (i, j) { store @a[$k(i), j] = f(i, j) }
/// into this: scatter (i) { store max @numbers[$k(i)] = i }
/// A variable that walks a dim is left out where neither other coordinates nor the mask depend on it.
std::optional<Numbering> numbering_of(LoopProgram& program, const ProgramStatement& whole) {
  if (whole.kind != FE_STATEMENT_SCATTER || whole.stores.size() != 1 ||
      whole.stores[0].mode != FE_STORE_SET || !whole.reductions.empty() ||
      whole.parallel_count() != whole.vars.size())
    return std::nullopt;
  const BufferId changed = program.storage(whole.stores[0].buffer);
  // An update that reads the buffer depends on the updates before it.
  for (const auto& op : whole.ops)
    if (op.code == FE_OP_LOAD && program.storage(op.buffer) == changed) return std::nullopt;
  Numbering result{.statement = whole, .walks = walked_dims(program, whole), .has_place = {}, .dims = {}};
  auto& statement = result.statement;
  std::vector<index::Term> terms;
  for (size_t k = whole.vars.size(); k-- > 0;) {
    if (result.walks[k] != none) continue;
    terms.push_back({program.pool.symbol(whole.vars[k].symbol), result.updates});
    result.updates *= whole.vars[k].extent;
  }
  BodyOp number;
  number.code = FE_OP_INDEX;
  number.dtype = result.updates <= int64_t{1} << 31 ? DType::i32_ : DType::i64_;
  number.index = {program.pool.linear(0, terms)};
  auto& store = statement.stores[0];
  store.value = BodyBuilder(program.pool, statement.ops).add(std::move(number));
  store.mode = FE_STORE_MAX;
  remove_dead(program.pool, statement);
  // A wrong index must be reported even in an update that is overwritten, so no check may have been removed.
  if (std::ranges::count_if(statement.ops, checks) != std::ranges::count_if(whole.ops, checks))
    return std::nullopt;
  result.has_place.assign(store.index.size(), true);
  for (size_t k = 0; k < whole.vars.size(); ++k) {
    if (result.walks[k] == none) continue;
    const auto symbol = whole.vars[k].symbol;
    auto others = store.index;
    others.erase(others.begin() + static_cast<ptrdiff_t>(result.walks[k]));
    result.has_place[result.walks[k]] =
        depends_on(program, others, symbol) || std::ranges::any_of(statement.ops, [&](const BodyOp& op) {
          return depends_on(program, op.index, symbol);
        });
  }
  statement.vars.clear();
  for (size_t k = 0; k < whole.vars.size(); ++k)
    if (result.walks[k] == none || result.has_place[result.walks[k]]) statement.vars.push_back(whole.vars[k]);
  store.index.clear();
  for (size_t d = 0; d < result.has_place.size(); ++d) {
    if (!result.has_place[d]) continue;
    store.index.push_back(whole.stores[0].index[d]);
    result.dims.push_back(program.buffers[changed].dims[d]);
  }
  return result;
}

/// The number of points of a scatter that never store to the same element, so that they run in parallel as it
/// is.
int64_t points_apart(const LoopProgram& program, const Statement& whole) {
  int64_t count = 1;
  for (size_t k = 0; k < whole.vars.size(); ++k)
    if (ferrite::loop::stores_apart(program.pool, whole, k)) count *= whole.vars[k].extent;
  return count;
}

/// Whether the serial updates of one thread take longer than two additional launches and the memory traffic
/// of three kernels.
bool pays(const LoopProgram& program, const Statement& whole, const Numbering& numbering,
          const TargetNumbers& target) {
  const int64_t points = whole.points(VarKind::parallel);
  const int64_t elements = program.buffers[whole.stores[0].buffer].elements();
  const int64_t numbered = numbering.statement.points(VarKind::parallel);
  if (points == 0 || elements == 0 || numbering.places() / most_places > numbered) return false;
  const auto operations = std::ranges::count_if(whole.ops, [](const BodyOp& op) { return op.is_prim(); });
  const int64_t chain = points / points_apart(program, whole);
  const auto in_order = static_cast<double>(chain) * static_cast<double>(target.points_in(target.ordered_ns));
  const auto touched =
      static_cast<double>(numbering.places()) +
      static_cast<double>(numbered) * static_cast<double>(target.uncoalesced) +
      static_cast<double>(elements) * static_cast<double>(target.elements_of_point(operations));
  return in_order >
         2 * static_cast<double>(target.launch_points()) + touched / static_cast<double>(target.workers);
}

/// The three statements that replace one scatter; their buffer is added to the program.
class ParallelUpdate {
 public:
  ParallelUpdate(LoopProgram& program, const ProgramStatement& whole, Numbering numbering)
      : program_(program), whole_(whole), numbering_(std::move(numbering)) {
    ProgramBuffer buffer;
    buffer.dtype = numbering_.dtype();
    buffer.kind = FE_BUFFER_OUTPUT;
    buffer.dims = numbering_.dims;
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    numbers_ = static_cast<BufferId>(program.buffers.size());
    program.buffers.push_back(std::move(buffer));
    last_ = program.add_version(numbers_);
  }

  /// Fills the numbers with -1: no element has an update.
  ProgramStatement filled() const {
    auto result = map_over(numbering_.dims);
    Store store;
    store.buffer = numbers_;
    store.index = coordinates(result);
    store.value = BodyBuilder(program_.pool, result.ops)
                      .constant(numbering_.dtype(), scalar::int_bits(numbering_.dtype(), -1));
    result.stores.push_back(std::move(store));
    return result;
  }

  ProgramStatement numbered() const {
    auto result = numbering_.statement;
    result.stores[0].buffer = last_;
    return result;
  }

  /// Computes the update of each element that has one.
  ProgramStatement updated() const {
    auto& pool = program_.pool;
    auto result = map_over(program_.buffers[whole_.stores[0].buffer].dims);
    const auto at = coordinates(result);
    BodyWriter body(pool);
    BodyOp load;
    load.code = FE_OP_LOAD;
    load.dtype = numbering_.dtype();
    load.buffer = last_;
    for (size_t d = 0; d < at.size(); ++d)
      if (numbering_.has_place[d]) load.index.push_back(at[d]);
    const OpId last = body.builder.add(std::move(load));
    const OpId exists =
        body.prim(Prim::ge_, DType::bool_, last, body.builder.constant(numbering_.dtype(), 0));
    // An element without an update computes the first one, and the mask discards it.
    BodyOp number;
    number.code = FE_OP_INDIRECT;
    number.a = last;
    number.flags = FE_INDIRECT_CLAMP;
    number.bits = static_cast<uint64_t>(numbering_.updates);
    number.symbol = pool.new_computed_symbol({0, numbering_.updates - 1});
    auto rest = pool.symbol(number.symbol);
    body.builder.add(std::move(number));
    Substitution point;
    for (size_t k = whole_.vars.size(); k-- > 0;) {
      const auto& var = whole_.vars[k];
      const bool walks = numbering_.walks[k] != none;
      point.emplace_back(var.symbol, walks ? at[numbering_.walks[k]] : pool.mod(rest, var.extent));
      if (!walks) rest = pool.floordiv(rest, var.extent);
    }
    Store store = whole_.stores[0];
    store.value = body.splice(whole_.ops, point, none, nullptr)[store.value];
    store.mask = exists;
    store.index = at;
    result.ops = std::move(body.ops);
    result.stores.push_back(std::move(store));
    remove_dead(pool, result);
    return result;
  }

 private:
  ProgramStatement map_over(const std::vector<int64_t>& dims) const {
    ProgramStatement result;
    result.origins = whole_.origins;
    for (const int64_t dim : dims)
      result.vars.push_back(
          {program_.pool.new_symbol({0, std::max<int64_t>(dim, 1) - 1}), dim, VarKind::parallel});
    return result;
  }
  std::vector<index::Expr> coordinates(const Statement& map) const {
    std::vector<index::Expr> result;
    for (const auto& var : map.vars) result.push_back(program_.pool.symbol(var.symbol));
    return result;
  }

  LoopProgram& program_;
  const ProgramStatement whole_;
  const Numbering numbering_;
  BufferId numbers_ = none, last_ = none;  ///< before and after the scatter
};

}  // namespace

void parallel_scatter(Schedule& schedule, const TargetNumbers& target, const MemoryLimit& memory,
                      Ledger& ledger) {
  if (target.ordered_ns == 0) return;
  auto& program = schedule.program;
  std::vector<Group> groups;
  std::optional<std::vector<int64_t>> live;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const auto& group = schedule.groups[g];
    const auto& whole = program.statements[group.statements[0]];
    auto numbering = numbering_of(program, whole);
    if (!numbering || !pays(program, whole, *numbering, target)) {
      groups.push_back(group);
      continue;
    }
    const auto points = whole.points(VarKind::parallel);
    if (!live) live = live_bytes(schedule);
    if (const int64_t bytes = numbering->bytes(); bytes > memory.room((*live)[g])) {
      ledger.add({"parts",
                  origin_names(whole),
                  {},
                  "not divided",
                  "memory",
                  fmt::format("the numbers of its updates would take {} bytes", bytes),
                  static_cast<double>(points)});
      groups.push_back(group);
      continue;
    }
    ledger.add({"parts",
                origin_names(whole),
                {},
                "parallel",
                {},
                fmt::format("{} points, of which {} ran at a time", points, points_apart(program, whole)),
                static_cast<double>(points)});
    const ParallelUpdate made(program, whole, std::move(*numbering));
    for (auto statement : {made.filled(), made.numbered(), made.updated()}) {
      groups.push_back({{static_cast<uint32_t>(program.statements.size())},
                        static_cast<uint32_t>(statement.parallel_count())});
      program.statements.push_back(std::move(statement));
    }
  }
  if (groups.size() == schedule.groups.size()) return;
  schedule.groups = std::move(groups);
  number_by_group(schedule);
}

}  // namespace ferrite::core::schedule
