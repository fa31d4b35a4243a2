// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Alternatives, computed attributes, axes: what matches, what the names stand for, and what is made of it.
#include "rewrite_support.h"

namespace ferrite::core::rewrite::test {
namespace {

struct Alternatives : Rewriting {
  static constexpr const char* either = "%s = mul(%a, %b) | sub(%a, neg(%b)) %r = relu(%s)";
};

TEST_F(Alternatives, EachMatches) {
  const std::string rules = rule(either, "%r = acme.fma(%a, %b, %b)");
  EXPECT_EQ(rewrite(rules, "%m = mul(%x, %y) %r = relu(%m)"), "%r = acme.fma(%x, %y, %y) {axis = 0}\n");
  EXPECT_EQ(rewrite(rules, "%n = neg(%y) %m = sub(%x, %n) %r = relu(%m)"),
            "%r = acme.fma(%x, %y, %y) {axis = 0}\n");
  EXPECT_EQ(rewrite(rules, "%m = sub(%x, %y) %r = relu(%m)"), "%m = sub(%x, %y)\n%r = relu(%m)\n");
}

TEST_F(Alternatives, OfTheRootAreFoundByEachOfTheirOps) {
  const std::string rules = rule("%r = add(%a, neg(%b)) | sub(%a, %b)", "%r = acme.fma(%a, %b, %a)");
  EXPECT_EQ(rewrite(rules, "%n = neg(%y) %r = add(%n, %x)"), "%r = acme.fma(%x, %y, %x) {axis = 0}\n");
  EXPECT_EQ(rewrite(rules, "%r = sub(%x, %y)"), "%r = acme.fma(%x, %y, %x) {axis = 0}\n");
}

TEST_F(Alternatives, AreTheSameWhereverTheyAreRead) {
  const std::string rules = rule("%s = neg(%x) | relu(%x) %r = mul(%s, sub(%s, %y))", "%r = sub(%x, %y)");
  EXPECT_EQ(rewrite(rules, "%s = neg(%x) %t = sub(%s, %y) %r = mul(%t, %s)"), "%r = sub(%x, %y)\n");
  const std::string other = "%s = neg(%x) %u = relu(%x) %t = sub(%u, %y) %r = mul(%t, %s)";
  EXPECT_EQ(rewrite(rules, other).find("sub(%x"), std::string::npos);
  // Of a number, too: two constants are two values.
  const std::string numbers = rule("%c = 1 | 2 %r = sub(mul(%x, %c), %c)", "%r = neg(%x)");
  EXPECT_EQ(rewrite(numbers, "%c = literal f32[] {2} %m = mul(%x, %c) %r = sub(%m, %c)"), "%r = neg(%x)\n");
  EXPECT_NE(
      rewrite(numbers, "%c = literal f32[] {2} %d = literal f32[] {2} %m = mul(%x, %c) %r = sub(%m, %d)"),
      "%r = neg(%x)\n");
}

TEST_F(Alternatives, AreTriedAgainWhereTheRestFails) {
  // Both alternatives fit the first operand; only the second makes the rest fit.
  const std::string rules = rule("%r = sub(%a | relu(%a), %a)", "%r = neg(%a)");
  EXPECT_EQ(rewrite(rules, "%u = relu(%x) %r = sub(%u, %x)"), "%r = neg(%x)\n");
  EXPECT_EQ(rewrite(rules, "%r = sub(%x, %x)"), "%r = neg(%x)\n");
  // What a failed alternative bound is free again.
  const std::string bound = rule("%s = mul(%a, neg(%b)) | mul(%b, %a) %r = sub(%s, %b)", "%r = neg(%a)");
  EXPECT_EQ(rewrite(bound, "%n = neg(%y) %s = mul(%x, %n) %r = sub(%s, %n)"), "%n = neg(%y)\n%r = neg(%x)\n");
}

TEST_F(Alternatives, WhatOneDoesNotHaveIsAbsent) {
  const std::string rules =
      rule("%m = add(%x, %low) once | %x %r = relu(%m)", "%r = clamp(%x, %low)", "elements(%low) == 6");
  EXPECT_EQ(rewrite(rules, "%m = add(%x, %y) %r = relu(%m)"), "%r = clamp(%x, %y)\n");
  // The condition is one of the other alternative.
  EXPECT_EQ(rewrite(rules, "%r = relu(%x)"), "%r = clamp(%x)\n");
}

TEST_F(Alternatives, DoNotMultiplyWhatIsTried) {
  // 30 values that fit both of two alternatives each, none of which lets the rest fit.
  std::string match = "%t0 = neg(%x) | relu(%x) ", body = "%t0 = neg(%x) ";
  for (int k = 1; k < 30; ++k) {
    match += fmt::format("%t{0} = neg(%t{1}) | relu(%t{1}) ", k, k - 1);
    body += fmt::format("%t{0} = {2}(%t{1}) ", k, k - 1, k % 3 ? "neg" : "relu");
  }
  const std::string rules = rule(match + "%r = sub(%t29, %t0)", "%r = neg(%x)", "rank(%x) == 7");
  rewrite(rules, body + "%r = sub(%t29, %t0)");
  EXPECT_EQ(last(), "");  // not "too many ways"
}

TEST_F(Alternatives, AreSeenByPredicates) {
  static std::string seen;
  auto predicate = abi::sized<fe_predicate>();
  predicate.name = abi::string(std::string_view("see"));
  predicate.accept = [](void*, fe_call*, const fe_match_args* args, fe_predicate_out* out) -> int32_t {
    seen.clear();
    for (uint64_t k = 0; k < args->names.count; ++k)
      seen += std::string(abi::view(abi::element<fe_string>(args->names, k))) +
              (abi::element<fe_value>(args->values, k) ? "+ " : "- ");
    for (uint64_t k = 0; k < args->attrs.count; ++k) {
      const auto attr = abi::element<fe_attr>(args->attrs, k);
      seen += fmt::format("{}={} ", abi::view(attr.name), attr.i);
    }
    out->accepted = 1;
    return FE_OK;
  };
  predicates.push_back(predicate);
  const std::string rules = rule("%m = add(%x, %low) | %x %t = turn(%m) {axis = $a} %r = relu(%t)",
                                 "%r = clamp(%x, %low)", "predicate(\"see\")");
  rewrite(rules, "%t = turn(%x) {axis = -1} %r = relu(%t)");
  EXPECT_EQ(seen, "x+ low- t+ r+ m+ a=1 ");
}

struct Attributes : Rewriting {};

TEST_F(Attributes, AreMadeOfConstants) {
  const std::string rules = rule("%r = mul(%x, %c)", "%r = scale(%x) {by = value(%c)}");
  EXPECT_EQ(rewrite(rules, "%c = literal f32[] {0.3} %r = mul(%x, %c)"),
            "%r = scale(%x) {axis = 0, by = 0.30000001192092896, mode = \"\"}\n");
  EXPECT_EQ(rewrite(rules, "%c = literal f32[2,3] {1, 2, 3, 4, 5, 6} %r = mul(%x, %c)"),
            "%r = mul(%x, %c)\n");
  EXPECT_EQ(rewrite(rules, "%r = mul(%x, %y)"), "%r = mul(%x, %y)\n");
  const std::string other =
      rule("%r = mul(%x, %c) | sub(%x, %d)", "%r = scale(%x) {by = 2 * (value(%c) else 0.5 / value(%d))}");
  EXPECT_EQ(rewrite(other, "%c = literal f32[] {4} %r = sub(%x, %c)"),
            "%r = scale(%x) {axis = 0, by = 0.25, mode = \"\"}\n");
  EXPECT_EQ(rewrite(other, "%c = literal f32[] {4} %r = mul(%c, %x)"),
            "%r = scale(%x) {axis = 0, by = 8.0, mode = \"\"}\n");
}

TEST_F(Attributes, ThatAreAxesAreCountedFromTheFront) {
  const std::string last_dim = rule("%r = turn(%x) {axis = rank(%x) - 1}", "%r = neg(%x)");
  EXPECT_EQ(rewrite(last_dim, "%r = turn(%x) {axis = -1}"), "%r = neg(%x)\n");
  EXPECT_EQ(rewrite(last_dim, "%r = turn(%x) {axis = 1}"), "%r = neg(%x)\n");
  EXPECT_NE(rewrite(last_dim, "%r = turn(%x) {axis = 0}"), "%r = neg(%x)\n");
  const std::string minus_one = rule("%r = turn(%x) {axis = -1}", "%r = neg(%x)");
  EXPECT_EQ(rewrite(minus_one, "%r = turn(%x) {axis = 1}"), "%r = neg(%x)\n");
  // The default, 0, too; and a capture is what it is from the front.
  const std::string captured =
      rule("%a = turn(%x) {axis = $k} %r = turn(%a) {axis = $k}", "%r = acme.fma(%x, %x, %x) {axis = $k}");
  EXPECT_EQ(rewrite(captured, "%a = turn(%x) {axis = -2} %r = turn(%a)"),
            "%r = acme.fma(%x, %x, %x) {axis = 0}\n");
  // A set of axes has no order.
  const std::string set = rule("%r = turn(%x) {axes = [rank(%x) - 2, -1]}", "%r = neg(%x)");
  EXPECT_EQ(rewrite(set, "%r = turn(%x) {axes = [-1, 0]}"), "%r = neg(%x)\n");
  EXPECT_NE(rewrite(set, "%r = turn(%x) {axes = [1]}"), "%r = neg(%x)\n");
}

TEST_F(Attributes, ThatReadWhatIsBoundLaterWait) {
  // %y is bound by the other operand of the root.
  const std::string rules = rule("%n = neg(%y) %r = sub(turn(%x) {axis = rank(%y) - 1}, %n)", "%r = neg(%x)");
  EXPECT_EQ(rewrite(rules, "%t = turn(%x) {axis = 1} %n = neg(%y) %r = sub(%t, %n)"), "%r = neg(%x)\n");
  EXPECT_NE(rewrite(rules, "%t = turn(%x) {axis = 0} %n = neg(%y) %r = sub(%t, %n)"), "%r = neg(%x)\n");
}

TEST_F(Attributes, OfListsAreTakenApart) {
  const std::string rules = rule("%r = turn(%x) {sizes = [$a, 1]}", "%r = turn(%x) {sizes = [1, $a + 1]}");
  options.max_rewrites = 1;
  EXPECT_EQ(rewrite(rules, "%r = turn(%x) {sizes = [7, 1]}"),
            "%r = turn(%x) {axes = [], axis = 0, sizes = [1, 8]}\n");
  EXPECT_EQ(rewrite(rules, "%r = turn(%x) {sizes = [7, 2]}"),
            "%r = turn(%x) {axes = [], axis = 0, sizes = [7, 2]}\n");
  EXPECT_EQ(rewrite(rules, "%r = turn(%x) {sizes = [7]}"),
            "%r = turn(%x) {axes = [], axis = 0, sizes = [7]}\n");
  // Of a set the axis that is known goes first.
  const std::string axes = rule("%r = turn(%x) {axes = [$a, -1]}", "%r = acme.fma(%x, %x, %x) {axis = $a}");
  EXPECT_EQ(rewrite(axes, "%r = turn(%x) {axes = [1, -2]}"), "%r = acme.fma(%x, %x, %x) {axis = 0}\n");
  EXPECT_NE(rewrite(axes, "%r = turn(%x) {axes = [0, 0]}"), "%r = acme.fma(%x, %x, %x) {axis = 0}\n");
}

}  // namespace
}  // namespace ferrite::core::rewrite::test
