// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/pack.h"

#include "core/schedule/body.h"

namespace ferrite::core::run {

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
  }
  return packing;
}

}  // namespace

OperandLayout copy_layout(const fe_operand_layout& layout) {
  OperandLayout copy;
  copy.buffer = layout.buffer;
  copy.dims.assign(layout.packed_dims, layout.packed_dims + layout.packed_rank);
  copy.exprs.assign(layout.exprs, layout.exprs + layout.expr_count);
  // The rank of the buffer is the host's to know; the provider gives one number a logical dim.
  if (layout.unpack) copy.unpack.assign(layout.unpack, layout.unpack + layout.logical_rank);
  return copy;
}

Result<void> lay_out(Kernel& kernel, const OperandLayout& layout) {
  if (layout.buffer >= kernel.buffers.size() || kernel.buffers[layout.buffer].kind != FE_BUFFER_CONSTANT ||
      layout.unpack.size() != kernel.buffers[layout.buffer].dims.size())
    return error(FE_EINTERNAL, "FE-K21",
                 "the provider wants a layout for something that is no constant operand");
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
    if (packing.dims[k] > 1)
      statement.vars.push_back({packing.symbols[k], packing.dims[k], VarKind::parallel});
    store.index.push_back(kernel.pool.symbol(packing.symbols[k]));
  }
  schedule::BodyWriter body(kernel.pool);
  BodyOp load;
  load.code = FE_OP_LOAD;
  load.dtype = source.dtype;
  load.buffer = 0;
  for (size_t d = 0; d < packing.logical.size(); ++d) {
    auto coordinate = packing.logical[d];
    load.index.push_back(coordinate);
    auto range = kernel.pool.range(coordinate);
    auto require = [&](Prim comparison, int64_t bound) {
      BodyOp value;
      value.code = FE_OP_INDEX;
      value.dtype = DType::i64_;
      value.index = {coordinate};
      OpId inside = body.prim(comparison, DType::bool_, body.builder.add(std::move(value)),
                              body.builder.constant(DType::i64_, static_cast<uint64_t>(bound)));
      load.a = load.a == none ? inside : body.prim(Prim::and_, DType::bool_, load.a, inside);
    };
    if (range.lo < 0) require(Prim::ge_, 0);
    if (range.hi >= source.dims[d]) require(Prim::lt_, source.dims[d]);
  }
  if (load.a != none) load.b = body.builder.constant(source.dtype, 0);
  store.value = body.builder.add(std::move(load));
  statement.ops = std::move(body.ops);
  statement.stores.push_back(std::move(store));
  kernel.shared = static_cast<uint32_t>(statement.vars.size());
  kernel.buffers = {std::move(from), std::move(to)};
  kernel.statements.push_back(std::move(statement));
  return kernel;
}

}  // namespace ferrite::core::run
