// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/passes/rewrite/apply.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/passes/rewrite/language/check_rules.h"
#include "core/passes/rewrite/language/parse_rules.h"
#include "core/passes/rewrite/language/print_rules.h"
#include "core/passes/rewrite/language/structure.h"
#include "core/passes/rewrite/matcher.h"
#include "core/passes/rewrite/rewrite.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::rewrite {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// The place where the condition names predicate `index`; null if it does not.
const Expression* find_predicate(const Expression& e, uint32_t index) {
  if (e.kind == Expression::Kind::predicate && e.index == index) return &e;
  for (const Expression& child : e.children) {
    if (const Expression* found = find_predicate(child, index)) return found;
  }
  return nullptr;
}

Error unknown_predicate(const Rule& rule, uint32_t index, const CompiledRules& compiled) {
  text::Position place = rule.position;
  for (const Condition& condition : rule.conditions) {
    if (const Expression* found = find_predicate(condition.expression, index)) place = found->position;
  }
  std::vector<std::string_view> names;
  for (const auto& [name, predicate] : compiled.predicates) names.push_back(name);
  return at(rule.where(place), error(FE_EINVALID, "FE-R11", "the plugin gives no predicate '{}'{}",
                                     rule.predicates[index], did_you_mean(rule.predicates[index], names)));
}

class Driver {
 public:
  Driver(const CompiledRules& rules, std::string_view phase, Graph& graph, const graph::OpRegistry& registry,
         Ledger& ledger, std::string_view plugin_id, const ApplyOptions& options)
      : rules_(rules),
        graph_(graph),
        registry_(registry),
        ledger_(ledger),
        plugin_id_(plugin_id),
        options_(options),
        api_(graph, registry),
        matcher_(of_phase(rules, phase), registry,
                 [this](const Rule& rule, uint32_t predicate, const Match& match) {
                   return ask(rule, predicate, match);
                 }) {
    if (options.evaluate) api_.set_evaluate(options.evaluate);
    api_.set_deadline(options.deadline);
    for (const Rule& rule : rules.rules) {
      if (rule.phase == phase) counts_[rule.name];
    }
  }

  /// Repeats sweeps over the graph until one changes nothing. Within a sweep, an application queues the nodes
  /// that it may have enabled, so later sweeps rarely find anything; they make the result a true fixed point.
  Result<size_t> run() {
    size_t before = 0;
    const auto may_go_on = [&] { return applications_ < options_.most_applications; };
    do {
      before = applications_;
      const auto nodes = graph_.nodes();
      work_.assign(nodes.begin(), nodes.end());
      for (const NodeId node : nodes) queued_.insert(node.bits);
      while (!work_.empty() && may_go_on()) {
        FE_CHECK(options_.deadline.check());
        const NodeId node = work_.front();
        work_.pop_front();
        queued_.erase(node.bits);
        // An earlier application may have erased the queued node.
        if (graph_.find(node)) FE_CHECK(visit(node));
      }
    } while (applications_ != before && !options_.once && may_go_on());
    if (options_.counts) {
      for (const auto& [name, count] : counts_) (*options_.counts)[std::string(name)] += count;
    }
    return applications_;
  }

  /// Adds where matching each rule stopped at each of the nodes. If `of` is another driver, it has applied
  /// the rules since.
  Result<void> note_misses(const std::vector<NodeId>& nodes, const Driver& of) {
    NearMisses& misses = *options_.near_misses;
    for (const NodeId node : nodes) {
      for (const uint32_t index : matcher_.candidates(graph_, node)) {
        const Rule& rule = matcher_.rule(index);
        if (!misses.wants(rule.name) || of.applied_.contains({&rule, node.bits})) continue;
        with_candidates_.insert(&rule);
        FE_TRY(auto miss, matcher_.explain(graph_, index, node));
        if (miss) {
          misses.add(near_miss(rule, graph_.describe(node), std::move(*miss)));
        } else if (&of != this) {
          misses.add(near_miss(rule, graph_.describe(node),
                               {rule.position, "order", "to come before the other rules",
                                "another rule rewrote what it matches", parts_of(rule)}));
        }
      }
    }
    return {};
  }
  /// Adds the rules for which no node was a candidate, in this driver or in `other`, and marks all rules as
  /// tried.
  void note_absent(const Driver& other) {
    NearMisses& misses = *options_.near_misses;
    for (uint32_t index = 0; index < matcher_.size(); ++index) {
      const Rule& rule = matcher_.rule(index);
      if (!misses.wants(rule.name)) continue;
      misses.note_tried(rule.name);
      if (counts_[rule.name] != 0 || with_candidates_.contains(&rule) ||
          other.with_candidates_.contains(&rule))
        continue;
      const Operand& root = rule.roots[0].value;
      std::set<std::string> ops;
      for (const uint32_t term : terms_of(rule, root)) ops.insert(rule.terms[term].op);
      misses.add(near_miss(rule, {},
                           {rule.terms[terms_of(rule, root)[0]].position,
                            root.kind == Operand::Kind::choice ? print(rule, rule.choices[root.index])
                                                               : print(rule, rule.terms[root.index]),
                            fmt::format("a node '{}'", fmt::join(ops, "' or '")),
                            fmt::format("none among {}", counted(graph_.node_count(), "node")), 0}));
    }
  }

 private:
  NearMiss near_miss(const Rule& rule, std::string node, Miss miss) const {
    return {rule.name,
            plugin_id_,
            rule.phase,
            std::move(node),
            rule.where(miss.position),
            std::move(miss.failed),
            std::move(miss.wanted),
            std::move(miss.found),
            miss.held,
            parts_of(rule),
            std::move(miss.alternatives)};
  }

  static std::vector<const Rule*> of_phase(const CompiledRules& rules, std::string_view phase) {
    std::vector<const Rule*> result;
    for (const Rule& rule : rules.rules) {
      if (rule.phase == phase) result.push_back(&rule);
    }
    return result;
  }

  void push(NodeId node) {
    if (options_.once) return;
    if (queued_.insert(node.bits).second) work_.push_back(node);
  }

  Result<void> visit(NodeId node) {
    for (const uint32_t index : matcher_.candidates(graph_, node)) {
      const Rule& rule = matcher_.rule(index);
      FE_TRY(const Matcher::Outcome outcome, matcher_.match(graph_, index, node, match_));
      if (outcome == Matcher::Outcome::none) continue;
      if (outcome == Matcher::Outcome::too_many_ways) {
        refuse(rule, node,
               {"too many ways",
                fmt::format("more than {} steps to match {}", Matcher::max_steps, graph_.describe(node))});
        continue;
      }
      FE_TRY(const bool applied, apply(rule, node));
      if (applied) return {};
    }
    return {};
  }

  Result<bool> apply(const Rule& rule, NodeId root) {
    const graph::Mark mark = graph_.mark();
    if (options_.watcher) options_.watcher->before(rule, graph_);
    Rewrite rewrite(rule, match_, graph_, registry_);
    if (auto refused = rewrite.run()) {
      FE_CHECK(graph_.rollback(mark));
      refused->text = graph_.describe(root) + ": " + refused->text;
      refuse(rule, root, std::move(*refused));
      return false;
    }
    ++counts_[rule.name];
    // Count every op that a region copies, so that a rule whose region grows with each application reaches
    // the limit as soon as any other.
    if ((rewrites_[rule.name] += std::max<size_t>(1, rewrite.copied())) > options_.max_rewrites) {
      return at(
          rule.where(rule.position),
          error(FE_EINVALID, "FE-R18",
                "rule '{}' was applied more than {} times; it, or another rule, makes what it matches. Add "
                "a condition that the result does not meet, or raise max_rewrites",
                rule.name, options_.max_rewrites));
    }
    ++applications_;
    if (options_.near_misses) applied_.insert({&rule, root.bits});
    ledger_.add({"rule", rule.name, plugin_id_, "applied", {}, rewrite.text(), 1});
    // The root survives if a node outside the match reads it. Its surroundings changed, so try it again.
    if (graph_.find(root)) push(root);
    for (const NodeId node : rewrite.made()) push(node);
    for (const auto& [from, to] : rewrite.replaced()) push_readers(to, matcher_.depth());
    if (options_.watcher) FE_CHECK(options_.watcher->after(rule, graph_, rewrite.replaced()));
    return true;
  }

  /// Queues the nodes whose match may include a node that reads the value directly or through other nodes.
  /// Nodes beyond the limit wait for the next sweep.
  void push_readers(ValueId value, size_t depth) {
    // Bounds the cost of one application at values with very many readers.
    size_t left = 64;
    std::vector<std::pair<ValueId, size_t>> pending{{value, depth}};
    while (!pending.empty()) {
      const auto [id, levels] = pending.back();
      pending.pop_back();
      const auto& uses = graph_.value(id).uses;
      for (size_t k = 0; k < uses.size(); ++k) {
        const NodeId user = uses[k].user;
        if (!user) continue;
        if (left-- == 0) return;
        push(user);
        // A pattern looks through such a node without using up a term.
        const size_t below = matcher_.looks_through(graph_, user) ? levels : levels - 1;
        if (below == 0) continue;
        for (const ValueId result : graph_.node(user).results) pending.push_back({result, below});
      }
    }
  }

  void refuse(const Rule& rule, NodeId root, Refusal refusal) {
    // The driver tries a rule on a node again whenever the neighbourhood changes. Report a refusal only once.
    if (!refused_.insert({&rule, root.bits}).second) return;
    if (options_.near_misses && options_.near_misses->wants(rule.name))
      options_.near_misses->add(near_miss(
          rule, graph_.describe(root),
          {rule.position, refusal.category, "a replacement that can be made", refusal.text, parts_of(rule)}));
    ledger_.add(
        {"rule", rule.name, plugin_id_, "refused", std::move(refusal.category), std::move(refusal.text), 0});
  }

  /// Calls a predicate. It may evaluate constants, which adds nodes to the graph: roll those back.
  Result<bool> ask(const Rule& rule, uint32_t index, const Match& match) {
    std::vector<fe_string> names;
    std::vector<fe_value> values;
    const auto add = [&](std::string_view name, ValueId value) {
      names.push_back(abi::string(name));
      values.push_back(value.bits);
    };
    for (size_t k = 0; k < rule.captures.size(); ++k) add(rule.captures[k], match.captures[k]);
    Operand named;
    for (uint32_t k = 0; k < rule.terms.size(); ++k) {
      const auto& results = rule.terms[k].results;
      named = {Operand::Kind::matched, k, 0, {}, {}};
      for (; named.result < results.size(); ++named.result) {
        if (!results[named.result].empty()) add(results[named.result], match.value(graph_, named));
      }
    }
    for (uint32_t k = 0; k < rule.choices.size(); ++k) {
      named = {Operand::Kind::choice, k, 0, {}, {}};
      if (!rule.choices[k].name.empty()) add(rule.choices[k].name, match.value(graph_, named));
    }
    std::vector<graph::Attribute> attributes;
    for (size_t k = 0; k < rule.attributes.size(); ++k) {
      if (match.attributes[k]) attributes.push_back({rule.attributes[k], *match.attributes[k]});
    }
    std::vector<fe_attr> views;
    std::deque<std::vector<fe_string>> strings;
    for (const graph::Attribute& attribute : attributes)
      views.push_back(graph::view_of(attribute, strings.emplace_back()));
    const std::string& name = rule.predicates[index];
    const fe_predicate& predicate = rules_.predicates.find(name)->second;
    auto args = abi::sized<fe_match_args>();
    args.graph = api_.api();
    args.names = abi::array(names.data(), names.size());
    args.values = abi::array(values.data(), values.size());
    args.root = match.node(rule.roots[0].value).bits;
    args.attrs = abi::array(views.data(), views.size());
    auto out = abi::sized<fe_predicate_out>();
    abi::Call call;
    const graph::Mark mark = graph_.mark();
    const int32_t status =
        callback::call({plugin_id_, "predicate", name}, predicate.accept, predicate.self, call, &args, &out);
    const Graph::Touched touched = graph_.touched(mark);
    FE_CHECK(graph_.rollback(mark));
    if (status == FE_EUNSUPPORTED) return false;
    const auto fail = [&](Error fault) {
      fault.text = fmt::format("predicate '{}' of rule '{}' {}", name, rule.name, fault.text);
      return at(rule.where(rule.position), std::move(fault));
    };
    if (auto done = call.check(status, "FE-R16", "did not say what is wrong"); !done) {
      done.error().text = "failed: " + done.error().text;
      return fail(std::move(done.error()));
    }
    if (auto kept = api_.check(); !kept) return fail(std::move(kept.error()));
    if (!touched.nodes.empty() || touched.signature) {
      return fail(error(FE_EINVALID, "FE-R17", "edits the graph; it may only look at it (a pass may edit)"));
    }
    return out.accepted != 0;
  }

  const CompiledRules& rules_;
  Graph& graph_;
  const graph::OpRegistry& registry_;
  Ledger& ledger_;
  const std::string plugin_id_;
  const ApplyOptions& options_;
  graph::GraphApi api_;
  Matcher matcher_;
  Match match_;
  std::deque<NodeId> work_;
  std::unordered_set<uint64_t> queued_;
  std::set<std::pair<const Rule*, uint64_t>> refused_;
  std::set<std::pair<const Rule*, uint64_t>> applied_;  // kept only for near misses
  std::set<const Rule*> with_candidates_;               // kept only for near misses
  std::map<std::string_view, size_t> counts_, rewrites_;
  size_t applications_ = 0;
};

/// `before` is the graph at the time when `driver` began. Nodes that the rules replaced are examined there,
/// all others in the current graph.
Result<void> note_near_misses(Driver& driver, const Graph& graph, Driver& first, const Graph& before) {
  std::vector<NodeId> gone = before.nodes();
  std::erase_if(gone, [&](NodeId node) { return graph.find(node) != nullptr; });
  FE_CHECK(first.note_misses(gone, driver));
  FE_CHECK(driver.note_misses(graph.nodes(), driver));
  driver.note_absent(first);
  return {};
}

}  // namespace

std::vector<std::string> CompiledRules::phases() const {
  std::vector<std::string> result;
  for (const Rule& rule : rules) {
    if (std::find(result.begin(), result.end(), rule.phase) == result.end()) result.push_back(rule.phase);
  }
  return result;
}

Result<CompiledRules> compile_rules(std::string_view text, std::string file,
                                    std::span<const fe_predicate> predicates,
                                    const graph::OpRegistry& registry) {
  CompiledRules compiled;
  for (const fe_predicate& given : predicates) {
    const fe_predicate predicate = abi::read(&given);
    if (predicate.accept) compiled.predicates.insert_or_assign(abi::string(predicate.name), predicate);
  }
  FE_TRY(compiled.rules, parse_rules(text, file));
  for (Rule& rule : compiled.rules) {
    FE_CHECK(check_rule(rule, registry));
    for (uint32_t k = 0; k < rule.predicates.size(); ++k) {
      if (!compiled.predicates.contains(rule.predicates[k])) return unknown_predicate(rule, k, compiled);
    }
  }
  return compiled;
}

Result<size_t> apply_rules(const CompiledRules& rules, std::string_view phase, graph::Graph& graph,
                           const graph::OpRegistry& registry, Ledger& ledger, std::string_view plugin_id,
                           const ApplyOptions& options) {
  const graph::Mark start = graph.mark();
  std::optional<Graph> before;
  // To explain why a rule missed a node that another rule replaced, keep the graph as it was.
  if (options.near_misses) before = graph;
  Driver driver(rules, phase, graph, registry, ledger, plugin_id, options);
  auto applications = driver.run();
  if (applications && before) {
    Driver first(rules, phase, *before, registry, ledger, plugin_id, options);
    if (auto noted = note_near_misses(driver, graph, first, *before); !noted)
      applications = std::move(noted.error());
  }
  if (!applications) FE_CHECK(graph.rollback(start));
  return applications;
}

}  // namespace ferrite::core::rewrite
