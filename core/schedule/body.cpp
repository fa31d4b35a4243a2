// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/body.h"

#include <algorithm>
#include <ranges>

#include "core/ir/loop/index_size.h"

namespace ferrite::core::schedule {
namespace {

bool is_unchecked(const Statement& producer) {
  return std::ranges::none_of(producer.ops, [](const BodyOp& op) { return op.code == FE_OP_INDIRECT; });
}

/// Replaces the symbols that the statement's stores use and that its own operations bound by the symbols that
/// the rebuilt operations `ops` bind.
void follow_symbols(index::Pool& pool, Statement& statement, const std::vector<OpId>& numbers,
                    const std::vector<BodyOp>& ops) {
  Substitution bound;
  for (size_t k = 0; k < statement.ops.size(); ++k)
    if (statement.ops[k].code == FE_OP_INDIRECT)
      bound.emplace_back(statement.ops[k].symbol, pool.symbol(ops[numbers[k]].symbol));
  if (bound.empty()) return;
  for (auto& store : statement.stores)
    for (auto& expr : store.index) expr = pool.substitute(expr, bound);
}

/// The values of the producer's variables at which it computes the loaded element.
Substitution place_of(const LoopProgram& program, const ProgramStatement& producer, const BodyOp& load) {
  const auto& store = producer.stores[0];
  Substitution at;
  size_t next = 0;
  for (size_t d = 0; d < store.index.size() && next < producer.vars.size(); ++d)
    if (program.pool.as_symbol(store.index[d]) == producer.vars[next].symbol)
      at.emplace_back(producer.vars[next++].symbol, load.index[d]);
  return at;
}

// Limits of an index that splicing makes. Levels: a quarter of those that kernels accept, because a
// contraction composes the index once more with that of an operand, and address computations and packing add
// levels of their own. Parts: about as many as a line of text shows.
constexpr uint32_t most_levels = most_index_levels / 4, most_parts = 512;

bool is_small(const IndexSize& size) { return size.levels <= most_levels && size.parts <= most_parts; }

}  // namespace

bool is_cheap(Prim prim) {
  int cost = info_of(prim).max_ulp;
  return cost == 0 && prim != Prim::div_ && prim != Prim::mod_ && prim != Prim::rem_;
}

OpId BodyWriter::prim(Prim prim, DType dtype, OpId a, OpId b, OpId c) {
  BodyOp op;
  op.code = static_cast<uint16_t>(prim);
  op.dtype = dtype;
  op.a = a;
  op.b = b;
  op.c = c;
  return builder.add(std::move(op));
}

std::vector<OpId> BodyWriter::splice(const std::vector<BodyOp>& source, Substitution substitution, OpId mask,
                                     const Replace& replace) {
  std::vector<OpId> numbers(source.size(), none);
  auto translate = [&](OpId id) { return id == none ? none : numbers[id]; };
  for (size_t k = 0; k < source.size(); ++k) {
    BodyOp op = source[k];
    op.a = translate(op.a);
    op.b = translate(op.b);
    op.c = translate(op.c);
    if (!substitution.empty())
      for (auto& expr : op.index) expr = pool.substitute(expr, substitution);
    if (op.code == FE_OP_LOAD) {
      if (mask != none) {
        // A load without a mask of its own gives 0 where the new mask is false; the caller selects the right
        // value.
        op.b = op.a == none ? builder.constant(op.dtype, 0) : op.b;
        op.a = op.a == none ? mask : prim(Prim::and_, DType::bool_, mask, op.a);
      }
      if (auto other = replace ? replace(op) : std::nullopt) {
        numbers[k] = *other;
        continue;
      }
    }
    if (op.code == FE_OP_INDIRECT) {
      // Another copy of the body may already have bound this symbol to another value.
      index::Symbol old = op.symbol;
      op.symbol = pool.new_computed_symbol(pool.symbol_range(old));
      numbers[k] = builder.add(std::move(op));
      substitution.emplace_back(old, pool.symbol(ops[numbers[k]].symbol));
      continue;
    }
    numbers[k] = builder.add(std::move(op));
  }
  return numbers;
}

void renumber(Statement& statement, const std::vector<OpId>& numbers) {
  auto translate = [&](OpId& id) { id = id == none ? none : numbers[id]; };
  for (auto& reduction : statement.reductions) {
    translate(reduction.element);
    translate(reduction.index);
  }
  for (auto& carry : statement.carries) translate(carry.next);
  for (auto& store : statement.stores) {
    translate(store.value);
    translate(store.mask);
  }
  translate(statement.contract_a);
  translate(statement.contract_b);
}

bool stores_identity(const LoopProgram& program, const Statement& statement) {
  const auto& store = statement.stores[0];
  const auto& buffer = program.buffers[store.buffer];
  size_t next = 0;
  for (size_t d = 0; d < store.index.size(); ++d) {
    auto symbol = program.pool.as_symbol(store.index[d]);
    if (symbol && next < statement.vars.size() && statement.vars[next].symbol == *symbol &&
        statement.vars[next].extent == buffer.dims[d]) {
      ++next;
      continue;
    }
    auto constant = program.pool.as_constant(store.index[d]);
    if (!constant || *constant != 0 || buffer.dims[d] != 1) return false;
  }
  return next == statement.vars.size();
}

bool picks_in_size_one(const LoopProgram& program, const BodyOp& load) {
  const auto& dims = program.buffers[program.storage(load.buffer)].dims;
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] == 1 && !program.pool.as_constant(load.index[d])) return true;
  return false;
}

bool index_grows_too_large(LoopProgram& program, const ProgramStatement& reader,
                           const ProgramStatement& producer) {
  const BufferId storage = program.storage(producer.stores[0].buffer);
  const auto grows = [&](const BodyOp& load) {
    const auto at = place_of(program, producer, load);
    IndexSize outer;
    for (const auto& [symbol, expr] : at) {
      const auto size = size_of(program.pool, expr);
      outer = {std::max(outer.levels, size.levels), std::max(outer.parts, size.parts)};
    }
    const auto too_large = [&](index::Expr expr) {
      const auto inner = size_of(program.pool, expr);
      // Most indices are small whatever the simplifier does; the exact check, which builds the index, is
      // expensive.
      if (uint64_t{inner.parts} * outer.parts <= most_parts && is_small({inner.levels + outer.levels, 1}))
        return false;
      return !is_small(size_of(program.pool, program.pool.substitute(expr, at)));
    };
    return std::ranges::any_of(producer.ops,
                               [&](const BodyOp& op) { return std::ranges::any_of(op.index, too_large); });
  };
  return std::ranges::any_of(reader.ops, [&](const BodyOp& op) {
    return op.code == FE_OP_LOAD && program.storage(op.buffer) == storage && grows(op);
  });
}

int64_t executions(const Statement& statement) {
  int64_t count = 1;
  for (const auto& var : statement.vars) count *= std::max<int64_t>(1, var.extent);
  return count;
}

int64_t products_of(const LoopProgram& program, const Statement& contract, const BodyOp& operand) {
  int64_t count = 1;
  for (const auto& var : contract.vars)
    if (std::ranges::none_of(operand.index,
                             [&](index::Expr at) { return program.pool.depends_on(at, var.symbol); }))
      count *= std::max<int64_t>(1, var.extent);
  return count;
}

int64_t loaded_bytes(const LoopProgram& program, const Statement& map) {
  const int64_t points = map.points(VarKind::parallel);
  int64_t bytes = 0;
  for (const auto& op : map.ops)
    if (op.code == FE_OP_LOAD)
      bytes += std::min(program.buffers[op.buffer].elements(), points) * bits_of(op.dtype) / 8;
  return bytes;
}

void splice_into(LoopProgram& program, ProgramStatement& reader, const ProgramStatement& producer) {
  const auto& store = producer.stores[0];
  const auto& value = producer.ops[store.value];
  const BufferId storage = program.storage(store.buffer);
  BodyWriter body(program.pool);
  auto numbers = body.splice(reader.ops, {}, none, [&](const BodyOp& load) -> std::optional<OpId> {
    if (program.storage(load.buffer) != storage) return std::nullopt;
    const auto at = place_of(program, producer, load);
    // A pure view keeps the load's mask on the load itself, which saves a select. It must have no INDIRECT,
    // whose operations would have to be spliced too.
    if (value.code == FE_OP_LOAD && value.a == none && load.a != none && is_unchecked(producer)) {
      BodyOp view = value;
      for (auto& expr : view.index) expr = program.pool.substitute(expr, at);
      view.a = load.a;
      view.b = load.b;
      return body.builder.add(std::move(view));
    }
    auto inner = body.splice(producer.ops, at, load.a, nullptr);
    OpId result = inner[store.value];
    return load.a == none ? result : body.prim(Prim::where_, load.dtype, load.a, result, load.b);
  });
  follow_symbols(program.pool, reader, numbers, body.ops);
  reader.ops = std::move(body.ops);
  renumber(reader, numbers);
  remove_dead(program.pool, reader);
  // Origins stay in the order of the model: those of the producer come first.
  for (const auto& origin : producer.origins | std::views::reverse)
    if (std::find(reader.origins.begin(), reader.origins.end(), origin) == reader.origins.end())
      reader.origins.insert(reader.origins.begin(), origin);
}

void take_narrow_operands(Statement& contract) {
  const auto widens = [&](const BodyOp& op) {
    return op.is_prim() && op.prim() == Prim::cast_ && is_float(op.dtype) &&
           is_float(contract.ops[op.a].dtype) && bits_of(op.dtype) > bits_of(contract.ops[op.a].dtype);
  };
  for (auto* operand : {&contract.contract_a, &contract.contract_b}) {
    OpId load = *operand;
    while (widens(contract.ops[load])) load = contract.ops[load].a;
    if (contract.ops[load].code == FE_OP_LOAD) *operand = load;
  }
}

}  // namespace ferrite::core::schedule
