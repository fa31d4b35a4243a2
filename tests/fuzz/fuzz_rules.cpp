// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any bytes as rules. What reads must print, read back and print the same again; what compiles is applied to
// a graph, which must stay valid, or as it was where that is refused.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "core/passes/rewrite/apply.h"
#include "core/passes/rewrite/language/parse_rules.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "tests/core/passes/rewrite_ops.h"

using namespace ferrite::core;
using namespace ferrite::core::rewrite;

namespace {

constexpr std::string_view sample = R"(ferrite graph 0
graph @main(%x: f32[2,3], %y: f32[2,3], %z: f32[2,3]) -> (%r "out", %h1 "half") {
  %c = literal f32[] {0.5}
  %m = mul(%x, %y) from "Mul_0"
  %a = add(%z, %m) from "Add_1"
  %n = neg(%a)
  %s = scale(%n) {axis = 1}
  %p = reshape(%s) {shape = [6]}
  %q = reshape(%p) {shape = [2, 3]}
  %h0, %h1 = halves(%q)
  %k = mul(%c, %h0)
  %b = sub(%k, %x)
  %l = clamp(%b, _, %y)
  %r = relu(%l)
}
)";

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const test::Ops ops;
  static const auto graph = graph::parse(sample, {"sample", {}, &ops.registry()});
  require(graph.has_value());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto rules = parse_rules(text, "fuzz");
  if (!rules) {
    require(rules.error().code.starts_with("FE-") && !rules.error().where.empty());
    return 0;
  }
  std::string printed, again;
  for (const Rule& rule : *rules) printed += print(rule);
  const auto read = parse_rules(printed, "printed");
  require(read.has_value());
  for (const Rule& rule : *read) again += print(rule);
  require(again == printed);

  const auto compiled = compile_rules(text, "fuzz", {}, ops.registry());
  if (!compiled) {
    require(!compiled.error().where.empty());
    return 0;
  }
  for (const std::string& phase : compiled->phases()) {
    graph::Graph copy = *graph;
    Ledger ledger;
    ApplyOptions options;
    options.max_rewrites = 100;
    const auto applied = apply_rules(*compiled, phase, copy, ops.registry(), ledger, "fuzz", options);
    if (!applied) require(graph::equal(copy, *graph));
    require(graph::verify(copy, ops.registry()).has_value());
  }
  return 0;
}
