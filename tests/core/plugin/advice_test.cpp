// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fusion policies, cost models and metric sinks: whose word counts, what becomes of one that fails.
#include "core/plugin/advice.h"

#include "tests/plugins/plugin_support.h"

#include <filesystem>
#include <fstream>

namespace ferrite::core::plugin::test {
namespace {

const std::string chain_text = R"(ferrite graph 0
graph @chain(%x: f32[64,64]) -> (%2 "y") {
  %0 = exp(%x) : f32[64,64] from "Exp"
  %1 = reduce_sum(%0) {axes = [1], keepdims = true} : f32[64,1] from "Sum"
  %2 = div(%0, %1) : f32[64,64] from "Div"
}
)";
// Four rows are too few iterations for the workers.
const std::string dear_text = R"(ferrite graph 0
graph @dear(%x: f32[4,32768]) -> (%1 "y") {
  %0 = reduce_max(%x) {axes = [1], keepdims = true} : f32[4,1] from "Max"
  %1 = sub(%x, %0) : f32[4,32768] from "Sub"
}
)";

struct Outcome {
  size_t groups = 0;
  std::vector<LedgerRecord> fusions, policies;
};

/// The groups by a policy of this mode; empty: there is none.
Result<Outcome> fused(const std::string& text, const std::string& mode, OnError on_error = OnError::fail) {
  std::vector<PluginRequest> plugins;
  if (!mode.empty()) plugins.push_back(request("advice", on_error, {{"mode", mode}}));
  FE_TRY(auto session, open(std::move(plugins)));
  Ledger ledger;
  FE_TRY(auto compiled, compile(*session, text, ledger, "lower"));
  CostModels costs(session->registry().cost_models(), {}, ledger);
  PolicyAdvisor advisor(session->registry().fusion_policies(), costs, "cpu", ledger);
  schedule::FusionLimits limits;
  limits.target.launch_ns = 2048;
  const auto schedule = schedule::fuse(std::move(*compiled.program), {}, limits, ledger, advisor.if_any());
  FE_CHECK(advisor.check());
  FE_CHECK(schedule::verify(schedule));
  Outcome outcome{schedule.groups.size(), {}, {}};
  for (const auto& record : ledger.records()) {
    if (record.kind == "fusion") outcome.fusions.push_back(record);
    if (record.kind == "plugin") outcome.policies.push_back(record);
  }
  return outcome;
}

Outcome expect_fused(const std::string& text, const std::string& mode) {
  auto outcome = fused(text, mode);
  EXPECT_TRUE(outcome) << mode << ": " << outcome.error().message();
  return outcome ? *outcome : Outcome();
}

TEST(FusionPolicy, DecidesOverCosts) {
  EXPECT_EQ(expect_fused(chain_text, "").groups, 1u);
  const auto apart = expect_fused(chain_text, "refuse");
  EXPECT_EQ(apart.groups, 3u);
  ASSERT_FALSE(apart.fusions.empty());
  EXPECT_EQ(apart.fusions[0].outcome + " " + apart.fusions[0].category, "refused policy");
  EXPECT_EQ(apart.fusions[0].text, "fusion policy 'test.policy' refuses it");
  const auto dear = expect_fused(dear_text, "");
  EXPECT_EQ(dear.groups, 2u);
  EXPECT_EQ(dear.fusions.at(0).category, "cost");
  const auto together = expect_fused(dear_text, "fuse");
  EXPECT_EQ(together.groups, 1u);
  EXPECT_EQ(together.fusions.at(0).outcome, "fused");
  EXPECT_EQ(together.fusions.at(0).text,
            "fusion policy 'test.policy' wants it; by cost: only 4 iterations are shared");
}

TEST(FusionPolicy, WithoutAnOpinionLeavesItToCosts) {
  for (const std::string& text : {chain_text, dear_text}) {
    EXPECT_EQ(expect_fused(text, "declines").groups, expect_fused(text, "").groups);
    EXPECT_EQ(expect_fused(text, "none").groups, expect_fused(text, "").groups);
  }
}

TEST(FusionPolicy, RanksPairs) {
  const auto plain = expect_fused(chain_text, ""), reversed = expect_fused(chain_text, "reverses");
  ASSERT_GT(plain.fusions.size(), 1u);
  EXPECT_EQ(plain.fusions.at(0).object, "Sum");
  EXPECT_EQ(reversed.fusions.at(0).object, "Div");
  ASSERT_EQ(reversed.policies.size(), 1u);
  EXPECT_EQ(reversed.policies[0].subject + " " + reversed.policies[0].outcome, "test.policy ranked");
}

// 1 and 4 are one group, which stands between 0 and 2: by way of 3, whose number is larger than theirs.
TEST(Fusion, MakesNoCycleThroughGroupsThatWereFusedBefore) {
  auto session = open({});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  auto compiled = compile(**session, R"(ferrite graph 0
graph @knot(%x: f32[64,64]) -> (%2 "y", %4 "z") {
  %0 = exp(%x) : f32[64,64]
  %1 = neg(%x) : f32[64,64]
  %2 = add(%0, %1) : f32[64,64]
  %3 = abs(%0) : f32[64,64]
  %4 = mul(%3, %1) : f32[64,64]
}
)",
                          ledger, "lower");
  ASSERT_TRUE(compiled) << compiled.error().message();
  schedule::FusionRequests requests;
  requests.forced = {{1, 4}, {0, 2}};
  const auto schedule = schedule::fuse(std::move(*compiled->program), requests, {}, ledger);
  size_t statements = 0;
  for (const auto& group : schedule.groups) statements += group.statements.size();
  EXPECT_EQ(statements, 5u) << schedule::print(schedule);
}

TEST(FusionPolicy, ThatFailsIsNamedOrNotAskedAnyMore) {
  struct Case {
    std::string mode, code, text;
  };
  for (const auto& [mode, code, text] :
       {Case{"throws", "FE-P80", "two pairs are too many"},
        Case{"lies", "FE-P81", "it decided 7, which is no decision"}, Case{"nan", "FE-P81", "not a number"},
        Case{"short", "FE-P81", "scores for"}}) {
    const auto failed = fused(chain_text, mode);
    ASSERT_FALSE(failed) << mode;
    EXPECT_EQ(failed.error().code, code) << mode;
    EXPECT_NE(failed.error().message().find("fusion policy 'test.policy' of plugin 'test.advice' failed"),
              std::string::npos)
        << failed.error().message();
    EXPECT_NE(failed.error().text.find(text), std::string::npos) << failed.error().message();
    const auto skipped = fused(chain_text, mode, OnError::skip);
    ASSERT_TRUE(skipped) << skipped.error().message();
    EXPECT_EQ(skipped->groups, 1u) << mode;
    ASSERT_EQ(skipped->policies.size(), 1u) << mode;
    EXPECT_EQ(skipped->policies[0].outcome, "failed");
  }
}

TEST(FusionPolicy, HasAnIdOfItsOwn) {
  auto twice = open({request("advice", OnError::fail, {{"mode", std::string("twice")}})});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, "FE-P08");
  EXPECT_NE(twice.error().text.find("'test.policy' is already given by test.advice"), std::string::npos)
      << twice.error().message();
}

TEST(CostModel, DecidesWhatIsFused) {
  EXPECT_EQ(expect_fused(dear_text, "cost_each").groups, 1u);
  const auto crowd = expect_fused(chain_text, "cost_crowd");
  EXPECT_EQ(crowd.groups, 3u);
  ASSERT_FALSE(crowd.fusions.empty());
  EXPECT_EQ(crowd.fusions[0].category, "cost");
  EXPECT_EQ(crowd.fusions[0].text, "8e+06 us together, 2e+06 us apart, by cost model 'test.cost'");
}

TEST(CostModel, IsGivenTheNumbersOfTheTarget) {
  const auto crowd = expect_fused(chain_text, "cost_launches");
  ASSERT_FALSE(crowd.fusions.empty());
  EXPECT_EQ(crowd.fusions[0].text, "131 us together, 32.8 us apart, by cost model 'test.cost'");
}

TEST(CostModel, ThatDoesNotKnowLeavesItToTheCompiler) {
  for (const std::string mode : {"cost_declines", "cost_elsewhere"})
    for (const std::string& text : {chain_text, dear_text})
      EXPECT_EQ(expect_fused(text, mode).groups, expect_fused(text, "").groups) << mode;
}

TEST(CostModel, ThatFailsIsNamedOrNotAskedAnyMore) {
  struct Case {
    std::string mode, code, text;
  };
  for (const auto& [mode, code, text] :
       {Case{"cost_throws", "FE-P82", "prices are secret"}, Case{"cost_lies", "FE-P83", "takes -1 s"}}) {
    const auto failed = fused(dear_text, mode);
    ASSERT_FALSE(failed) << mode;
    EXPECT_EQ(failed.error().code, code);
    EXPECT_NE(failed.error().text.find("cost model 'test.cost' of plugin 'test.advice' failed"),
              std::string::npos)
        << failed.error().message();
    EXPECT_NE(failed.error().text.find(text), std::string::npos) << failed.error().message();
    const auto skipped = fused(dear_text, mode, OnError::skip);
    ASSERT_TRUE(skipped) << skipped.error().message();
    EXPECT_EQ(skipped->groups, 2u);
  }
}

/// Compiles the chain for the CPU with a sink of this mode; gives what it wrote.
Result<std::string> written(const std::string& mode, OnError on_error = OnError::fail) {
  const std::filesystem::path folder(testing::TempDir());
  const auto model_path = (folder / "advice_test.fe").string(), path = (folder / "advice_test.txt").string();
  std::ofstream(model_path) << chain_text;
  std::filesystem::remove(path);
  FE_TRY(auto pipeline, config::read_pipeline({}));
  pipeline.plugins.push_back(request("advice", on_error, {{"mode", mode}, {"path", path}}));
  FE_TRY(const auto session, Session::open(pipeline));
  FE_TRY(const auto model, Model::open(*session, model_path));
  CompileOptions options;
  options.device = "cpu";
  const std::vector<std::vector<int64_t>> dims = {{64, 64}};
  FE_TRY(const auto program, model->program(dims, options));
  EXPECT_TRUE(program->compilation.executable);
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(MetricSink, GetsTheRowsOfItsTables) {
  const auto text = written("sink");
  ASSERT_TRUE(text) << text.error().message();
  EXPECT_EQ(text->find("graph model="), std::string::npos);
  EXPECT_NE(text->find("advice_test.fe outcome=tried category= pairs="), std::string::npos) << *text;
  const auto kernel = text->find("kernel model=");
  ASSERT_NE(kernel, std::string::npos) << *text;
  // The file with its text is not there: nobody asked for files.
  EXPECT_TRUE(text->ends_with(" launches=1 launches_at_load=0 text=\n")) << *text;
}

TEST(MetricSink, ThatFailsIsNamedOrGetsNoMore) {
  const auto failed = written("sink_fails");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "FE-P84");
  EXPECT_NE(
      failed.error().text.find("metric sink 'test.sink' of plugin 'test.advice' failed at table fusion"),
      std::string::npos)
      << failed.error().message();
  const auto skipped = written("sink_fails", OnError::skip);
  EXPECT_TRUE(skipped) << skipped.error().message();
  const auto mistyped = written("sink_mistyped");
  ASSERT_FALSE(mistyped);
  EXPECT_EQ(mistyped.error().code, "FE-C09");
  EXPECT_NE(mistyped.error().text.find("did you mean 'kernel'"), std::string::npos)
      << mistyped.error().message();
}

}  // namespace
}  // namespace ferrite::core::plugin::test
