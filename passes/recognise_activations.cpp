// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns the expressions that exporters write for silu, hard swish and mish into one op each. It runs after
// the standard passes: those remove a factor of 1 in sigmoid(1 * x), and rules of other plugins for the same
// expressions come first.
#include "passes.h"

namespace ferrite::passes {

RuleSet recognise_activations() {
  return rule_text("passes.recognise_activations", R"(
rule passes.recognise_silu at post_grad_post {
  match {
    %d = add(exp(neg(%x)), 1)
    %r = mul(%x, sigmoid(%x) | reciprocal(%d) | div(1, %d)) | div(%x, %d)
  }
  yield { %r = silu(%x) }
}
rule passes.recognise_hardswish at post_grad_post {
  match {
    %s = add(%x, 3)
    %c = clamp(%s, 0, 6) | minimum(maximum(%s, 0) | relu(%s), 6) | maximum(minimum(%s, 6), 0) |
         clamp(relu(%s), none | 0, 6)
    %g = hardsigmoid(%x) {alpha = $alpha, beta = 0.5}
    %r = div(mul(%x, %c), 6) | mul(mul(%x, %c), %k) | mul(%x, div(%c, 6) | mul(%c, %k) | %g) |
         mul(div(%x, 6) | mul(%x, %k), %c)
  }
  // Exporters round 1/6 to 6 or more digits.
  where { $alpha * 6 > 0.99999, $alpha * 6 < 1.00001, value(%k) * 6 > 0.99999, value(%k) * 6 < 1.00001 }
  yield { %r = hardswish(%x) }
}
// Above PyTorch's threshold, it returns x for softplus(x): from 20 on they are equal except in f64. The sum
// that keeps its range is also the way in which softplus is computed here.
rule passes.recognise_softplus at post_grad_post {
  match {
    %e = exp(%x)
    %r = log(add(%e, 1)) | log1p(%e) | add(relu(%x) | maximum(%x, 0), log1p(exp(neg(abs(%x)))))
  }
  yield { %r = softplus(%x) }
}
rule passes.recognise_softplus.threshold at post_grad_post {
  match {
    %s = softplus(%x)
    %r = where(gt(%x, %limit), %x, %s) | where(le(%x, %limit), %s, %x)
  }
  where { dtype(%x) != f64, value(%limit) >= 20 }
  yield { %r = softplus(%x) }
}
rule passes.recognise_mish at post_grad_post {
  match {
    %p = softplus(%x) | log(add(exp(%x), 1)) | log1p(exp(%x))
    %r = mul(%x, tanh(%p))
  }
  yield { %r = mish(%x) }
}
)");
}

}  // namespace ferrite::passes
