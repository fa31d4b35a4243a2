// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises kernels of the form matrix product, softmax over its rows, product with the softmax, as in
// attention. Extracts what a code generator needs that processes the columns in chunks. The host uses the
// same function to decide whether such a kernel should exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// weights[row, column] = power / the sum of power over the columns, with power = exp(score - maximum score
/// of the row). A score is computed from the first product and other values at (row, column). The second
/// product multiplies weights and values. None of the intermediates is stored.
struct SoftmaxProducts {
  /// An operand of a product: a load without a mask. `address`: the element number, including the buffer's
  /// offset.
  struct Operand {
    BufferId buffer = none;
    index::Expr address;
    /// For columns and values: true if neighbours along the depth of their product are contiguous; else those
    /// across it are.
    bool depth_inside = true;
  };
  /// Why the kernel does not match; empty: it matches, and the other fields are set.
  std::string_view reason;

  size_t second = 0;  ///< the statement number of the second product
  OpId value = none;  ///< the second product's operand that is not the weights
  DType dtype = DType::none;
  Operand rows, columns;  ///< of the first product
  Operand values;         ///< of the second product, which sums over the columns
  /// The last shared variable, and the scores' variable that the other statements do not share.
  Var row, column;
  Var depth;            ///< of the first product
  Var summed, feature;  ///< of the second product: its summed variable (the columns), and its result variable

  /// The computation between the products, over the shared variables and `column`: reduction 0 is the first
  /// product; `most` and `sum` are the reductions over the columns. It has no stores.
  Statement between;
  OpId score = none, power = none;
  uint32_t most = 0, sum = 0;
  /// The computation after the second product, over the shared variables and `feature`; reduction 0 is the
  /// second product.
  Statement finish;

  explicit operator bool() const { return reason.empty(); }
};

/// The operands that the caller supports.
enum class SoftmaxOperands {
  /// Loads of f16 or bf16 in whole contiguous vectors, with at most softmax_product_features features.
  vectors,
  any  ///< any operands; `rows`, `columns`, `values` and `dtype` are not set
};

/// The number of contiguous elements of columns and values that are accessed as one vector. Inner extents are
/// multiples of it.
inline constexpr int64_t softmax_product_lanes = 8;
/// The largest depth of the first product, and the largest number of results of the second.
inline constexpr int64_t softmax_product_features = 128;

namespace detail {

class SoftmaxProductsFinder {
 public:
  SoftmaxProductsFinder(index::Pool& pool, const Kernel& kernel, SoftmaxOperands operands)
      : pool_(pool), kernel_(kernel), any_(operands == SoftmaxOperands::any) {}

  SoftmaxProducts find() {
    if (!find_all()) found_.reason = reason_.empty() ? "it is no softmax between two products" : reason_;
    return std::move(found_);
  }

 private:
  using Substitution = std::vector<std::pair<index::Symbol, index::Expr>>;
  struct Written {
    OpId value;
    std::vector<index::Expr> index;
  };

  bool fail(std::string_view reason) {
    if (reason_.empty()) reason_ = reason;
    return false;
  }

  bool find_all() {
    constexpr uint32_t each_operation_rounds = 1;
    if (kernel_.numerics == each_operation_rounds) return fail("each operation is to round");
    if (kernel_.shared == 0 || kernel_.statements.size() < 3) return false;
    const auto products =
        std::ranges::count(kernel_.statements, FE_STATEMENT_CONTRACT, [](const auto& s) { return s.kind; });
    if (products != 2 || kernel_.statements[0].kind != FE_STATEMENT_CONTRACT) return false;
    while (kernel_.statements[++found_.second].kind != FE_STATEMENT_CONTRACT) {
    }
    return take_first() && take_between() && take_second() && is_softmax();
  }

  // Variables and operands.

  /// The statement's only own variable of this kind with more than one value; none if there are several.
  std::optional<Var> own(const Statement& statement, VarKind kind) const {
    std::optional<Var> result;
    for (size_t k = kernel_.shared; k < statement.vars.size(); ++k) {
      const auto& var = statement.vars[k];
      if (var.kind != kind || var.extent == 1) continue;
      if (result || var.extent == 0) return std::nullopt;
      result = var;
    }
    return result;
  }
  bool is_plain(const Statement& statement) const {
    return statement.vars.size() >= kernel_.shared && statement.parallel_count() >= kernel_.shared &&
           statement.carries.empty() && !statement.has(VarKind::serial);
  }
  bool depends(const BodyOp& op, const Var& var) const {
    return var.extent > 1 && std::ranges::any_of(op.index, [&](index::Expr expr) {
             return pool_.depends_on(expr, var.symbol);
           });
  }

  /// The load below casts to wider floats; null if there is none, or it has a mask.
  static const BodyOp* load_of(const Statement& statement, OpId id) {
    while (statement.ops[id].is_prim() && statement.ops[id].prim() == Prim::cast_ &&
           is_float(statement.ops[id].dtype) && is_float(statement.ops[statement.ops[id].a].dtype) &&
           bits_of(statement.ops[id].dtype) > bits_of(statement.ops[statement.ops[id].a].dtype))
      id = statement.ops[id].a;
    const auto& op = statement.ops[id];
    return op.code == FE_OP_LOAD && op.a == none ? &op : nullptr;
  }
  bool take_operand(const BodyOp& load, SoftmaxProducts::Operand& operand) {
    const auto& buffer = kernel_.buffers[load.buffer];
    constexpr uint32_t bytes = softmax_product_lanes * 2;
    if (buffer.kind == FE_BUFFER_LOCAL || buffer.kind == FE_BUFFER_OUTPUT || buffer.packing ||
        buffer.alignment < bytes)
      return fail("an operand is no plain input");
    if (load.dtype != f16 && load.dtype != bf16) return fail("its operands are no floats of 16 bits");
    if (found_.dtype != DType::none && found_.dtype != load.dtype)
      return fail("its operands are of different types");
    found_.dtype = load.dtype;
    std::vector<index::Term> terms;
    for (size_t d = 0; d < load.index.size(); ++d) terms.push_back({load.index[d], buffer.strides[d]});
    operand.buffer = load.buffer;
    operand.address = pool_.linear(buffer.offset, terms);
    return true;
  }
  /// Whether groups of `count` neighbours along a variable are contiguous and begin at multiples of `count`.
  bool side_by_side(index::Expr address, const Var& along, int64_t count) const {
    const auto affine = pool_.affine(address);
    const auto whole = [&](int64_t coefficient) { return coefficient % count == 0; };
    bool found = false;
    for (const auto& [symbol, coefficient] : affine.terms) {
      if (symbol == along.symbol)
        found = coefficient == 1;
      else if (!whole(coefficient))
        return false;
    }
    return found && along.extent % count == 0 && whole(affine.constant) &&
           std::ranges::all_of(affine.rest, [&](const auto& term) {
             return whole(term.second) && !pool_.depends_on(term.first, along.symbol);
           });
  }
  /// For columns or values: whether the address is linear in both variables and contiguous along one of them.
  bool lies_evenly(SoftmaxProducts::Operand& operand, const Var& depth, const Var& across) {
    for (const auto& var : {depth, across})
      if (!pool_.coefficient(operand.address, var.symbol)) return fail("an operand's address is not linear");
    operand.depth_inside = side_by_side(operand.address, depth, softmax_product_lanes);
    return operand.depth_inside || side_by_side(operand.address, across, softmax_product_lanes) ||
           fail("of an operand no 8 elements lie side by side");
  }
  bool is_feature(const Var& var) {
    return (var.extent <= softmax_product_features && var.extent % softmax_product_lanes == 0) ||
           fail("a row of its operands is no multiple of 8 elements up to 128");
  }

  // The statements.

  bool take_first() {
    const auto& first = kernel_.statements[0];
    if (!is_plain(first) || first.reductions.size() != 1 || first.contract_kind == FE_CONTRACT_CONV)
      return false;
    const auto column = own(first, VarKind::parallel), depth = own(first, VarKind::reduction);
    if (!column || !depth) return fail("its scores have more loops than rows, columns and a depth");
    found_.row = first.vars[kernel_.shared - 1];
    found_.column = *column;
    found_.depth = *depth;
    if (!any_ && !take_operands(first)) return false;
    auto& between = found_.between;
    between.vars.assign(first.vars.begin(), first.vars.begin() + kernel_.shared);
    between.vars.push_back(*column);
    between.reductions.push_back(first.reductions[0]);
    between.reductions[0].element = none;
    return splice_stores(between, first, {}, 0, false);
  }
  bool take_operands(const Statement& first) {
    const auto &column = found_.column, &depth = found_.depth;
    const auto *rows = load_of(first, first.contract_a), *columns = load_of(first, first.contract_b);
    if (!rows || !columns) return fail("an operand is computed");
    if (depends(*rows, column)) std::swap(rows, columns);
    if (depends(*rows, column) || depends(*columns, found_.row))
      return fail("its operands are no rows and columns");
    if (!take_operand(*rows, found_.rows) || !take_operand(*columns, found_.columns) || !is_feature(depth))
      return false;
    constexpr int64_t pair = 2;
    if (!side_by_side(found_.rows.address, depth, pair)) return fail("the rows do not lie side by side");
    return lies_evenly(found_.columns, depth, column);
  }

  bool take_between() {
    auto& between = found_.between;
    for (size_t s = 1; s < found_.second; ++s) {
      const auto& statement = kernel_.statements[s];
      if ((statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) ||
          !is_plain(statement))
        return fail("between the products is more than maps and reductions");
      auto substitution = shared_variables(statement, between);
      for (size_t k = kernel_.shared; k < statement.vars.size(); ++k) {
        const auto& var = statement.vars[k];
        if (var.extent == 1) continue;
        if (var.extent != found_.column.extent || substitution.size() > kernel_.shared)
          return fail("between the products are other loops than those over the columns");
        substitution.emplace_back(var.symbol, pool_.symbol(found_.column.symbol));
      }
      const auto number = static_cast<uint32_t>(between.reductions.size());
      for (const auto& reduction : statement.reductions) {
        const auto element = splice(between, statement, reduction.element, substitution, number);
        if (element == none) return false;
        between.reductions.push_back(reduction);
        between.reductions.back().element = element;
      }
      if (!splice_stores(between, statement, substitution, number, false)) return false;
    }
    return true;
  }

  bool take_second() {
    const auto& second = kernel_.statements[found_.second];
    if (!is_plain(second) || second.reductions.size() != 1 || second.contract_kind == FE_CONTRACT_CONV)
      return false;
    const auto feature = own(second, VarKind::parallel), summed = own(second, VarKind::reduction);
    if (!feature || !summed || summed->extent != found_.column.extent)
      return fail("its second product does not sum over the columns");
    found_.feature = *feature;
    found_.summed = *summed;
    auto substitution = shared_variables(second, found_.between);
    substitution.emplace_back(summed->symbol, pool_.symbol(found_.column.symbol));
    const bool first_has_weights = reads_written(second, second.contract_a);
    weight_ = splice(found_.between, second, first_has_weights ? second.contract_a : second.contract_b,
                     substitution, 0);
    found_.value = first_has_weights ? second.contract_b : second.contract_a;
    const auto* values = load_of(second, found_.value);
    if (weight_ == none || reads_written(second, found_.value)) return false;
    if (any_) return take_finish(second);
    if (!values || depends(*values, second.vars[kernel_.shared - 1]))
      return fail("its values are computed, or others for each row");
    if (!take_operand(*values, found_.values) || !is_feature(*feature) ||
        !lies_evenly(found_.values, *summed, *feature))
      return false;
    return take_finish(second);
  }
  bool take_finish(const Statement& second) {
    auto& finish = found_.finish;
    finish.vars.assign(second.vars.begin(), second.vars.begin() + kernel_.shared);
    finish.vars.push_back(found_.feature);
    finish.reductions.push_back(second.reductions[0]);
    finish.reductions[0].element = none;
    written_.clear();
    if (!splice_stores(finish, second, {}, 0, true)) return false;
    for (size_t s = found_.second + 1; s < kernel_.statements.size(); ++s) {
      const auto& map = kernel_.statements[s];
      const auto own_var = own(map, VarKind::parallel);
      if (map.kind != FE_STATEMENT_MAP || !is_plain(map) || !own_var ||
          own_var->extent != found_.feature.extent)
        return fail("the second product is followed by more than maps over its results");
      auto same = shared_variables(map, finish);
      same.emplace_back(own_var->symbol, pool_.symbol(found_.feature.symbol));
      if (!splice_stores(finish, map, same, 0, true)) return false;
    }
    return !finish.stores.empty();
  }

  // Bodies put together.

  Substitution shared_variables(const Statement& from, const Statement& to) {
    Substitution result;
    for (size_t k = 0; k < kernel_.shared; ++k)
      result.emplace_back(from.vars[k].symbol, pool_.symbol(to.vars[k].symbol));
    return result;
  }
  static std::vector<bool> needed_by(const Statement& statement, OpId root) {
    std::vector<bool> needed(statement.ops.size());
    needed[root] = true;
    for (OpId k = root + 1; k-- > 0;)
      if (needed[k])
        for (const OpId operand : {statement.ops[k].a, statement.ops[k].b, statement.ops[k].c})
          if (operand != none) needed[operand] = true;
    return needed;
  }
  bool reads_written(const Statement& statement, OpId root) const {
    const auto needed = needed_by(statement, root);
    for (OpId k = 0; k <= root; ++k)
      if (needed[k] && statement.ops[k].code == FE_OP_LOAD && written_.count(statement.ops[k].buffer))
        return true;
    return false;
  }

  /// Copies an operation and everything it needs to another body; returns its number there, none if that is
  /// impossible. Equal operations are merged.
  OpId splice(Statement& into, const Statement& from, OpId root, const Substitution& substitution,
              uint32_t reduced) {
    const auto needed = needed_by(from, root);
    std::vector<OpId> numbers(from.ops.size(), none);
    for (OpId k = 0; k <= root; ++k) {
      if (!needed[k]) continue;
      auto op = from.ops[k];
      for (auto* operand : {&op.a, &op.b, &op.c})
        if (*operand != none) *operand = numbers[*operand];
      for (auto& expr : op.index) expr = pool_.substitute(expr, substitution);
      if (op.code == FE_OP_INDIRECT || op.code == FE_OP_CARRIED)
        return fail("something is read by a computed index"), none;
      if (op.code == FE_OP_REDUCED) op.bits += reduced;
      if (op.code == FE_OP_LOAD) {
        const auto written = written_.find(op.buffer);
        if (written != written_.end() && op.a == none && op.index == written->second.index) {
          numbers[k] = written->second.value;
          continue;
        }
        if (written != written_.end() || (kernel_.buffers[op.buffer].kind != FE_BUFFER_INPUT &&
                                          kernel_.buffers[op.buffer].kind != FE_BUFFER_CONSTANT))
          return fail("something is read elsewhere than where it was made"), none;
      }
      const auto same = std::ranges::find_if(into.ops, [&](const BodyOp& other) { return equal(op, other); });
      numbers[k] = static_cast<OpId>(same - into.ops.begin());
      if (same == into.ops.end()) into.ops.push_back(std::move(op));
    }
    return numbers[root];
  }
  static bool equal(const BodyOp& x, const BodyOp& y) {
    return x.code == y.code && x.dtype == y.dtype && x.flags == y.flags && x.a == y.a && x.b == y.b &&
           x.c == y.c && x.buffer == y.buffer && x.index == y.index && x.symbol == y.symbol &&
           x.bits == y.bits;
  }

  /// Copies the values of the stores. `keep`: also copies stores to memory; else such stores are not allowed.
  bool splice_stores(Statement& into, const Statement& from, const Substitution& substitution,
                     uint32_t reduced, bool keep) {
    for (auto store : from.stores) {
      const bool local = kernel_.buffers[store.buffer].kind == FE_BUFFER_LOCAL;
      if (store.mask != none || store.mode != FE_STORE_SET) return fail("something is stored by a condition");
      if (!local && !keep) return fail("a value between the products is stored");
      store.value = splice(into, from, store.value, substitution, reduced);
      if (store.value == none) return false;
      for (auto& expr : store.index) expr = pool_.substitute(expr, substitution);
      written_[store.buffer] = {store.value, store.index};
      if (!local) into.stores.push_back(std::move(store));
    }
    return true;
  }

  // The bodies: their operations are those of a softmax.

  const BodyOp& op(OpId id) const { return found_.between.ops[id]; }
  /// Skips casts between floats.
  OpId bare(OpId id) const {
    while (op(id).is_prim() && op(id).prim() == Prim::cast_ && is_float(op(id).dtype) &&
           is_float(op(op(id).a).dtype))
      id = op(id).a;
    return id;
  }
  bool is_reduced(OpId id, uint32_t number) const {
    return op(bare(id)).code == FE_OP_REDUCED && op(bare(id)).bits == number;
  }
  bool is(OpId id, Prim prim) const { return op(id).is_prim() && op(id).prim() == prim; }
  bool is_one(OpId id) const {
    constexpr uint64_t one = 0x3f80'0000;
    return op(id).code == FE_OP_CONSTANT && op(id).dtype == f32 && op(id).bits == one;
  }
  /// Whether the operation is 1 / sum.
  bool is_share(OpId id) const {
    id = bare(id);
    if (is(id, Prim::reciprocal_)) return is_reduced(op(id).a, found_.sum);
    return is(id, Prim::div_) && is_one(bare(op(id).a)) && is_reduced(op(id).b, found_.sum);
  }

  bool is_softmax() {
    const auto& reductions = found_.between.reductions;
    if (reductions.size() != 3) return fail("its rows are reduced otherwise than by a softmax");
    for (uint32_t k = 1; k < reductions.size(); ++k) {
      if (reductions[k].kind == FE_REDUCE_MAX) found_.most = k;
      if (reductions[k].kind == FE_REDUCE_SUM) found_.sum = k;
    }
    if (found_.most == 0 || found_.sum == 0) return fail("its rows are reduced otherwise than by a softmax");
    found_.power = bare(reductions[found_.sum].element);
    if (!is(found_.power, Prim::exp_) || op(found_.power).dtype != f32)
      return fail("its powers are no exponentials in f32");
    const auto difference = bare(op(found_.power).a);
    if (!is(difference, Prim::sub_) || !is_reduced(op(difference).b, found_.most) ||
        bare(op(difference).a) != bare(reductions[found_.most].element))
      return fail("its powers are not those of the differences from the most");
    found_.score = op(difference).a;
    const auto needed = needed_by(found_.between, found_.score);
    for (OpId k = 0; k <= found_.score; ++k)
      if (needed[k] && op(k).code == FE_OP_REDUCED && op(k).bits != 0)
        return fail("its scores depend on the whole row");
    const auto weight = bare(weight_);
    const auto a = is(weight, Prim::mul_) || is(weight, Prim::div_) ? bare(op(weight).a) : none;
    const auto b = a == none ? none : bare(op(weight).b);
    const bool shares =
        a != none &&
        (is(weight, Prim::mul_) ? (a == found_.power && is_share(b)) || (b == found_.power && is_share(a))
                                : a == found_.power && is_reduced(b, found_.sum));
    return shares || fail("its weights are not the powers divided by their sum");
  }

  index::Pool& pool_;
  const Kernel& kernel_;
  const bool any_;  ///< any operands are allowed
  SoftmaxProducts found_;
  std::string_view reason_;
  std::map<BufferId, Written> written_;
  OpId weight_ = none;
};

}  // namespace detail

/// Matches the kernel and returns its parts. `pool` is the kernel's; new expressions are added to it.
inline SoftmaxProducts find_softmax_products(index::Pool& pool, const Kernel& kernel,
                                             SoftmaxOperands operands = SoftmaxOperands::vectors) {
  return detail::SoftmaxProductsFinder(pool, kernel, operands).find();
}

}  // namespace ferrite::inline v0::loop
