// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The limits that manifests set to passes and rules, and what they expect of them.
#include "plugin_support.h"

namespace ferrite::core::plugin::test {
namespace {

/// One change to test.slow.pass, or to a rule.
struct Case {
  std::string mode;
  config::PassOverride change;
  OnError on_error = OnError::fail;
};

config::PassOverride of_pass(const std::string& name = "test.slow.pass") {
  config::PassOverride change;
  change.name = name;
  change.where = "test.toml:1:1";
  return change;
}

Expectation expected(size_t least, size_t most) { return {least, most, "as said", "test.toml:2:1"}; }

/// The graph's number of nodes after pre_grad, or the error.
std::string run(const Case& test, Ledger& ledger) {
  config::Pipeline pipeline;
  pipeline.plugins = {standard_ops(), request("slow", test.on_error, {{"mode", test.mode}})};
  pipeline.passes = {test.change};
  auto session = Session::open(pipeline);
  if (!session) return session.error().message();
  auto graph = parse(**session, relu_text);
  const auto before = graph::print(graph);
  auto ran = run_phase("pre_grad", graph, (*session)->registry(), {}, ledger);
  if (!ran) {
    if (ran.error().code == "FE-P10") {
      EXPECT_EQ(graph::print(graph), before);
    }
    return ran.error().message();
  }
  return std::to_string(graph.node_count());
}

TEST(Limits, EndAPassThatTakesTooLong) {
  for (const char* mode : {"asks", "sleeps"}) {
    Case test{mode, of_pass()};
    test.change.limits.timeout = std::chrono::milliseconds(20);
    Ledger ledger;
    const auto text = run(test, ledger);
    EXPECT_TRUE(text.starts_with("FE-P10 ")) << text;
    EXPECT_NE(text.find("'test.slow.pass' of plugin 'test.slow'"), std::string::npos) << text;
    EXPECT_NE(text.find("FE-M21 it took longer than timeout_ms = 20"), std::string::npos) << text;
    test.on_error = OnError::skip;
    EXPECT_EQ(run(test, ledger), "1") << mode;
  }
  Ledger ledger;
  Case in_time{"sleeps", of_pass()};
  in_time.change.limits.timeout = std::chrono::minutes(1);
  EXPECT_EQ(run(in_time, ledger), "2");
}

/// The passes of both fusion hooks, at most 20 ms each, over the schedule of a small graph.
Result<void> run_fusion_hooks(const char* mode, OnError on_error, Ledger& ledger) {
  config::Pipeline pipeline;
  pipeline.plugins = {standard_ops(), request("slow", on_error, {{"mode", std::string(mode)}})};
  pipeline.passes = {of_pass()};
  pipeline.passes[0].limits.timeout = std::chrono::milliseconds(20);
  FE_TRY(const auto session, Session::open(pipeline));
  FE_TRY(auto compiled, compile(*session, relu_text, ledger, "lower"));
  schedule::FusionRequests requests;
  FE_CHECK(run_pre_fusion(*compiled.program, session->registry(), {}, requests, ledger));
  auto schedule = schedule::fuse(std::move(*compiled.program), requests, {}, ledger);
  return run_post_fusion(schedule, session->registry(), {}, ledger);
}

TEST(Limits, EndAPassOfAFusionHookThatTakesTooLong) {
  for (const char* mode : {"asks_loops", "asks_schedule"}) {
    Ledger ledger;
    auto ran = run_fusion_hooks(mode, OnError::fail, ledger);
    ASSERT_FALSE(ran) << mode;
    const auto text = ran.error().message();
    EXPECT_TRUE(text.starts_with("FE-P10 ")) << text;
    EXPECT_NE(text.find("FE-M21 it took longer than timeout_ms = 20"), std::string::npos) << text;
    Ledger skipped;
    ran = run_fusion_hooks(mode, OnError::skip, skipped);
    EXPECT_TRUE(ran) << ran.error().message();
    EXPECT_EQ(passes_of(skipped, "failed"), std::vector<std::string>{"test.slow.pass"}) << mode;
  }
}

TEST(Limits, RunAPassToItsFixpoint) {
  Ledger ledger;
  Case test{"settles", of_pass()};
  EXPECT_EQ(run(test, ledger), "2");
  test.change.limits.mode = PassMode::fixpoint;
  EXPECT_EQ(run(test, ledger), "4");
  test.change.limits.max_rewrites = 3;
  EXPECT_EQ(run(test, ledger), "4");
  test.change.limits.max_rewrites = 2;
  const auto text = run(test, ledger);
  EXPECT_NE(text.find("FE-M25"), std::string::npos) << text;
  test.mode = "grows";
  test.change.limits.max_rewrites = 50;
  test.on_error = OnError::skip;
  EXPECT_EQ(run(test, ledger), "1");
}

TEST(Expectations, OfAPassAreMetOrAnError) {
  Ledger ledger;
  Case test{"settles", of_pass()};
  test.change.expect = expected(1, SIZE_MAX);
  EXPECT_EQ(run(test, ledger), "2");
  test.change.expect = expected(2, SIZE_MAX);
  const auto text = run(test, ledger);
  EXPECT_TRUE(text.starts_with("FE-M20 test.toml:2:1: pass 'test.slow.pass'")) << text;
  test.change.limits.mode = PassMode::fixpoint;
  EXPECT_EQ(run(test, ledger), "4");
  // A pass that is skipped was not applied, whatever on_error says.
  test.mode = "grows";
  test.change.limits.max_rewrites = 5;
  test.on_error = OnError::skip;
  EXPECT_TRUE(run(test, ledger).starts_with("FE-M20 ")) << run(test, ledger);
}

/// Two rules that undo each other.
PluginRequest with_rules() {
  PluginRequest plugin;
  plugin.id = "test.rules";
  plugin.why = "test";
  plugin.rule_files = {{"/nowhere/split.fe", R"(ferrite rules 0
rule test.split at pre_grad {
  match { %r = relu(%x) }
  yield { %r = maximum(%x, 0) }
}
rule test.join at pre_grad {
  match { %r = maximum(%x, 0) }
  yield { %r = relu(%x) }
}
)"}};
  return plugin;
}

std::string run_rules(const PassLimits& limits, std::optional<Expectation> expect) {
  config::Pipeline pipeline;
  pipeline.plugins = {standard_ops(), with_rules()};
  pipeline.passes = {of_pass("test.rules/split.fe")};
  pipeline.passes[0].limits = limits;
  pipeline.rules = {{"test.split", std::move(expect), "test.toml:1:1"}};
  auto session = Session::open(pipeline);
  if (!session) return session.error().message();
  auto graph = parse(**session, relu_text);
  Ledger ledger;
  auto ran = run_phase("pre_grad", graph, (*session)->registry(), {}, ledger);
  return ran ? std::to_string(graph.node_count()) : ran.error().message();
}

TEST(Limits, OfRules) {
  PassLimits limits;
  limits.max_rewrites = 10;
  const auto endless = run_rules(limits, {});
  EXPECT_NE(endless.find("FE-R18"), std::string::npos) << endless;
  limits.mode = PassMode::once;
  EXPECT_EQ(run_rules(limits, {}), "1");
  EXPECT_EQ(run_rules(limits, expected(1, 1)), "1");
  const auto text = run_rules(limits, expected(2, SIZE_MAX));
  EXPECT_TRUE(
      text.starts_with("FE-M20 test.toml:2:1: rule 'test.split' of plugin 'test.rules' was applied 1 time"))
      << text;
}

}  // namespace
}  // namespace ferrite::core::plugin::test
