// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/select/pack.h"

#include <algorithm>
#include <cmath>

#include "core/ir/loop/scalar.h"
#include "core/schedule/body.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::select {

using namespace ferrite::core::loop;
using ferrite::loop::Packing;

namespace {

/// The layout's expressions over new symbols of `pool`, one for each packed dim. FE-K21 for a malformed one.
Result<Packing> import_packing(const OperandLayout& layout, index::Pool& pool) {
  auto malformed = [] { return error(FE_EINTERNAL, "FE-K21", "the provider's operand layout is malformed"); };
  Packing packing;
  packing.dims = layout.dims;
  for (int64_t dim : layout.dims) {
    if (dim < 1) return malformed();
    packing.symbols.push_back(pool.new_symbol({0, dim - 1}));
  }
  if (layout.terms > 0) {
    packing.terms = layout.terms;
    if (layout.terms > FE_MOST_TERMS || layout.factor_dim >= layout.dims.size() ||
        layout.dims[layout.factor_dim] > FE_MOST_TERMS ||
        layout.factors.size() != static_cast<size_t>(layout.dims[layout.factor_dim]) * layout.terms ||
        !std::ranges::all_of(layout.factors, [](double factor) { return std::isfinite(factor); }))
      return malformed();
    packing.symbols.push_back(pool.new_symbol({0, packing.terms - 1}));
  }
  std::vector<index::Expr> exprs;
  for (const auto& e : layout.exprs) {
    auto operand = [&](uint32_t k) { return k < exprs.size() ? exprs[k] : index::Expr{}; };
    index::Expr a, b, result;
    if (e.op == FE_INDEX_CONSTANT) {
      result = pool.constant(e.value);
    } else if (e.op == 1) {
      if (e.value < 0 || static_cast<size_t>(e.value) >= packing.symbols.size()) return malformed();
      result = pool.symbol(packing.symbols[static_cast<size_t>(e.value)]);
    } else {
      a = operand(e.lhs);
      b = operand(e.rhs);
      if (!a || !b) return malformed();
      auto range = pool.range(b);
      bool divides = e.op == FE_INDEX_FLOORDIV || e.op == FE_INDEX_MOD;
      if (divides && range.lo <= 0 && range.hi >= 0) return malformed();
      switch (e.op) {
        case FE_INDEX_ADD: result = pool.add(a, b); break;
        case FE_INDEX_MUL: result = pool.mul(a, b); break;
        case FE_INDEX_FLOORDIV: result = pool.floordiv(a, b); break;
        case FE_INDEX_MOD: result = pool.mod(a, b); break;
        case FE_INDEX_MIN: result = pool.min(a, b); break;
        case FE_INDEX_MAX: result = pool.max(a, b); break;
        default: return malformed();
      }
    }
    exprs.push_back(result);
  }
  for (uint32_t number : layout.unpack) {
    if (number >= exprs.size()) return malformed();
    packing.logical.push_back(exprs[number]);
    if (layout.terms > 0 && pool.depends_on(exprs[number], packing.symbols[layout.factor_dim]))
      return malformed();
  }
  return packing;
}

/// Builds the body of a packing kernel.
class PackWriter {
 public:
  PackWriter(Kernel& kernel, const Buffer& source, const Packing& packing)
      : pool_(kernel.pool), source_(source), packing_(packing), body_(kernel.pool) {}

  /// The source element for the packed coordinates; 0 outside of the source.
  OpId element(const schedule::Substitution& term) {
    BodyOp load;
    load.code = FE_OP_LOAD;
    load.dtype = source_.dtype;
    load.buffer = 0;
    for (size_t d = 0; d < packing_.logical.size(); ++d) {
      auto coordinate = pool_.substitute(packing_.logical[d], term);
      load.index.push_back(coordinate);
      auto range = pool_.range(coordinate);
      auto require = [&](Prim comparison, int64_t bound) {
        BodyOp value;
        value.code = FE_OP_INDEX;
        value.dtype = DType::i64_;
        value.index = {coordinate};
        OpId inside = body_.prim(comparison, DType::bool_, body_.builder.add(std::move(value)),
                                 body_.builder.constant(DType::i64_, static_cast<uint64_t>(bound)));
        load.a = load.a == none ? inside : body_.prim(Prim::and_, DType::bool_, load.a, inside);
      };
      if (range.lo < 0) require(Prim::ge_, 0);
      if (range.hi >= source_.dims[d]) require(Prim::lt_, source_.dims[d]);
    }
    if (load.a != none) load.b = body_.builder.constant(source_.dtype, 0);
    return body_.builder.add(std::move(load));
  }

  /// One sum for each coordinate of the factor dim.
  std::vector<OpId> sums(const OperandLayout& layout) {
    // Sums are computed in a wider type, where there is one, and rounded once.
    const DType wide = bits_of(source_.dtype) < 32 ? DType::f32_ : DType::f64_;
    std::vector<OpId> elements, sums;
    for (int64_t t = 0; t < packing_.terms; ++t) {
      const auto loaded = element({{packing_.symbols.back(), pool_.constant(t)}});
      elements.push_back(source_.dtype == wide ? loaded : body_.prim(Prim::cast_, wide, loaded));
    }
    for (size_t from = 0; from < layout.factors.size(); from += elements.size()) {
      OpId sum = none;
      for (size_t t = 0; t < elements.size(); ++t) {
        const double factor = layout.factors[from + t];
        if (factor == 0) continue;
        const auto term =
            factor == 1 ? elements[t] : body_.prim(Prim::mul_, wide, elements[t], number(wide, factor));
        sum = sum == none ? term : body_.prim(Prim::add_, wide, sum, term);
      }
      if (sum == none) sum = number(wide, 0);
      sums.push_back(source_.dtype == wide ? sum : body_.prim(Prim::cast_, source_.dtype, sum));
    }
    return sums;
  }

  std::vector<BodyOp> take() { return std::move(body_.ops); }

 private:
  OpId number(DType dtype, double value) {
    return body_.builder.constant(dtype, loop::scalar::float_bits(dtype, value));
  }

  index::Pool& pool_;
  const Buffer& source_;
  const Packing& packing_;
  schedule::BodyWriter body_;
};

}  // namespace

OperandLayout copy_layout(const fe_operand_layout& layout) {
  OperandLayout copy;
  copy.buffer = layout.buffer;
  copy.dims.assign(layout.packed_dims, layout.packed_dims + layout.packed_rank);
  copy.exprs.assign(layout.exprs, layout.exprs + layout.expr_count);
  // The host knows the buffer's rank; the provider gives one number for each logical dim.
  if (layout.unpack) copy.unpack.assign(layout.unpack, layout.unpack + layout.logical_rank);
  copy.terms = layout.term_count;
  copy.factor_dim = layout.factor_dim;
  if (abi::readable<double>(layout.factors))
    for (uint64_t k = 0; k < layout.factors.count; ++k)
      copy.factors.push_back(abi::element<double>(layout.factors, k));
  return copy;
}

Result<void> lay_out(Kernel& kernel, const OperandLayout& layout) {
  const auto is_read_only = [](uint32_t kind) {
    return kind == FE_BUFFER_CONSTANT || kind == FE_BUFFER_INPUT;
  };
  if (layout.buffer >= kernel.buffers.size() || !is_read_only(kernel.buffers[layout.buffer].kind) ||
      layout.unpack.size() != kernel.buffers[layout.buffer].dims.size() ||
      (layout.terms > 0 && !ferrite::is_float(kernel.buffers[layout.buffer].dtype)))
    return error(FE_EINTERNAL, "FE-K21",
                 "the provider requests a layout for a buffer that is no operand of the kernel");
  auto& buffer = kernel.buffers[layout.buffer];
  FE_TRY(buffer.packing, import_packing(layout, kernel.pool));
  buffer.strides.clear();
  buffer.offset = 0;
  return {};
}

Result<Kernel> make_pack_kernel(const Buffer& source, const OperandLayout& layout) {
  Kernel kernel;
  FE_TRY(auto packing, import_packing(layout, kernel.pool));
  Buffer from = source;
  from.kind = FE_BUFFER_INPUT;
  from.name.clear();
  Buffer to;
  to.dtype = source.dtype;
  to.kind = FE_BUFFER_OUTPUT;
  to.dims = packing.dims;
  to.strides = ferrite::loop::contiguous_strides(to.dims);

  Statement statement;
  statement.kind = FE_STATEMENT_MAP;
  Store store;
  store.buffer = 1;
  for (size_t k = 0; k < packing.dims.size(); ++k) {
    const bool by_factors = packing.terms > 0 && k == layout.factor_dim;
    if (packing.dims[k] > 1 && !by_factors)
      statement.vars.push_back({packing.symbols[k], packing.dims[k], VarKind::parallel});
    store.index.push_back(kernel.pool.symbol(packing.symbols[k]));
  }
  PackWriter body(kernel, source, packing);
  if (packing.terms == 0) {
    store.value = body.element({});
    statement.stores.push_back(std::move(store));
  } else {
    for (const auto sum : body.sums(layout)) {
      store.index[layout.factor_dim] = kernel.pool.constant(static_cast<int64_t>(statement.stores.size()));
      store.value = sum;
      statement.stores.push_back(store);
    }
  }
  statement.ops = body.take();
  kernel.shared = static_cast<uint32_t>(statement.vars.size());
  kernel.buffers = {std::move(from), std::move(to)};
  kernel.statements.push_back(std::move(statement));
  return kernel;
}

}  // namespace ferrite::core::select
