// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins that break the rules, within one process: each is answered with the code of its case, and nothing
// else is harmed. What ends the process is tested by test_adversarial.py.
#include <filesystem>

#include "tests/plugins/adversarial/cases.h"

namespace ferrite::core::plugin::test {
namespace {

const std::string sum_text = R"(ferrite graph 0
graph @sum(%x: f32[4]) -> (%1 "y") {
  %0 = relu(%x) : f32[4] from "first"
  %1 = add(%0, %x) : f32[4] from "second"
}
)";
const std::vector<float> sum_result = {-1, 4, -3, 8};

PluginRequest request_of(const Case& item, OnError on_error = OnError::fail) {
  return request(item.plugin, on_error, item.config);
}

/// The model compiles with these plugins, to the result that it has, and the bad one made no part of it.
void expect_well(const Session& session) {
  Ledger ledger;
  auto compiled = compile(session, sum_text, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  EXPECT_EQ(graph::print(compiled->graph).find("adversarial"), std::string::npos)
      << graph::print(compiled->graph);
  auto result = evaluate(*compiled, some_input);
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(*result, sum_result);
}

void expect_named(const Error& error, const std::string& code) {
  EXPECT_NE(error.message().find(code), std::string::npos) << error.message();
}

class Refused : public testing::TestWithParam<Case> {};

TEST_P(Refused, LeavesNothing) {
  const Case& item = GetParam();
  fe_host host{};
  host.size = sizeof host;
  Registry registry(host);
  ASSERT_TRUE(registry.load(standard_ops()));
  auto plugin = request_of(item);
  if (item.name == "two_copies") {
    const auto copy = std::filesystem::path(testing::TempDir()) / "adversarial_copy.so";
    std::filesystem::copy_file(plugin.library, copy, std::filesystem::copy_options::overwrite_existing);
    ASSERT_TRUE(registry.load(plugin));
    plugin.library = copy.string();
  }
  const auto plugins = registry.plugins().size(), ops = registry.ops().all().size(),
             passes = registry.passes().size(), lowerings = registry.lowerings("relu", "interpreter").size();
  auto loaded = registry.load(plugin);
  ASSERT_FALSE(loaded);
  expect_named(loaded.error(), item.code);
  EXPECT_EQ(registry.plugins().size(), plugins);
  EXPECT_EQ(registry.ops().all().size(), ops);
  EXPECT_EQ(registry.passes().size(), passes);
  EXPECT_EQ(registry.lowerings("relu", "interpreter").size(), lowerings);
  EXPECT_TRUE(registry.providers().empty() && registry.runtimes().empty() && registry.importers().empty() &&
              registry.import_handlers().empty() && registry.rule_sets().empty());

  plugin.on_error = OnError::skip;
  auto session = open({plugin});
  ASSERT_TRUE(session) << session.error().message();
  expect_well(**session);
}
INSTANTIATE_TEST_SUITE_P(Plugin, Refused, testing::ValuesIn(cases_of({"refused"})), name_of_case);

class Undone : public testing::TestWithParam<Case> {
 protected:
  /// With what the case sets to its pass.
  static Result<std::unique_ptr<Session>> opened(OnError on_error) {
    const Case& item = GetParam();
    config::Pipeline pipeline;
    pipeline.plugins = {standard_ops(), request_of(item, on_error)};
    if (item.max_rewrites) {
      config::PassOverride change;
      change.name = item.pass;
      change.where = "test.toml:1:1";
      change.limits.max_rewrites = static_cast<size_t>(*item.max_rewrites);
      pipeline.passes.push_back(std::move(change));
    }
    return Session::open(pipeline);
  }
};

TEST_P(Undone, IsNamedAndLeavesTheGraphAsItWas) {
  const Case& item = GetParam();
  {
    auto session = opened(OnError::fail);
    ASSERT_TRUE(session) << session.error().message();
    Ledger ledger;
    for (int64_t k = 0; k < item.compilations_before; ++k) {
      auto before = compile(**session, sum_text, ledger);
      ASSERT_TRUE(before) << before.error().message();
    }
    auto compiled = compile(**session, sum_text, ledger);
    ASSERT_FALSE(compiled);
    EXPECT_EQ(compiled.error().code, "FE-P10");
    expect_named(compiled.error(), item.code);
    expect_named(compiled.error(), "'" + item.pass + "'");
  }
  auto session = opened(OnError::skip);
  ASSERT_TRUE(session) << session.error().message();
  auto graph = parse(**session, sum_text);
  const auto before = graph::print(graph);
  Ledger ledger;
  auto ran = run_phase("pre_grad", graph, (*session)->registry(), {}, ledger);
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_EQ(graph::print(graph), before);
  EXPECT_EQ(passes_of(ledger, "failed"), std::vector<std::string>{item.pass});
  expect_well(**session);
}
INSTANTIATE_TEST_SUITE_P(Plugin, Undone, testing::ValuesIn(cases_of({"undone"})), name_of_case);

class Fails : public testing::TestWithParam<Case> {};

TEST_P(Fails, AndTheNextCompilationDoesNot) {
  auto bad = open({request_of(GetParam())});
  ASSERT_TRUE(bad) << bad.error().message();
  Ledger ledger;
  auto compiled = compile(**bad, sum_text, ledger);
  ASSERT_FALSE(compiled);
  expect_named(compiled.error(), GetParam().code);
  auto good = open({});
  ASSERT_TRUE(good) << good.error().message();
  expect_well(**good);
}
INSTANTIATE_TEST_SUITE_P(Plugin, Fails, testing::ValuesIn(cases_of({"fails"})), name_of_case);

/// Memory that only runs use is asked for by their context.
Result<void> run_on_device(const Compilation& compiled) {
  const auto& program = *compiled.executable;
  runtime::Executable::Context context(program);
  std::vector<float> result(some_input.size());
  const void* in = some_input.data();
  void* out = result.data();
  return program.run(context, {&in, 1}, {&out, 1});
}

class LyingDevice : public testing::TestWithParam<Case> {};

TEST_P(LyingDevice, IsRefusedAndTheOthersAreNot) {
  auto session = open({request_of(GetParam())});
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  CompileOptions options;
  options.device = "adversarial";
  auto compiled = core::compile(parse(**session, sum_text), (*session)->registry(), options, ledger);
  auto done = compiled ? run_on_device(*compiled) : Result<void>(compiled.error());
  ASSERT_FALSE(done);
  expect_named(done.error(), GetParam().code);
  expect_well(**session);
}
INSTANTIATE_TEST_SUITE_P(Plugin, LyingDevice, testing::ValuesIn(cases_of({"device"})), name_of_case);

TEST(Harmless, PluginThatExportsLlvm) {
  config::Pipeline pipeline;
  pipeline.plugins.push_back(request("adversarial_exports_llvm"));
  pipeline.plugins.push_back(standard_ops());
  auto cpu = standard_ops();
  cpu.library = installed_files().plugin_folder + "/ferrite_cpu.so";
  pipeline.plugins.push_back(cpu);
  auto session = Session::open(pipeline);
  ASSERT_TRUE(session) << session.error().message();
  Ledger ledger;
  CompileOptions options;
  options.device = "cpu";
  auto compiled = core::compile(parse(**session, sum_text), (*session)->registry(), options, ledger);
  ASSERT_TRUE(compiled) << compiled.error().message();
  alignas(64) float x[4] = {-1, 2, -3, 4};
  alignas(64) float y[4] = {};
  const void* in = x;
  void* out = y;
  runtime::Executable::Context context(*compiled->executable);
  auto ran = compiled->executable->run(context, {&in, 1}, {&out, 1});
  ASSERT_TRUE(ran) << ran.error().message();
  EXPECT_EQ((std::vector<float>{y, y + 4}), sum_result);
}

}  // namespace
}  // namespace ferrite::core::plugin::test
