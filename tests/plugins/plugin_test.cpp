// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading plugins, good and bad ones; the hooks in their order; what the gate does with passes that fail.
#include "plugin_support.h"

#include <filesystem>
#include <fstream>

#include "core/support/warning.h"
#include "driver/validate/check_passes.h"

namespace ferrite::core::plugin::test {
namespace {

// Joint graphs have both directions; here the second output stands for a gradient.
const std::string joint_text = R"(ferrite graph 0
graph @both(%x: f32[4]) -> (%0 "y", %1 "gradient") joint(forward_outputs = 1) {
  %0 = relu(%x) : f32[4]
  %1 = neg(%x) : f32[4]
}
)";
const std::string chain_text = R"(ferrite graph 0
graph @chain(%x: f32[64,64]) -> (%2 "y") {
  %0 = exp(%x) : f32[64,64]
  %1 = reduce_sum(%0) {axes = [1], keepdims = true} : f32[64,1]
  %2 = div(%0, %1) : f32[64,64]
}
)";

TEST(Hooks, RunInTheOrderThatPassesAskForAndIdsBreakTies) {
  auto session = open({request("hooks2"), request("hooks")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, joint_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  const std::vector<std::string> expected = {
      "test.hooks.z_early",         "test.hooks.pre_grad",       "test.hooks.a_late",
      "test.hooks2.pre_grad",       "test.hooks.joint_pre",      "test.hooks2.joint_pre",
      "test.hooks.joint_post",      "test.hooks2.joint_post",    "test.hooks.post_grad_pre",
      "test.hooks2.post_grad_pre",  "test.hooks.post_grad",      "test.hooks2.post_grad",
      "test.hooks2.post_grad_post", "test.hooks.post_grad_post", "test.hooks.pre_lower",
      "test.hooks2.pre_lower"};
  EXPECT_EQ(passes_of(ledger), expected);
  EXPECT_EQ(passes_of(ledger, "changed"), expected);
  EXPECT_EQ(compiled->graph.node_count(), 2 + 2 * expected.size());
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, (std::vector<float>{0, 2, 0, 4}));
  // Who made a node is in its text.
  EXPECT_NE(graph::print(compiled->graph).find("by \"test.hooks2.joint_post\""), std::string::npos);
}

TEST(Hooks, OfJointGraphsDoNotRunOnOthers) {
  auto session = open({request("hooks")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  for (const auto& name : passes_of(ledger)) EXPECT_EQ(name.find("joint"), std::string::npos) << name;
}

TEST(Hooks, OnlyThePassesAskedForRun) {
  auto session = open({request("hooks"), request("hooks2")});
  ASSERT_TRUE(session) << session.error().message();
  auto graph = parse(**session, relu_text);
  Ledger ledger;
  ASSERT_TRUE(run_phase("pre_grad", graph, (*session)->registry(), {{"test.hooks2.pre_grad"}}, ledger));
  EXPECT_EQ(passes_of(ledger), std::vector<std::string>{"test.hooks2.pre_grad"});
}

/// Groups of the chain's schedule after the fusion hooks, with these settings of test.hooks.
Result<size_t> groups_with(std::vector<graph::Attribute> config, Ledger& ledger) {
  FE_TRY(auto session, open({request("hooks", OnError::fail, std::move(config)), request("hooks2")}));
  FE_TRY(auto compiled, compile(*session, chain_text, ledger, "lower"));
  schedule::FusionRequests requests;
  FE_CHECK(run_pre_fusion(*compiled.program, session->registry(), {}, requests, ledger));
  auto schedule = schedule::fuse(std::move(*compiled.program), requests, {}, ledger);
  FE_CHECK(run_post_fusion(schedule, session->registry(), {}, ledger));
  return schedule.groups.size();
}

TEST(Hooks, OfFusionForbidForceAndSplit) {
  auto groups = [](std::vector<graph::Attribute> config) -> size_t {
    Ledger ledger;
    auto count = groups_with(std::move(config), ledger);
    EXPECT_TRUE(count) << count.error().message();
    auto ran = passes_of(ledger);
    EXPECT_EQ((std::vector<std::string>{ran.end() - 4, ran.end()}),
              (std::vector<std::string>{"test.hooks.pre_fusion", "test.hooks2.pre_fusion",
                                        "test.hooks.post_fusion", "test.hooks2.post_fusion"}));
    return count ? *count : 0;
  };
  using Pair = std::vector<int64_t>;
  EXPECT_EQ(groups({}), 1u);
  EXPECT_EQ(groups({{"force", Pair{0, 1}}}), 1u);
  // Exp apart from its sum and, as the quotient reads both, in a kernel of its own or with the quotient.
  EXPECT_GT(groups({{"forbid", Pair{0, 1}}}), 1u);
  EXPECT_EQ(groups({{"split", true}}), 2u);
}

/// The chain's schedule of one group, before any hook of post_fusion.
Result<schedule::Schedule> chain_schedule(const Session& session, Ledger& ledger) {
  FE_TRY(auto compiled, compile(session, chain_text, ledger, "lower"));
  return schedule::fuse(std::move(*compiled.program), {}, {}, ledger);
}

TEST(Gate, ShowsWhatAPassOfPreFusionAskedFor) {
  auto session = open({request("hooks", OnError::fail, {{"forbid", std::vector<int64_t>{0, 1}}})});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, chain_text, ledger, "lower");
  ASSERT_TRUE(compiled) << compiled.error().message();
  ASSERT_TRUE(log::enable("schedule"));
  schedule::FusionRequests requests;
  testing::internal::CaptureStderr();
  auto ran = run_pre_fusion(*compiled->program, (*session)->registry(), {}, requests, ledger);
  const auto shown = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_EQ(shown, "[schedule] after test.hooks.pre_fusion\n[schedule] forbid 0 with 1\n");
  EXPECT_EQ(passes_of(ledger, "changed"), std::vector<std::string>{"test.hooks.pre_fusion"});
}

TEST(Gate, ShowsTheGroupsThatAPassOfPostFusionLeft) {
  auto session = open({request("hooks", OnError::fail, {{"split", true}})});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto schedule = chain_schedule(**session, ledger);
  ASSERT_TRUE(schedule) << schedule.error().message();
  ASSERT_TRUE(log::enable("schedule"));
  testing::internal::CaptureStderr();
  auto ran = run_post_fusion(*schedule, (*session)->registry(), {}, ledger);
  const auto shown = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_TRUE(shown.starts_with("[schedule] after test.hooks.post_fusion\n[schedule] ferrite schedule 0\n"))
      << shown;
  EXPECT_NE(shown.find("[schedule] group 1 shared 1 {"), std::string::npos) << shown;
  EXPECT_EQ(passes_of(ledger, "changed"), std::vector<std::string>{"test.hooks.post_fusion"});
}

TEST(Gate, VerifiesTheGroupsBehindAPassOfPostFusion) {
  auto session = open({request("hooks")});
  ASSERT_TRUE(session) << session.error().message();
  struct Damage {
    std::vector<schedule::Group> groups;
    std::string says;
  };
  const std::vector<Damage> all = {{{{{0, 1}, 1}}, "it is in no group"},
                                   {{{{0, 1, 2}, 1}, {{2}, 2}}, "is in a group already"},
                                   {{{{1}, 1}, {{0, 2}, 1}}, "on which it depends"},
                                   {{{{0, 1, 2}, 2}}, "lacks the 2 variables"},
                                   {{{{0, 1, 2, 3}, 1}}, "there is no statement 3"},
                                   {{{{0, 1, 2}, 1}, {}}, "group 1: it has no statements"}};
  for (const auto& [groups, says] : all) {
    Ledger ledger;
    auto schedule = chain_schedule(**session, ledger);
    ASSERT_TRUE(schedule) << schedule.error().message();
    ASSERT_EQ(schedule->groups, (std::vector<schedule::Group>{{{0, 1, 2}, 1}}));
    schedule->groups = groups;
    auto ran = run_post_fusion(*schedule, (*session)->registry(), {}, ledger);
    ASSERT_FALSE(ran) << says;
    EXPECT_EQ(ran.error().code, "FE-P10");
    EXPECT_NE(ran.error().message().find("FE-S03"), std::string::npos) << ran.error().message();
    EXPECT_NE(ran.error().message().find(says), std::string::npos) << ran.error().message();
    EXPECT_EQ(passes_of(ledger, "failed"), std::vector<std::string>{"test.hooks.post_fusion"});
  }
}

struct Corruption {
  std::string mode, says;
};
class Corrupting : public testing::TestWithParam<Corruption> {};

const std::string sum_text = R"(ferrite graph 0
graph @sum(%x: f32[4]) -> (%1 "y") {
  %0 = relu(%x) : f32[4] from "first"
  %1 = add(%0, %x) : f32[4] from "second"
}
)";

TEST_P(Corrupting, PassIsNamedAndUndone) {
  std::vector<graph::Attribute> config = {{"mode", GetParam().mode}};
  {
    auto session = open({request("corrupts", OnError::fail, config)});
    ASSERT_TRUE(session) << session.error().message();
    Ledger ledger;
    auto compiled = compile(**session, sum_text, ledger);
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code, "FE-P10");
    for (const auto& part :
         {std::string("'test.corrupts.pass'"), std::string("'test.corrupts'"), GetParam().says})
      EXPECT_NE(compiled.error().message().find(part), std::string::npos)
          << part << " in " << compiled.error().message();
  }
  auto session = open({request("corrupts", OnError::skip, config)});
  ASSERT_TRUE(session) << session.error().message();
  auto graph = parse(**session, sum_text);
  auto before = graph::print(graph);
  Ledger phase_ledger;
  ASSERT_TRUE(run_phase("pre_grad", graph, (*session)->registry(), {}, phase_ledger));
  EXPECT_EQ(graph::print(graph), before);
  Ledger ledger;
  auto compiled = compile(**session, sum_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_EQ(passes_of(ledger, "failed"), std::vector<std::string>{"test.corrupts.pass"});
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, (std::vector<float>{-1, 4, -3, 8}));
}

INSTANTIATE_TEST_SUITE_P(Modes, Corrupting,
                         testing::Values(Corruption{"erase", "FE-G"}, Corruption{"order", "FE-G"},
                                         Corruption{"type", "FE-G"}, Corruption{"stale", "FE-G"}),
                         [](const auto& info) { return info.param.mode; });

TEST(Gate, UndoesFusionRequestsOfAPassThatFails) {
  auto session = open({request("corrupts", OnError::skip, {{"mode", std::string("pair")}})});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, chain_text, ledger, "lower");
  ASSERT_TRUE(compiled) << compiled.error().message();
  schedule::FusionRequests requests;
  ASSERT_TRUE(run_pre_fusion(*compiled->program, (*session)->registry(), {}, requests, ledger));
  EXPECT_TRUE(requests.forced.empty());
  EXPECT_EQ(passes_of(ledger, "failed"), std::vector<std::string>{"test.corrupts.pass"});
}

TEST(Gate, UndoesAPassThatThrowsWithWhatItFolded) {
  const std::string text = R"(ferrite graph 0
graph @folds(%x: f32[4]) -> (%4 "y") {
  %0 = literal f32[] {3}
  %1 = neg(%0) : f32[]
  %2 = neg(%1) : f32[]
  %3 = relu(%x) : f32[4]
  %4 = add(%3, %2) : f32[4]
}
)";
  for (auto on_error : {OnError::fail, OnError::skip}) {
    auto session = open({request("throws", on_error)});
    ASSERT_TRUE(session) << session.error().message();
    Ledger ledger;
    auto compiled = compile(**session, text, ledger);
    EXPECT_EQ(passes_of(ledger, "failed"), std::vector<std::string>{"test.throws.pass"});
    if (on_error == OnError::fail) {
      ASSERT_FALSE(compiled);
      EXPECT_EQ(compiled.error().code, "FE-P10");
      EXPECT_EQ(compiled.error().status, FE_EINTERNAL);
      EXPECT_NE(compiled.error().text.find("thrown on purpose"), std::string::npos) << compiled.error().text;
      continue;
    }
    ASSERT_TRUE(compiled) << compiled.error().message();
    EXPECT_EQ(passes_of(ledger, "changed"), std::vector<std::string>{"test.throws.fold"});
    EXPECT_EQ(graph::print(compiled->graph).find("test.throws.pass"), std::string::npos);
    auto result = evaluate(*compiled, some_input);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_EQ(*result, (std::vector<float>{3, 5, 3, 7}));
  }
}

TEST(Gate, RefusesPassesInACycleWithItsEdges) {
  auto session = open({request("cycle")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code, "FE-M10");
  EXPECT_NE(compiled.error().text.find("test.cycle.a -> test.cycle.b"), std::string::npos)
      << compiled.error().text;
}

struct BadPlugin {
  std::string name, code, says;
};
class Refused : public testing::TestWithParam<BadPlugin> {};

TEST_P(Refused, WithACodeAndLeavesNothing) {
  fe_host host{};
  host.size = sizeof host;
  Registry registry(host);
  ASSERT_TRUE(registry.load(standard_ops()));
  const auto ops = registry.ops().all().size(), passes = registry.passes().size();
  auto loaded = registry.load(request(GetParam().name));
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, GetParam().code) << loaded.error().message();
  EXPECT_NE(loaded.error().message().find(GetParam().says), std::string::npos) << loaded.error().message();
  EXPECT_EQ(registry.plugins().size(), 1u);
  EXPECT_EQ(registry.ops().all().size(), ops);
  EXPECT_EQ(registry.passes().size(), passes);
  EXPECT_NE(registry.ops().find("relu"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Plugins, Refused,
                         testing::Values(BadPlugin{"no_entry", "FE-P03", "fe_plugin_entry_v0"},
                                         BadPlugin{"wrong_major", "FE-P04", "ABI 1.1"},
                                         BadPlugin{"wrong_minor", "FE-P04", "ABI 0.2"},
                                         BadPlugin{"short_table", "FE-P07", "pass table"},
                                         BadPlugin{"null_slot", "FE-P07", "'infer'"},
                                         BadPlugin{"null_array", "FE-P07", "array of 2 contributions"},
                                         BadPlugin{"duplicate_op", "FE-G21", "relu"},
                                         BadPlugin{"not_there", "FE-P01", "not_there.so"}),
                         [](const auto& info) { return info.param.name; });

TEST(Loading, NamesALibraryThatIsNone) {
  fe_host host{};
  Registry registry(host);
  PluginRequest plugin;
  plugin.library = (std::filesystem::path(testing::TempDir()) / "no_library.so").string();
  std::ofstream(plugin.library) << "no library";
  auto loaded = registry.load(plugin);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, "FE-P02") << loaded.error().message();
  plugin.library = testing::TempDir();
  loaded = registry.load(plugin);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, "FE-P01") << loaded.error().message();
}

TEST(Loading, WantsTheIdThatTheManifestSays) {
  fe_host host{};
  host.size = sizeof host;
  Registry registry(host);
  auto plugin = request("hooks");
  plugin.id = "test.other";
  auto loaded = registry.load(plugin);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, "FE-P05");
  ASSERT_TRUE(registry.load(request("hooks")));
  auto again = registry.load(request("hooks"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "FE-P08");
}

TEST(Loading, GoesOnWithoutAPluginThatMayBeSkipped) {
  auto session = open({request("duplicate_op", OnError::skip), request("pure_c")});
  ASSERT_TRUE(session) << session.error().message();
  EXPECT_EQ((*session)->registry().plugins().size(), 2u);
  EXPECT_EQ((*session)->registry().ops().find("test.own"), nullptr);
  Ledger ledger;
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
}

struct Misuse {
  std::string mode, code;
};
class BadLowering : public testing::TestWithParam<Misuse> {};

TEST_P(BadLowering, IsAnErrorAtItsNode) {
  auto session = open({request("bad_lowering", OnError::fail, {{"mode", GetParam().mode}})});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_FALSE(compiled);
  EXPECT_EQ(compiled.error().code.substr(0, GetParam().code.size()), GetParam().code)
      << compiled.error().message();
  EXPECT_NE(compiled.error().message().find("relu"), std::string::npos) << compiled.error().message();
}

INSTANTIATE_TEST_SUITE_P(Modes, BadLowering,
                         testing::Values(Misuse{"range", "FE-K"}, Misuse{"open", "FE-K"},
                                         Misuse{"mixed", "FE-K"}, Misuse{"throw", "FE-P21"},
                                         Misuse{"unwritten", "FE-K"}),
                         [](const auto& info) { return info.param.mode; });

/// How often a lowering of the declining plugin declined, and that it said why.
size_t declined_count(const Ledger& ledger) {
  size_t declined = 0;
  for (const auto& record : ledger.records())
    if (record.kind == "lowering" && record.outcome == "declined") {
      ++declined;
      EXPECT_EQ(record.object, "test.declining_lowering");
      EXPECT_EQ(record.text, "only for practice");
    }
  return declined;
}

TEST(Lowering, ThatDeclinesFallsThroughWithItsReason) {
  auto session = open({request("declining_lowering")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_EQ(compiled->program->statements.size(), 1u);
  EXPECT_EQ(declined_count(ledger), 1u);
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, (std::vector<float>{0, 2, 0, 4}));
}

TEST(Lowering, ThatDeclinesFallsThroughToTheDecomposition) {
  auto session = open({request("declining_lowering")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(
      **session, "ferrite graph 0\ngraph @g(%x: f32[4]) -> (%y \"y\") {\n%y = softmax(%x) {axis = 0}\n}\n",
      ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_EQ(declined_count(ledger), 1u);
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  double sum = 0;
  for (float value : some_input) sum += std::exp(double{value});
  for (size_t k = 0; k < some_input.size(); ++k)
    EXPECT_NEAR((*result)[k], std::exp(double{some_input[k]}) / sum, 1e-6);
}

/// The graph of one op on f32[4] behind decompose_late.
Result<graph::Graph> decomposed(const Session& session, const std::string& op, Ledger& ledger) {
  FE_TRY(auto compiled, compile(session,
                                "ferrite graph 0\ngraph @g(%x: f32[4]) -> (%y \"y\") {\n%y = " + op +
                                    "(%x) from \"it\"\n}\n",
                                ledger, "decompose_late"));
  return std::move(compiled.graph);
}

TEST(Decomposition, OfAnotherPluginGoesBeforeTheOpsOwnLowering) {
  auto session = open({request("decompositions")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto graph = decomposed(**session, "relu", ledger);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_NE(graph::print(*graph).find("maximum(%x, %0) : f32[4] from \"it\" by \"test.decompositions\""),
            std::string::npos)
      << graph::print(*graph);
  auto compiled = compile(**session, relu_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, (std::vector<float>{0, 2, 0, 4}));
}

TEST(Decomposition, ThatDeclinesLeavesNothingBehind) {
  auto with = open({request("decompositions")}), without = open({});
  ASSERT_TRUE(with && without);
  Ledger ledger, other;
  auto graph = decomposed(**with, "softmax", ledger), expected = decomposed(**without, "softmax", other);
  ASSERT_TRUE(graph) << graph.error().message();
  ASSERT_TRUE(expected) << expected.error().message();
  EXPECT_EQ(graph::print(*graph), graph::print(*expected));
  size_t declined = 0;
  for (const auto& record : ledger.records())
    declined += record.outcome == "declined" && record.object == "test.decompositions" &&
                record.text == "only for practice";
  EXPECT_EQ(declined, 1u);
}

TEST(Decomposition, ThatGivesAnotherTypeIsAnError) {
  auto session = open({request("decompositions")});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto graph = decomposed(**session, "abs", ledger);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().code, "FE-G25") << graph.error().message();
}

/// The result of one unary op on some_input.
std::vector<float> result_of(const std::string& plugin, const std::string& op) {
  auto session = open({request(plugin)});
  EXPECT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(
      **session,
      "ferrite graph 0\ngraph @one(%x: f32[2,2]) -> (%0 \"y\") {\n  %0 = " + op + "(%x) : f32[2,2]\n}\n",
      ledger);
  EXPECT_TRUE(compiled) << compiled.error().message();
  auto result = evaluate(*compiled, some_input);
  EXPECT_TRUE(result) << result.error().message();
  return *result;
}

TEST(CheckPasses, WhatIsSuspectedIsNoCleanBill) {
  // Wrong at first only: no part shows it, nor does the whole model again.
  auto session = open({request("wrong_pass", OnError::fail, {{"once", true}})});
  ASSERT_TRUE(session) << session.error().message();
  validate::PassCheck check((*session)->registry(), {});
  GateOptions gate;
  gate.watcher = &check;
  auto graph = parse(**session, R"(ferrite graph 0
graph @g(%x: f32[4], %y: f32[4]) -> (%q "q") {
  %q = div(%x, %y) : f32[4] from "Div_7"
}
)");
  Ledger ledger;
  log::show_warnings();
  testing::internal::CaptureStderr();
  auto run = run_phase("pre_grad", graph, (*session)->registry(), gate, ledger);
  const std::string warned = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(check.counts().suspected, 1u);
  EXPECT_NE(warned.find("pass 'test.divide_by_multiplying' of plugin 'test.wrong_pass' is suspected: at "),
            std::string::npos)
      << warned;
  EXPECT_NE(warned.find("Div_7"), std::string::npos) << warned;
  EXPECT_NE(check.summary().find("1 of 1 place suspected"), std::string::npos) << check.summary();
  EXPECT_EQ(check.summary().find("no difference"), std::string::npos) << check.summary();
}

TEST(Kernel, MayBeACFunction) {
  EXPECT_EQ(result_of("c_kernel", "test.running_sum"), (std::vector<float>{-1, 1, -3, 1}));
}

TEST(Plugin, MayBeWrittenInC) {
  EXPECT_EQ(result_of("pure_c", "test.twice"), (std::vector<float>{-2, 4, -6, 8}));
}

}  // namespace
}  // namespace ferrite::core::plugin::test
