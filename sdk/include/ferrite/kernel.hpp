// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads the flat form of a kernel (abi/kernel.h). Safe for untrusted bytes: everything is checked, and memory
// use is at most a constant times their number.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/flat.hpp"
#include "ferrite/loop.hpp"
#include "ferrite/loop_check.hpp"

namespace ferrite::inline v0 {
namespace detail {

class KernelReader : FlatContainer {
 public:
  explicit KernelReader(std::span<const std::byte> bytes) : FlatContainer(bytes, "kernel") {}

  std::optional<loop::Kernel> run(std::string* error) {
    loop::Kernel kernel;
    const bool read = open(FE_FLAT_KERNEL, understood, FE_FLAT_PROLOGUES) && symbols(kernel) &&
                      expressions(kernel) && buffers(kernel) && statements(kernel);
    if (read) return kernel;
    if (error) *error = fault();
    return std::nullopt;
  }

 private:
  // Bits of section kinds 1 to FE_SECTION_STORES.
  static constexpr uint64_t understood = (uint64_t{2} << FE_SECTION_STORES) - 2;
  // Nesting limit of an expression, so that walking one may recurse.
  static constexpr uint32_t max_depth = 256;

  bool symbols(loop::Kernel& kernel) {
    std::vector<fe_flat_kernel> head;
    std::vector<fe_flat_symbol> list;
    std::vector<fe_flat_op> ops;
    if (!table(FE_SECTION_KERNEL, head) || !table(FE_SECTION_SYMBOLS, list) || !table(FE_SECTION_OPS, ops))
      return false;
    if (head.size() != 1 || head[0].flags != 0) return fail("the kernel has no head of a known form");
    kernel.shared = head[0].shared;
    kernel.numerics = head[0].numerics;
    std::vector<bool> computed(list.size());
    for (const auto& op : ops)
      if (op.code == FE_OP_INDIRECT && op.symbol < list.size()) computed[op.symbol] = true;
    for (const auto& symbol : list) {
      if (symbol.lo < -loop::max_extent || symbol.hi > loop::max_extent || symbol.lo > symbol.hi ||
          symbol.divisor < 1 || symbol.divisor > loop::max_extent)
        return fail("a symbol's range is not one");
      const index::Range range{symbol.lo, symbol.hi};
      if (computed[kernel.pool.symbol_count()])
        kernel.pool.new_computed_symbol(range, symbol.divisor);
      else
        kernel.pool.new_symbol(range, symbol.divisor);
    }
    return true;
  }

  bool expressions(loop::Kernel& kernel) {
    std::vector<fe_flat_expr> list;
    if (!table(FE_SECTION_EXPRS, list) || !table(FE_SECTION_INTS, ints_) ||
        !table(FE_SECTION_INDICES, indices_))
      return false;
    std::vector<index::Record> records(list.size());
    std::vector<uint32_t> depth(list.size(), 1);
    for (size_t k = 0; k < list.size(); ++k) {
      const auto& expr = list[k];
      if (expr.op > FE_INDEX_MAX || expr.reserved != 0)
        return fail("an index expression's operation is not known");
      records[k].op = static_cast<uint8_t>(expr.op);
      records[k].value = expr.value;
      records[k].lhs = expr.lhs;
      records[k].rhs = expr.rhs;
      if (expr.op < FE_INDEX_ADD) continue;
      if (expr.lhs >= k || expr.rhs >= k) return fail("an index expression's operand does not lie before it");
      depth[k] = 1 + std::max(depth[expr.lhs], depth[expr.rhs]);
      if (depth[k] > max_depth) return fail("an index expression is nested too deeply");
    }
    if (const auto status = kernel.pool.read_records(records, exprs_); !status)
      return fail("index expression " + std::to_string(status.position) + ": " +
                  index::describe(status.fault));
    return true;
  }

  bool ints(uint32_t first, uint32_t count, std::vector<int64_t>& out) {
    if (first > ints_.size() || count > ints_.size() - first)
      return fail("the dims of a buffer lie outside of their section");
    out.assign(ints_.begin() + first, ints_.begin() + first + count);
    return true;
  }
  bool index(uint32_t first, uint32_t count, std::vector<index::Expr>& out) {
    if (count > loop::max_rank || first > indices_.size() || count > indices_.size() - first)
      return fail("indices lie outside of their section");
    for (uint32_t k = first; k < first + count; ++k) {
      if (indices_[k] >= exprs_.size()) return fail("an index names an expression that is not there");
      out.push_back(exprs_[indices_[k]]);
    }
    return true;
  }

  bool buffers(loop::Kernel& kernel) {
    std::vector<fe_flat_buffer> list;
    if (!table(FE_SECTION_BUFFERS, list)) return false;
    for (const auto& flat : list) {
      auto& buffer = kernel.buffers.emplace_back();
      buffer.dtype = static_cast<DType>(flat.dtype);
      buffer.kind = flat.kind;
      buffer.offset = flat.offset;
      buffer.alignment = flat.alignment;
      if (flat.rank > loop::max_rank || flat.packed_rank > loop::max_rank)
        return fail("a buffer has more than 64 dims");
      if (!ints(flat.dims, flat.rank, buffer.dims)) return false;
      if (flat.layout == FE_LAYOUT_STRIDED) {
        if (!ints(flat.strides, flat.rank, buffer.strides)) return false;
      } else if (flat.layout == FE_LAYOUT_BLOCKED) {
        auto& packing = buffer.packing.emplace();
        if (!ints(flat.packed_dims, flat.packed_rank, packing.dims) ||
            !index(flat.unpack, flat.rank, packing.logical))
          return false;
        packing.terms = flat.terms;
        auto extents = packing.dims;
        if (packing.terms > 0) extents.push_back(packing.terms);
        for (uint32_t k = 0; k < extents.size(); ++k) {
          const uint64_t symbol = uint64_t{flat.packed_symbol} + k;
          if (symbol >= kernel.pool.symbol_count()) return fail("a packed dim has no symbol");
          const auto range = kernel.pool.symbol_range(static_cast<index::Symbol>(symbol));
          if (extents[k] > 0 && (range.lo > 0 || range.hi < extents[k] - 1))
            return fail("a packed dim's symbol does not cover it");
          packing.symbols.push_back(static_cast<index::Symbol>(symbol));
        }
        for (auto expr : packing.logical) {
          std::vector<index::Symbol> used;
          kernel.pool.collect_symbols(expr, used);
          for (auto symbol : used)
            if (symbol < flat.packed_symbol || symbol - flat.packed_symbol >= extents.size())
              return fail("a packing uses a symbol that is not its own");
        }
      } else {
        return fail("a buffer's layout is not known");
      }
      if (auto found = loop::find_fault(buffer))
        return fail("buffer " + std::to_string(kernel.buffers.size() - 1) + ": " + *found);
    }
    return true;
  }

  /// Takes the next elements of a section: statements own consecutive ranges, in order.
  template <class T>
  bool take(const std::vector<T>& list, uint32_t first, uint32_t count, size_t& used) {
    if (first != used || count > list.size() - used) return fail("the parts of statements are not in order");
    used += count;
    return true;
  }

  bool statements(loop::Kernel& kernel) {
    std::vector<fe_flat_statement> list;
    std::vector<fe_flat_var> vars;
    std::vector<fe_flat_op> ops;
    std::vector<fe_flat_reduction> reductions;
    std::vector<fe_flat_carry> carries;
    std::vector<fe_flat_store> stores;
    if (!table(FE_SECTION_STATEMENTS, list) || !table(FE_SECTION_VARS, vars) || !table(FE_SECTION_OPS, ops) ||
        !table(FE_SECTION_REDUCTIONS, reductions) || !table(FE_SECTION_CARRIES, carries) ||
        !table(FE_SECTION_STORES, stores))
      return false;
    size_t vars_used = 0, ops_used = 0, reductions_used = 0, carries_used = 0, stores_used = 0;
    const auto buffer_table = loop::table_of(kernel.buffers);
    for (const auto& flat : list) {
      if (!take(vars, flat.vars, flat.var_count, vars_used) ||
          !take(ops, flat.ops, flat.op_count, ops_used) ||
          !take(reductions, flat.reductions, flat.reduction_count, reductions_used) ||
          !take(carries, flat.carries, flat.carry_count, carries_used) ||
          !take(stores, flat.stores, flat.store_count, stores_used))
        return false;
      auto& s = kernel.statements.emplace_back();
      s.kind = flat.kind;
      s.contract_kind = flat.contract_kind;
      s.contract_a = flat.contract_a;
      s.contract_b = flat.contract_b;
      for (const auto& var : std::span(vars).subspan(flat.vars, flat.var_count)) {
        if (var.kind > FE_VAR_SERIAL) return fail("a variable's kind is not known");
        s.vars.push_back({var.symbol, var.extent, static_cast<loop::VarKind>(var.kind)});
      }
      for (const auto& op : std::span(ops).subspan(flat.ops, flat.op_count)) {
        auto& to = s.ops.emplace_back();
        to.code = op.code;
        to.dtype = static_cast<DType>(op.dtype);
        to.flags = op.flags;
        to.a = op.a;
        to.b = op.b;
        to.c = op.c;
        to.buffer = op.buffer;
        to.symbol = op.symbol;
        to.bits = op.bits;
        if (!index(op.index, op.index_count, to.index)) return false;
      }
      for (const auto& reduction : std::span(reductions).subspan(flat.reductions, flat.reduction_count))
        s.reductions.push_back(
            {reduction.kind, reduction.element, reduction.index, static_cast<DType>(reduction.accumulator)});
      for (const auto& carry : std::span(carries).subspan(flat.carries, flat.carry_count))
        s.carries.push_back({static_cast<DType>(carry.dtype), carry.init_bits, carry.next});
      for (const auto& store : std::span(stores).subspan(flat.stores, flat.store_count)) {
        auto& to = s.stores.emplace_back();
        to.buffer = store.buffer;
        to.value = store.value;
        to.mask = store.mask;
        to.mode = store.mode;
        if (!index(store.index, store.index_count, to.index)) return false;
      }
      const std::string place = "statement " + std::to_string(kernel.statements.size() - 1) + ": ";
      if (s.kind == FE_STATEMENT_CALL) return fail(place + "a kernel has no calls");
      if (auto found = loop::find_fault(kernel.pool, buffer_table, s)) return fail(place + *found);
      if (s.vars.size() < kernel.shared) return fail(place + "it lacks the shared variables");
      for (uint32_t v = 0; v < kernel.shared; ++v) {
        const auto &var = s.vars[v], &first = kernel.statements[0].vars[v];
        if (var.kind != loop::VarKind::parallel || var.extent != first.extent || var.symbol != first.symbol)
          return fail(place + "its shared variables are not those of the first statement");
      }
    }
    return true;
  }

  std::vector<index::Expr> exprs_;
  std::vector<int64_t> ints_;
  std::vector<uint32_t> indices_;
};

}  // namespace detail

/// Reads the kernel in a flat container of any alignment. On a fault returns none and sets `error` (unless
/// null). Shared variables have the same symbol in all statements. Thread-safe.
inline std::optional<loop::Kernel> read_kernel(std::span<const std::byte> bytes,
                                               std::string* error = nullptr) {
  return detail::KernelReader(bytes).run(error);
}

}  // namespace ferrite::inline v0
