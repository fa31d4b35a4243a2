// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/kernel/flatten.h"

#include "core/ir/kernel/legalise.h"
#include "core/ir/loop/verify.h"
#include "core/support/abi/flat_container.h"
#include "ferrite/abi/kernel.h"

namespace ferrite::core::kernel {
namespace {

using namespace ferrite::loop;

/// Fills the section tables from a canonical kernel.
class Writer {
 public:
  explicit Writer(const Kernel& kernel) : kernel_(kernel) {
    for (const auto& s : kernel.statements) statement(s);
    for (const auto& b : kernel.buffers) buffer(b);
    std::vector<index::Record> records;
    // Only after all statements and buffers have named their expressions; shared ones are written once.
    const auto positions = kernel.pool.write_records(roots_, records);
    indices_.assign(positions.begin(), positions.end());
    for (const auto& record : records) exprs_.push_back({record.op, 0, record.value, record.lhs, record.rhs});
    for (index::Symbol s = 0; s < kernel.pool.symbol_count(); ++s) {
      const auto range = kernel.pool.symbol_range(s);
      symbols_.push_back({range.lo, range.hi, kernel.pool.symbol_divisor(s)});
    }
  }

  FlatContainer container(std::string_view provenance) const {
    FlatContainer container;
    container.add(FE_SECTION_KERNEL, true,
                  std::vector<fe_flat_kernel>{{kernel_.shared, 0, kernel_.numerics, 0}});
    container.add(FE_SECTION_SYMBOLS, true, symbols_);
    container.add(FE_SECTION_EXPRS, true, exprs_);
    container.add(FE_SECTION_BUFFERS, true, buffers_);
    container.add(FE_SECTION_INTS, true, ints_);
    container.add(FE_SECTION_STATEMENTS, true, statements_);
    container.add(FE_SECTION_VARS, true, vars_);
    container.add(FE_SECTION_OPS, true, ops_);
    container.add(FE_SECTION_INDICES, true, indices_);
    container.add(FE_SECTION_REDUCTIONS, true, reductions_);
    container.add(FE_SECTION_CARRIES, true, carries_);
    container.add(FE_SECTION_STORES, true, stores_);
    if (!provenance.empty())
      container.add(FE_SECTION_PROVENANCE, false, std::vector<char>(provenance.begin(), provenance.end()));
    return container;
  }

 private:
  uint32_t ints(std::span<const int64_t> values) {
    const auto first = static_cast<uint32_t>(ints_.size());
    ints_.insert(ints_.end(), values.begin(), values.end());
    return first;
  }
  /// Appends the expressions to INDICES; returns the position of the first one.
  uint32_t index(std::span<const index::Expr> list) {
    const auto first = static_cast<uint32_t>(roots_.size());
    roots_.insert(roots_.end(), list.begin(), list.end());
    return first;
  }

  void buffer(const Buffer& b) {
    fe_flat_buffer flat{};
    flat.dtype = static_cast<fe_dtype>(b.dtype);
    flat.kind = static_cast<uint16_t>(b.kind);
    flat.rank = static_cast<uint32_t>(b.dims.size());
    flat.alignment = b.alignment;
    flat.dims = ints(b.dims);
    flat.offset = b.offset;
    if (b.packing) {
      flat.layout = FE_LAYOUT_BLOCKED;
      flat.strides = FE_NONE32;
      flat.packed_rank = static_cast<uint32_t>(b.packing->dims.size());
      flat.packed_dims = ints(b.packing->dims);
      flat.terms = static_cast<uint16_t>(b.packing->terms);
      flat.unpack = index(b.packing->logical);
      flat.packed_symbol = b.packing->symbols.empty() ? 0 : b.packing->symbols[0];
    } else {
      flat.layout = FE_LAYOUT_STRIDED;
      flat.strides = ints(b.strides);
    }
    buffers_.push_back(flat);
  }

  template <class T>
  static uint32_t size(const std::vector<T>& list) {
    return static_cast<uint32_t>(list.size());
  }

  void statement(const Statement& s) {
    fe_flat_statement flat{};
    flat.kind = s.kind;
    flat.contract_kind = s.contract_kind;
    flat.vars = size(vars_), flat.var_count = size(s.vars);
    flat.ops = size(ops_), flat.op_count = size(s.ops);
    flat.reductions = size(reductions_), flat.reduction_count = size(s.reductions);
    flat.carries = size(carries_), flat.carry_count = size(s.carries);
    flat.stores = size(stores_), flat.store_count = size(s.stores);
    flat.contract_a = s.contract_a, flat.contract_b = s.contract_b;
    statements_.push_back(flat);
    for (const auto& var : s.vars) vars_.push_back({var.extent, var.symbol, static_cast<uint32_t>(var.kind)});
    for (const auto& op : s.ops) {
      fe_flat_op to{};
      to.code = op.code;
      to.dtype = static_cast<fe_dtype>(op.dtype);
      to.flags = op.flags;
      to.a = op.a, to.b = op.b, to.c = op.c;
      to.buffer = op.buffer;
      to.index = index(op.index), to.index_count = size(op.index);
      to.symbol = op.symbol;
      to.bits = op.bits;
      ops_.push_back(to);
    }
    for (const auto& r : s.reductions)
      reductions_.push_back({r.kind, r.element, r.index, static_cast<fe_dtype>(r.accumulator), 0});
    for (const auto& c : s.carries)
      carries_.push_back({c.init_bits, c.next, static_cast<fe_dtype>(c.dtype), 0});
    for (const auto& store : s.stores) {
      const uint32_t first = index(store.index);
      stores_.push_back({store.buffer, store.value, store.mask, store.mode, first, size(store.index)});
    }
  }

  const Kernel& kernel_;
  std::vector<index::Expr> roots_;
  std::vector<fe_flat_symbol> symbols_;
  std::vector<fe_flat_expr> exprs_;
  std::vector<fe_flat_buffer> buffers_;
  std::vector<int64_t> ints_;
  std::vector<fe_flat_statement> statements_;
  std::vector<fe_flat_var> vars_;
  std::vector<fe_flat_op> ops_;
  std::vector<uint32_t> indices_;
  std::vector<fe_flat_reduction> reductions_;
  std::vector<fe_flat_carry> carries_;
  std::vector<fe_flat_store> stores_;
};

}  // namespace

Result<FlatKernel> flatten(const Kernel& kernel, std::string_view provenance) {
  FE_CHECK(loop::verify(kernel));
  FlatKernel result;
  // Equal kernels get equal bytes, and so one entry in caches and locks.
  const Kernel canonical_kernel = canonical(kernel, result.buffers);
  FlatContainer container = Writer(canonical_kernel).container(provenance);
  result.entry = container.entry();
  result.bytes = container.bytes(FE_FLAT_KERNEL, features_of(canonical_kernel));
  return result;
}

}  // namespace ferrite::core::kernel
