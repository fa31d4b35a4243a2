// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns the forms in which exporters write gelu into one op. What differs between them is how the three factors associate, how
// the argument is scaled, and how the cube is written. Operands of commutative ops match in either order.
#include "passes.h"

namespace ferrite::passes {

RuleSet recognise_gelu() {
  return rule_text("passes.recognise_gelu", R"(
rule passes.recognise_gelu at post_grad_pre {
  match {
    %f = add(erf(div(%x, 1.4142135623730951) | mul(%x, 0.7071067811865476)), 1)
    %r = mul(mul(%x, %f), 0.5) | mul(mul(%x, 0.5), %f) | mul(%x, mul(%f, 0.5)) | div(mul(%x, %f), 2) | mul(div(%x, 2), %f)
  }
  yield { %r = gelu(%x) {approximate = "none"} }
}
// tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)), or with x taken out of the sum.
rule passes.recognise_gelu.tanh at post_grad_pre {
  match {
    %cube = pow(%x, 3) | mul(mul(%x, %x), %x)
    %square = mul(%x, mul(%x, 0.044715)) | mul(mul(%x, %x), 0.044715) | mul(pow(%x, 2), 0.044715)
    %u = mul(add(%x, mul(%cube, 0.044715)), 0.7978845608028654) | mul(mul(%x, 0.7978845608028654), add(%square, 1))
    %f = add(tanh(%u), 1)
    %r = mul(mul(%x, %f), 0.5) | mul(mul(%x, 0.5), %f) | mul(%x, mul(%f, 0.5)) | div(mul(%x, %f), 2) | mul(div(%x, 2), %f)
  }
  yield { %r = gelu(%x) {approximate = "tanh"} }
}
)");
}

}  // namespace ferrite::passes
