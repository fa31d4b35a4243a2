// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns layer norm over the last dim, as exporters write it, into one op.
#include "passes.h"

namespace ferrite::passes {
namespace {

constexpr const char* epsilons[] = {"1e-3", "1e-5", "1e-6", "1e-7", "1e-8", "1e-12"};

/// One form: the square as a power or a product, with this epsilon. The means are those over the last dim:
/// they keep their dims, and hold one number where x has its last dim. Below 1e-6 a half-precision epsilon is
/// rounded far off, to 0 at last, which the model divides by where a row is constant; the op keeps it as it is.
std::string form(const std::string& name, const std::string& square, const std::string& epsilon) {
  const std::string dtypes = std::stod(epsilon) < 1e-6 ? "    dtype(%x) != f16\n" : "";
  return "rule passes.recognise_layer_norm." + name + R"( at post_grad_pre {
  match {
    %mean = reduce_mean(%x) {keepdims = true}
    %centred = sub(%x, %mean)
    %square = )" +
         square + R"(
    %variance = reduce_mean(%square) {keepdims = true}
    %shifted = add(%variance, )" +
         epsilon + R"()
    %deviation = sqrt(%shifted)
    %normal = div(%centred, %deviation)
    %scaled = mul(%normal, %scale)
    %r = add(%scaled, %bias)
  }
  where {
    dim(%mean, -1) == 1
    elements(%mean) * dim(%x, -1) == elements(%x)
    shape(%variance) == shape(%mean)
    elements(%scale) == dim(%x, -1)
    elements(%bias) == dim(%x, -1)
    dim(%scale, -1) == dim(%x, -1)
    dim(%bias, -1) == dim(%x, -1)
    shape(%r) == shape(%x)
)" + dtypes +
         R"(  }
  yield { %r = layer_norm(%x, %scale, %bias) {axis = -1, epsilon = )" +
         epsilon + R"(} }
}
)";
}

}  // namespace

RuleSet recognise_layer_norm() {
  std::string text;
  size_t number = 0;
  for (std::string epsilon : epsilons)
    for (std::string square : {"pow(%centred, 2)", "mul(%centred, %centred)"})
      text += form("form_" + std::to_string(++number), square, epsilon);
  return rule_text("passes.recognise_layer_norm", text);
}

}  // namespace ferrite::passes
