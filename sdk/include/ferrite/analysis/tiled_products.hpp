// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recognises kernels of matrix products whose results are combined point by point and multiplied again, as in
// the gradient of attention. A code generator can keep tiles of the matrices between the products in
// registers, so that they are never stored (Dao, "FlashAttention-2", 2023). The host uses the same function
// to decide whether such a kernel should exist.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/analysis/product_operands.hpp"
#include "ferrite/analysis/spliced_bodies.hpp"
#include "ferrite/loop.hpp"

namespace ferrite::inline v0::loop {

/// Each input is matrix[kept, walked] = the sum over its depth of kept operand * walked operand. From the
/// inputs and other values at (kept, walked), `between` computes a weight for each output, and
/// output[kept, feature] = the sum over `walked` of weight * value. No matrix over (kept, walked) is stored.
struct TiledProducts {
  struct Input {
    ProductOperand kept, walked;
    Var depth;
  };
  struct Output {
    OpId weight = none;  ///< of `between`
    ProductOperand values;
    Var feature;
    /// The computation of the results, over the shared variables, `kept` and `feature`; reduction 0 is the
    /// product.
    Statement finish;
  };
  /// Why the kernel does not match; empty: it matches, and the other fields are set.
  std::string_view reason;

  DType dtype = DType::none;  ///< of all operands: f16 or bf16
  /// Dims of the matrices, as variables of `between`. Operands are addressed by the shared variables, these
  /// two, and the depth or the feature.
  Var kept, walked;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  /// The computation between the products, over the shared variables and the two dims of the matrices;
  /// reduction k is the product of input k. It has no stores.
  Statement between;

  explicit operator bool() const { return reason.empty(); }
};

namespace detail {

class TiledProductsFinder {
 public:
  TiledProductsFinder(index::Pool& pool, const Kernel& kernel)
      : pool_(pool), kernel_(kernel), operands_(pool, kernel), bodies_(pool, kernel) {}

  TiledProducts find() {
    if (!find_all())
      found_.reason =
          bodies_.reason().empty() ? "it is no product of matrices that are products" : bodies_.reason();
    found_.dtype = operands_.dtype();
    return std::move(found_);
  }

 private:
  using Substitution = SplicedBodies::Substitution;

  bool fail(std::string_view reason) { return bodies_.fail(reason); }
  bool holds(std::string_view reason) { return reason.empty() || fail(reason); }

  bool find_all() {
    constexpr uint32_t each_operation_rounds = 1;
    if (kernel_.numerics == each_operation_rounds) return fail("each operation is to round");
    if (kernel_.shared == 0 || kernel_.statements.size() < 3 ||
        kernel_.statements[0].kind != FE_STATEMENT_CONTRACT)
      return false;
    for (const auto& statement : kernel_.statements)
      if (!take(statement)) return false;
    if (found_.inputs.empty() || found_.outputs.empty()) return false;
    if (found_.kept.symbol == dims_[1].symbol)
      for (auto& input : found_.inputs) std::swap(input.kept, input.walked);
    return true;
  }

  bool take(const Statement& statement) {
    if (!statement.carries.empty() || statement.has(VarKind::serial) ||
        statement.parallel_count() < kernel_.shared)
      return fail("it has other loops than those of products");
    if (statement.kind == FE_STATEMENT_MAP) return take_map(statement);
    if (statement.kind != FE_STATEMENT_CONTRACT || statement.reductions.size() != 1 ||
        statement.contract_kind == FE_CONTRACT_CONV)
      return fail("it contains more than products and maps");
    for (const auto& [weight, value] : {std::pair(statement.contract_a, statement.contract_b),
                                        std::pair(statement.contract_b, statement.contract_a)})
      if (const auto* load = bodies_.load_of_written(statement, weight)) {
        if (bodies_.load_of_written(statement, value)) return fail("both operands of a product are computed");
        return take_output(statement, weight, value, *load);
      }
    return take_input(statement);
  }

  /// The own variables of a statement of a kind that have more than one value.
  std::vector<Var> own(const Statement& statement, VarKind kind) const {
    std::vector<Var> result;
    for (size_t k = kernel_.shared; k < statement.vars.size(); ++k)
      if (statement.vars[k].kind == kind && statement.vars[k].extent != 1)
        result.push_back(statement.vars[k]);
    return result;
  }

  /// Takes the statement's two dims as those of the matrices.
  std::optional<Substitution> take_dims(const Statement& statement) {
    const auto vars = own(statement, VarKind::parallel);
    if (vars.size() != 2) return fail("it has other loops than those of its matrices"), std::nullopt;
    if (vars[0].extent == 0 || vars[1].extent == 0) return fail("its matrices are empty"), std::nullopt;
    if (found_.between.vars.empty()) {
      found_.between.vars.assign(statement.vars.begin(), statement.vars.begin() + kernel_.shared);
      found_.between.vars.insert(found_.between.vars.end(), vars.begin(), vars.end());
      dims_ = {vars[0], vars[1]};
    }
    auto result = bodies_.shared_variables(statement, found_.between);
    for (size_t k = 0; k < 2; ++k) {
      if (vars[k].extent != dims_[k].extent) return fail("its matrices are of different sizes"), std::nullopt;
      result.emplace_back(vars[k].symbol, pool_.symbol(dims_[k].symbol));
    }
    return result;
  }

  bool take_map(const Statement& map) {
    const auto dims = take_dims(map);
    return dims && bodies_.splice_stores(found_.between, map, *dims, 0, false);
  }

  bool take_input(const Statement& product) {
    const auto dims = take_dims(product);
    const auto depth = own(product, VarKind::reduction);
    if (!dims || depth.size() != 1) return fail("a product has several sums");
    const auto *a = load_below_casts(product, product.contract_a),
               *b = load_below_casts(product, product.contract_b);
    if (!a || !b) return fail("an operand is computed");
    const auto vars = own(product, VarKind::parallel);
    if (operands_.depends(*a, vars[1])) std::swap(a, b);
    if (operands_.depends(*a, vars[1]) || operands_.depends(*b, vars[0]))
      return fail("its operands are no rows and columns");
    TiledProducts::Input input;
    input.depth = depth[0];
    // Which of the two is kept is known once an output has been found.
    if (!take_operand(*a, *dims, input.kept) || !take_operand(*b, *dims, input.walked) ||
        !holds(ProductOperands::has_features(input.depth)) ||
        !holds(operands_.lies_evenly(input.kept, input.depth, dims_[0])) ||
        !holds(operands_.lies_evenly(input.walked, input.depth, dims_[1])))
      return false;
    const auto number = static_cast<uint32_t>(found_.inputs.size());
    found_.inputs.push_back(input);
    found_.between.reductions.push_back(product.reductions[0]);
    found_.between.reductions.back().element = none;
    return bodies_.splice_stores(found_.between, product, *dims, number, false);
  }
  bool take_operand(const BodyOp& load, const Substitution& dims, ProductOperand& operand) {
    if (!holds(operands_.take(load, operand))) return false;
    operand.address = pool_.substitute(operand.address, dims);
    return true;
  }

  /// `load`: where the weights are read.
  bool take_output(const Statement& product, OpId weight, OpId value, const BodyOp& load) {
    const auto summed = own(product, VarKind::reduction), vars = own(product, VarKind::parallel);
    if (summed.size() != 1 || vars.size() != 2) return fail("a product has other loops than a matrix's");
    // The place where the weights were written says which dims they are.
    auto dims = bodies_.shared_variables(product, found_.between);
    const auto& written = bodies_.written(load.buffer)->index;
    const auto dim_of = [&](const Var& var) -> std::optional<size_t> {
      for (size_t d = 0; d < written.size(); ++d)
        for (size_t k = 0; k < 2; ++k)
          if (pool_.as_symbol(load.index[d]) == var.symbol && pool_.as_symbol(written[d]) == dims_[k].symbol)
            return k;
      return std::nullopt;
    };
    const auto walked = dim_of(summed[0]);
    const size_t kept_var = dim_of(vars[0]) ? 0 : 1;
    const auto kept = dim_of(vars[kept_var]);
    if (!walked || !kept || *walked == *kept) return fail("weights are read in another form");
    if (summed[0].extent != dims_[*walked].extent || vars[kept_var].extent != dims_[*kept].extent)
      return fail("a part of its matrices is read");
    if (!found_.outputs.empty() && found_.walked.symbol != dims_[*walked].symbol)
      return fail("its products sum over different dims");
    found_.kept = dims_[*kept];
    found_.walked = dims_[*walked];
    dims.emplace_back(summed[0].symbol, pool_.symbol(found_.walked.symbol));
    dims.emplace_back(vars[kept_var].symbol, pool_.symbol(found_.kept.symbol));

    TiledProducts::Output output;
    output.feature = vars[1 - kept_var];
    output.weight = bodies_.splice(found_.between, product, weight, dims, 0);
    const auto* values = load_below_casts(product, value);
    if (output.weight == none) return false;
    if (!values || operands_.depends(*values, vars[kept_var]))
      return fail("its values are computed, or others for each row");
    if (!take_operand(*values, dims, output.values) ||
        !holds(ProductOperands::has_features(output.feature)) ||
        !holds(operands_.lies_evenly(output.values, found_.walked, output.feature)))
      return false;
    auto& finish = output.finish;
    finish.vars = found_.between.vars;
    std::erase_if(finish.vars, [&](const Var& var) { return var.symbol == found_.walked.symbol; });
    finish.vars.push_back(output.feature);
    finish.reductions.push_back(product.reductions[0]);
    finish.reductions[0].element = none;
    SplicedBodies finished(pool_, kernel_);
    if (!finished.splice_stores(finish, product, dims, 0, true)) return fail(finished.reason());
    if (finish.stores.empty()) return fail("the result of a product is read in the kernel");
    found_.outputs.push_back(std::move(output));
    return true;
  }

  index::Pool& pool_;
  const Kernel& kernel_;
  ProductOperands operands_;
  SplicedBodies bodies_;
  std::array<Var, 2> dims_;
  TiledProducts found_;
};

}  // namespace detail

/// Matches the kernel and returns its parts. `pool` is the kernel's; new expressions are added to it.
inline TiledProducts find_tiled_products(index::Pool& pool, const Kernel& kernel) {
  return detail::TiledProductsFinder(pool, kernel).find();
}

}  // namespace ferrite::inline v0::loop
