// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns the forms in which exporters write gelu into one op. Operands of commutative ops match in either
// order; what differs between exporters is how the three factors associate and how the argument is scaled.
#include <cmath>
#include <functional>
#include <numbers>

#include "passes.h"

namespace ferrite::passes {
namespace {

/// x * 0.5 * f in its three associations.
std::vector<Term> half_products(Term x, Term f) {
  auto mul = op("mul");
  return {mul(mul(x, f), 0.5), mul(mul(x, 0.5), f), mul(x, mul(f, 0.5))};
}
/// erf(x / sqrt(2)), as a quotient or a product.
std::vector<Term> scaled_erf(Term x) {
  return {op("erf")(op("div")(x, std::numbers::sqrt2)), op("erf")(op("mul")(x, 1 / std::numbers::sqrt2))};
}
/// tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)) with the cube as a power or as products.
std::vector<Term> scaled_tanh(Term x) {
  auto mul = op("mul");
  std::vector<Term> result;
  for (const Term& cube : {op("pow")(x, 3.0), mul(mul(x, x), x)}) {
    Term sum = op("add")(x, mul(cube, 0.044715));
    result.push_back(op("tanh")(mul(sum, std::sqrt(2 * std::numbers::inv_pi))));
  }
  return result;
}

}  // namespace

RuleSet recognise_gelu() {
  RuleSet set{"post_grad_pre", {}, {}, "passes.recognise_gelu"};
  auto add_forms = [&](const std::string& name, const std::function<std::vector<Term>(Term)>& inner_forms) {
    Term x = any("x");
    size_t inner_count = inner_forms(x).size(), outer_count = 3;
    for (size_t k = 0; k < inner_count * outer_count; ++k) {
      Term factor = op("add")(inner_forms(x)[k / outer_count], 1.0);
      Term gelu = op("gelu")(x).attrs("{approximate = \"" + name + "\"}");
      set.rules.push_back(rule("passes.recognise_gelu." + name + "_" + std::to_string(k + 1))
                              .match(half_products(x, factor)[k % outer_count])
                              .yield(gelu));
    }
  };
  add_forms("none", scaled_erf);
  add_forms("tanh", scaled_tanh);
  return set;
}

}  // namespace ferrite::passes
