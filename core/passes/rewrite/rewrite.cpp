// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/rewrite.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/ir/graph/api.h"
#include "core/ir/graph/print.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::rewrite {

using graph::Graph;
using graph::NodeId;
using graph::TensorType;
using graph::ValueId;
using Kind = Operand::Kind;

namespace {

/// The comma-separated origins of all nodes, without duplicates.
std::string joined_origins(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::string result;
  std::set<std::string, std::less<>> seen;
  for (const NodeId node : nodes) {
    std::string_view rest = graph.node(node).origin;
    while (!rest.empty()) {
      const std::string_view name = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      if (name.empty() || !seen.emplace(name).second) continue;
      if (!result.empty()) result += ',';
      result += name;
    }
  }
  return result;
}

}  // namespace

Rewrite::Rewrite(const Rule& rule, const Match& match, Graph& graph, const graph::OpRegistry& registry)
    : rule_(rule), match_(match), graph_(graph), registry_(registry) {
  for (const auto* nodes : {&match.nodes, &match.looked_through})
    std::copy_if(nodes->begin(), nodes->end(), std::back_inserter(matched_),
                 [](NodeId node) { return bool(node); });
  for (const RegionMatch& region : match.regions)
    matched_.insert(matched_.end(), region.nodes.begin(), region.nodes.end());
  std::sort(matched_.begin(), matched_.end(), [&](NodeId a, NodeId b) { return graph.comes_before(a, b); });
  matched_.erase(std::unique(matched_.begin(), matched_.end()), matched_.end());
  origin_ = joined_origins(graph, matched_);
}

std::optional<Refusal> Rewrite::run() {
  std::vector<std::string> before;
  for (const NodeId node : matched_) before.push_back(graph_.describe(node));
  find_place();
  for (const OpTerm& term : rule_.yields) {
    if (auto refused = term.region ? copy_region(term) : make(term)) return refused;
  }
  if (same_as_before()) return Refusal{"no change", "the yield equals what it replaces"};
  for (const Replacement& replacement : rule_.replacements) {
    if (auto refused = check(replacement)) return refused;
  }
  for (const auto& [from, to] : replaced_) {
    if (auto done = graph_.replace_uses(from, to); !done)
      return Refusal{"invalid edit", done.error().message()};
  }
  if (auto done = clean_up(); !done) return Refusal{"invalid edit", done.error().message()};
  std::vector<std::string> after;
  for (const NodeId node : new_) after.push_back(graph_.describe(node));
  text_ =
      fmt::format("{} -> {}", fmt::join(before, ", "),
                  new_.empty() ? "a value that is there already" : fmt::format("{}", fmt::join(after, ", ")));
  return std::nullopt;
}

void Rewrite::find_place() {
  // New nodes must precede every reader of a replaced value.
  place_ = match_.node(rule_.roots[0].value);
  for (const Replacement& replacement : rule_.replacements) {
    const ValueId from = match_.value(graph_, replacement.from);
    from_.push_back(from);
    for (const NodeId user : graph_.users(from)) {
      if (graph_.comes_before(user, place_)) place_ = user;
    }
  }
}

ValueId Rewrite::value(const Operand& operand) const {
  if (operand.kind != Kind::made) return match_.value(graph_, operand);
  return graph_.node(made_[operand.index]).results[operand.result];
}

std::optional<Refusal> Rewrite::check_order(ValueId id, NodeId reader) const {
  const NodeId producer = graph_.value(id).producer;
  // The replacement must not read a value that it replaces: after replace_uses() it would read itself.
  const bool replaced = std::find(from_.begin(), from_.end(), id) != from_.end();
  if (!replaced && (!producer || graph_.comes_before(producer, reader))) return std::nullopt;
  return Refusal{
      "order",
      "the replacement would read a value that depends on what it replaces, or comes after a reader of it"};
}

std::optional<Refusal> Rewrite::make(const OpTerm& term) {
  graph::NodeSpec spec = new_node(term.op);
  for (const Operand& operand : term.operands) {
    if (operand.kind == Kind::number) {
      auto literal = make_literal(term, operand.number);
      if (!literal) return Refusal{"literal", literal.error().message()};
      spec.operands.push_back(*literal);
      continue;
    }
    spec.operands.push_back(operand.kind == Kind::none ? ValueId() : value(operand));
    // An operand that belongs to an alternative that was not taken is absent.
    if (operand.kind == Kind::made || !spec.operands.back()) continue;
    if (auto refused = check_order(spec.operands.back(), place_)) return refused;
  }
  for (const AttributeTerm& attribute : term.attributes) {
    const auto& value = attribute.capture    ? match_.attributes[*attribute.capture]
                        : attribute.computed ? match_.computed[computed_++]
                                             : std::optional(attribute.literal);
    if (value) spec.attributes.push_back({attribute.name, *value});
  }
  auto node = graph::make_inferred(graph_, registry_, std::move(spec));
  if (!node) return Refusal{"not makable", node.error().message()};
  made_.push_back(*node);
  new_.push_back(*node);
  const size_t results = graph_.node(*node).results.size();
  if (results >= term.results.size()) return std::nullopt;
  return Refusal{"results", fmt::format("'{}' has {} here, the rule names {}", term.op,
                                        counted(results, "result"), term.results.size())};
}

graph::NodeSpec Rewrite::new_node(std::string op) const {
  graph::NodeSpec spec;
  spec.op = std::move(op);
  spec.before = place_;
  spec.origin = origin_;
  spec.made_by = rule_.name;
  return spec;
}

std::optional<Refusal> Rewrite::copy_region(const OpTerm& term) {
  const RegionMatch& region = match_.regions[*term.region];
  const Operand& operand = term.operands[0];
  std::unordered_map<uint64_t, ValueId> copies{{region.operand.bits, value(operand)}};
  if (operand.kind != Kind::made) {
    if (auto refused = check_order(value(operand), place_)) return refused;
  }
  for (const NodeId id : region.nodes) {
    graph::NodeSpec spec = new_node(std::string(graph_.op(id)));
    spec.operands = graph_.node(id).operands;
    spec.attributes = graph_.node(id).attributes;
    for (ValueId& read : spec.operands) {
      if (const auto copy = copies.find(read.bits); copy != copies.end()) {
        read = copy->second;
      } else if (read) {
        if (auto refused = check_order(read, place_)) return refused;
      }
    }
    auto node = graph::make_inferred(graph_, registry_, std::move(spec));
    if (!node) return Refusal{"not makable", node.error().message()};
    new_.push_back(*node);
    ++copied_;
    copies.emplace(graph_.node(id).results[0].bits, graph_.node(*node).results[0]);
  }
  made_.push_back(new_.back());
  return std::nullopt;
}

Result<ValueId> Rewrite::make_literal(const OpTerm& term, const Number& number) {
  const TensorType* like = nullptr;
  for (const Operand& operand : term.operands) {
    if (operand.kind == Kind::number || operand.kind == Kind::none || !value(operand)) continue;
    const TensorType& type = graph_.type(value(operand));
    if (!like || (like->dtype == DType::bool_ && type.dtype != DType::bool_)) like = &type;
  }
  TensorType type;
  type.dtype = like->dtype;
  type.device = like->device;
  const auto bytes = element_bytes(type.dtype, number);
  if (!bytes) {
    return error(FE_EINVALID, "FE-R19", "{} is no value of {}", text::format_number(number.value),
                 name_of(type.dtype));
  }
  return graph_.add_literal(std::move(type), *bytes);
}

bool Rewrite::same_as_before() const {
  return std::all_of(
      rule_.replacements.begin(), rule_.replacements.end(), [&](const Replacement& replacement) {
        if (replacement.to.kind != Kind::made ||
            match_.resolve(replacement.from).result != replacement.to.result)
          return false;
        const graph::Node &old = graph_.node(match_.node(replacement.from)),
                          &made = graph_.node(made_[replacement.to.index]);
        return old.op == made.op && old.operands == made.operands && old.attributes == made.attributes;
      });
}

std::optional<Refusal> Rewrite::check(const Replacement& replacement) {
  const ValueId from = match_.value(graph_, replacement.from), to = value(replacement.to);
  const TensorType &old = graph_.type(from), &made = graph_.type(to);
  if (!old.same_shape(made)) {
    return Refusal{"type differs", fmt::format("{} is {}, its replacement {}", print(rule_, replacement.from),
                                               graph::print_type(graph_.symbols(), old),
                                               graph::print_type(graph_.symbols(), made))};
  }
  // An existing value that becomes the replacement must be defined before all readers of the replaced one.
  if (replacement.to.kind != Kind::made) {
    for (const NodeId user : graph_.users(from)) {
      if (auto refused = check_order(to, user)) return refused;
    }
  }
  replaced_.push_back({from, to});
  return std::nullopt;
}

Result<void> Rewrite::clean_up() {
  std::vector<std::string> names;
  for (const auto& [from, to] : replaced_) names.push_back(graph_.value(from).name);
  // Backwards: erasing a node may free the nodes that it reads.
  for (auto node = matched_.rbegin(); node != matched_.rend(); ++node) {
    const auto& results = graph_.node(*node).results;
    const graph::OpInfo* info = registry_.find(graph_.op(*node));
    if (info && (info->def.flags & FE_OP_EFFECT)) continue;
    if (std::any_of(results.begin(), results.end(), [&](ValueId r) { return !graph_.value(r).uses.empty(); }))
      continue;
    FE_CHECK(graph_.erase(*node));
  }
  for (size_t k = 0; k < replaced_.size(); ++k) {
    const auto& [from, to] = replaced_[k];
    const graph::Value& value = graph_.value(to);
    // Names are unique: the new value can take the name only if the old one is gone.
    if (names[k].empty() || graph_.find(from) || !value.name.empty() ||
        value.kind != graph::ValueKind::result)
      continue;
    FE_CHECK(graph_.set_value_name(to, names[k]));
  }
  return {};
}

}  // namespace ferrite::core::rewrite
