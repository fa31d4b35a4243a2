// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of rules: what reads back, and what is said of texts that are wrong.
#include "core/passes/rewrite/language/parse_rules.h"

#include "core/passes/rewrite/language/print_rules.h"
#include "rewrite_support.h"

namespace ferrite::core::rewrite::test {
namespace {

TEST(RuleText, ReadsBackAsItWasPrinted) {
  const std::string text = R"(ferrite rules 0
// Everything that a rule can say.
rule acme.everything at pre_lower {
  match {
    %m = mul(%x, _) through(cast, reshape) {axis = -1, by = $k, names = ["a"]} once
    %h0, %h1 = "7up"(%m, none, -3, 0.5, inf, true)
    %c = neg(mul(%h0, %x) once) {axes = [$k2, -1, rank(%x) - 1]} once | %x | 0.5
    %r = add(%h1, %"a b" | none | neg(%c)) {of = [1.5, value(%x)]} | sub(%h1, %c)
  }
  where { dtype(%x) != f64   rank(%x) == 2 - 1, -(rank(%x) + 1) * 2 < -1
          not (constant(%x) or predicate("p#0")) and $k == "s" dim(%x, -1) == elements(%r) value(%x) == 1e-3,
          shape(%x) == [1, 2] uses(%m) - (1 - 2) >= 1 true }
  yield {
    %t, %h0 = acme.fma(%x, 2, none) {axis = $k, eps = value(%c) * 2 else 1 / value(%x) else 0.5}
    %m = neg(relu(%x) {to = dtype(%x), shape = [$k2, 1]})
    %r = %t
  }
})";
  const auto rules = parse_rules(text, "rules.fe");
  ASSERT_TRUE(rules) << rules.error().message();
  const std::string printed = print((*rules)[0]);
  const auto again = parse_rules(printed, "rules.fe");
  ASSERT_TRUE(again) << again.error().message() << "\n" << printed;
  EXPECT_EQ(print((*again)[0]), printed);
  ASSERT_EQ((*rules)[0].conditions.size(), 9u);
  EXPECT_EQ((*rules)[0].conditions[3].text, "not (constant(%x) or predicate(\"p#0\")) and $k == \"s\"");
  EXPECT_EQ((*rules)[0].conditions[3].position.line, 11u);
  EXPECT_EQ((*rules)[0].conditions[3].position.column, 11u);
  EXPECT_NE(
      printed.find("%m = mul(%x, _) {axis = -1, by = $k, names = [\"a\"]} once through(cast, reshape)\n"),
      std::string::npos)
      << printed;
  EXPECT_NE(printed.find("uses(%m) - (1 - 2) >= 1,"), std::string::npos) << printed;
}

struct Bad {
  std::string text, message;
};

struct BadRules : ::testing::TestWithParam<Bad> {
  Ops ops;
};

TEST_P(BadRules, AreNamedWithTheirPlace) {
  auto predicate = abi::sized<fe_predicate>();
  predicate.name = abi::string(std::string_view("acme.test#0"));
  predicate.accept = [](void*, fe_call*, const fe_match_args*, fe_predicate_out*) -> int32_t {
    return FE_OK;
  };
  const auto rules = compile_rules(GetParam().text, "rules.fe", {&predicate, 1}, ops.registry());
  ASSERT_FALSE(rules) << GetParam().text;
  EXPECT_EQ(rules.error().message().substr(0, GetParam().message.size()), GetParam().message);
}

std::string on(const std::string& match, const std::string& yield, const std::string& where = {}) {
  return "rule r at post_grad_pre {\nmatch { " + match + " }\nwhere { " + where + " }\nyield { " + yield +
         " }\n}\n";
}

const Bad bad[] = {
    {"rul r at pre_grad {}", "FE-R01 rules.fe:1:1: expected a rule"},
    {"rule r at pre_grad {\n  match { %r = add(%x, \x01) }",
     "FE-R01 rules.fe:2:24: byte 0x01 starts no token"},
    {"rule r at pre_grad {\n  match { %r = add(%x, %y)",
     "FE-R01 rules.fe:2:27: expected a result's name, as %r, found the end of the text"},
    {"ferrite rules 1", "FE-R01 rules.fe:1:15: expected version 0"},
    {"rule r at pre_grad { match { } yield { } }", "FE-R01 rules.fe:1:30: the match is empty"},
    {on("%r = add(;, %z)", "%r = neg(%x)"),
     "FE-R01 rules.fe:2:18: expected an operand: %name, a number, '_', 'none', an op over operands"},
    {on("%r = add(value(%x), %z)", "%r = neg(%x)"),
     "FE-R01 rules.fe:2:18: value(…) is no operand; functions stand in attributes"},
    {on("%r = neg(%x)", "%r = add(%x, rank(%x))"), "FE-R01 rules.fe:4:22: rank(…) is no operand"},
    {on("%r = add([1, 2], %z)", "%r = neg(%x)"),
     "FE-R01 rules.fe:2:18: a list is no operand; lists and captured attributes stand in attributes"},
    {on("%r = scale(%x) {axis = $k}", "%r = add(%x, $k)"), "FE-R01 rules.fe:4:22: $k is no operand"},
    {on("%r = %x", "%r = neg(%x)"), "FE-R01 rules.fe:2:14: expected an op, as add(%x, %y), or alternatives"},
    {on("%r = neg(%x)", "%r = scale(%x) {axis = linear}"),
     "FE-R01 rules.fe:4:32: expected an attribute's value: a literal, $name, a list, or an expression"},
    {on("%r, %s = halves(%x) | halves(%y)", "%r = neg(%x)"),
     "FE-R08 rules.fe:2:13: alternatives have one name"},
    {on("%a = neg(%x) | relu(%x) %r = neg(%y)", "%r = relu(%y)"), "FE-R09 rules.fe:2:14: nothing reads %a"},
    {on("%r = neg(%x)", "%r = scale(%x) {axis = predicate(\"p\")}"),
     "FE-R10 rules.fe:4:32: a predicate is a condition, no part of an attribute"},
    {on("%a = neg(%x) | %x %r = neg(%a)", "%a = relu(%x) %r = neg(%x)"),
     "FE-R12 rules.fe:4:9: %a may be something else than the result of a matched op"},
    {on("region %f: pointwise %p = %f(%x) %a = %p | neg(%x) %r = turn(%a)", "%r = neg(%x)"),
     "FE-R23 rules.fe:2:47: region %f is an alternative"},
    {on("region %f: pointwise %p = %f(%x) %q = scale(%p) %a = %q | neg(%x) %r = turn(%a)", "%r = neg(%x)"),
     "FE-R23 rules.fe:2:35: some alternatives do without region %f"},
    {on("%r = neg(%x) | %x", "%r = relu(%x)"), "FE-R50 rules.fe:2:14: matching starts at %r"},
    {on("%a = add(%x, %m) | %x %r = neg(%a)", "%r = add(%x, %m)"),
     "FE-R51 rules.fe:4:22: some alternatives of the match have no %m, and operand 'b' of op 'add' is never"},
    {on("%a = cast(%x) {dtype = $d} | %x %r = neg(%a)", "%r = cast(%x) {dtype = $d}"),
     "FE-R51 rules.fe:4:24: some alternatives of the match have not all that `dtype = $d` reads"},
    {on("%r = scale(%x) {by = value(%x) / 2}", "%r = reshape(%x) {shape = value(%x)}"),
     "FE-R06 rules.fe:4:27: attribute 'shape' of op 'reshape' is a list of integers, not a float"},
    {on("%r = reshape(%x) {shape = [$a, \"b\"]}", "%r = neg(%x)"),
     "FE-R06 rules.fe:2:27: of an item: attribute 'shape'"},
    {on("%r = neg(%x)", "%r = cast(%x) {dtype = rank(%x)}"), "FE-R06 rules.fe:4:24: attribute 'dtype'"},
    {on("%r = neg(%x)", "%r = relu(%x) once"),
     "FE-R01 rules.fe:4:23: expected the next term ('once' and 'through' are for the match)"},
    {on("%r = neg(%x) once once", "%r = relu(%x)"),
     "FE-R01 rules.fe:2:27: expected the next term ('once' is given once)"},
    {on("%r = neg(%x)", "%r = relu(%x)", "f32 == dtpe"),
     "FE-R01 rules.fe:3:16: expected a condition, as dtype(%x) == f32, found 'dtpe'; did you mean 'dtype'?"},
    {on("%r = neg(%x)", "%r = relu(%x)", "1 < rank(%x) < 3"), "FE-R01 rules.fe:3:22: expected a condition"},
    {"rule r at post_grad_pree { }",
     "FE-R02 rules.fe:1:11: rules are for no phase 'post_grad_pree'; did you mean 'post_grad_pre'?"},
    {"rule r at pre_fusion { }", "FE-R02 rules.fe:1:11: rules are for no phase 'pre_fusion'"},
    {on("%r = neg(%x)", "%r = relu(%x)") + on("%r = neg(%x)", "%r = relu(%x)"),
     "FE-R03 rules.fe:6:6: there are two rules 'r'"},
    {on("%r = ned(%x)", "%r = relu(%x)"),
     "FE-R04 rules.fe:2:14: no enabled plugin defines op 'ned'; did you mean 'neg'?"},
    {on("%r = neg(%x) through(cost)", "%r = relu(%x)"),
     "FE-R04 rules.fe:2:14: no enabled plugin defines op 'cost'; did you mean 'cast'?"},
    {on("%r = add(%x)", "%r = relu(%x)"), "FE-R05 rules.fe:2:14: op 'add' takes 2 operands, not 1"},
    {on("%r = clamp(none, %x)", "%r = relu(%x)"),
     "FE-R05 rules.fe:2:20: operand 'x' of op 'clamp' is never absent"},
    {on("%r, %s = neg(%x)", "%r = relu(%x)"), "FE-R05 rules.fe:2:18: op 'neg' has 1 result, not 2"},
    {on("%r = scale(%x) {axes = 1}", "%r = relu(%x)"),
     "FE-R06 rules.fe:2:25: op 'scale' has no attribute 'axes'; did you mean 'axis'?"},
    {on("%r = scale(%x) {axis = \"a\"}", "%r = relu(%x)"),
     "FE-R06 rules.fe:2:25: attribute 'axis' of op 'scale' is an integer, not a string"},
    {on("%r = scale(%x) {mode = $m}", "%r = acme.fma(%x, %x, %x) {axis = $m}"),
     "FE-R06 rules.fe:4:36: attribute 'axis'"},
    {on("%r = neg(%x)", "%r = cast(%x)"), "FE-R06 rules.fe:4:14: op 'cast' needs attribute 'dtype'"},
    {on("%r = neg(%left)", "%r = relu(%lift)"),
     "FE-R07 rules.fe:4:19: the match has no value %lift; did you mean 'left'?"},
    {on("%r = neg(%x)", "%r = relu(%x)", "rank(%y) == 2"), "FE-R07 rules.fe:3:14: the match has no value %y"},
    {on("%r = neg(%x)", "%r = scale(%x) {axis = $axis}"),
     "FE-R07 rules.fe:4:32: the match captures no attribute $axis"},
    {on("%r = add(%x, %m) %m = neg(%x)", "%r = neg(%x)"),
     "FE-R08 rules.fe:2:26: %m is already a name; a term goes before those that read it"},
    {on("%r = neg(%x)", "%r = relu(%x) %r = relu(%x)"), "FE-R08 rules.fe:4:23: the yield gives %r twice"},
    {on("%r = scale(%x) {axis = 1, axis = 2}", "%r = relu(%x)"),
     "FE-R08 rules.fe:2:35: attribute 'axis' is given twice"},
    {on("%m = neg(%x) %r = relu(%y)", "%r = relu(%x)"),
     "FE-R09 rules.fe:2:14: %m is read by no later term and shares no operand"},
    {on("%r = neg(%x)", "%r = relu(%x)", "dtype(%x) == 3"),
     "FE-R10 rules.fe:3:19: an element type cannot be compared with a number"},
    {on("%r = neg(%x)", "%r = relu(%x)", "rank(%x)"),
     "FE-R10 rules.fe:3:9: a condition is true or false, this is a number"},
    {on("%r = neg(%x)", "%r = relu(%x)", "shape(%x) < shape(%r)"),
     "FE-R10 rules.fe:3:19: '<' compares numbers, not a list; use == or !="},
    {on("%r = neg(%x)", "%r = relu(%x)", "not rank(%x)"),
     "FE-R10 rules.fe:3:13: the operand after 'not' is true or false"},
    {on("%r = neg(%x)", "%r = relu(%x)", "%x == 2"),
     "FE-R10 rules.fe:3:9: a value is no condition by itself"},
    {on("%r = neg(%x)", "%r = relu(%x)", "rnk(%x) == 2"),
     "FE-R11 rules.fe:3:9: there is no function 'rnk'; did you mean 'rank'?"},
    {on("%r = neg(%x)", "%r = relu(%x)", "predicate(\"acme.test#1\")"),
     "FE-R11 rules.fe:3:9: the plugin gives no predicate 'acme.test#1'; did you mean 'acme.test#0'?"},
    {on("%r = neg(%x)", ""), "FE-R12 rules.fe:4:7: the yield replaces no result of the match; give it %r"},
    {on("%r = neg(%x)", "%x = relu(%r)"), "FE-R12 rules.fe:4:9: %x is captured"},
    {on("%r = neg(%x)", "%r = relu(%r)"), "FE-R12 rules.fe:4:19: %r is replaced by this yield"},
    {on("%r = neg(%x)", "%t = relu(%x) %r = %x"),
     "FE-R12 rules.fe:4:14: %t is neither a result of the match nor read"},
    {on("%r = neg(%x)", "%r = 0"), "FE-R13 rules.fe:4:14: a number cannot be a result by itself"},
    {on("%r = neg(%x)", "%r = add(1, 2)"),
     "FE-R13 rules.fe:4:14: the numbers given to 'add' get their element type"},
    {on("%r = add(%x, %y)", "%r = add(%y, %x)", "constant(%x)"),
     "FE-R14 rules.fe:1:6: rule 'r' would never end: its yield is its match"},
    {on("%r = neg(%x)", "%t = neg(%x) %r = relu(%t)"),
     "FE-R14 rules.fe:1:6: rule 'r' would never end: its match accepts its own yield"},
};

INSTANTIATE_TEST_SUITE_P(RuleText, BadRules, ::testing::ValuesIn(bad));

TEST(RuleText, TooLarge) {
  std::string terms = "%t0 = neg(%x) ";
  for (size_t k = 1; k <= max_terms; ++k) terms += fmt::format("%t{} = neg(%t{}) ", k, k - 1);
  for (const std::string& text :
       {on(terms, "%t1 = neg(%x)"), on("%r = neg(%x)", "%r = relu(%x)", std::string(1000, '(')),
        on("%r = neg(%x)", "%r = relu(%x)", std::string(100'000, '-') + "rank(%x) == 1"),
        on("%r = neg(%x)", "%r = relu(%x)", [] {
          std::string sum = "1";
          for (int k = 0; k < 1000; ++k) sum += " + 1";
          return sum + " == 1";
        }())}) {
    const auto rules = parse_rules(text, "rules.fe");
    ASSERT_FALSE(rules);
    EXPECT_EQ(rules.error().code, "FE-R15") << rules.error().message();
  }
}

// Pairing shared commutative terms takes time that doubles with each; both the check and the matcher give up.
TEST_F(Rewriting, SearchesEnd) {
  std::string match = "%t0 = add(%a, %b) ", yield = "%n0 = add(%a, %a) ", body = "%t0 = add(%x, %y) ";
  for (int k = 1; k < 60; ++k) {
    match += fmt::format("%t{0} = add(%t{1}, %t{1}) ", k, k - 1);
    yield += fmt::format("%n{0} = add(%n{1}, %n{1}) ", k, k - 1);
    body += fmt::format("%t{0} = add(%t{1}, %t{1}) ", k, k - 1);
  }
  const std::string text = rule(match, yield + "%t59 = neg(%n59)", "rank(%a) == 7");
  EXPECT_NE(rewrite(text, body + "%r = relu(%t59)").find("relu"), std::string::npos);
  // A tree whose leaves are all different: each inner op can be turned round.
  std::string tree, leaves;
  for (int k = 1; k < 32; ++k) {
    const auto leaf = [](int n) { return n < 32 ? fmt::format("%t{}", n) : fmt::format("%v{}", n - 32); };
    tree = fmt::format("%t{} = add({}, {}) ", k, leaf(2 * k), leaf(2 * k + 1)) + tree;
    leaves = fmt::format("%t{} = add({}, {}) ", k, 2 * k < 32 ? leaf(2 * k) : "%x",
                         2 * k + 1 < 32 ? leaf(2 * k + 1) : "%y") +
             leaves;
  }
  rewrite(rule(tree, "%t1 = neg(%v0)", "rank(%v0) == 7"), leaves + "%r = relu(%t1)");
  EXPECT_EQ(last(), "refused too many ways");
}

}  // namespace
}  // namespace ferrite::core::rewrite::test
