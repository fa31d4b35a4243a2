// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where rules stop short of matching: the part that is named, what it wanted, what is there, and the order.
#include "rewrite_support.h"

namespace ferrite::core::rewrite::test {
namespace {

struct Explaining : Rewriting {
  NearMisses misses{"", 100};

  /// What the rules missed over the graph.
  std::vector<NearMiss> explain(const std::string& rules, const std::string& body,
                                const std::string& outputs = "%r \"out\"") {
    misses = NearMisses("", 100);
    options.near_misses = &misses;
    rewrite(rules, body, outputs);
    return misses.nearest();
  }
  /// "failed | wanted | found" of the nearest one; its parts are checked against the rule's.
  std::string nearest(const std::string& match, const std::string& body, const std::string& where = {},
                      const std::string& outputs = "%r \"out\"") {
    const auto all = explain(rule(match, "%r = relu(%a)", where), body, outputs);
    if (all.empty()) return "none";
    EXPECT_LT(all[0].held, all[0].parts);
    EXPECT_EQ(all[0].place.substr(0, 9), "rules.fe:");
    return all[0].failed + " | " + all[0].wanted + " | " + all[0].found;
  }
};

TEST_F(Explaining, NamesEachKindOfPart) {
  EXPECT_EQ(nearest("%m = mul(%a, %b) %r = sub(%m, %c)", "%m = neg(%x) from \"Neg_0\" %r = sub(%m, %z)"),
            "mul(%a, %b) | a value made by 'mul' | %m = 'neg' from \"Neg_0\"");
  EXPECT_EQ(nearest("%m = mul(%a, %b) %r = sub(%m, %c)", "%r = sub(%x, %z)"),
            "mul(%a, %b) | a value made by 'mul' | the input %x");
  EXPECT_EQ(nearest("%m = mul(%a, %b) once %r = sub(%m, %c)", "%m = mul(%x, %y) %r = sub(%m, %z)", {},
                    "%r \"out\", %m \"other\""),
            "mul(%a, %b) once | one use of %m | 2 uses, of which 1 as an output of the graph");
  EXPECT_EQ(nearest("%r = sub(%a, %a)", "%r = sub(%x, %y)"),
            "%a | the value that %a stands for already, the input %x | the input %y");
  EXPECT_EQ(nearest("%r = sub(%a, 2)", "%c = literal f32[] {3} %r = sub(%x, %c)"),
            "2 | a constant of which every element is 2 | the constant %c of f32[], every element 3.0");
  EXPECT_EQ(nearest("%r = clamp(%a, none, %c)", "%r = clamp(%x, %y, %z)"),
            "none | 'clamp' without this operand | the input %y");
  EXPECT_EQ(nearest("%r = clamp(%a, %b)", "%r = clamp(%x)"), "%b | an operand of 'clamp' | no operand");
  EXPECT_EQ(nearest("%r = scale(%a) {axis = 1, by = 0.5}", "%r = scale(%x) {axis = 2, by = 0.5}"),
            "axis = 1 | axis = 1 | axis = 2");
  EXPECT_EQ(nearest("%n = neg(%a) %r = sub(%n, %b)", "%n = neg(%x) %r = sub(%n, %y)", "dtype(%a) == f64"),
            "dtype(%a) == f64 | that dtype(%a) == f64 | dtype(%a) is f32");
  EXPECT_EQ(nearest("%s = neg(%a) %r = sub(%a, %b)", "%r = sub(%x, %y) %t = log(%x)"),
            "neg(%a) | another 'neg' among the readers of the input %x | readers 'sub', 'log'");
}

TEST_F(Explaining, AConditionSaysWhatItFound) {
  const auto found = [&](const std::string& where) {
    const std::string line = nearest("%r = sub(%a, %b)", "%r = sub(%x, %y)", where);
    return line.substr(line.rfind(" | ") + 3);
  };
  EXPECT_EQ(found("rank(%a) == 3 or dim(%a, 1) > 3"), "rank(%a) is 2, dim(%a, 1) is 3");
  EXPECT_EQ(found("rank(%a) == 2 and shape(%b) == [3, 2] and dtype(%a) == f64"), "shape(%b) is [2,3]");
  EXPECT_EQ(found("dim(%a, 5) != 1"), "dim(%a, 5) is undefined");
  EXPECT_EQ(found("not constant(%a) == false"), "constant(%a) is false");
  EXPECT_EQ(found("1 == 2"), "nothing that it depends on");
}

TEST_F(Explaining, TheFirstConditionThatFailsIsTheOne) {
  const auto all =
      explain(rule("%r = sub(%a, %b)", "%r = relu(%a)", "rank(%a) == 2, rank(%b) == 7, rank(%a) == 8"),
              "%r = sub(%x, %y)");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].failed, "rank(%b) == 7");
  EXPECT_EQ(all[0].held, 4u);   // the op, two operands and a condition
  EXPECT_EQ(all[0].parts, 6u);  // and two conditions more
  EXPECT_EQ(all[0].node, "%r = 'sub'");
  EXPECT_EQ(all[0].rule, "acme.test");
  EXPECT_EQ(all[0].plugin, "acme");
  EXPECT_EQ(all[0].phase, "post_grad_pre");
  EXPECT_EQ(all[0].place, "rules.fe:3:26");
}

TEST_F(Explaining, TheFurthestOfTheWaysIsTold) {
  // The first order of the operands fails at once, the second only at the condition.
  EXPECT_EQ(
      nearest("%m = mul(%a, %b) %r = add(%m, %c)", "%m = mul(%x, %y) %r = add(%z, %m)", "rank(%c) == 1"),
      "rank(%c) == 1 | that rank(%c) == 1 | rank(%c) is 2");
  // Of a chain that is looked through, its far end counts.
  EXPECT_EQ(nearest("%n = neg(%a) through(cast) %r = relu(%n)",
                    "%n = log(%x) %p = cast(%n) {dtype = f32} %r = relu(%p)"),
            "neg(%a) | a value made by 'neg' | %n = 'log'");
}

TEST_F(Explaining, NodesThatAreRewrittenCountAsTheyWere) {
  const std::string rules =
      "rule first at post_grad_pre { match { %r = sub(%a, %b) } yield { %r = add(%a, %b) } }\n"
      "rule second at post_grad_pre { match { %n = neg(%a) %r = sub(%n, %b) } yield { %r = add(%a, %b) } }\n"
      "rule third at post_grad_pre { match { %n = relu(%a) %r = sub(%n, %b) } yield { %r = add(%a, %b) } }\n"
      "rule fourth at post_grad_pre { match { %r = add(%a, 1) } yield { %r = relu(%a) } }\n"
      "rule fifth at post_grad_pre { match { %r = halves(%a) } yield { %r = relu(%a) } }\n";
  const auto all = explain(rules, "%n = neg(%x) %r = sub(%n, %y)");
  std::map<std::string, std::string> by_rule;
  for (const auto& miss : all) by_rule[miss.rule] += miss.node + ": " + miss.failed + ": " + miss.found;
  // The rule that was applied there missed nothing, the others are told about the node that is gone and the
  // one that is new.
  EXPECT_EQ(by_rule.count("first"), 0u);
  EXPECT_EQ(by_rule["second"], "%r = 'sub': order: another rule rewrote what it matches");
  EXPECT_EQ(by_rule["third"], "%r = 'sub': relu(%a): %n = 'neg'");
  EXPECT_EQ(by_rule["fourth"], "%r = 'add' by \"first\": 1: the input %y");
  EXPECT_EQ(by_rule["fifth"], ": halves(%a): none among 2 nodes");
  EXPECT_EQ(all.front().rule, "second");  // all of it held
  EXPECT_EQ(all.back().rule, "fifth");    // nothing did
}

TEST_F(Explaining, ARefusedReplacementIsTheNearestMiss) {
  const auto all = explain(rule("%n = neg(%a) through(reshape) %r = relu(%n)", "%r = scale(%a)"),
                           "%n = neg(%x) %p = reshape(%n) {shape = [6]} %r = relu(%p)");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].failed, "type differs");
  EXPECT_EQ(all[0].held, all[0].parts);
}

TEST_F(Explaining, TheNearestAreKeptAndAllAreCounted) {
  misses = NearMisses("", 2);
  options.near_misses = &misses;
  rewrite(rule("%n = neg(%a) %r = sub(%n, %n)", "%r = relu(%a)"),
          "%n = neg(%x) %p = sub(%x, %y) %q = sub(%n, %x) %s = sub(%p, %q) %r = sub(%n, %s)");
  EXPECT_EQ(misses.count(), 4u);
  const auto kept = misses.nearest();
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[0].node, "%q = 'sub'");
  EXPECT_EQ(kept[1].node, "%r = 'sub'");
}

TEST_F(Explaining, SaysWhichAlternativeCameClosest) {
  const std::string match = "%m = neg(%a) | relu(%b) | 0.5 %t = mul(%m, neg(%a) | sub(%a, %b)) %r = relu(%t)";
  // None can be it.
  EXPECT_EQ(nearest("%r = relu(neg(%a) | mul(%a, 2))", "%m = sub(%x, %y) %r = relu(%m)"),
            "neg(%a) | mul(%a, 2) | a value made by 'neg' or a value made by 'mul' | %m = 'sub'");
  // The second of %m and the second of the other were taken, and %b is two values.
  const auto all =
      explain(rule(match, "%r = scale(%a)"), "%m = relu(%x) %s = sub(%y, %z) %t = mul(%m, %s) %r = relu(%t)");
  ASSERT_FALSE(all.empty());
  EXPECT_EQ(all[0].wanted, "the value that %b stands for already, the input %x");
  EXPECT_EQ(all[0].found, "the input %z");
  EXPECT_EQ(all[0].alternatives, (std::vector<std::string>{"alternative 2 of 3 of %m: relu(%b)",
                                                           "alternative 2 of 2: sub(%a, %b)"}));
  EXPECT_LT(all[0].held, all[0].parts);
  // What the yield computes is a part of the match.
  const auto undefined =
      explain(rule("%r = mul(%a, %c)", "%r = scale(%a) {by = value(%c)}"), "%r = mul(%x, %y)");
  ASSERT_FALSE(undefined.empty());
  EXPECT_EQ(undefined[0].failed, "by = value(%c)");
  EXPECT_EQ(undefined[0].wanted, "a float for attribute 'by'");
  EXPECT_EQ(undefined[0].found, "value(%c) is undefined");
}

TEST_F(Explaining, OneRuleAlone) {
  misses = NearMisses("other", 10);
  options.near_misses = &misses;
  rewrite(rule("%r = sub(%a, %a)", "%r = relu(%a)"), "%r = sub(%x, %y)");
  EXPECT_EQ(misses.count(), 0u);
  EXPECT_FALSE(misses.tried("acme.test"));
}

TEST_F(Explaining, AskingChangesNothing) {
  const std::string text = rule("%m = mul(%a, %b) %r = add(%m, %c)", "%r = acme.fma(%a, %b, %c)");
  const std::string body = "%m = mul(%x, %y) %p = add(%m, %z) %r = add(%p, %p)";
  const std::string without = rewrite(text, body);
  const auto records = ledger.records().size();
  options.near_misses = &misses;
  EXPECT_EQ(rewrite(text, body), without);
  EXPECT_EQ(ledger.records().size(), 2 * records);
}

}  // namespace
}  // namespace ferrite::core::rewrite::test
