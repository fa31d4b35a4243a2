// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises kernels of the form matrix product, softmax over its rows, product with the softmax, as in
// attention. Extracts what a code generator needs that processes the columns in chunks. The host uses the
// same function to decide whether such a kernel should exist.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/analysis/product_operands.hpp"
#include "ferrite/analysis/spliced_bodies.hpp"
#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// weights[row, column] = power / the sum of power over the columns, with power = exp(score - maximum score
/// of the row). A score is computed from the first product and other values at (row, column). The second
/// product multiplies weights and values. Of the intermediates, only values of whole rows are stored, such as
/// the logarithm of the sum.
struct SoftmaxProducts {
  /// Why the kernel does not match; empty: it matches, and the other fields are set.
  std::string_view reason;

  size_t second = 0;  ///< the statement number of the second product
  OpId value = none;  ///< the second product's operand that is not the weights
  DType dtype = DType::none;
  /// Of the first product. `rows` is read in pairs along the depth, the other operands in tiles.
  ProductOperand rows, columns;
  ProductOperand values;  ///< of the second product, which sums over the columns
  /// The last shared variable, and the scores' variable that the other statements do not share.
  Var row, column;
  Var depth;            ///< of the first product
  Var summed, feature;  ///< of the second product: its summed variable (the columns), and its result variable

  /// The computation between the products, over the shared variables and `column`: reduction 0 is the first
  /// product; `most` and `sum` are the reductions over the columns. Its stores are those of whole rows: their
  /// values depend on the row and on reductions over the columns.
  Statement between;
  OpId score = none, power = none;
  bool nan_as_zero = false;  ///< weights that are NaN count as 0
  uint32_t most = 0, sum = 0;
  /// The computation after the second product, over the shared variables and `feature`; reduction 0 is the
  /// second product.
  Statement finish;

  explicit operator bool() const { return reason.empty(); }
};

/// The operands that the caller supports.
enum class SoftmaxOperands {
  /// Loads of f16 or bf16 in whole contiguous vectors, with at most product_features features.
  vectors,
  any  ///< any operands; `rows`, `columns`, `values` and `dtype` are not set
};

namespace detail {

class SoftmaxProductsFinder {
 public:
  SoftmaxProductsFinder(index::Pool& pool, const Kernel& kernel, SoftmaxOperands operands)
      : pool_(pool),
        kernel_(kernel),
        any_(operands == SoftmaxOperands::any),
        operands_(pool, kernel),
        between_(pool, kernel),
        finish_(pool, kernel) {}

  SoftmaxProducts find() {
    if (!find_all()) {
      found_.reason = "it is no softmax between two products";
      for (const auto reason : {finish_.reason(), between_.reason()})
        if (!reason.empty()) found_.reason = reason;
    }
    found_.dtype = operands_.dtype();
    return std::move(found_);
  }

 private:
  bool fail(std::string_view reason) { return between_.fail(reason); }
  /// Whether there is no such reason.
  bool holds(std::string_view reason) { return reason.empty() || fail(reason); }

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
    return between_.splice_stores(between, first, {}, 0, false);
  }
  bool take_operands(const Statement& first) {
    const auto &column = found_.column, &depth = found_.depth;
    const auto *rows = load_below_casts(first, first.contract_a),
               *columns = load_below_casts(first, first.contract_b);
    if (!rows || !columns) return fail("an operand is computed");
    if (operands_.depends(*rows, column)) std::swap(rows, columns);
    if (operands_.depends(*rows, column) || operands_.depends(*columns, found_.row))
      return fail("its operands are no rows and columns");
    if (!holds(operands_.take(*rows, found_.rows)) || !holds(operands_.take(*columns, found_.columns)) ||
        !holds(ProductOperands::has_features(depth)))
      return false;
    constexpr int64_t pair = 2;
    if (!operands_.side_by_side(found_.rows.address, depth, pair))
      return fail("the rows do not lie side by side");
    return holds(operands_.lies_evenly(found_.columns, depth, column));
  }

  bool take_between() {
    auto& between = found_.between;
    for (size_t s = 1; s < found_.second; ++s) {
      const auto& statement = kernel_.statements[s];
      if ((statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE) ||
          !is_plain(statement))
        return fail("between the products is more than maps and reductions");
      auto substitution = between_.shared_variables(statement, between);
      bool of_columns = false;
      for (size_t k = kernel_.shared; k < statement.vars.size(); ++k) {
        const auto& var = statement.vars[k];
        if (var.extent == 1) continue;
        if (var.extent != found_.column.extent || substitution.size() > kernel_.shared)
          return fail("between the products are other loops than those over the columns");
        substitution.emplace_back(var.symbol, pool_.symbol(found_.column.symbol));
        of_columns = var.kind == VarKind::parallel;
      }
      const auto number = static_cast<uint32_t>(between.reductions.size());
      for (const auto& reduction : statement.reductions) {
        const auto element = between_.splice(between, statement, reduction.element, substitution, number);
        if (element == none) return false;
        between.reductions.push_back(reduction);
        between.reductions.back().element = element;
      }
      if (!between_.splice_stores(between, statement, substitution, number, !of_columns)) return false;
    }
    return true;
  }
  /// A map after the second product whose results are values of whole rows.
  bool take_row_results(const Statement& map) {
    return between_.splice_stores(found_.between, map, between_.shared_variables(map, found_.between), 0,
                                  true);
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
    auto substitution = between_.shared_variables(second, found_.between);
    substitution.emplace_back(summed->symbol, pool_.symbol(found_.column.symbol));
    const bool first_has_weights = between_.load_of_written(second, second.contract_a);
    weight_ = between_.splice(found_.between, second,
                              first_has_weights ? second.contract_a : second.contract_b, substitution, 0);
    found_.value = first_has_weights ? second.contract_b : second.contract_a;
    const auto* values = load_below_casts(second, found_.value);
    if (weight_ == none || between_.load_of_written(second, found_.value)) return false;
    if (any_) return take_finish(second);
    if (!values || operands_.depends(*values, second.vars[kernel_.shared - 1]))
      return fail("its values are computed, or others for each row");
    if (!holds(operands_.take(*values, found_.values)) || !holds(ProductOperands::has_features(*feature)) ||
        !holds(operands_.lies_evenly(found_.values, *summed, *feature)))
      return false;
    return take_finish(second);
  }
  bool take_finish(const Statement& second) {
    auto& finish = found_.finish;
    finish.vars.assign(second.vars.begin(), second.vars.begin() + kernel_.shared);
    finish.vars.push_back(found_.feature);
    finish.reductions.push_back(second.reductions[0]);
    finish.reductions[0].element = none;
    if (!finish_.splice_stores(finish, second, {}, 0, true)) return false;
    for (size_t s = found_.second + 1; s < kernel_.statements.size(); ++s) {
      const auto& map = kernel_.statements[s];
      const auto own_var = own(map, VarKind::parallel);
      if (map.kind == FE_STATEMENT_MAP && is_plain(map) && map.points(VarKind::parallel) == rows_of(map)) {
        if (!take_row_results(map)) return false;
        continue;
      }
      if (map.kind != FE_STATEMENT_MAP || !is_plain(map) || !own_var ||
          own_var->extent != found_.feature.extent)
        return fail("the second product is followed by more than maps over its results");
      auto same = finish_.shared_variables(map, finish);
      same.emplace_back(own_var->symbol, pool_.symbol(found_.feature.symbol));
      if (!finish_.splice_stores(finish, map, same, 0, true)) return false;
    }
    return !finish.stores.empty();
  }
  /// The number of points of the shared loops.
  int64_t rows_of(const Statement& statement) const {
    int64_t points = 1;
    for (size_t k = 0; k < kernel_.shared; ++k) points *= statement.vars[k].extent;
    return points;
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
  bool is_zero(OpId id) const {
    return op(id).code == FE_OP_CONSTANT && is_float(op(id).dtype) && op(id).bits == 0;
  }
  /// Whether the operation is 1 / sum.
  bool is_share(OpId id) const {
    id = bare(id);
    if (is(id, Prim::reciprocal_)) return is_reduced(op(id).a, found_.sum);
    return is(id, Prim::div_) && is_one(bare(op(id).a)) && is_reduced(op(id).b, found_.sum);
  }

  /// Whether a stored value depends on the row and the reductions over its columns alone.
  bool is_of_row(const Store& store) const {
    for (const auto expr : store.index)
      if (pool_.depends_on(expr, found_.column.symbol)) return false;
    const auto needed = needed_by(found_.between, store.value);
    for (OpId k = 0; k <= store.value; ++k)
      if (needed[k] &&
          ((op(k).code == FE_OP_REDUCED && op(k).bits == 0) || operands_.depends(op(k), found_.column)))
        return false;
    return true;
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
    for (const auto& store : found_.between.stores)
      if (!is_of_row(store)) return fail("a value between the products is stored");
    auto weight = bare(weight_);
    if (is(weight, Prim::where_) && is(op(weight).a, Prim::isnan_) && is_zero(bare(op(weight).b)) &&
        bare(op(op(weight).a).a) == bare(op(weight).c)) {
      found_.nan_as_zero = true;
      weight = bare(op(weight).c);
    }
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
  ProductOperands operands_;
  SplicedBodies between_, finish_;
  SoftmaxProducts found_;
  OpId weight_ = none;
};

}  // namespace detail

/// Matches the kernel and returns its parts. `pool` is the kernel's; new expressions are added to it.
inline SoftmaxProducts find_softmax_products(index::Pool& pool, const Kernel& kernel,
                                             SoftmaxOperands operands = SoftmaxOperands::vectors) {
  return detail::SoftmaxProductsFinder(pool, kernel, operands).find();
}

}  // namespace ferrite::inline v0::loop
