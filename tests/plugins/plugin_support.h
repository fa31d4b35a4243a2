// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions over test plugins, and graphs run on the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "core/ir/graph/print.h"
#include "core/ir/loop/interpreter.h"
#include "core/ir/text/parse_graph.h"
#include "core/passes/gate.h"
#include "driver/session.h"

namespace ferrite::core::plugin::test {

inline std::string library_of(const std::string& name) {
  return std::string(FERRITE_TEST_PLUGINS) + "/" + name + ".so";
}

inline PluginRequest request(const std::string& name, OnError on_error = OnError::fail,
                             std::vector<graph::Attribute> config = {}) {
  PluginRequest plugin;
  plugin.library = library_of(name);
  plugin.why = "test";
  plugin.on_error = on_error;
  plugin.config = std::move(config);
  return plugin;
}
inline PluginRequest standard_ops() {
  PluginRequest plugin;
  plugin.library = installed_files().plugin_folder + "/ferrite_std.so";
  plugin.why = "test";
  return plugin;
}

/// The standard ops and these plugins.
inline Result<std::unique_ptr<Session>> open(std::vector<PluginRequest> requests) {
  config::Pipeline pipeline;
  pipeline.plugins.push_back(standard_ops());
  for (auto& one : requests) pipeline.plugins.push_back(std::move(one));
  return Session::open(pipeline);
}

inline graph::Graph parse(const Session& session, const std::string& text) {
  graph::ParseOptions options;
  options.registry = &session.registry().ops();
  auto parsed = graph::parse(text, options);
  EXPECT_TRUE(parsed) << parsed.error().message();
  return std::move(*parsed);
}

/// Compiled up to the stage `to` (empty: to the end) for the interpreter.
inline Result<Compilation> compile(const Session& session, const std::string& text, Ledger& ledger,
                                   const std::string& to = {}) {
  CompileOptions options;
  options.device = "interpreter";
  options.to = to;
  return core::compile(parse(session, text), session.registry(), options, ledger);
}

/// The first output of a program of f32 inputs and outputs.
inline Result<std::vector<float>> evaluate(const Compilation& compilation, const std::vector<float>& input) {
  const auto& program = *compilation.program;
  loop::ConstMemory in = std::as_bytes(std::span(input));
  std::vector<std::vector<float>> results;
  for (auto id : program.outputs)
    results.emplace_back(static_cast<size_t>(program.buffers[id].bytes()) / sizeof(float));
  std::vector<loop::Memory> out;
  for (auto& result : results) out.push_back(std::as_writable_bytes(std::span(result)));
  FE_CHECK(loop::evaluate(program, {&in, 1}, out));
  return results[0];
}

/// Names of the passes of a ledger, in the order in which they ran; `outcome` empty: all.
inline std::vector<std::string> passes_of(const Ledger& ledger, const std::string& outcome = {}) {
  std::vector<std::string> names;
  for (const auto& record : ledger.records())
    if (record.kind == "pass" && (outcome.empty() || record.outcome == outcome))
      names.push_back(record.subject);
  return names;
}

inline const std::vector<float> some_input = {-1, 2, -3, 4};
inline const std::string relu_text = R"(ferrite graph 0
graph @small(%x: f32[4]) -> (%0 "y") {
  %0 = relu(%x) : f32[4] from "only"
}
)";

}  // namespace ferrite::core::plugin::test
