// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs over the ops of rewrite_ops.h, and rules applied to them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "core/passes/rewrite/apply.h"
#include "core/support/abi/abi.h"
#include "rewrite_ops.h"

namespace ferrite::core::rewrite::test {

/// A graph, rules and what comes of them.
struct Rewriting : ::testing::Test {
  Ops ops;
  Ledger ledger;
  ApplyOptions options;
  std::map<std::string, size_t, std::less<>> counts;
  std::vector<fe_predicate> predicates;

  /// `body` over inputs %x, %y, %z of f32[2,3]; `outputs` as "%r" or "%r, %s".
  graph::Graph parse(const std::string& body, const std::string& outputs = "%r \"out\"") {
    const std::string text = "ferrite graph 0\ngraph @main(%x: f32[2,3], %y: f32[2,3], %z: f32[2,3]) -> (" +
                             outputs + ") {\n" + body + "\n}\n";
    auto graph = graph::parse(text, {"graph.fe", {}, &ops.registry()});
    if (!graph) {
      ADD_FAILURE() << graph.error().message();
      return graph::Graph();
    }
    return std::move(*graph);
  }

  CompiledRules compile(const std::string& text) {
    auto rules = compile_rules(text, "rules.fe", predicates, ops.registry());
    if (!rules) {
      ADD_FAILURE() << rules.error().message();
      return {};
    }
    return std::move(*rules);
  }

  /// The nodes after the rules of post_grad_pre, one a line, without types, origin and maker.
  std::string rewrite(const std::string& rules, graph::Graph& graph) {
    const CompiledRules compiled = compile(rules);
    options.counts = &counts;
    auto applied = apply_rules(compiled, "post_grad_pre", graph, ops.registry(), ledger, "acme", options);
    if (!applied) return applied.error().message();
    if (auto valid = graph::verify(graph, ops.registry()); !valid) return valid.error().message();
    return nodes(graph);
  }
  std::string rewrite(const std::string& rules, const std::string& body,
                      const std::string& outputs = "%r \"out\"") {
    graph::Graph graph = parse(body, outputs);
    return rewrite(rules, graph);
  }
  static std::string nodes(const graph::Graph& graph) {
    std::string result;
    for (graph::NodeId node = graph.first(); node; node = graph.next(node)) {
      const std::string line = graph::print_node(graph, node);
      result += line.substr(0, line.find(" : ")) + "\n";
    }
    return result;
  }
  static std::string rule(const std::string& match, const std::string& yield, const std::string& where = {}) {
    return "rule acme.test at post_grad_pre {\n  match { " + match + " }\n" +
           (where.empty() ? "" : "  where { " + where + " }\n") + "  yield { " + yield + " }\n}\n";
  }
  /// "outcome category" of the last record.
  std::string last() const {
    const auto records = ledger.records();
    if (records.empty()) return {};
    return records.back().outcome + (records.back().category.empty() ? "" : " " + records.back().category);
  }
};

}  // namespace ferrite::core::rewrite::test
