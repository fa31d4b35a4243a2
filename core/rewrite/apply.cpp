// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/rewrite/apply.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "core/graph/api.h"
#include "core/graph/infer.h"
#include "core/graph/print.h"
#include "core/rewrite/check.h"
#include "core/rewrite/matcher.h"
#include "core/rewrite/parse.h"
#include "core/rewrite/print.h"
#include "core/support/abi.h"
#include "core/support/callback.h"
#include "core/support/suggest.h"

namespace ferrite::core::rewrite {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::TensorType;
using graph::ValueId;
using Kind = Operand::Kind;

/// Where the condition names predicate `index`; none where it does not.
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

/// Why an application is undone: `category` is for counting, `text` for people.
struct Refusal {
  std::string category, text;
};

/// The comma-separated names of all nodes, each once.
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

/// One match turned into its yield. The caller undoes the edits where it is refused.
class Rewrite {
 public:
  Rewrite(const Rule& rule, const Match& match, Graph& graph, const graph::OpRegistry& registry)
      : rule_(rule), match_(match), graph_(graph), registry_(registry) {
    for (const auto* nodes : {&match.nodes, &match.looked_through})
      matched_.insert(matched_.end(), nodes->begin(), nodes->end());
    for (const RegionMatch& region : match.regions)
      matched_.insert(matched_.end(), region.nodes.begin(), region.nodes.end());
    std::sort(matched_.begin(), matched_.end(), [&](NodeId a, NodeId b) { return graph.comes_before(a, b); });
    matched_.erase(std::unique(matched_.begin(), matched_.end()), matched_.end());
    origin_ = joined_origins(graph, matched_);
  }

  std::optional<Refusal> run() {
    std::vector<std::string> before;
    for (const NodeId node : matched_) before.push_back(graph_.describe(node));
    find_place();
    for (const OpTerm& term : rule_.yields) {
      if (auto refused = term.region ? copy_region(term) : make(term)) return refused;
    }
    if (same_as_before()) return Refusal{"no change", "the yield is what is there already"};
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
    text_ = fmt::format(
        "{} -> {}", fmt::join(before, ", "),
        new_.empty() ? "a value that is there already" : fmt::format("{}", fmt::join(after, ", ")));
    return std::nullopt;
  }

  /// The new nodes, in order.
  const std::vector<NodeId>& made() const { return new_; }
  /// How many of them regions have.
  size_t copied() const { return copied_; }
  const std::vector<Replaced>& replaced() const { return replaced_; }
  const std::string& text() const { return text_; }

 private:
  /// Before the first root, and before everything that reads a replaced value.
  void find_place() {
    place_ = match_.nodes[rule_.roots[0].term];
    for (const Replacement& replacement : rule_.replacements) {
      const ValueId from = match_.value(graph_, replacement.from);
      from_.push_back(from);
      for (const NodeId user : graph_.users(from)) {
        if (graph_.comes_before(user, place_)) place_ = user;
      }
    }
  }

  ValueId value(const Operand& operand) const {
    if (operand.kind != Kind::made) return match_.value(graph_, operand);
    return graph_.node(made_[operand.index]).results[operand.result];
  }

  /// A value that was there before can be read at the place, and is not about to be replaced.
  std::optional<Refusal> check_order(ValueId id, NodeId reader) const {
    const NodeId producer = graph_.value(id).producer;
    const bool replaced = std::find(from_.begin(), from_.end(), id) != from_.end();
    if (!replaced && (!producer || graph_.comes_before(producer, reader))) return std::nullopt;
    return Refusal{
        "order",
        "the replacement would read a value that depends on what it replaces, or comes after a reader of it"};
  }

  std::optional<Refusal> make(const OpTerm& term) {
    graph::NodeSpec spec = new_node(term.op);
    for (const Operand& operand : term.operands) {
      if (operand.kind == Kind::number) {
        auto literal = make_literal(term, operand.number);
        if (!literal) return Refusal{"literal", literal.error().message()};
        spec.operands.push_back(*literal);
        continue;
      }
      spec.operands.push_back(operand.kind == Kind::none ? ValueId() : value(operand));
      if (operand.kind == Kind::none || operand.kind == Kind::made) continue;
      if (auto refused = check_order(spec.operands.back(), place_)) return refused;
    }
    for (const AttributeTerm& attribute : term.attributes) {
      spec.attributes.push_back(
          {attribute.name, attribute.capture ? match_.attributes[*attribute.capture] : attribute.literal});
    }
    auto node = graph::make_inferred(graph_, registry_, std::move(spec));
    if (!node) return Refusal{"not makable", node.error().message()};
    made_.push_back(*node);
    new_.push_back(*node);
    const size_t results = graph_.node(*node).results.size();
    if (results >= term.results.size()) return std::nullopt;
    return Refusal{"results", fmt::format("'{}' has {} results here, the rule names {}", term.op, results,
                                          term.results.size())};
  }

  graph::NodeSpec new_node(std::string op) const {
    graph::NodeSpec spec;
    spec.op = std::move(op);
    spec.before = place_;
    spec.origin = origin_;
    spec.made_by = rule_.name;
    return spec;
  }

  /// The region's ops once more, over another operand and the same side inputs.
  std::optional<Refusal> copy_region(const OpTerm& term) {
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

  /// Numbers have the element type of the first value operand, of the first that is no bool where there is one: in
  /// where(%condition, %x, 0) it is that of %x.
  Result<ValueId> make_literal(const OpTerm& term, const Number& number) {
    const TensorType* like = nullptr;
    for (const Operand& operand : term.operands) {
      if (operand.kind == Kind::number || operand.kind == Kind::none) continue;
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

  /// Whether each replaced node was made again as it is: the rule would match it for ever.
  bool same_as_before() const {
    return std::all_of(
        rule_.replacements.begin(), rule_.replacements.end(), [&](const Replacement& replacement) {
          if (replacement.to.kind != Kind::made || replacement.from.result != replacement.to.result)
            return false;
          const graph::Node &old = graph_.node(match_.nodes[replacement.from.index]),
                            &made = graph_.node(made_[replacement.to.index]);
          return old.op == made.op && old.operands == made.operands && old.attributes == made.attributes;
        });
  }

  std::optional<Refusal> check(const Replacement& replacement) {
    const ValueId from = match_.value(graph_, replacement.from), to = value(replacement.to);
    const TensorType &old = graph_.type(from), &made = graph_.type(to);
    if (!old.same_shape(made)) {
      return Refusal{
          "type differs",
          fmt::format("%{} is {}, its replacement {}",
                      rule_.terms[replacement.from.index].results[replacement.from.result],
                      graph::print_type(graph_.symbols(), old), graph::print_type(graph_.symbols(), made))};
    }
    if (replacement.to.kind != Kind::made) {
      for (const NodeId user : graph_.users(from)) {
        if (auto refused = check_order(to, user)) return refused;
      }
    }
    replaced_.push_back({from, to});
    return std::nullopt;
  }

  /// Erases what nothing reads any more, last first, and hands names on.
  Result<void> clean_up() {
    std::vector<std::string> names;
    for (const auto& [from, to] : replaced_) names.push_back(graph_.value(from).name);
    for (auto node = matched_.rbegin(); node != matched_.rend(); ++node) {
      const auto& results = graph_.node(*node).results;
      const graph::OpInfo* info = registry_.find(graph_.op(*node));
      if (info && (info->def.flags & FE_OP_EFFECT)) continue;
      if (std::any_of(results.begin(), results.end(),
                      [&](ValueId r) { return !graph_.value(r).uses.empty(); }))
        continue;
      FE_CHECK(graph_.erase(*node));
    }
    for (size_t k = 0; k < replaced_.size(); ++k) {
      const auto& [from, to] = replaced_[k];
      const graph::Value& value = graph_.value(to);
      if (names[k].empty() || graph_.find(from) || !value.name.empty() ||
          value.kind != graph::ValueKind::result)
        continue;
      FE_CHECK(graph_.set_value_name(to, names[k]));
    }
    return {};
  }

  const Rule& rule_;
  const Match& match_;
  Graph& graph_;
  const graph::OpRegistry& registry_;
  std::vector<NodeId> matched_;  // in order, each once
  std::string origin_, text_;
  NodeId place_;
  std::vector<ValueId> from_;
  std::vector<NodeId> made_;  // as Rule::yields; of a region the last one
  std::vector<NodeId> new_;   // all, in order
  std::vector<Replaced> replaced_;
  size_t copied_ = 0;
};

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

  /// Sweeps until one finds nothing more. Within a sweep what an application may have enabled is looked at again, which
  /// leaves the further sweeps little to find; that they find the rest is what makes the result a fixed point.
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
        if (graph_.find(node)) FE_CHECK(visit(node));
      }
    } while (applications_ != before && !options_.once && may_go_on());
    if (options_.counts) {
      for (const auto& [name, count] : counts_) (*options_.counts)[std::string(name)] += count;
    }
    return applications_;
  }

  /// Adds where each rule stopped at each of the nodes. `of` has applied the rules since, where that is another one.
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
  /// Rules of which no node was a candidate, here or there, and all that were tried.
  void note_absent(const Driver& other) {
    NearMisses& misses = *options_.near_misses;
    for (uint32_t index = 0; index < matcher_.size(); ++index) {
      const Rule& rule = matcher_.rule(index);
      if (!misses.wants(rule.name)) continue;
      misses.note_tried(rule.name);
      if (counts_[rule.name] != 0 || with_candidates_.contains(&rule) ||
          other.with_candidates_.contains(&rule))
        continue;
      const OpTerm& root = rule.terms[rule.roots[0].term];
      misses.add(near_miss(rule, {},
                           {root.position, print(rule, root), fmt::format("a node '{}'", root.op),
                            fmt::format("none among {} nodes", graph_.node_count()), 0}));
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
            parts_of(rule)};
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
    // Each op that a region copies counts, so that a rule which lets its own region grow ends as soon as any other.
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
    if (graph_.find(root)) push(root);
    for (const NodeId node : rewrite.made()) push(node);
    for (const auto& [from, to] : rewrite.replaced()) push_readers(to, matcher_.depth());
    if (options_.watcher) FE_CHECK(options_.watcher->after(rule, graph_, rewrite.replaced()));
    return true;
  }

  /// Nodes whose match may have a node in it that reads the value directly or over others. What is beyond the limit waits
  /// for the next sweep.
  void push_readers(ValueId value, size_t depth) {
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
        const size_t below = matcher_.looks_through(graph_, user) ? levels : levels - 1;
        if (below == 0) continue;
        for (const ValueId result : graph_.node(user).results) pending.push_back({result, below});
      }
    }
  }

  void refuse(const Rule& rule, NodeId root, Refusal refusal) {
    // A rule is tried on a node again when something near it changes; that it is refused is said once.
    if (!refused_.insert({&rule, root.bits}).second) return;
    if (options_.near_misses && options_.near_misses->wants(rule.name))
      options_.near_misses->add(near_miss(
          rule, graph_.describe(root),
          {rule.position, refusal.category, "a replacement that can be made", refusal.text, parts_of(rule)}));
    ledger_.add(
        {"rule", rule.name, plugin_id_, "refused", std::move(refusal.category), std::move(refusal.text), 0});
  }

  /// A predicate may look, and evaluate constants for it; what that adds to the graph is taken back.
  Result<bool> ask(const Rule& rule, uint32_t index, const Match& match) {
    std::vector<fe_string> names;
    std::vector<fe_value> values;
    const auto add = [&](std::string_view name, ValueId value) {
      names.push_back(abi::string(name));
      values.push_back(value.bits);
    };
    for (size_t k = 0; k < rule.captures.size(); ++k) add(rule.captures[k], match.captures[k]);
    for (size_t k = 0; k < rule.terms.size(); ++k) {
      const auto& results = graph_.node(match.nodes[k]).results;
      for (size_t r = 0; r < rule.terms[k].results.size(); ++r) add(rule.terms[k].results[r], results[r]);
    }
    const std::string& name = rule.predicates[index];
    const fe_predicate& predicate = rules_.predicates.find(name)->second;
    auto args = abi::sized<fe_match_args>();
    args.graph = api_.api();
    args.names = abi::array(names.data(), names.size());
    args.values = abi::array(values.data(), values.size());
    args.root = match.nodes[rule.roots[0].term].bits;
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
  std::set<std::pair<const Rule*, uint64_t>> applied_;  // only where near misses are asked for
  std::set<const Rule*> with_candidates_;               // likewise
  std::map<std::string_view, size_t> counts_, rewrites_;
  size_t applications_ = 0;
};

/// `before` is the graph as it stood when `driver` began. What the rules replaced is looked at there, all else where it is now.
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
