// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matching and applying rules.
#include "ferrite/rule.hpp"
#include "rewrite_support.h"

namespace ferrite::core::rewrite::test {
namespace {

const std::string mul_add = R"(
rule acme.mul_add at post_grad_pre {
  match { %m = mul(%x, %y) once   %r = add(%m, %z) }
  where { dtype(%x) != f64 }
  yield { %r = acme.fma(%x, %y, %z) }
}
)";

TEST_F(Rewriting, MulAddBecomesOneNodeThatKnowsWhereItCameFrom) {
  auto graph = parse("%m = mul(%x, %y) from \"Mul_0\" %r = add(%m, %z) from \"Add_1,Mul_0\"");
  EXPECT_EQ(rewrite(mul_add, graph), "%r = acme.fma(%x, %y, %z) {axis = 0}\n");
  EXPECT_EQ(graph.node(graph.first()).origin, "Mul_0,Add_1");
  EXPECT_EQ(graph.node(graph.first()).made_by, "acme.mul_add");
  ASSERT_EQ(ledger.records().size(), 1u);
  const LedgerRecord record = ledger.records()[0];
  EXPECT_EQ(record.kind, "rule");
  EXPECT_EQ(record.subject, "acme.mul_add");
  EXPECT_EQ(record.object, "acme");
  EXPECT_EQ(record.outcome, "applied");
  EXPECT_NE(record.text.find("%m = 'mul' from \"Mul_0\""), std::string::npos) << record.text;
  EXPECT_EQ(counts["acme.mul_add"], 1u);
}

TEST_F(Rewriting, TheBuilderWritesTheSameRule) {
  namespace fe = ::ferrite;
  const auto x = fe::any("x"), y = fe::any("y"), z = fe::any("z");
  const fe::Rule rule = fe::rule("acme.mul_add")
                            .match(fe::op("add")(fe::op("mul")(x, y).used_once(), z))
                            .where(std::string("dtype(%x) != f64"))
                            .yield(fe::op("acme.fma")(x, y, z));
  EXPECT_EQ(rewrite(rule.text("post_grad_pre"), "%m = mul(%x, %y) %r = add(%z, %m)"),
            "%r = acme.fma(%x, %y, %z) {axis = 0}\n");
}

TEST_F(Rewriting, OtherPhasesAreLeftAlone) {
  const CompiledRules rules = compile(mul_add);
  EXPECT_EQ(rules.phases(), std::vector<std::string>{"post_grad_pre"});
  auto graph = parse("%m = mul(%x, %y) %r = add(%m, %z)");
  const auto applied = apply_rules(rules, "pre_lower", graph, ops.registry(), ledger, "acme", {});
  ASSERT_TRUE(applied);
  EXPECT_EQ(*applied, 0u);
}

TEST_F(Rewriting, CommutativeOperandsMatchInAnyOrderAlsoNested) {
  EXPECT_EQ(rewrite(mul_add, "%m = mul(%x, %y) %r = add(%z, %m)"), "%r = acme.fma(%x, %y, %z) {axis = 0}\n");
  // (x + -y) * relu(x): both the inner and the outer operands stand the other way round.
  const std::string nested =
      rule("%n = neg(%b) %s = add(%a, %n) %t = relu(%a) %r = mul(%s, %t)", "%r = acme.fma(%a, %b, %a)");
  EXPECT_EQ(rewrite(nested, "%n = neg(%y) %s = add(%n, %x) %t = relu(%x) %r = mul(%t, %s)"),
            "%r = acme.fma(%x, %y, %x) {axis = 0}\n");
  EXPECT_EQ(rewrite(nested, "%n = neg(%y) %s = add(%n, %z) %t = relu(%x) %r = mul(%t, %s)"),
            "%n = neg(%y)\n%s = add(%n, %z)\n%t = relu(%x)\n%r = mul(%t, %s)\n");
}

TEST_F(Rewriting, OtherOrdersAreTriedWhereAConditionFails) {
  const std::string text = rule("%r = add(%a, %c)", "%r = sub(%a, %c)", "constant(%c)");
  EXPECT_EQ(rewrite(text, "%c = literal f32[] {2} %r = add(%c, %x)"), "%r = sub(%x, %c)\n");
}

TEST_F(Rewriting, NonCommutativeOperandsKeepTheirOrder) {
  const std::string text = rule("%n = neg(%b) %r = sub(%a, %n)", "%r = add(%a, %b)");
  EXPECT_EQ(rewrite(text, "%n = neg(%y) %r = sub(%x, %n)"), "%r = add(%x, %y)\n");
  EXPECT_EQ(rewrite(text, "%n = neg(%y) %r = sub(%n, %x)"), "%n = neg(%y)\n%r = sub(%n, %x)\n");
}

TEST_F(Rewriting, TheSameNameIsTheSameValue) {
  const std::string text = rule("%r = sub(%a, %a)", "%r = neg(%a)");
  EXPECT_EQ(rewrite(text, "%r = sub(%x, %x)"), "%r = neg(%x)\n");
  EXPECT_EQ(rewrite(text, "%r = sub(%x, %y)"), "%r = sub(%x, %y)\n");
}

TEST_F(Rewriting, OnceNeedsASingleUse) {
  const std::string outputs = "%r \"out\", %m \"other\"";
  EXPECT_EQ(rewrite(mul_add, "%m = mul(%x, %y) %r = add(%m, %z)", outputs),
            "%m = mul(%x, %y)\n%r = add(%m, %z)\n");
  // Without it the matched node stays for its other reader.
  const std::string text = rule("%m = mul(%a, %b) %r = add(%m, %c)", "%r = acme.fma(%a, %b, %c)");
  EXPECT_EQ(rewrite(text, "%m = mul(%x, %y) %r = add(%m, %z)", outputs),
            "%m = mul(%x, %y)\n%r = acme.fma(%x, %y, %z) {axis = 0}\n");
}

TEST_F(Rewriting, LooksThroughChainsOfNamedOps) {
  const std::string text = rule("%n = neg(%a) through(cast, reshape) %r = relu(%n)", "%r = scale(%a)");
  EXPECT_EQ(rewrite(text,
                    "%n = neg(%x) %p = reshape(%n) {shape = [6]} %q = cast(%p) {dtype = f32} %s = "
                    "reshape(%q) {shape = [2, 3]} %r = relu(%s)"),
            "%r = scale(%x) {axis = 0, by = 0.0, mode = \"\"}\n");
  EXPECT_EQ(counts["acme.test"], 1u);
  // An op that is not named stands in the way, and so does a second reader.
  const std::string other = "%n = neg(%x) %p = log(%n) %r = relu(%p)";
  EXPECT_EQ(rewrite(text, other), "%n = neg(%x)\n%p = log(%n)\n%r = relu(%p)\n");
  EXPECT_EQ(
      rewrite(text, "%n = neg(%x) %p = cast(%n) {dtype = f32} %r = relu(%p)", "%r \"out\", %p \"other\""),
      "%n = neg(%x)\n%p = cast(%n) {dtype = f32}\n%r = relu(%p)\n");
}

TEST_F(Rewriting, WhatIsLookedThroughMustNotChangeTheType) {
  const std::string text = rule("%n = neg(%a) through(reshape) %r = relu(%n)", "%r = scale(%a)");
  EXPECT_EQ(rewrite(text, "%n = neg(%x) %p = reshape(%n) {shape = [6]} %r = relu(%p)"),
            "%n = neg(%x)\n%p = reshape(%n) {shape = [6]}\n%r = relu(%p)\n");
  EXPECT_EQ(last(), "refused type differs");
  EXPECT_NE(ledger.records().back().text.find("%r is f32[6], its replacement f32[2,3]"), std::string::npos);
}

TEST_F(Rewriting, ConstantsMatchByValue) {
  const std::string half = rule("%r = mul(%a, 0.1)", "%r = scale(%a) {by = 0.1}");
  const std::string done = "%r = scale(%x) {axis = 0, by = 0.1, mode = \"\"}\n";
  EXPECT_EQ(rewrite(half, "%c = literal f32[] {0.1} %r = mul(%x, %c)"), done);
  EXPECT_EQ(rewrite(half, "%c = literal f32[2,3] {0.1, 0.1, 0.1, 0.1, 0.1, 0.1} %r = mul(%c, %x)"), done);
  EXPECT_EQ(rewrite(half, "#c = data f32[2,3] {0.1, 0.1, 0.1, 0.1, 0.1, 0.1} %r = mul(#c, %x)"), done);
  EXPECT_EQ(rewrite(half, "%c = literal f32[2,3] {0.1, 0.1, 0.1, 0.1, 0.1, 0.2} %r = mul(%x, %c)"),
            "%r = mul(%x, %c)\n");
  EXPECT_EQ(rewrite(half, "%c = literal f32[] {0.10001} %r = mul(%x, %c)"), "%r = mul(%x, %c)\n");
  EXPECT_EQ(rewrite(half, "#c = parameter data f32[] {0.1} %r = mul(%x, #c)"), "%r = mul(%x, #c)\n");
  EXPECT_EQ(rewrite(half, "%r = mul(%x, %y)"), "%r = mul(%x, %y)\n");
}

TEST_F(Rewriting, ConstantsAreRoundedToTheDtypeFirst) {
  for (const std::string type : {"f16", "bf16", "f64"}) {
    const std::string body = "%h = cast(%x) {dtype = " + type + "} %c = literal " + type +
                             "[] {0.1} %m = mul(%h, %c) %r = cast(%m) {dtype = f32}";
    const std::string text = rule("%r = mul(%a, 0.1)", "%r = neg(%a)");
    EXPECT_EQ(rewrite(text, body),
              "%h = cast(%x) {dtype = " + type + "}\n%m = neg(%h)\n%r = cast(%m) {dtype = f32}\n");
  }
  for (const std::string type : {"i64", "i8", "u4", "i4", "u64"}) {
    const std::string body = "%h = cast(%x) {dtype = " + type + "} %c = literal " + type +
                             "[2,3] {3, 3, 3, 3, 3, 3} %m = mul(%h, %c) %r = cast(%m) {dtype = f32}";
    EXPECT_EQ(rewrite(rule("%r = mul(%a, 3)", "%r = neg(%a)"), body),
              "%h = cast(%x) {dtype = " + type + "}\n%m = neg(%h)\n%r = cast(%m) {dtype = f32}\n");
    EXPECT_NE(rewrite(rule("%r = mul(%a, 3.5)", "%r = neg(%a)"), body).find("mul"), std::string::npos);
  }
}

TEST_F(Rewriting, SeveralResultsAndSeveralRoots) {
  const std::string swap = rule("%a, %b = halves(%v)", "%b, %a = swapped_halves(%v)");
  EXPECT_EQ(rewrite(swap, "%p, %q = halves(%x) %r = sub(%p, %q)"),
            "%q, %p = swapped_halves(%x)\n%r = sub(%p, %q)\n");
  const std::string pair = rule("%a = neg(%v) %b = relu(%v)", "%a, %b = halves(%v)");
  EXPECT_EQ(rewrite(pair, "%b = relu(%x) %k = neg(%b) %a = neg(%x) %r = sub(%a, %k)"),
            "%a, %b = halves(%x)\n%k = neg(%b)\n%r = sub(%a, %k)\n");
  EXPECT_EQ(rewrite(pair, "%b = relu(%x) %a = neg(%y) %r = sub(%a, %b)"),
            "%b = relu(%x)\n%a = neg(%y)\n%r = sub(%a, %b)\n");
}

TEST_F(Rewriting, AReplacementThatWouldReadItselfIsRefused) {
  // %z of the rule is made from %a, which the rule replaces.
  const std::string text = rule("%a = neg(%v) %b = add(%v, %w)", "%a, %b = halves(%w)");
  EXPECT_EQ(rewrite(text, "%a = neg(%x) %k = relu(%a) %r = add(%x, %k)"),
            "%a = neg(%x)\n%k = relu(%a)\n%r = add(%x, %k)\n");
  EXPECT_EQ(last(), "refused order");
}

TEST_F(Rewriting, AttributesAreComparedAndCaptured) {
  const std::string text =
      rule("%m = scale(%a) {by = 2, axis = $k} once %r = relu(%m)", "%r = acme.fma(%a, %a, %a) {axis = $k}");
  EXPECT_EQ(rewrite(text, "%m = scale(%x) {by = 2.0, axis = -1} %r = relu(%m)"),
            "%r = acme.fma(%x, %x, %x) {axis = -1}\n");
  EXPECT_EQ(rewrite(text, "%m = scale(%x) {by = 3.0, axis = -1} %r = relu(%m)").find("fma"),
            std::string::npos);
  const std::string same = rule("%m = scale(%a) {axis = $k} %r = scale(%m) {axis = $k}", "%r = relu(%a)",
                                "$k >= 0, $k * 2 + 1 == 3");
  EXPECT_EQ(rewrite(same, "%m = scale(%x) {axis = 1} %r = scale(%m) {axis = 1}"), "%r = relu(%x)\n");
  EXPECT_NE(rewrite(same, "%m = scale(%x) {axis = 0} %r = scale(%m) {axis = 0}").find("scale"),
            std::string::npos);
  EXPECT_NE(rewrite(same, "%m = scale(%x) {axis = 1} %r = scale(%m) {axis = 2}").find("scale"),
            std::string::npos);
}

TEST_F(Rewriting, AMissingAttributeIsItsDefault) {
  graph::Graph graph;
  const auto x = graph.add_input("x", {DType::f32_, {2}, {}, 0});
  const auto node = graph.make({"scale", {*x}, {}, {{DType::f32_, {2}, {}, 0}}, {}, {}, {}});
  ASSERT_TRUE(node);
  ASSERT_TRUE(graph.add_output("out", graph.node(*node).results[0]));
  EXPECT_EQ(rewrite(rule("%r = scale(%a) {axis = 0, mode = \"\"}", "%r = relu(%a)"), graph),
            "%0 = relu(%x)\n");
}

TEST_F(Rewriting, AbsentOperands) {
  const std::string text = rule("%r = clamp(%a, none, %b)", "%r = sub(%b, %a)");
  EXPECT_EQ(rewrite(text, "%r = clamp(%x, _, %y)"), "%r = sub(%y, %x)\n");
  EXPECT_EQ(rewrite(text, "%r = clamp(%x, %z, %y)"), "%r = clamp(%x, %z, %y)\n");
  EXPECT_EQ(rewrite(rule("%r = clamp(%a)", "%r = relu(%a)"), "%r = clamp(%x, %z)"), "%r = clamp(%x, %z)\n");
  EXPECT_EQ(rewrite(rule("%r = clamp(%a, _)", "%r = clamp(%a, none, %a)"), "%r = clamp(%x, %z)"),
            "%r = clamp(%x, _, %x)\n");
}

TEST_F(Rewriting, Conditions) {
  const std::string body = "%c = literal f32[] {2.5} %m = neg(%x) %r = acme.fma(%m, %c, %y) {axis = 1}";
  const auto holds = [&](const std::string& where) {
    return rewrite(rule("%m = neg(%a) %r = acme.fma(%m, %c, %b) {axis = $k}", "%r = sub(%a, %b)", where),
                   body)
               .find("fma") == std::string::npos;
  };
  for (const std::string condition : {"dtype(%a) == f32",
                                      "rank(%a) == 2",
                                      "rank(%c) == 0 rank(%a) > 1",
                                      "dim(%a, 0) == 2, dim(%a, -1) == 3",
                                      "shape(%a) == shape(%b)",
                                      "shape(%a) == [2, 3]",
                                      "shape(%c) == []",
                                      "elements(%a) == 6",
                                      "elements(%a) == dim(%a, 0) * dim(%a, 1)",
                                      "uses(%m) == 1",
                                      "constant(%c)",
                                      "not constant(%a)",
                                      "value(%c) == 2.5",
                                      "value(%c) * 2 == 5",
                                      "value(%c) > 2",
                                      "-value(%c) < -2",
                                      "$k == 1",
                                      "$k != 2",
                                      "dtype(%a) == f64 or dtype(%a) == f32",
                                      "not (rank(%a) == 1 or rank(%a) == 3) and constant(%c)",
                                      "(rank(%a) + 1) * 2 - 1 == 5",
                                      "dim(%a, $k) == 3",
                                      "dtype(%r) == f32",
                                      "1 < 2 or value(%a) == 1"}) {
    EXPECT_TRUE(holds(condition)) << condition;
  }
  for (const std::string condition :
       {"dtype(%a) == f64", "rank(%a) == 2 rank(%c) == 1", "dim(%a, 2) == 3", "dim(%a, 2) != 3",
        "not dim(%a, 2) == 3", "value(%a) == 1", "not (value(%a) == 1)", "shape(%a) == [2]",
        "shape(%a) == [2, -1]", "uses(%m) > 1", "constant(%a)", "$k == \"1\"", "not $k",
        "9223372036854775807 + 1 > 0"}) {
    EXPECT_FALSE(holds(condition)) << condition;
  }
}

TEST_F(Rewriting, ConditionsOverSymbolicDims) {
  const auto apply = [&](const std::string& where) {
    auto graph = graph::parse(
        "ferrite graph 0\ngraph @main(%x: f32[2,$n], %y: f32[2,$m]) -> (%r \"out\", %s \"other\") {\n  "
        "symbol $n in [1, 64]\n"
        "  symbol $m in [1, 64]\n  %r = neg(%x)\n  %s = relu(%y)\n %t = sub(%r, %r)}\n",
        {"graph.fe", {}, &ops.registry()});
    EXPECT_TRUE(graph) << graph.error().message();
    return rewrite(rule("%r = neg(%a)", "%r = scale(%a)", where), *graph).find("scale") != std::string::npos;
  };
  EXPECT_TRUE(apply("dim(%a, 1) == dim(%r, 1) dim(%a, 0) == 2 shape(%a) == shape(%r)"));
  EXPECT_FALSE(apply("dim(%a, 1) == 4"));
  EXPECT_FALSE(apply("dim(%a, 1) != 4"));
  EXPECT_FALSE(apply("shape(%a) != [2, 5]"));
  EXPECT_TRUE(apply("shape(%a) != [3, 5]"));
  EXPECT_FALSE(apply("elements(%a) >= 0"));
}

TEST_F(Rewriting, NumbersInAYieldAreLiterals) {
  EXPECT_EQ(rewrite(rule("%r = neg(%a)", "%r = sub(0, %a)"), "%r = neg(%x)"), "%r = sub(%0, %x)\n");
  auto graph = parse("%r = neg(%x)");
  EXPECT_EQ(rewrite(rule("%r = neg(%a)", "%r = sub(0.1, %a)"), graph), "%r = sub(%0, %x)\n");
  EXPECT_NE(graph::print(graph).find("%0 = literal f32[] {0.1}"), std::string::npos) << graph::print(graph);
  // The dtype is that of the first operand that is no bool; a number that it cannot hold is refused.
  EXPECT_EQ(rewrite(rule("%r = clamp(%a)", "%b = cast(%a) {dtype = bool} %r = choose(%b, %a, 0.5)"),
                    "%r = clamp(%x)"),
            "%1 = cast(%x) {dtype = bool}\n%r = choose(%1, %x, %0)\n");
  EXPECT_EQ(rewrite(rule("%r = neg(%a)",
                         "%i = cast(%a) {dtype = i32} %j = mul(%i, 0.5) %r = cast(%j) {dtype = f32}"),
                    "%r = neg(%x)"),
            "%r = neg(%x)\n");
  EXPECT_EQ(last(), "refused literal");
}

TEST_F(Rewriting, AValueOfTheMatchCanReplace) {
  EXPECT_EQ(rewrite(rule("%m = neg(%a) %r = neg(%m)", "%r = %a"), "%m = neg(%x) %n = neg(%m) %r = relu(%n)"),
            "%r = relu(%x)\n");
  EXPECT_EQ(
      rewrite(rule("%m = relu(%a) %r = relu(%m)", "%r = %m"), "%m = relu(%x) %n = relu(%m) %r = relu(%n)"),
      "%m = relu(%x)\n");
  EXPECT_EQ(counts["acme.test"], 3u);
}

TEST_F(Rewriting, WhatTheOpRefusesIsUndone) {
  const std::string text = rule("%r = neg(%a)", "%i = cast(%a) {dtype = i32} %r = add(%i, %a)");
  auto graph = parse("%r = neg(%x)");
  const graph::Graph before = graph;
  EXPECT_EQ(rewrite(text, graph), "%r = neg(%x)\n");
  EXPECT_TRUE(graph::equal(graph, before));
  EXPECT_EQ(last(), "refused not makable");
  EXPECT_NE(ledger.records().back().text.find("different dtypes"), std::string::npos);
}

TEST_F(Rewriting, EffectsAreNeverRemoved) {
  EXPECT_EQ(rewrite(rule("%l = log(%a) %r = relu(%l)", "%r = relu(%a)", "uses(%l) == 1"),
                    "%l = log(%x) %r = relu(%l)"),
            "%l = log(%x)\n%r = relu(%x)\n");
}

TEST_F(Rewriting, NewNodesAreMatchedAgainUntilNothingApplies) {
  const std::string text =
      rule("%m = add(%a, 1) %r = add(%m, 1)", "%r = add(%a, 2)") +
      "rule acme.two at post_grad_pre { match { %m = add(%a, 2) %r = add(%m, 2) } yield { %r = neg(%a) } }\n";
  EXPECT_EQ(
      rewrite(text,
              "%c = literal f32[] {1} %p = add(%x, %c) %q = add(%c, %p) %s = add(%q, %c) %r = add(%s, %c)"),
      "%r = neg(%x)\n");
  EXPECT_EQ(counts["acme.test"], 2u);
  EXPECT_EQ(counts["acme.two"], 1u);
}

TEST_F(Rewriting, ARuleThatRunsForEverIsAnErrorAndUndone) {
  options.max_rewrites = 50;
  const std::string text =
      "rule acme.ping at post_grad_pre { match { %r = neg(%a) } yield { %r = relu(%a) } }\n"
      "rule acme.pong at post_grad_pre { match { %r = relu(%a) } yield { %r = neg(%a) } }\n";
  auto graph = parse("%r = neg(%x)");
  const graph::Graph before = graph;
  EXPECT_EQ(rewrite(text, graph).substr(0, 22), "FE-R18 rules.fe:1:6: r");
  EXPECT_TRUE(graph::equal(graph, before));
  // A yield that is what is there already is no application.
  EXPECT_EQ(rewrite(rule("%r = scale(%a)", "%r = scale(%a) {axis = 1}"), "%r = scale(%x)"),
            "%r = scale(%x) {axis = 1, by = 0.0, mode = \"\"}\n");
  EXPECT_EQ(last(), "refused no change");
}

struct Predicates : Rewriting {
  int calls = 0;
  int32_t (*accept)(Predicates&, fe_call*, const fe_match_args*, fe_predicate_out*) = nullptr;
  std::string run() {
    auto predicate = abi::sized<fe_predicate>();
    predicate.self = this;
    predicate.name = abi::string(std::string_view("acme.test#0"));
    predicate.accept = [](void* self, fe_call* call, const fe_match_args* args, fe_predicate_out* out) {
      auto& test = *static_cast<Predicates*>(self);
      ++test.calls;
      return test.accept(test, call, args, out);
    };
    predicates = {predicate};
    return rewrite(
        rule("%m = neg(%a) %r = relu(%m)", "%r = sub(%a, %a)", "rank(%a) == 2 predicate(\"acme.test#0\")"),
        "%m = neg(%x) %r = relu(%m)");
  }
};

TEST_F(Predicates, SeeTheMatch) {
  accept = [](Predicates& test, fe_call*, const fe_match_args* args, fe_predicate_out* out) -> int32_t {
    EXPECT_EQ(args->names.count, 3u);
    EXPECT_EQ(abi::view(abi::element<fe_string>(args->names, 0)), "a");
    EXPECT_EQ(abi::view(abi::element<fe_string>(args->names, 2)), "r");
    EXPECT_NE(args->root, 0u);
    auto value = abi::sized<fe_value_view>();
    auto which = abi::sized<fe_value_args>();
    which.value = abi::element<fe_value>(args->values, 0);
    abi::Call call;
    EXPECT_EQ(args->graph->value(args->graph->self, call.get(), &which, &value), FE_OK);
    EXPECT_EQ(abi::view(value.name), "x");
    out->accepted = test.calls == 1;
    return FE_OK;
  };
  EXPECT_EQ(run(), "%r = sub(%x, %x)\n");
}

TEST_F(Predicates, Decline) {
  accept = [](Predicates&, fe_call*, const fe_match_args*, fe_predicate_out*) -> int32_t { return FE_OK; };
  EXPECT_EQ(run(), "%m = neg(%x)\n%r = relu(%m)\n");
  accept = [](Predicates&, fe_call*, const fe_match_args*, fe_predicate_out*) -> int32_t {
    return FE_EUNSUPPORTED;
  };
  EXPECT_EQ(run(), "%m = neg(%x)\n%r = relu(%m)\n");
}

TEST_F(Predicates, FailWithTheirOwnCode) {
  accept = [](Predicates&, fe_call* call, const fe_match_args*, fe_predicate_out*) -> int32_t {
    call->set_error(call->host, abi::string(std::string_view("acme/tired")),
                    abi::string(std::string_view("not today")));
    return FE_EINTERNAL;
  };
  EXPECT_EQ(run(), "acme/tired rules.fe:1:6: predicate 'acme.test#0' of rule 'acme.test' failed: not today");
  accept = [](Predicates&, fe_call*, const fe_match_args*, fe_predicate_out*) -> int32_t {
    return FE_EINTERNAL;
  };
  EXPECT_EQ(run().substr(0, 6), "FE-R16");
}

TEST_F(Predicates, MayNotEdit) {
  accept = [](Predicates&, fe_call*, const fe_match_args* args, fe_predicate_out* out) -> int32_t {
    auto make = abi::sized<fe_make_args>();
    const fe_value operand = abi::element<fe_value>(args->values, 0);
    make.op = abi::string(std::string_view("neg"));
    make.operands = abi::array(&operand, 1);
    auto made = abi::sized<fe_make_out>();
    abi::Call call;
    EXPECT_EQ(args->graph->make(args->graph->self, call.get(), &make, &made), FE_OK);
    out->accepted = 1;
    return FE_OK;
  };
  EXPECT_EQ(run().substr(0, 6), "FE-R17");
}

}  // namespace
}  // namespace ferrite::core::rewrite::test
