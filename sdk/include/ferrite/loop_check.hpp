// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defines well-formed statements: the type rules of bodies, where each operation runs, and the check that the
// recorder, the verifier, the parser and the kernel reader share. The check is total: it accepts or rejects
// any Statement and never crashes.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/counted.hpp"
#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

inline constexpr size_t max_rank = 64;  ///< dims of a buffer
inline constexpr size_t max_vars = 64;  ///< variables of a statement
/// Limit on the bytes of one buffer and the points of one statement, so that no offset or count overflows.
inline constexpr int64_t max_extent = int64_t{1} << 56;

/// Whether bodies can compute with the type: bool, integers of whole bytes, f8, f16, bf16, f32, f64.
constexpr bool is_computable(DType dtype) {
  return dtype == DType::bool_ || is_computable_float(dtype) || (is_integer(dtype) && bits_of(dtype) >= 8);
}

/// FE_PRIM_BOOL, FE_PRIM_INT or FE_PRIM_FLOAT; 0 for a type that bodies cannot compute with.
constexpr int prim_class(DType dtype) {
  if (!is_computable(dtype)) return 0;
  return dtype == DType::bool_ ? FE_PRIM_BOOL : is_float(dtype) ? FE_PRIM_FLOAT : FE_PRIM_INT;
}

/// The result type of `prim` for operands of these types; none if they do not fit. `requested` is the result
/// type of cast and bitcast, and ignored otherwise. Operands that the primitive does not have are
/// DType::none.
constexpr DType result_type(Prim prim, DType a, DType b, DType c, DType requested) {
  const auto& info = info_of(prim);
  if ((info.operands > 1) != (b != DType::none) || (info.operands > 2) != (c != DType::none))
    return DType::none;
  if (prim == Prim::where_) return a == DType::bool_ && b == c && prim_class(b) ? c : DType::none;
  if (!(prim_class(a) & info.classes)) return DType::none;
  if ((b != DType::none && b != a) || (c != DType::none && c != a)) return DType::none;
  if (prim == Prim::cast_) return prim_class(requested) ? requested : DType::none;
  if (prim == Prim::bitcast_)
    return prim_class(requested) && requested != DType::bool_ && bits_of(a) == bits_of(requested)
               ? requested
               : DType::none;
  return info.gives_bool ? DType::bool_ : a;
}

constexpr bool is_arg_reduction(uint32_t kind) {
  return kind == FE_REDUCE_ARGMAX || kind == FE_REDUCE_ARGMIN;
}

constexpr std::string_view reduction_name(uint32_t kind) {
  constexpr std::string_view names[] = {"?", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
  return kind >= 1 && kind < std::size(names) ? names[kind] : names[0];
}
constexpr std::string_view statement_name(uint32_t kind) {
  constexpr std::string_view names[] = {"?", "map", "reduce", "contract", "scatter", "serial", "call"};
  return kind >= 1 && kind < std::size(names) ? names[kind] : names[0];
}

/// The default type in which a reduction of `element` accumulates.
constexpr DType default_accumulator(uint32_t kind, DType element) {
  return is_arg_reduction(kind) ? element : compute_type(element);
}
/// Whether elements of one type may be accumulated in another.
constexpr bool accumulates(uint32_t kind, DType element, DType accumulator) {
  switch (kind) {
    case FE_REDUCE_SUM:
    case FE_REDUCE_PROD:
      return (is_integer(element) && is_integer(accumulator) && bits_of(accumulator) >= bits_of(element)) ||
             (is_float(element) && is_float(accumulator) && bits_of(accumulator) >= bits_of(element));
    case FE_REDUCE_MAX:
    case FE_REDUCE_MIN:
      return accumulator == element || (is_float(element) && accumulator == compute_type(element));
    case FE_REDUCE_ANY:
    case FE_REDUCE_ALL: return element == DType::bool_ && accumulator == DType::bool_;
    case FE_REDUCE_ARGMAX:
    case FE_REDUCE_ARGMIN: return accumulator == element;
    default: return false;
  }
}
/// The type of FE_OP_REDUCED.
constexpr DType reduced_type(const Reduction& reduction) {
  return is_arg_reduction(reduction.kind) ? DType::i64_ : reduction.accumulator;
}

/// At which points the operations and stores of a statement run.
struct Placement {
  std::vector<bool> finish;  ///< per operation: depends on the result of a reduction
  /// Per operation: depends on a reduction variable other than through FE_OP_REDUCED.
  std::vector<bool> inner;
  /// Per store: runs at every point, not only once for each point of the parallel variables.
  std::vector<bool> every_point;
};

/// Operands must precede their users (find_fault checks that).
inline Placement place(const index::Pool& pool, const Statement& statement) {
  Placement result;
  const size_t count = statement.ops.size();
  result.finish.resize(count);
  result.inner.resize(count);
  std::vector<std::pair<index::Symbol, OpId>> bound;
  auto add_index = [&](std::span<const index::Expr> index, bool& finish, bool& inner) {
    for (auto expr : index) {
      for (const auto& var : statement.vars)
        if (var.kind == VarKind::reduction && pool.depends_on(expr, var.symbol)) inner = true;
      for (const auto& [symbol, op] : bound) {
        if ((result.finish[op] || result.inner[op]) && pool.depends_on(expr, symbol)) {
          finish = finish || result.finish[op];
          inner = inner || result.inner[op];
        }
      }
    }
  };
  auto add_operand = [&](OpId id, bool& finish, bool& inner) {
    if (id == none) return;
    finish = finish || result.finish[id];
    inner = inner || result.inner[id];
  };
  for (size_t k = 0; k < count; ++k) {
    const auto& op = statement.ops[k];
    bool finish = op.code == FE_OP_REDUCED, inner = false;
    for (OpId id : {op.a, op.b, op.c}) add_operand(id, finish, inner);
    add_index(op.index, finish, inner);
    result.finish[k] = finish;
    result.inner[k] = inner;
    if (op.code == FE_OP_INDIRECT) bound.emplace_back(op.symbol, static_cast<OpId>(k));
  }
  const bool serial = statement.has(VarKind::serial);
  for (const auto& store : statement.stores) {
    bool finish = false, inner = serial;
    add_operand(store.value, finish, inner);
    add_operand(store.mask, finish, inner);
    add_index(store.index, finish, inner);
    result.every_point.push_back(inner);
  }
  return result;
}

/// Whether an index expression depends on a symbol that the body defines.
inline bool is_indirect(const index::Pool& pool, const Statement& statement,
                        std::span<const index::Expr> index) {
  for (const auto& op : statement.ops) {
    if (op.code != FE_OP_INDIRECT) continue;
    for (auto expr : index)
      if (pool.depends_on(expr, op.symbol)) return true;
  }
  return false;
}

/// The statement kind that follows from the contents. FE_STATEMENT_CALL is kept.
inline uint32_t derived_kind(const index::Pool& pool, const Statement& statement) {
  if (statement.kind == FE_STATEMENT_CALL) return FE_STATEMENT_CALL;
  if (statement.contract_a != none) return FE_STATEMENT_CONTRACT;
  if (!statement.carries.empty() || statement.has(VarKind::serial)) return FE_STATEMENT_SERIAL;
  for (const auto& store : statement.stores)
    if (store.mode != FE_STORE_SET || is_indirect(pool, statement, store.index)) return FE_STATEMENT_SCATTER;
  return statement.reductions.empty() ? FE_STATEMENT_MAP : FE_STATEMENT_REDUCE;
}

/// The fault of a buffer; none if it is valid. For a valid buffer, Buffer::extent() and bytes() cannot
/// overflow.
inline std::optional<std::string> find_fault(const Buffer& buffer) {
  if (!find_dtype(buffer.dtype)) return "the element type is not known";
  if (buffer.dims.size() > max_rank) return "more than 64 dims";
  auto bounded = [](std::span<const int64_t> dims) {
    int64_t count = 1;
    for (int64_t dim : dims) {
      if (dim < 0 || dim > max_extent) return false;
      if (dim > 1 && count > max_extent / dim) return false;
      count *= dim > 1 ? dim : 1;
    }
    return true;
  };
  if (!bounded(buffer.dims)) return "a dim is negative or the buffer is too large";
  if (buffer.alignment == 0 || !std::has_single_bit(buffer.alignment))
    return "the alignment is not a power of two";
  if (buffer.kind > FE_BUFFER_LOCAL) return "the kind is not known";
  if (buffer.packing) {
    const auto& packing = *buffer.packing;
    if (packing.dims.size() > max_rank || !bounded(packing.dims))
      return "the packed dims are negative or too large";
    if (packing.terms < 0 || packing.terms > FE_MOST_TERMS) return "a packed element has too many terms";
    if (packing.symbols.size() != packing.dims.size() + (packing.terms > 0 ? 1 : 0) ||
        packing.logical.size() != buffer.dims.size())
      return "the packing does not give one symbol a packed dim, and terms, and one coordinate a dim";
    if (!buffer.strides.empty() || buffer.offset != 0) return "a packed buffer has strides or an offset";
    return std::nullopt;
  }
  if (buffer.strides.size() != buffer.dims.size()) return "there is not one stride a dim";
  if (buffer.offset < 0 || buffer.offset > max_extent) return "the offset is negative or too large";
  int64_t low = buffer.offset, high = buffer.offset;
  bool empty = false;
  for (size_t k = 0; k < buffer.dims.size(); ++k) {
    const int64_t steps = buffer.dims[k] > 0 ? buffer.dims[k] - 1 : 0, stride = buffer.strides[k];
    if (buffer.dims[k] == 0) empty = true;
    if (stride > max_extent || stride < -max_extent) return "a stride is too large";
    if (steps > 0 && (stride < 0 ? -stride : stride) > max_extent / steps) return "the strides reach too far";
    (stride < 0 ? low : high) += stride * steps;
    if (high > max_extent || low < -max_extent) return "the strides reach too far";
  }
  if (low < 0 && !empty) return "negative strides reach before the buffer's first byte";
  return std::nullopt;
}

namespace detail {

/// Checks one statement and reports the first fault.
class StatementCheck {
 public:
  StatementCheck(const index::Pool& pool, std::span<const Buffer* const> buffers, const Statement& statement)
      : pool_(pool), buffers_(buffers), s_(statement) {}

  std::optional<std::string> run() {
    if (s_.kind < FE_STATEMENT_MAP || s_.kind > FE_STATEMENT_CALL) return "the statement's kind is not known";
    if (s_.kind == FE_STATEMENT_CALL) {
      const bool bare = s_.vars.empty() && s_.ops.empty() && s_.reductions.empty() && s_.carries.empty() &&
                        s_.stores.empty();
      return bare ? std::nullopt : std::optional<std::string>("a call has a body");
    }
    if (!vars() || !body() || !reductions() || !carries() || !contract() || !placement() || !stores())
      return fault_;
    if (derived_kind(pool_, s_) != s_.kind)
      return fault("it is said to be " + std::string(statement_name(s_.kind)) +
                   ", but its contents make it " + std::string(statement_name(derived_kind(pool_, s_)))),
             fault_;
    return std::nullopt;
  }

 private:
  bool fault(std::string text) {
    fault_ = std::move(text);
    return false;
  }
  bool op_fault(size_t op, const std::string& text) { return fault("%" + std::to_string(op) + ": " + text); }

  bool vars() {
    if (s_.vars.size() > max_vars) return fault("more than 64 variables");
    int64_t points = 1;
    for (size_t k = 0; k < s_.vars.size(); ++k) {
      const auto& var = s_.vars[k];
      if (var.kind > VarKind::serial) return fault("a variable's kind is not known");
      if (k > 0 && var.kind < s_.vars[k - 1].kind)
        return fault("variables must come in the order parallel, reduction, serial");
      if (var.extent < 0 || var.extent > max_extent || (var.extent > 1 && points > max_extent / var.extent))
        return fault("an extent is negative or the domain is too large");
      points *= std::max<int64_t>(var.extent, 1);
      empty_ = empty_ || var.extent == 0;
      if (!declare(var.symbol, var.extent))
        return fault("variable " + std::to_string(k) + " has no symbol of its own whose range covers it");
    }
    if (s_.has(VarKind::serial) && s_.has(VarKind::reduction))
      return fault("serial and reduction variables do not go together");
    return true;
  }

  bool declare(index::Symbol symbol, int64_t extent) {
    if (symbol >= pool_.symbol_count() || in_scope(symbol)) return false;
    const auto range = pool_.symbol_range(symbol);
    if (extent > 0 && (range.lo > 0 || range.hi < extent - 1 || pool_.symbol_divisor(symbol) != 1))
      return false;
    scope_.push_back(symbol);
    return true;
  }
  bool in_scope(index::Symbol symbol) const {
    return std::find(scope_.begin(), scope_.end(), symbol) != scope_.end();
  }
  bool scoped(index::Expr expr) {
    symbols_.clear();
    pool_.collect_symbols(expr, symbols_);
    return std::all_of(symbols_.begin(), symbols_.end(), [&](index::Symbol s) { return in_scope(s); });
  }

  const Buffer* buffer(BufferId id) const { return id < buffers_.size() ? buffers_[id] : nullptr; }
  DType type(OpId id) const { return id == none ? DType::none : s_.ops[id].dtype; }

  /// Checks an access of `what`: rank, scope and, unless masked, that every coordinate is provably within the
  /// dims.
  bool access(const std::string& what, const Buffer& target, std::span<const index::Expr> index,
              bool masked) {
    if (index.size() != target.dims.size())
      return fault(what + " has " + counted(index.size(), "index", "indices") + " for " +
                   counted(target.dims.size(), "dim"));
    for (size_t d = 0; d < index.size(); ++d) {
      if (!index[d] || !scoped(index[d]))
        return fault(what + ": index " + std::to_string(d) + " uses a symbol that is not in scope");
      const auto range = pool_.range(index[d]);
      if (!masked && !empty_ && (range.lo < 0 || range.hi >= target.dims[d]))
        return fault(what + ": index " + std::to_string(d) + " = " + pool_.print(index[d]) + " is in [" +
                     std::to_string(range.lo) + ", " + std::to_string(range.hi) +
                     "], which is not shown to be within the dim of size " + std::to_string(target.dims[d]) +
                     "; mask the access or bound the index");
    }
    return true;
  }

  bool body() {
    const size_t carries = s_.carries.size();
    for (size_t k = 0; k < s_.ops.size(); ++k) {
      const auto& op = s_.ops[k];
      for (OpId id : {op.a, op.b, op.c}) {
        if (id != none && id >= k) return op_fault(k, "an operand does not lie before it");
        if (id != none && s_.ops[id].code == FE_OP_INDIRECT)
          return op_fault(k, "an operand is an indirect, which has no value");
      }
      const bool indexed = op.code == FE_OP_LOAD || op.code == FE_OP_INDEX;
      if (!indexed && !op.index.empty())
        return op_fault(k, "it has an index, which only loads and index values have");
      const bool leaf = op.code == FE_OP_CONSTANT || op.code == FE_OP_INDEX || op.code == FE_OP_REDUCED ||
                        op.code == FE_OP_CARRIED;
      if ((leaf && op.a != none) || (!op.is_prim() && op.code != FE_OP_LOAD && op.b != none) ||
          (!op.is_prim() && op.c != none))
        return op_fault(k, "it has an operand that it does not take");
      if (op.is_prim()) {
        if (!find_prim(op.code)) return op_fault(k, "the primitive is not known");
        if (op.a == none) return op_fault(k, "an operand is missing");
        const DType gives = result_type(op.prim(), type(op.a), type(op.b), type(op.c), op.dtype);
        if (gives == DType::none || gives != op.dtype)
          return op_fault(k, std::string(info_of(op.prim()).name) + " does not take these types");
        continue;
      }
      switch (op.code) {
        case FE_OP_LOAD: {
          const auto* source = buffer(op.buffer);
          if (!source) return op_fault(k, "there is no such buffer");
          if (op.dtype != source->dtype || !is_computable(op.dtype))
            return op_fault(k, "the load's type is not one that the buffer gives");
          if ((op.a == none) != (op.b == none) || op.c != none)
            return op_fault(k, "a masked load has a mask and a value for elsewhere");
          if (op.a != none && (type(op.a) != DType::bool_ || type(op.b) != op.dtype))
            return op_fault(k, "the mask must be bool and the other value of the buffer's type");
          if (!access("%" + std::to_string(k) + " load", *source, op.index, op.a != none)) return false;
          break;
        }
        case FE_OP_CONSTANT:
          if (!is_computable(op.dtype) || (bits_of(op.dtype) < 64 && op.bits >> bits_of(op.dtype) != 0) ||
              (op.dtype == DType::bool_ && op.bits > 1))
            return op_fault(k, "the constant's bits do not fit its type");
          break;
        case FE_OP_INDEX:
          if (op.dtype != DType::i64_ && op.dtype != DType::i32_)
            return op_fault(k, "an index value is i64 or i32");
          if (op.index.size() != 1 || !op.index[0] || !scoped(op.index[0]))
            return op_fault(k, "it needs one index expression in scope");
          break;
        case FE_OP_INDIRECT: {
          if (op.a == none || !is_integer(type(op.a))) return op_fault(k, "indirect needs an integer");
          if (op.dtype != DType::none || op.flags > FE_INDIRECT_ASSUME)
            return op_fault(k, "the mode of indirect is not known");
          if (op.bits > static_cast<uint64_t>(max_extent) || (op.bits == 0 && !empty_))
            return op_fault(k, "the extent of indirect is 0 or too large");
          if (!declare(op.symbol, static_cast<int64_t>(op.bits)))
            return op_fault(k, "indirect binds no symbol of its own whose range covers the extent");
          break;
        }
        case FE_OP_REDUCED:
          if (op.bits >= s_.reductions.size()) return op_fault(k, "there is no such reduction");
          if (const auto& reduction = s_.reductions[op.bits];
              reduction.element >= k || (reduction.index != none && reduction.index >= k))
            return op_fault(k, "the reduction's element does not lie before its result");
          if (op.dtype != reduced_type(s_.reductions[op.bits]))
            return op_fault(k, "the type is not the reduction's");
          break;
        case FE_OP_CARRIED:
          if (op.bits >= carries || op.dtype != s_.carries[op.bits].dtype)
            return op_fault(k, "there is no such state of this type");
          break;
        default: return op_fault(k, "the operation's code is not known");
      }
    }
    return true;
  }

  bool valued(OpId id) const { return id < s_.ops.size() && s_.ops[id].code != FE_OP_INDIRECT; }

  bool reductions() {
    if (!s_.reductions.empty() && s_.has(VarKind::serial)) return fault("a serial statement has a reduction");
    for (const auto& reduction : s_.reductions) {
      if (!valued(reduction.element)) return fault("a reduction has no element");
      if (!accumulates(reduction.kind, type(reduction.element), reduction.accumulator))
        return fault("the reduction " + std::string(reduction_name(reduction.kind)) + " of " +
                     std::string(name_of(type(reduction.element))) + " cannot accumulate in " +
                     std::string(name_of(reduction.accumulator)));
      if (is_arg_reduction(reduction.kind) != (reduction.index != none))
        return fault("argmax and argmin, and only they, have an index");
      if (reduction.index != none && (!valued(reduction.index) || type(reduction.index) != DType::i64_))
        return fault("the index of a reduction must be an i64 value");
    }
    return true;
  }

  bool carries() {
    for (const auto& carry : s_.carries) {
      if (!is_computable(carry.dtype) || !valued(carry.next) || type(carry.next) != carry.dtype)
        return fault("a carried state has no next value of its type");
      if ((bits_of(carry.dtype) < 64 && carry.init_bits >> bits_of(carry.dtype) != 0) ||
          (carry.dtype == DType::bool_ && carry.init_bits > 1))
        return fault("the initial bits of a carried state do not fit its type");
    }
    return true;
  }

  /// Whether `id` is `operand` or a chain of casts of it.
  bool is_cast_of(OpId id, OpId operand) const {
    while (id != operand && s_.ops[id].code == static_cast<uint16_t>(Prim::cast_)) id = s_.ops[id].a;
    return id == operand;
  }
  bool contract() {
    if ((s_.contract_a == none) != (s_.contract_b == none)) return fault("a contract has two operands");
    if (s_.contract_a == none)
      return s_.contract_kind == FE_CONTRACT_GENERIC || fault("only a contract has a contract kind");
    for (OpId id : {s_.contract_a, s_.contract_b})
      if (id >= s_.ops.size() || (s_.ops[id].code != FE_OP_LOAD && !s_.ops[id].is_prim()))
        return fault("a contract's operand is neither a load nor computed of loads");
    if (s_.contract_kind > FE_CONTRACT_CONV) return fault("the contract's kind is not known");
    if (s_.reductions.size() != 1 || s_.reductions[0].kind != FE_REDUCE_SUM)
      return fault("a contract has one reduction, a sum");
    const auto& product = s_.ops[s_.reductions[0].element];
    const bool sums = product.code == static_cast<uint16_t>(Prim::mul_) &&
                      is_cast_of(product.a, s_.contract_a) && is_cast_of(product.b, s_.contract_b);
    return sums || fault("a contract's reduction does not sum the product of its operands");
  }

  bool placement() {
    for (const auto& store : s_.stores)
      if (!valued(store.value) || (store.mask != none && !valued(store.mask)))
        return fault("a store has no value, or its mask is invalid");
    where_ = place(pool_, s_);
    for (size_t k = 0; k < s_.ops.size(); ++k)
      if (where_.finish[k] && where_.inner[k])
        return op_fault(k, "it depends on a reduction's result and on a reduction variable");
    for (const auto& reduction : s_.reductions)
      if (where_.finish[reduction.element] || (reduction.index != none && where_.finish[reduction.index]))
        return fault("a reduction reduces the result of a reduction of the same statement");
    return true;
  }

  bool stores() {
    if (s_.stores.empty()) return fault("it stores nothing");
    for (size_t k = 0; k < s_.stores.size(); ++k) {
      const auto& store = s_.stores[k];
      const std::string what = "store " + std::to_string(k);
      const auto* target = buffer(store.buffer);
      if (!target) return fault(what + ": there is no such buffer");
      if (target->kind != FE_BUFFER_OUTPUT && target->kind != FE_BUFFER_LOCAL)
        return fault(what + " writes a buffer that is read only");
      if (target->packing) return fault(what + " writes a packed buffer");
      if (type(store.value) != target->dtype) return fault(what + ": the value is not of the buffer's type");
      if (store.mask != none && type(store.mask) != DType::bool_)
        return fault(what + ": the mask is not bool");
      if (store.mode > FE_STORE_MIN) return fault(what + ": the mode is not known");
      if (store.mode != FE_STORE_SET && target->dtype == DType::bool_ && store.mode < FE_STORE_MAX)
        return fault(what + ": bool is neither added nor multiplied");
      if (!access(what, *target, store.index, store.mask != none)) return false;
      bool finish = false;
      for (OpId id : {store.value, store.mask}) finish = finish || (id != none && where_.finish[id]);
      if (where_.every_point[k] && finish)
        return fault(what + " depends on a reduction's result and on a reduction variable");
      if (store.mask == none && store.mode == FE_STORE_SET && !is_indirect(pool_, s_, store.index)) {
        for (size_t v = 0; v < s_.vars.size(); ++v) {
          const auto& var = s_.vars[v];
          if (var.extent < 2 || var.kind == VarKind::serial ||
              (var.kind == VarKind::reduction && !where_.every_point[k]))
            continue;
          const bool used = std::any_of(store.index.begin(), store.index.end(),
                                        [&](index::Expr e) { return pool_.depends_on(e, var.symbol); });
          if (!used)
            return fault(what + ": its index does not depend on variable " + std::to_string(v) +
                         ", so that several points write one element");
        }
      }
      for (const auto& op : s_.ops)
        if (op.code == FE_OP_LOAD && op.buffer == store.buffer && op.index != store.index)
          return fault(what + " writes a buffer that the statement reads elsewhere");
    }
    return true;
  }

  const index::Pool& pool_;
  std::span<const Buffer* const> buffers_;
  const Statement& s_;
  std::vector<index::Symbol> scope_, symbols_;
  Placement where_;
  bool empty_ = false;
  std::string fault_;
};

}  // namespace detail

/// The fault of a statement; none if it is valid. Checks ids, types, scopes, that indices are provably in
/// range, and that each element has one writer. `buffers` is indexed by id; each must have passed find_fault.
inline std::optional<std::string> find_fault(const index::Pool& pool, std::span<const Buffer* const> buffers,
                                             const Statement& statement) {
  return detail::StatementCheck(pool, buffers, statement).run();
}

/// A table of the buffers by id.
inline std::vector<const Buffer*> table_of(std::span<const Buffer> buffers) {
  std::vector<const Buffer*> table;
  for (const auto& buffer : buffers) table.push_back(&buffer);
  return table;
}

}  // namespace ferrite::inline v0::loop
