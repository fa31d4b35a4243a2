// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules tried on samples: right ones pass, wrong ones are found however rarely they are wrong; verdicts are
// kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/ir/graph/print.h"
#include "core/ir/text/parse_graph.h"
#include "driver/validate/part.h"
#include "driver/validate/reduce.h"
#include "driver/validate/verdicts.h"
#include "tests/driver/validate/validate_support.h"

namespace ferrite::core::validate {
namespace {

namespace fs = std::filesystem;
using Kind = Verdict::Kind;

TEST(TryRule, RightRulesPass) {
  for (const auto& text :
       {rule("%r = mul(%x, 1)", "%r = %x", "shape(%x) == shape(%r)"),
        rule("%n = neg(%x)  %r = add(%y, %n)", "%r = sub(%y, %x)"),
        rule("%t = transpose(%x) {perm = [1, 0]}  %r = transpose(%t) {perm = [1, 0]}", "%r = %x"),
        rule("%r = matmul(%x, %y)  %s = neg(%r)", "%n = neg(%x)  %s = matmul(%n, %y)", "dtype(%x) == f32"),
        rule("%s = sigmoid(%x) once  %r = mul(%x, %s)", "%r = silu(%x)", "dtype(%x) == f16")}) {
    const Verdict verdict = try_text(text);
    EXPECT_TRUE(verdict.kind == Kind::passed) << text << verdict.reason;
    EXPECT_GE(verdict.samples, 5u) << text;
  }
}

TEST(TryRule, WrongRulesAreFoundAndTheirCounterexamplesAreSmall) {
  for (const auto& text : {rule("%r = sub(%x, %y)", "%n = neg(%x)  %r = add(%n, %y)"),
                           rule("%e = exp(%x)  %r = log(%e)", "%r = neg(%x)"),
                           rule("%r = reduce_sum(%x) {axes = $a}", "%r = reduce_max(%x) {axes = $a}"),
                           rule("%m = mul(%x, %y) once  %r = add(%m, %z)", "%r = sub(%z, %y)")}) {
    const Verdict verdict = try_text(text);
    ASSERT_EQ(verdict.kind, Kind::wrong) << text << verdict.reason;
    ASSERT_TRUE(verdict.counterexample);
    EXPECT_LE(verdict.counterexample->node_count(), 2u) << graph::print(*verdict.counterexample);
    EXPECT_NE(verdict.reason.find("element"), std::string::npos) << verdict.reason;
  }
}

TEST(TryRule, RegionsAreDrawnFromThePointwiseOpsThatThereAre) {
  const std::string match =
      "region %f: pointwise  %p = %f(%x)  %r = slice(%p) {starts = $a, sizes = $b, strides = $c}";
  const std::string yield = "%t = slice(%x) {starts = $a, sizes = $b, strides = $c}  %r = %f(%t)";
  const Verdict right = try_text(rule(match, yield, "side_rank(%f) == 0"));
  EXPECT_EQ(right.kind, Kind::passed) << right.reason;
  EXPECT_GE(right.samples, 5u);
  // Regions do not commute with sums.
  const Verdict wrong =
      try_text(rule("region %f: pointwise over [n, m]  %p = %f(%x)  %r = reduce_sum(%p) {axes = $a}",
                    "%t = reduce_sum(%x) {axes = $a}  %r = %f(%t)", "side_rank(%f) == 0"));
  EXPECT_EQ(wrong.kind, Kind::wrong) << wrong.reason;
}

TEST(TryRule, WhatIsWrongForNaNOnlyIsFoundAndTheElementsAreInTheFile) {
  const Verdict verdict =
      try_text(rule("%m = maximum(%x, %y)  %r = minimum(%x, %m)", "%r = %x", "shape(%r) == shape(%x)"));
  ASSERT_EQ(verdict.kind, Kind::wrong) << verdict.reason;
  ASSERT_TRUE(verdict.counterexample);
  EXPECT_NE(graph::print(*verdict.counterexample).find("nan"), std::string::npos)
      << graph::print(*verdict.counterexample);
}

TEST(TryRule, WhatIsWrongForOneDtypeOrSizeOnlyIsFound) {
  const Verdict dtype = try_text(rule("%r = add(%x, 1)", "%r = sub(%x, 1)", "dtype(%x) == i8"));
  EXPECT_EQ(dtype.kind, Kind::wrong) << dtype.reason;
  const Verdict size = try_text(rule("%r = relu(%x)", "%r = %x", "rank(%x) == 3, dim(%x, 1) == 7"));
  EXPECT_EQ(size.kind, Kind::wrong) << size.reason;
  const Verdict constant =
      try_text(rule("%r = mul(%x, %c)", "%r = %x", "value(%c) == 2, shape(%r) == shape(%x)"));
  EXPECT_EQ(constant.kind, Kind::wrong) << constant.reason;
}

TEST(TryRule, TwoApplicationsThatCancelAreFound) {
  const Verdict swap = try_text(rule("%r = sub(%x, %y)", "%r = sub(%y, %x)", "shape(%x) == shape(%y)"));
  ASSERT_EQ(swap.kind, Kind::wrong) << swap.reason;
  EXPECT_EQ(swap.counterexample->node_count(), 1u) << graph::print(*swap.counterexample);
}

TEST(TryRule, SizesThatConditionsAskForAreTried) {
  for (const auto& where :
       {"dim(%x, -1) == 64", "elements(%x) > 100000", "dim(%x, 0) >= 100, dim(%x, 1) == 48, rank(%x) == 3",
        "shape(%x) == [5, 1, 33]", "rank(%x) > 4", "dim(%x, 0) * 2 == 640", "elements(%x) == 4096"}) {
    const Verdict verdict = try_text(rule("%r = relu(%x)", "%r = %x", where));
    EXPECT_EQ(verdict.kind, Kind::wrong) << where << ": " << verdict.reason;
    EXPECT_EQ(try_text(rule("%n = neg(%x)  %r = neg(%n)", "%r = %x", where)).kind, Kind::passed) << where;
  }
}

TEST(TryRule, WhatLeavesItsRangeForLargeElementsIsFound) {
  for (const auto& [match, yield] : {std::pair("%r = abs(%x)", "%s = mul(%x, %x)  %r = sqrt(%s)"),
                                     {"%r = relu(%x)", "%e = exp(%x)  %l = log(%e)  %r = relu(%l)"}}) {
    const Verdict verdict = try_text(rule(match, yield, "dtype(%x) == f32"));
    ASSERT_EQ(verdict.kind, Kind::wrong) << match << verdict.reason;
    EXPECT_NE(verdict.reason.find("inf"), std::string::npos) << verdict.reason;
  }
  // The other way round the range grows.
  for (const auto& [match, yield] : {std::pair("%s = mul(%x, %x)  %r = sqrt(%s)", "%r = abs(%x)"),
                                     {"%e = exp(%x)  %r = log(%e)", "%r = %x"}})
    EXPECT_EQ(try_text(rule(match, yield, "dtype(%x) == f32")).kind, Kind::passed) << match;
}

TEST(TryRule, WhatIsWrongOnTiesOnlyIsFound) {
  for (const auto& text :
       {rule("%r = round(%x)", "%h = add(%x, 0.5)  %r = floor(%h)", "dtype(%x) == f32, not constant(%x)"),
        rule("%r = round(%x)", "%h = sub(%x, 0.5)  %r = ceil(%h)", "dtype(%x) == f64, not constant(%x)")}) {
    const Verdict verdict = try_text(text);
    EXPECT_EQ(verdict.kind, Kind::wrong) << text << verdict.reason;
    EXPECT_NE(verdict.reason.find("halves inputs"), std::string::npos) << verdict.reason;
  }
  // Those that differ by rounding alone are right there too: a third of a number is none that f32 has.
  for (const auto& text :
       {rule("%n = neg(%x)  %f = floor(%n)  %r = neg(%f)", "%r = ceil(%x)"),
        rule("%a = add(%x, %x)  %r = round(%a)", "%a = mul(%x, 2)  %r = round(%a)", "dtype(%x) == f32"),
        rule("%a = div(%x, 3)  %r = round(%a)", "%a = mul(%x, 0.33333334)  %r = round(%a)",
             "dtype(%x) == f32"),
        rule("%a = div(%x, 5)  %b = mul(%a, 5)  %r = floor(%b)", "%r = floor(%x)", "dtype(%x) == f32")}) {
    const Verdict verdict = try_text(text);
    EXPECT_EQ(verdict.kind, Kind::passed) << text << verdict.reason;
  }
}

TEST(TryRule, WhatNoSampleReachesIsUntested) {
  const Verdict verdict = try_text(rule("%r = exp(%x)", "%r = exp2(%x)", "rank(%x) == 12"));
  EXPECT_EQ(verdict.kind, Kind::untested);
  EXPECT_EQ(verdict.samples, 0u);
  EXPECT_FALSE(verdict.reason.empty());
}

TEST(TryRule, TheSameTextGivesTheSameVerdict) {
  const std::string text = rule("%m = mul(%x, %y)  %r = add(%m, %z)", "%r = sub(%z, %y)");
  const Verdict a = try_text(text), b = try_text(text);
  EXPECT_EQ(a.reason, b.reason);
  ASSERT_TRUE(a.counterexample && b.counterexample);
  EXPECT_EQ(graph::print(*a.counterexample), graph::print(*b.counterexample));
}

/// A folder of its own, gone afterwards.
struct Folder {
  fs::path path = fs::temp_directory_path() / fmt::format("ferrite-validation-test-{}", getpid());
  Folder() { fs::remove_all(path); }
  ~Folder() { fs::remove_all(path); }
  std::vector<fs::path> files(const std::string& extension) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(path))
      if (entry.path().extension() == extension) found.push_back(entry.path());
    return found;
  }
};

const std::string right_text = rule("%n = neg(%x)  %r = neg(%n)", "%r = %x");
const std::string wrong_text = rule("%r = sub(%x, %y)", "%n = neg(%x)  %r = add(%n, %y)");

/// What validate_rules says of the session's rules; the registry is the test's own.
Result<void> validated(Session& session, config::RuleValidation level, const fs::path& folder) {
  return validate_rules(const_cast<plugin::Registry&>(session.registry()), level,
                        plugin::installed_files().plugin_folder, folder.string(), "--plugin 'my rules'");
}

TEST(Verdicts, AreKeptAndRead) {
  Folder folder;
  auto session = open(right_text);
  ASSERT_TRUE(validated(*session, config::RuleValidation::strict, folder.path));
  const auto kept = folder.files(".verdicts");
  ASSERT_EQ(kept.size(), 1u);
  std::stringstream text;
  text << std::ifstream(kept[0]).rdbuf();
  EXPECT_EQ(text.str(), "passed acme.test\n");
  // That the file is read shows where it says something else.
  std::ofstream(kept[0]) << "untested acme.test: by hand\n";
  auto refused = validated(*session, config::RuleValidation::strict, folder.path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-R36");
  EXPECT_NE(refused.error().message().find("by hand"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(validated(*session, config::RuleValidation::on, folder.path));
  // A damaged file is none, nor is one that speaks of other rules, or in a folder that others may write to.
  for (const char* damaged : {"???", "", "untested acme.other: by hand\n", "untested acme.test\n",
                              "untested acme.test: by hand\nuntested acme.test: by hand\n"}) {
    std::ofstream(kept[0]) << damaged;
    EXPECT_TRUE(validated(*session, config::RuleValidation::strict, folder.path)) << damaged;
  }
  for (const auto mode : {fs::perms::group_write, fs::perms::others_write}) {
    std::ofstream(kept[0]) << "untested acme.test: by hand\n";
    fs::permissions(folder.path, mode, fs::perm_options::add);
    EXPECT_TRUE(validated(*session, config::RuleValidation::strict, folder.path));
    EXPECT_EQ(folder.files(".verdicts").size(), 1u);
    fs::permissions(folder.path, mode, fs::perm_options::remove);
    EXPECT_FALSE(validated(*session, config::RuleValidation::strict, folder.path));
    fs::remove(kept[0]);
    EXPECT_TRUE(validated(*session, config::RuleValidation::strict, folder.path));
  }
  // Another text has another verdict.
  auto other = open(right_text + "\n");
  EXPECT_TRUE(validated(*other, config::RuleValidation::strict, folder.path));
  EXPECT_EQ(folder.files(".verdicts").size(), 2u);
}

TEST(Verdicts, AWrongRuleIsRefusedWithAFile) {
  Folder folder;
  auto session = open(wrong_text);
  auto refused = validated(*session, config::RuleValidation::on, folder.path);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-R30");
  EXPECT_EQ(refused.error().where, "acme.rules:1:6");
  EXPECT_TRUE(folder.files(".verdicts").empty());
  const auto written = folder.files(".fe");
  ASSERT_EQ(written.size(), 1u);
  EXPECT_NE(refused.error().text.find(written[0].string()), std::string::npos) << refused.error().text;
  graph::ParseOptions options;
  options.registry = &session->registry().ops();
  std::stringstream text;
  text << std::ifstream(written[0]).rdbuf();
  const auto read = graph::parse(text.str(), options);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->node_count(), 1u);
  EXPECT_NE(refused.error().text.find(".fe --plugin 'my rules' --validate-rules off"), std::string::npos)
      << refused.error().text;
  EXPECT_TRUE(validated(*session, config::RuleValidation::off, folder.path));
  // Not in a folder that others may write to: in a new one.
  fs::permissions(folder.path, fs::perms::others_write, fs::perm_options::add);
  refused = validated(*session, config::RuleValidation::on, folder.path);
  ASSERT_FALSE(refused);
  const auto place = refused.error().text.find("ferrite opt ") + 12;
  const fs::path other = refused.error().text.substr(place, refused.error().text.find(' ', place) - place);
  EXPECT_TRUE(fs::exists(other)) << other;
  EXPECT_TRUE(other.parent_path().filename().string().starts_with("ferrite-validation-")) << other;
  EXPECT_EQ(fs::status(other.parent_path()).permissions(), fs::perms::owner_all);
  fs::remove_all(other.parent_path());
}

TEST(Verdicts, TheCommandAppliesTheWrongRuleAlone) {
  Folder folder;
  // The right one, which matches the same, would be applied in its place.
  auto session = open(
      "rule acme.right at post_grad_pre {\n  match { %r = sub(%x, %y) }\n"
      "  yield { %n = neg(%y)  %r = add(%x, %n) }\n}\n" +
      wrong_text);
  auto refused = validated(*session, config::RuleValidation::on, folder.path);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().text.find("rule 'acme.test'"), std::string::npos) << refused.error().text;
  EXPECT_NE(refused.error().text.find("acme.rules#acme.test' --check-passes"), std::string::npos)
      << refused.error().text;
}

TEST(Verdicts, OfAPluginThatMayBeSkippedDisableItsRules) {
  Folder folder;
  auto session = open(wrong_text, plugin::OnError::skip);
  EXPECT_TRUE(validated(*session, config::RuleValidation::on, folder.path));
  for (const auto& pass : session->registry().passes()) EXPECT_TRUE(pass.pass || !pass.enabled) << pass.name;
}

TEST(Reduce, KeepsWhatShowsTheEditAndNothingElse) {
  auto session = open("");
  graph::ParseOptions options;
  options.registry = &session->registry().ops();
  auto graph = graph::parse(R"(ferrite graph 0
graph @g(%x: f32[8,12], %w: f32[12,12]) -> (%h "h", %s "s") {
  %a = matmul(%x, %w)
  %b = relu(%a)
  %c = tanh(%b)
  %d = exp(%c)
  %h = add(%d, %x)
  %s = neg(%x)
}
)",
                            options);
  ASSERT_TRUE(graph) << graph.error().message();
  // The edit: tanh becomes sin.
  const Edit edit = [&](graph::Graph& g) -> Result<void> {
    for (const graph::NodeId node : g.nodes()) {
      if (g.op(node) != "tanh") continue;
      graph::NodeSpec spec;
      spec.op = "sin";
      spec.operands = g.node(node).operands;
      spec.types = {g.type(g.node(node).results[0])};
      spec.before = node;
      FE_TRY(const graph::NodeId made, g.make(std::move(spec)));
      FE_CHECK(g.replace_uses(g.node(node).results[0], g.node(made).results[0]));
      FE_CHECK(g.erase(node));
    }
    return {};
  };
  ASSERT_TRUE(effect_of(edit, *graph, session->registry(), ordinary_contents));
  const graph::Graph small = reduce(*graph, edit, session->registry(), ordinary_contents);
  EXPECT_EQ(small.node_count(), 1u) << graph::print(small);
  EXPECT_EQ(small.outputs().size(), 1u);
  EXPECT_EQ(small.type(small.inputs()[0].value).elements(), 1) << graph::print(small);
  EXPECT_TRUE(effect_of(edit, small, session->registry(), ordinary_contents));
}

TEST(Parts, StandAloneOrSayWhatTheyLack) {
  auto session = open("");
  graph::ParseOptions options;
  options.registry = &session->registry().ops();
  auto graph = graph::parse(R"(ferrite graph 0
graph @g(%x: f32[8], %y: c64[4]) -> (%b "b", %y "y") {
  %w = literal f32[] {2}
  %a = mul(%x, %w)
  %b = add(%a, %x)
}
)",
                            options);
  ASSERT_TRUE(graph) << graph.error().message();
  const graph::ValueId x = *graph->find_value("x"), a = *graph->find_value("a"), b = *graph->find_value("b");
  // Cut at %a, with another size: %x is an input all the same.
  const auto part = extract(*graph, session->registry().ops(), {{x, a}, {b}, {{8, 2}}});
  ASSERT_TRUE(part) << part.error().message();
  EXPECT_EQ(part->node_count(), 1u);
  EXPECT_EQ(part->type(part->outputs()[0].value).dims, (std::vector<graph::Dim>{2}));
  EXPECT_EQ(ends_of(*graph, std::vector{b}, {a}).size(), 2u);
  const auto lacking = extract(*graph, session->registry().ops(), {{a}, {b}, {}});
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, "FE-R35");
  const auto strange = Interpreted::make(*graph, session->registry());
  ASSERT_FALSE(strange);
  EXPECT_EQ(strange.error().code, "FE-R34");
}

TEST(BuiltIn, EveryRuleOfTheTreePasses) {
  auto pipeline = config::read_pipeline({});
  ASSERT_TRUE(pipeline) << pipeline.error().message();
  auto session = Session::open(*pipeline);
  ASSERT_TRUE(session) << session.error().message();
  const plugin::Registry& registry = (*session)->registry();
  size_t tried = 0;
  for (size_t set = 0; set < registry.rule_sets().size(); ++set) {
    const auto& rules = registry.compiled_rules(set);
    for (size_t k = 0; k < rules.rules.size(); ++k) {
      const Verdict verdict = try_rule(rules, k, registry);
      EXPECT_TRUE(verdict.kind == Kind::passed)
          << rules.rules[k].name << ": " << verdict.reason << "\n"
          << (verdict.counterexample ? graph::print(*verdict.counterexample) : "");
      EXPECT_TRUE(verdict.thin.empty())
          << rules.rules[k].name << ": " << fmt::format("{}", fmt::join(verdict.thin, "; "));
      ++tried;
    }
  }
  EXPECT_GE(tried, 30u);
}

}  // namespace
}  // namespace ferrite::core::validate
