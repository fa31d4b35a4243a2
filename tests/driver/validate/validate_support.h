// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules as text, tried over the standard ops.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "driver/session.h"
#include "driver/validate/try_rule.h"

namespace ferrite::core::validate {

/// The standard ops and these rules, which nobody tried.
inline std::unique_ptr<Session> open(const std::string& rules,
                                     plugin::OnError on_error = plugin::OnError::fail) {
  config::Pipeline pipeline;
  pipeline.validate_rules = config::RuleValidation::off;
  auto& ops = pipeline.plugins.emplace_back();
  ops.library = plugin::installed_files().plugin_folder + "/ferrite_std.so";
  ops.why = "test";
  if (!rules.empty()) {
    auto& plugin = pipeline.plugins.emplace_back();
    plugin.id = "acme";
    plugin.why = "--plugin acme";
    plugin.on_error = on_error;
    plugin.rule_files.emplace_back("acme.rules", rules);
  }
  auto session = Session::open(pipeline);
  EXPECT_TRUE(session) << session.error().message();
  return session ? std::move(*session) : nullptr;
}

inline std::string rule(const std::string& match, const std::string& yield, const std::string& where = {}) {
  return "rule acme.test at post_grad_pre {\n  match { " + match + " }\n" +
         (where.empty() ? "" : "  where { " + where + " }\n") + "  yield { " + yield + " }\n}\n";
}

inline Verdict try_text(const std::string& text, uint64_t seed = TryOptions().seed) {
  const auto session = open(text);
  if (!session) return {};
  TryOptions options;
  options.seed = seed;
  return try_rule(session->registry().compiled_rules(0), 0, session->registry(), options);
}

}  // namespace ferrite::core::validate
