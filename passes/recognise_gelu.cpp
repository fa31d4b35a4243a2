// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns the expressions that exporters write for gelu into one op. They differ in the association of the
// three factors, the scale of the argument, and the form of the cube. Operands of commutative ops match in
// either order.
#include "passes.h"

namespace ferrite::passes {

namespace {

/// The rules at one phase. Paddle multiplies by 1 and adds 0 whenever it adds or scales by a number. By the
/// later phase the factors of 1 are gone; the zeros are still there.
std::string gelu_rules(const std::string& suffix, const std::string& phase) {
  const std::string outer = R"(
    %h = mul(%x, 0.5) | add(mul(%x, 0.5), 0) | div(%x, 2)
    %m = mul(%x, %f)
    %r = mul(%m, 0.5) | mul(%h, %f) | mul(%x, mul(%f, 0.5)) | div(%m, 2)
  }
)";
  return "rule passes.recognise_gelu" + suffix + " at " + phase + R"( {
  match {
    %c = mul(%x, 0.7071067811865476)
    %f = add(erf(div(%x, 1.4142135623730951) | %c | add(%c, 0)), 1))" +
         outer + R"(  yield { %r = gelu(%x) {approximate = "none"} }
}
// tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)), or with x factored out of the sum.
rule passes.recognise_gelu.tanh)" +
         suffix + " at " + phase + R"( {
  match {
    %cube = pow(%x, 3) | mul(mul(%x, %x), %x)
    %scaled = mul(%cube, 0.044715)
    %square = mul(%x, mul(%x, 0.044715)) | mul(mul(%x, %x), 0.044715) | mul(pow(%x, 2), 0.044715)
    %sum = mul(add(%x, %scaled | add(%scaled, 0)), 0.7978845608028654)
    %u = %sum | add(%sum, 0) | mul(mul(%x, 0.7978845608028654), add(%square, 1))
    %f = add(tanh(%u), 1))" +
         outer + R"(  yield { %r = gelu(%x) {approximate = "tanh"} }
}
)";
}

}  // namespace

RuleSet recognise_gelu() {
  return rule_text("passes.recognise_gelu",
                   gelu_rules("", "post_grad_pre") + gelu_rules(".simplified", "post_grad_post"));
}

}  // namespace ferrite::passes
