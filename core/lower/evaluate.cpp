// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "core/ir/graph/infer.h"
#include "core/ir/loop/interpreter.h"
#include "core/lower/lower.h"

namespace ferrite::core::lower {
namespace {

Error unsupported(const char* why) {
  return error(FE_EUNSUPPORTED, "FE-G26", "the value cannot be folded: {}", why);
}

}  // namespace

Result<graph::ValueId> Evaluator::evaluate(graph::Graph& graph, graph::ValueId value) {
  // A roll-back of the graph erases folded constants, so check that the cached one still exists.
  auto known = [&](graph::ValueId of) {
    auto found = known_.find(of);
    return found != known_.end() && graph.find(found->second) ? found->second : graph::ValueId();
  };
  if (auto constant = known(value)) return constant;
  const auto* v = graph.find(value);
  if (!v) return error(FE_ESTALE, "FE-G03", "the value was erased");
  if (v->kind == graph::ValueKind::constant) {
    if (v->constant->kind == FE_CONSTANT_PARAMETER) return unsupported("it is a parameter");
    return value;
  }
  auto bytes = v->type.bytes();
  if (!bytes || *bytes > most_bytes) return unsupported("it is too large, or its size is not known");

  // Collect the nodes that the value depends on, in order, down to constants and cached results.
  std::vector<graph::NodeId> cone, stack;
  std::map<graph::NodeId, bool> seen;
  auto visit = [&](graph::ValueId operand) -> bool {
    if (!operand || known(operand)) return true;
    const auto& o = graph.value(operand);
    if (o.kind == graph::ValueKind::input) return false;
    if (o.kind == graph::ValueKind::constant) return o.constant->kind != FE_CONSTANT_PARAMETER;
    if (!seen.emplace(o.producer, true).second) return true;
    cone.push_back(o.producer);
    stack.push_back(o.producer);
    return true;
  };
  if (!visit(value)) return unsupported("it is an input");
  while (!stack.empty()) {
    auto id = stack.back();
    stack.pop_back();
    const auto* op = registry_.ops().find(graph.op(id));
    if (!op || (op->def.flags & (FE_OP_RANDOM | FE_OP_EFFECT)) != 0)
      return unsupported("an op is random or has an effect");
    for (auto operand : graph.node(id).operands)
      if (!visit(operand)) return unsupported("it depends on an input");
    for (auto result : graph.node(id).results) {
      auto size = graph.type(result).bytes();
      if (!size || *size > 16 * most_bytes) return unsupported("an intermediate value is too large");
    }
    if (cone.size() > most_nodes) return unsupported("it depends on too many nodes");
  }
  std::sort(cone.begin(), cone.end(), [&](auto a, auto b) { return graph.comes_before(a, b); });

  graph::Graph part("constant");
  std::map<graph::ValueId, graph::ValueId> image;
  auto map = [&](graph::ValueId operand) -> Result<graph::ValueId> {
    if (!operand) return operand;
    if (auto found = image.find(operand); found != image.end()) return found->second;
    auto constant = known(operand);
    auto source = constant ? constant : operand;
    FE_TRY(auto data, graph.constant_bytes(source));
    FE_TRY(auto copy, part.add_literal(graph.type(source), data));
    image[operand] = copy;
    return copy;
  };
  for (auto id : cone) {
    const auto& node = graph.node(id);
    graph::NodeSpec spec;
    spec.op = graph.op(id);
    for (auto operand : node.operands) {
      FE_TRY(auto mapped, map(operand));
      spec.operands.push_back(mapped);
    }
    spec.attributes = node.attributes;
    spec.origin = node.origin;
    FE_TRY(auto made, graph::make_inferred(part, registry_.ops(), std::move(spec)));
    for (size_t k = 0; k < node.results.size(); ++k) image[node.results[k]] = part.node(made).results[k];
  }
  FE_TRY(auto root, map(value));
  FE_TRY(auto output, part.add_output("value", root));
  (void)output;
  Ledger ledger;
  FE_CHECK(decompose(part, registry_, "interpreter", false, ledger));
  FE_TRY(auto program, lower(part, registry_, "interpreter", ledger));
  std::vector<std::byte> result(static_cast<size_t>(*bytes));
  loop::Memory memory(result);
  // Report "unsupported" rather than the failure: the program will fail in the same way at run time if it
  // needs the value, and an unused value must not stop the compilation.
  if (auto done = loop::evaluate(program, {}, {&memory, 1}); !done)
    return error(FE_EUNSUPPORTED, "FE-G26", "the value cannot be folded: {}", done.error().message());
  FE_TRY(auto literal, graph.add_literal(graph.type(value), result));
  known_[value] = literal;
  return literal;
}

}  // namespace ferrite::core::lower
