// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Algebra that preserves every bit, including NaN, infinities and the sign of zero; only a power written as
// products may change the last bit. pow(x, 0.5) stays: a square root differs for minus infinity and minus
// zero.
#include "passes.h"

namespace ferrite::passes {

RuleSet simplify() {
  return rule_text("passes.simplify", R"(
// x * 1 and x / 1 are x for every x. x + 0 is not x for x = -0.0, so this rule applies to integers only.
rule passes.simplify.multiply_by_one at post_grad {
  match { %r = mul(%x, 1) }
  where { shape(%x) == shape(%r) }
  yield { %r = %x }
}
rule passes.simplify.divide_by_one at post_grad {
  match { %r = div(%x, 1) }
  where { shape(%x) == shape(%r) }
  yield { %r = %x }
}
rule passes.simplify.add_nothing at post_grad {
  match { %r = add(%x, 0) }
  where {
    shape(%x) == shape(%r)
    dtype(%x) == i64 or dtype(%x) == i32 or dtype(%x) == i8 or dtype(%x) == u8
  }
  yield { %r = %x }
}
rule passes.simplify.subtract_nothing at post_grad {
  match { %r = sub(%x, 0) }
  where {
    shape(%x) == shape(%r)
    dtype(%x) == i64 or dtype(%x) == i32 or dtype(%x) == i8 or dtype(%x) == u8
  }
  yield { %r = %x }
}
rule passes.simplify.multiply_by_minus_one at post_grad {
  match { %r = mul(%x, -1) }
  where {
    shape(%x) == shape(%r)
    dtype(%x) != u8 and dtype(%x) != u16 and dtype(%x) != u32 and dtype(%x) != u64
  }
  yield { %r = neg(%x) }
}
rule passes.simplify.negate_twice at post_grad {
  match { %n = neg(%x)  %r = neg(%n) }
  yield { %r = %x }
}
rule passes.simplify.not_twice at post_grad {
  match { %n = logical_not(%x)  %r = logical_not(%n) }
  yield { %r = %x }
}
rule passes.simplify.magnitude_of_negated at post_grad {
  match { %n = neg(%x)  %r = abs(%n) }
  where { dtype(%x) != u8 and dtype(%x) != u16 and dtype(%x) != u32 and dtype(%x) != u64 }
  yield { %r = abs(%x) }
}
rule passes.simplify.magnitude_twice at post_grad {
  match { %n = abs(%x)  %r = abs(%n) }
  yield { %r = %n }
}
rule passes.simplify.relu_twice at post_grad {
  match { %n = relu(%x)  %r = relu(%n) }
  yield { %r = %n }
}
rule passes.simplify.maximum_of_itself at post_grad {
  match { %r = maximum(%x, %x) }
  yield { %r = %x }
}
rule passes.simplify.minimum_of_itself at post_grad {
  match { %r = minimum(%x, %x) }
  yield { %r = %x }
}
rule passes.simplify.power_of_one at post_grad {
  match { %r = pow(%x, 1) }
  where { shape(%x) == shape(%r) }
  yield { %r = %x }
}
rule passes.simplify.square at post_grad {
  match { %r = pow(%x, 2) }
  where { shape(%x) == shape(%r) }
  yield { %r = mul(%x, %x) }
}
rule passes.simplify.cube at post_grad {
  match { %r = pow(%x, 3) }
  where { shape(%x) == shape(%r) }
  yield { %s = mul(%x, %x)  %r = mul(%s, %x) }
}
rule passes.simplify.choice_of_one at post_grad {
  match { %r = where(%c, %x, %x) }
  where { shape(%x) == shape(%r) }
  yield { %r = %x }
}
rule passes.simplify.always at post_grad {
  match { %r = where(1, %x, %y) }
  where { shape(%x) == shape(%r) }
  yield { %r = %x }
}
rule passes.simplify.never at post_grad {
  match { %r = where(0, %x, %y) }
  where { shape(%y) == shape(%r) }
  yield { %r = %y }
}
rule passes.simplify.cast_to_itself at post_grad {
  match { %r = cast(%x) }
  where { dtype(%x) == dtype(%r) }
  yield { %r = %x }
}
// A cast to a wider float and back rounds nothing.
rule passes.simplify.cast_there_and_back at post_grad {
  match { %w = cast(%x)  %r = cast(%w) }
  where {
    dtype(%x) == dtype(%r)
    dtype(%x) == f16 or dtype(%x) == bf16
    dtype(%w) == f32 or dtype(%w) == f64
  }
  yield { %r = %x }
}
)");
}

}  // namespace ferrite::passes
