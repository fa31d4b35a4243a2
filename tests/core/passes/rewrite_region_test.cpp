// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules that take a region: what it takes in, what it refuses, and its ops over another operand.
#include "core/passes/rewrite/language/parse_rules.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "core/passes/rewrite/language/region.h"
#include "ferrite/rule.hpp"
#include "rewrite_support.h"

namespace ferrite::core::rewrite::test {
namespace {

/// What lies between two ops that are not pointwise moves from one pair to another.
const std::string between =
    "region %f: pointwise  %s = scale(%q) {axis = 1}  %p = %f(%s)  %r = scale(%p) {axis = 2}";
const std::string again = "%t = scale(%q) {axis = 3}  %u = %f(%t)  %r = scale(%u) {axis = 4}";

struct Regions : Rewriting {
  /// The nodes, without the attributes that `scale` has beside its axis.
  std::string run(const std::string& rules, const std::string& body,
                  const std::string& outputs = "%r \"out\"") {
    return plain(rewrite(rules, body, outputs));
  }
  static std::string plain(std::string text) {
    for (size_t at; (at = text.find(", by = 0.0, mode = \"\"")) != std::string::npos;) text.erase(at, 21);
    return text;
  }
  /// Why the rule stops: "failed | wanted | found" of the nearest miss.
  std::string miss(const std::string& match, const std::string& body, const std::string& where = {},
                   const std::string& outputs = "%r \"out\"") {
    NearMisses misses("", 100);
    options.near_misses = &misses;
    rewrite(rule(match, "%r = scale(%q) {axis = 9}", where), body, outputs);
    options.near_misses = nullptr;
    if (misses.nearest().empty()) return "none";
    const NearMiss nearest = misses.nearest()[0];
    EXPECT_LT(nearest.held, nearest.parts);
    return nearest.failed + " | " + nearest.wanted + " | " + nearest.found;
  }
};

TEST_F(Regions, AChainWithItsSideInputsIsMadeAgain) {
  EXPECT_EQ(run(rule(between, again),
                "%c = literal f32[] {0.5} %a = scale(%x) {axis = 1} %m = mul(%c, %a) %n = add(%y, %m) "
                "%k = acme.fma(%n, %z, %n) {axis = 7} %r = scale(%k) {axis = 2}"),
            "%0 = scale(%x) {axis = 3}\n%1 = mul(%c, %0)\n%2 = add(%y, %1)\n%3 = acme.fma(%2, %z, %2) {axis "
            "= 7}\n%r = scale(%3) {axis = 4}\n");
  EXPECT_EQ(counts["acme.test"], 1u);
}

TEST_F(Regions, WaysThatPartAndMeetAreOneRegion) {
  EXPECT_EQ(
      run(rule(between, again),
          "%a = scale(%x) {axis = 1} %l = neg(%a) %m = relu(%a) %n = sub(%l, %m) %r = scale(%n) {axis = 2}"),
      "%0 = scale(%x) {axis = 3}\n%1 = neg(%0)\n%2 = relu(%0)\n%3 = sub(%1, %2)\n%r = scale(%3) {axis = "
      "4}\n");
}

TEST_F(Regions, ACaptureMakesItAsLargeAsItCanBe) {
  const std::string text =
      rule("region %f: pointwise  %p = %f(%v)  %r = scale(%p)", "%t = scale(%v) {axis = 5}  %r = %f(%t)");
  EXPECT_EQ(run(text, "%a = reshape(%x) {shape = [2, 3]} %m = neg(%a) %n = relu(%m) %r = scale(%n)"),
            "%a = reshape(%x) {shape = [2, 3]}\n%0 = scale(%a) {axis = 5}\n%1 = neg(%0)\n%r = relu(%1)\n");
  EXPECT_EQ(run(text, "%m = neg(%x) %r = scale(%m)"), "%0 = scale(%x) {axis = 5}\n%r = neg(%0)\n");
  // A constant is no operand: there is nothing that the region is a function of.
  EXPECT_EQ(run(text, "%c = literal f32[] {0.5} %m = neg(%c) %r = scale(%m)").substr(0, 2), "%m");
}

TEST_F(Regions, WhatSomethingElseReadsStays) {
  const std::string body = "%a = scale(%x) {axis = 1} %m = neg(%a) %n = relu(%m) %r = scale(%n) {axis = 2}";
  EXPECT_EQ(run(rule(between, again), body, "%r \"out\", %m \"inner\""),
            "%a = scale(%x) {axis = 1}\n%m = neg(%a)\n%0 = scale(%x) {axis = 3}\n%1 = neg(%0)\n%2 = "
            "relu(%1)\n%r = scale(%2) {axis = 4}\n");
  std::string once = between;
  once.insert(once.find("%f(%s)") + 6, " once");
  EXPECT_EQ(run(rule(once, again), body, "%r \"out\", %m \"inner\"").find("axis = 3"), std::string::npos);
  EXPECT_EQ(run(rule(once, again), body, "%r \"out\", %n \"last\"").find("axis = 3"), std::string::npos);
  EXPECT_NE(run(rule(once, again), body).find("axis = 3"), std::string::npos);
}

TEST_F(Regions, ASideInputThatDependsOnTheOperandIsNoSideInput) {
  const std::string head = "%a = scale(%x) {axis = 1} %k = reshape(%a) {shape = [2, 3]} ";
  const std::string tail = " %r = scale(%n) {axis = 2}";
  for (const std::string& middle :
       {std::string("%n = add(%a, %k)"), std::string("%l = neg(%k) %m = relu(%a) %n = add(%m, %l)")}) {
    EXPECT_EQ(run(rule(between, again), head + middle + tail).find("axis = 3"), std::string::npos) << middle;
  }
  EXPECT_EQ(miss(between, head + "%n = add(%a, %k)" + tail),
            "%f(%s) | side inputs that do not depend on %a = 'scale' | %k = 'reshape', which does");
  // Where it begins below that, all is well.
  EXPECT_NE(
      run(rule(between, again), head + "%b = scale(%k) {axis = 1} %n = add(%b, %k)" + tail).find("axis = 3"),
      std::string::npos);
}

TEST_F(Regions, ACycleIsRefused) {
  // The first op is replaced by something that reads what depends on it.
  EXPECT_EQ(run(rule(between, "%u = %f(%p)  %s = scale(%u) {axis = 3}"),
                "%a = scale(%x) {axis = 1} %m = neg(%a) %r = scale(%m) {axis = 2}"),
            "%a = scale(%x) {axis = 1}\n%m = neg(%a)\n%r = scale(%m) {axis = 2}\n");
  EXPECT_EQ(last(), "refused order");
  // A side input comes after a reader of what is replaced, where the copy would have to stand.
  const std::string body =
      "%a = scale(%x) {axis = 1} %w = relu(%a) %b = reshape(%y) {shape = [2, 3]} %m = add(%a, %b) "
      "%r = scale(%m) {axis = 2}";
  EXPECT_NE(run(rule(between, "%t = scale(%q) {axis = 3}  %s = %f(%t)"), body, "%r \"out\", %w \"early\"")
                .find("relu(%a)"),
            std::string::npos);
  EXPECT_EQ(last(), "refused order");
}

TEST_F(Regions, ARegionIsNeverEmptyAndEndsAtWhatIsNotPointwise) {
  EXPECT_EQ(miss(between, "%a = scale(%x) {axis = 1} %r = scale(%a) {axis = 2}"),
            "%f(%s) | a value made by a pointwise op | %a = 'scale'");
  for (const char* op : {"noise", "log", "clamp"}) {
    EXPECT_EQ(miss(between, fmt::format("%a = scale(%x) {{axis = 1}} %m = {}(%a) %n = neg(%m) "
                                        "%r = scale(%n) {{axis = 2}}",
                                        op)),
              "%f(%s) | pointwise ops from %s on | %n = 'neg'");
  }
}

TEST_F(Regions, OverBindsAndComparesSizes) {
  const auto sized = [&](const std::string& over, const std::string& where = {}) {
    std::string match = between;
    match.insert(match.find("pointwise") + 9, " over " + over);
    return run(rule(match, again, where),
               "%a = scale(%x) {axis = 1} %m = mul(%a, %y) %r = scale(%m) {axis = 2}")
               .find("axis = 3") != std::string::npos;
  };
  EXPECT_TRUE(sized("[b, n]"));
  EXPECT_TRUE(sized("[2, _]"));
  EXPECT_TRUE(sized("[b, n]", "b + 1 == n and n < 4"));
  EXPECT_FALSE(sized("[b, n]", "b == n"));
  EXPECT_FALSE(sized("[b, b]"));
  EXPECT_FALSE(sized("[n]"));
  EXPECT_FALSE(sized("[]"));
  EXPECT_FALSE(sized("[2, 4]"));
}

TEST_F(Regions, TheOperandHasTheSizesToo) {
  const std::string match = "region %f: pointwise over [a, b]  %p = %f(%q)  %r = scale(%p) {axis = 2}";
  const std::string body = "%s = reshape(%k) {shape = []} %m = mul(%s, %y) %r = scale(%m) {axis = 2}";
  // %y has them, the scalar does not.
  EXPECT_EQ(run(rule(match, "%t = scale(%q) {axis = 3}  %r = %f(%t)"), "%k = literal f32[1] {2.0} " + body),
            "%s = reshape(%k) {shape = []}\n%0 = scale(%y) {axis = 3}\n%r = mul(%s, %0)\n");
}

TEST_F(Regions, TwoRegionsShareTheNamesOfSizes) {
  const std::string match =
      "region %f: pointwise over [a, b]  region %g: pointwise over [b, a]  %p = %f(%v)  "
      "%s = reshape(%p)  %w = %g(%s)  %r = scale(%w)";
  const std::string yield = "%c = %g(%s)  %r = scale(%c) {axis = 8}";
  const auto body = [](const char* shape) {
    return fmt::format(
        "%m = neg(%x) %n = reshape(%m) {{shape = {}}} %o = relu(%n) %r = scale(%o) {{axis = 7}}", shape);
  };
  options.once = true;
  EXPECT_NE(run(rule(match, yield), body("[3, 2]")).find("axis = 8"), std::string::npos);
  EXPECT_EQ(run(rule(match, yield), body("[2, 3]")).find("axis = 8"), std::string::npos);
}

TEST_F(Regions, AnotherBeginningIsTriedWhereAConditionFails) {
  const std::string body =
      "%a = scale(%x) {axis = 1} %b = scale(%y) {axis = 1, by = 3.0} %m = sub(%a, %b) %r = scale(%m) {axis = "
      "2}";
  const auto by = [&](const std::string& value) {
    std::string match = between;
    match.insert(match.find("{axis = 1") + 9, ", by = $b");
    return run(rule(match, again, "$b == " + value), body);
  };
  EXPECT_EQ(by("0.0"),
            "%b = scale(%y) {axis = 1, by = 3.0, mode = \"\"}\n%0 = scale(%x) {axis = 3}\n%1 = sub(%0, "
            "%b)\n%r = scale(%1) {axis = 4}\n");
  EXPECT_EQ(
      by("3.0"),
      "%a = scale(%x) {axis = 1}\n%0 = scale(%y) {axis = 3}\n%1 = sub(%a, %0)\n%r = scale(%1) {axis = 4}\n");
}

TEST_F(Regions, SideRank) {
  const std::string where = "side_rank(%f) == 0";
  const auto sides = [&](const std::string& m) {
    return run(rule(between, again, where),
               "%c = literal f32[] {0.5} %a = scale(%x) {axis = 1} " + m + " %r = scale(%m) {axis = 2}")
               .find("axis = 3") != std::string::npos;
  };
  EXPECT_TRUE(sides("%m = mul(%c, %a)"));
  EXPECT_TRUE(sides("%m = neg(%a)"));
  EXPECT_FALSE(sides("%m = mul(%y, %a)"));
  EXPECT_EQ(miss(between, "%a = scale(%x) {axis = 1} %m = mul(%y, %a) %r = scale(%m) {axis = 2}", where),
            "side_rank(%f) == 0 | that side_rank(%f) == 0 | side_rank(%f) is 2");
}

TEST_F(Regions, LongOnesAreLeftAlone) {
  const auto chain = [](size_t length) {
    std::string body = "%a = scale(%x) {axis = 1} %n0 = neg(%a) ";
    for (size_t k = 1; k < length; ++k) body += fmt::format("%n{} = neg(%n{}) ", k, k - 1);
    return body + fmt::format("%r = scale(%n{}) {{axis = 2}}", length - 1);
  };
  EXPECT_NE(run(rule(between, again), chain(max_region_nodes)).find("axis = 3"), std::string::npos);
  EXPECT_EQ(run(rule(between, again), chain(max_region_nodes + 1)).find("axis = 3"), std::string::npos);
}

// Each step doubles the ways from the top to the bottom; a region is found without walking them one by one.
TEST_F(Regions, ManyWaysAreNoMoreWork) {
  std::string body = "%a = scale(%x) {axis = 1} %n0 = neg(%a) ";
  for (int k = 1; k < 100; ++k) body += fmt::format("%n{0} = add(%n{1}, %n{1}) ", k, k - 1);
  EXPECT_NE(run(rule(between, again), body + "%r = scale(%n99) {axis = 2}").find("axis = 3"),
            std::string::npos);
}

TEST_F(Regions, ARegionThatGrowsEnds) {
  const std::string text =
      rule("region %f: pointwise  %p = %f(%v)  %r = scale(%p)", "%n = neg(%v)  %t = %f(%n)  %r = scale(%t)");
  auto graph = parse("%m = relu(%x) %r = scale(%m)");
  graph::Graph unlimited = graph;
  rewrite(text, unlimited);
  EXPECT_EQ(unlimited.node_count(), max_region_nodes + 2);
  // The ops that are copied count, so that 9 applications are 45.
  const graph::Graph before = graph;
  options.max_rewrites = 50;
  EXPECT_EQ(rewrite(text, graph).substr(0, 19), "FE-R18 rules.fe:1:6");
  EXPECT_TRUE(graph::equal(graph, before));
}

TEST_F(Regions, WhatTheOpsRefuseIsUndone) {
  EXPECT_NE(run(rule(between, "%t = reshape(%q) {shape = [3, 2]}  %u = %f(%t)  %r = scale(%u) {axis = 4}"),
                "%a = scale(%x) {axis = 1} %m = mul(%a, %y) %r = scale(%m) {axis = 2}")
                .find("mul(%a, %y)"),
            std::string::npos);
  EXPECT_EQ(last(), "refused not makable");
}

TEST_F(Regions, NearMisses) {
  const std::string body = "%a = scale(%x) {axis = 1} %m = neg(%a) %n = relu(%m) %r = scale(%n) {axis = 2}";
  std::string match = between;
  match.insert(match.find("%f(%s)") + 6, " once");
  EXPECT_EQ(miss(match, body, {}, "%r \"out\", %m \"inner\""),
            "%f(%s) once | values that only the region reads | another reader of %m = 'neg'");
  EXPECT_EQ(miss(match, body, {}, "%r \"out\", %n \"last\""),
            "%f(%s) once | one use of %p | 2 uses, of which 1 as an output of the graph");
  match = between;
  match.insert(match.find("pointwise") + 9, " over [b, 4]");
  EXPECT_EQ(miss(match, body),
            "over [b, 4] | an operand and a result of region %f with these sizes | %n = 'relu' of f32[2,3]");
}

TEST_F(Regions, TheBuilderWritesTheSameRule) {
  namespace fe = ::ferrite;
  const auto q = fe::any("q");
  const auto f = fe::region("f").over("b, n");
  const fe::Rule rule =
      fe::rule("acme.test")
          .match(fe::op("scale")(f(fe::op("scale")(q).attrs("{axis = 1}")).used_once()).attrs("{axis = 2}"))
          .where(std::string("b < n"))
          .yield(fe::op("scale")(f(fe::op("scale")(q).attrs("{axis = 3}"))).attrs("{axis = 4}"));
  EXPECT_EQ(
      run(rule.text("post_grad_pre"), "%a = scale(%x) {axis = 1} %m = neg(%a) %r = scale(%m) {axis = 2}"),
      "%0 = scale(%x) {axis = 3}\n%1 = neg(%0)\n%r = scale(%1) {axis = 4}\n");
}

TEST(RegionText, ReadsBackAsItWasPrinted) {
  const std::string text = R"(rule acme.test at post_grad_pre {
  match {
    region %f: pointwise over [b, 64, _]
    region %"a b": pointwise
    %p = %f(%x) once through(reshape)
    %g = %"a b"(%p)
    %r = scale(%g)
  }
  where {
    b + 1 == 2 and side_rank(%"a b") == 0,
  }
  yield {
    %t = %f(%x)
    %r = %"a b"(%t)
  }
}
)";
  const auto rules = parse_rules(text, "rules.fe");
  ASSERT_TRUE(rules) << rules.error().message();
  EXPECT_EQ(print((*rules)[0]), text);
}

struct BadRegion {
  std::string match, yield, error;
};
struct BadRegions : ::testing::TestWithParam<BadRegion> {};

TEST_P(BadRegions, Say) {
  const Ops ops;
  const auto& [match, yield, error] = GetParam();
  const auto rules = compile_rules(Rewriting::rule(match, yield), "rules.fe", {}, ops.registry());
  ASSERT_FALSE(rules);
  EXPECT_EQ(rules.error().message().substr(0, error.size()), error) << rules.error().message();
}

const BadRegion bad_regions[] = {
    {"region %f: pointwise %r = scale(%x)", "%r = neg(%x)",
     "FE-R23 rules.fe:2:18: the match does not apply region %f; add a term, as %p = %f(%x)"},
    {"region %f: pointwise %p = %f(%x) %o = %f(%y) %r = sub(%p, %o)", "%r = neg(%x)",
     "FE-R23 rules.fe:2:49: the match applies region %f twice; declare another"},
    {"region %f: pointwise %r = %f(%x)", "%r = neg(%x)",
     "FE-R23 rules.fe:2:37: no later term reads the result of region %f"},
    {"region %f: pointwise region %g: pointwise %p = %f(%x) %o = %g(%p) %r = scale(%o)", "%r = neg(%x)",
     "FE-R23 rules.fe:2:73: region %g begins where region %f ends"},
    {"%p = %f(%x) %r = scale(%p)", "%r = neg(%x)", "FE-R07 rules.fe:2:16: the match has no region %f"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%p)", "%r = %g(%x)",
     "FE-R07 rules.fe:3:16: the match has no region %g"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%f)", "%r = neg(%x)",
     "FE-R07 rules.fe:2:55: %f is a region, not a value; apply it, as %p = %f(%x)"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%p)", "%r = neg(%f)",
     "FE-R07 rules.fe:3:20: %f is a region, not a value"},
    {"region %f: pointwise region %f: pointwise %p = %f(%x) %r = scale(%p)", "%r = neg(%x)",
     "FE-R08 rules.fe:2:39: %f is already a name"},
    {"region %f: pointwise %f = neg(%x) %p = %f(%x) %r = scale(%p)", "%r = neg(%x)",
     "FE-R08 rules.fe:2:32: %f is already a name"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%p)", "%f = neg(%x) %r = relu(%f)",
     "FE-R08 rules.fe:3:11: %f is already a region's name"},
    {"region %f: pointwise %p = %f(%x, %y) %r = scale(%p)", "%r = neg(%x)",
     "FE-R05 rules.fe:2:37: region %f takes one value and has one result, as %p = %f(%x)"},
    {"region %f: pointwise %p = %f(1) %r = scale(%p)", "%r = neg(%p)",
     "FE-R05 rules.fe:2:37: region %f takes"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%p)", "%r = %f(2)",
     "FE-R05 rules.fe:3:16: region %f takes"},
    {"region %f: pointwise %p = %f(%x) {axis = 1} %r = scale(%p)", "%r = neg(%x)",
     "FE-R01 rules.fe:2:44: expected the next term (a region has no attributes)"},
    {"region %f: pointwise over [f32] %p = %f(%x) %r = scale(%p)", "%r = neg(%x)",
     "FE-R01 rules.fe:2:38: expected a size, '_' or a size's name"},
    {"region %f: elementwise %p = %f(%x) %r = scale(%p)", "%r = neg(%x)",
     "FE-R01 rules.fe:2:22: expected 'pointwise'"},
    {"region %f: pointwise %p = %f(%x) %r = scale(%p)", "%n = %f(%x) %r = scale(%n)",
     "FE-R14 rules.fe:1:6: rule 'acme.test' would never end: its yield is its match"},
};

INSTANTIATE_TEST_SUITE_P(RegionText, BadRegions, ::testing::ValuesIn(bad_regions));

}  // namespace
}  // namespace ferrite::core::rewrite::test
