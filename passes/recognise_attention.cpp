// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns scaled dot products with a softmax between, and rotary embeddings, into one op each. A factor of the queries or keys stays
// where it is: in a small dtype the scores may overflow without it.
#include "passes.h"

namespace ferrite::passes {

RuleSet recognise_attention() {
  return rule_text("passes.recognise_attention", R"(
// Exporters write the keys transposed, mostly together with the transposition of the heads. The view that this turns back, and
// the one in attention, go with compose_views.
rule passes.recognise_attention at post_grad_post {
  match {
    %s = matmul(%q, %k) once
    %t = mul(%s, %m) once | div(%s, %d) once | %s
    %u = add(%t, %mask) once | %t
    %r = matmul(softmax(%u) {axis = rank(%u) - 1} once, %v)
  }
  where { rank(%q) == 4, rank(%k) == 4, rank(%v) == 4 }
  yield { %r = attention(%q, transpose(%k) {perm = [0, 1, 3, 2]}, %v, %mask) {scale = value(%m) else 1 / value(%d) else 1.0} }
}
rule passes.recognise_rotary_embedding at post_grad_post {
  match {
    %first, %second = split(%x) {axis = rank(%x) - 1, sizes = [$half, $half]}
    %low = %first | slice(%x) {starts = [0, 0, 0, 0], sizes = [dim(%x, 0), dim(%x, 1), dim(%x, 2), $half], strides = [1, 1, 1, 1]}
    %high = %second | slice(%x) {starts = [0, 0, 0, $half], sizes = [dim(%x, 0), dim(%x, 1), dim(%x, 2), $half], strides = [1, 1, 1, 1]}
    %rotated = concat(neg(%high), %low) {axis = rank(%x) - 1} once
    %r = add(mul(%x, %cos) once, mul(%rotated, %sin) once)
  }
  where { $half * 2 == dim(%x, -1) }
  yield { %r = rotary_embedding(%x, %cos, %sin) }
}
)");
}

}  // namespace ferrite::passes
