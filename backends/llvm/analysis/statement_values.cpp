// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "backends/llvm/analysis/statement_values.h"

namespace ferrite::emitter {
namespace {

using loop::none;

/// The element number of an access without the buffer's offset; nullopt for a packed buffer.
std::optional<index::Expr> element_number(loop::Kernel& kernel, loop::BufferId id,
                                          std::span<const index::Expr> index) {
  const auto& buffer = kernel.buffers[id];
  if (buffer.packing || buffer.strides.size() != index.size()) return std::nullopt;
  std::vector<index::Term> terms;
  for (size_t d = 0; d < index.size(); ++d)
    if (buffer.strides[d] != 0) terms.push_back({index[d], buffer.strides[d]});
  return kernel.pool.linear(0, terms);
}

/// Whether a later statement iterates over exactly the parallel variables of the first; collects the
/// renaming.
bool same_variables(index::Pool& pool, const loop::Statement& first, const loop::Statement& later,
                    Replacements& renaming) {
  const size_t count = first.parallel_count();
  if (later.vars.size() != count || later.parallel_count() != count) return false;
  for (size_t v = 0; v < count; ++v) {
    if (later.vars[v].extent != first.vars[v].extent) return false;
    if (later.vars[v].symbol != first.vars[v].symbol)
      renaming.emplace_back(later.vars[v].symbol, pool.symbol(first.vars[v].symbol));
  }
  return true;
}

}  // namespace

void make_addresses(loop::Kernel& kernel, loop::Statement& statement) {
  for (auto& op : statement.ops)
    if (op.code == FE_OP_LOAD)
      if (auto address = element_number(kernel, op.buffer, op.index)) op.index = {*address};
  for (auto& store : statement.stores)
    if (auto address = element_number(kernel, store.buffer, store.index)) store.index = {*address};
}

std::optional<MergedStatement> merge_statements(loop::Kernel& kernel) {
  if (kernel.statements.empty() || kernel.statements[0].kind != FE_STATEMENT_CONTRACT) return std::nullopt;
  MergedStatement merged{kernel.statements[0], {}};
  auto& all = merged.statement;
  if (all.reductions.size() != 1 || !all.carries.empty()) return std::nullopt;
  make_addresses(kernel, all);

  for (size_t s = 1; s < kernel.statements.size(); ++s) {
    loop::Statement later = kernel.statements[s];
    Replacements renaming;
    if (later.kind != FE_STATEMENT_MAP || !later.reductions.empty() || !later.carries.empty())
      return std::nullopt;
    if (!same_variables(kernel.pool, all, later, renaming)) return std::nullopt;
    if (!renaming.empty()) substitute(later, kernel.pool, renaming);
    make_addresses(kernel, later);

    const auto base = static_cast<loop::OpId>(all.ops.size());
    for (auto& op : later.ops) {
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != none) *operand += base;
      if (op.code == FE_OP_LOAD && kernel.buffers[op.buffer].kind != FE_BUFFER_INPUT &&
          kernel.buffers[op.buffer].kind != FE_BUFFER_CONSTANT) {
        const loop::Store* source = nullptr;
        // The last store wins, as in memory.
        for (const auto& store : all.stores)
          if (store.buffer == op.buffer) source = &store;
        if (source) {
          // A value can be forwarded only if the load reads exactly the element that this point stored.
          const bool same_place = source->mask == none && source->mode == FE_STORE_SET && op.a == none &&
                                  source->index == op.index;
          if (!same_place) return std::nullopt;
          const auto load = static_cast<loop::OpId>(all.ops.size());
          merged.forwards.push_back({load, source->value});
        } else if (kernel.buffers[op.buffer].kind == FE_BUFFER_LOCAL) {
          return std::nullopt;
        }
      }
      all.ops.push_back(op);
    }
    for (auto store : later.stores) {
      store.value += base;
      if (store.mask != none) store.mask += base;
      all.stores.push_back(store);
    }
  }
  // All loads of LOCALs are forwards now, so nothing reads these stores.
  std::erase_if(all.stores,
                [&](const auto& store) { return kernel.buffers[store.buffer].kind == FE_BUFFER_LOCAL; });
  return merged;
}

void flatten_buffers(loop::Kernel& kernel) {
  for (auto& buffer : kernel.buffers) {
    if (buffer.packing) continue;
    buffer.dims = {buffer.extent() - buffer.offset};
    if (buffer.dims[0] < 0) buffer.dims[0] = 0;
    buffer.strides = {1};
  }
}

std::vector<bool> needed_operations(const loop::Statement& statement, index::Pool& pool,
                                    std::span<const loop::OpId> roots) {
  std::vector<bool> needed(statement.ops.size());
  for (auto root : roots)
    if (root != none) needed[root] = true;
  for (size_t k = statement.ops.size(); k-- > 0;) {
    if (!needed[k]) continue;
    const auto& op = statement.ops[k];
    for (auto operand : {op.a, op.b, op.c})
      if (operand != none) needed[operand] = true;
    for (size_t j = 0; j < k; ++j)
      // An INDIRECT operation is an operand through its symbol in an index, not through a number.
      if (statement.ops[j].code == FE_OP_INDIRECT)
        for (auto expr : op.index)
          if (pool.depends_on(expr, statement.ops[j].symbol)) needed[j] = true;
  }
  return needed;
}

std::vector<bool> stored_operations(const loop::Statement& statement, index::Pool& pool,
                                    std::span<const Forward> forwards) {
  std::vector<loop::OpId> roots;
  for (const auto& forward : forwards) roots.push_back(forward.source);
  for (const auto& store : statement.stores) {
    roots.push_back(store.value);
    roots.push_back(store.mask);
    for (size_t k = 0; k < statement.ops.size(); ++k)
      if (statement.ops[k].code == FE_OP_INDIRECT)
        for (auto expr : store.index)
          if (pool.depends_on(expr, statement.ops[k].symbol)) roots.push_back(static_cast<loop::OpId>(k));
  }
  return needed_operations(statement, pool, roots);
}

bool depends_on(const loop::Statement& statement, index::Pool& pool, const std::vector<bool>& needed,
                index::Symbol symbol) {
  for (size_t k = 0; k < statement.ops.size(); ++k) {
    if (!needed[k]) continue;
    for (auto expr : statement.ops[k].index)
      if (pool.depends_on(expr, symbol)) return true;
  }
  return false;
}

loop::Statement keep_operations(const loop::Statement& statement, const std::vector<bool>& needed,
                                bool with_stores) {
  loop::Statement kept = statement;
  for (size_t k = 0; k < kept.ops.size(); ++k) {
    if (needed[k]) continue;
    kept.ops[k] = {};
    kept.ops[k].code = FE_OP_CONSTANT;
    kept.ops[k].dtype = DType::f32_;
  }
  if (!with_stores) kept.stores.clear();
  return kept;
}

void substitute(loop::Statement& statement, index::Pool& pool, const Replacements& replacements) {
  for (auto& op : statement.ops)
    for (auto& expr : op.index) expr = pool.substitute(expr, replacements);
  for (auto& store : statement.stores)
    for (auto& expr : store.index) expr = pool.substitute(expr, replacements);
}

void expand_axis(index::Pool& pool, const Axis& axis, index::Expr flat, Replacements& replacements) {
  int64_t stride = 1;
  for (size_t v = axis.vars.size(); v-- > 0;) {
    const auto& var = axis.vars[v];
    auto value = stride == 1 ? flat : pool.floordiv(flat, stride);
    if (v > 0) value = pool.mod(value, var.extent);
    replacements.emplace_back(var.symbol, value);
    stride *= var.extent;
  }
}

Axis make_axis(index::Pool& pool, std::vector<loop::Var> vars) {
  Axis axis;
  for (const auto& var : vars) axis.extent *= var.extent;
  axis.vars = std::move(vars);
  // A single variable is its own flat coordinate.
  axis.symbol = axis.vars.size() == 1 ? axis.vars[0].symbol : pool.new_symbol({0, axis.extent - 1});
  return axis;
}

bool widens_float(const loop::Statement& statement, const loop::BodyOp& cast) {
  const auto from = statement.ops[cast.a].dtype;
  return is_float(cast.dtype) && is_float(from) && bits_of(cast.dtype) > bits_of(from);
}

}  // namespace ferrite::emitter
