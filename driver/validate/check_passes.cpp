// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/check_passes.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/ir/graph/print.h"
#include "core/support/hash.h"
#include "core/support/warning.h"
#include "driver/validate/part.h"
#include "driver/validate/reduce.h"
#include "driver/validate/reproducer.h"
#include "driver/validate/same_nodes.h"
#include "driver/validate/try_rule.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::validate {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

namespace {

/// The value that a node read before, and the one that it reads now.
struct Pair {
  ValueId before, after;
};

constexpr size_t most_applications = 8;  // of a rule to a part alone

/// The result of comparing the parts of a pair.
enum class Finding : uint8_t { equal, skipped, suspected };

/// The reason why a part was skipped: the interpreter's error, or none where the part is too large for it.
using Reason = std::optional<Error>;

}  // namespace

class PassCheck::Impl {
 public:
  Impl(const plugin::Registry& registry, CheckOptions options)
      : registry_(registry), options_(std::move(options)) {}

  void begin(std::string_view phase, const plugin::PassEntry& pass, const Graph& graph) {
    phase_ = phase;
    pass_ = &pass;
    rule_.clear();
    suspects_.clear();
    applications_ = 0;
    // For rules, before_rule() takes a copy before each application.
    if (pass.pass) before_ = graph;
  }

  /// Ends the check of an imperative pass; the applications of rules were checked one by one.
  Result<void> end(const Graph& graph, bool well) {
    // A wrong rule was found during the pass.
    if (blame_) return *blame_;
    if (!well) return {};
    if (!pass_->pass) {
      counts_.passes += applications_ > 0;
      warn_of_suspects();
      return {};
    }
    if (graph.revision() == before_->revision()) return {};
    ++counts_.passes;
    const SameNodes same(*before_, graph);
    const Edits edits{[&](Graph& part) {
      Ledger ledger;
      plugin::GateOptions alone;
      alone.only_passes = {pass_->name};
      alone.expect = false;
      return plugin::run_phase(phase_, part, registry_, alone, ledger);
    }};
    const auto named = [&](const Difference& difference, const std::string& place) {
      return error(FE_EINVALID, "FE-R32",
                   "pass '{}' of plugin '{}' changes what the model computes, at {}: {}", pass_->name,
                   pass_->plugin->id, place, difference.text());
    };
    bool suspected = false;
    const size_t known = suspects_.size();
    for (const NodeId node : graph.nodes()) {
      // New nodes are compared through the nodes that read their results.
      if (!before_->find(node)) continue;
      FE_TRY(const bool well, check_node(node, graph, same, edits, named));
      suspected = suspected || !well;
    }
    const auto &old = before_->outputs(), &now = graph.outputs();
    for (size_t k = 0; k < std::min(old.size(), now.size()); ++k) {
      if (old[k].value == now[k].value) continue;
      FE_TRY(const Finding finding, check_pair({old[k].value, now[k].value}, graph, same, edits, named));
      suspected = suspected || finding == Finding::suspected;
    }
    if (suspected) FE_CHECK(check_whole(graph, edits, named, known));
    warn_of_suspects();
    return {};
  }

  void before_rule(const Graph& graph) { before_ = graph; }

  Result<void> after_rule(const rewrite::Rule& rule, const Graph& graph,
                          std::span<const rewrite::Replaced> replaced) {
    ++applications_;
    ++counts_.applications;
    rule_ = rule.name;
    const SameNodes same(*before_, graph);
    const auto alone = only(registry_.compiled_rules(pass_->rule_set), rule);
    // The first application of the rule to a part need not be the wrong one, and two applications of a wrong
    // rule may cancel. It is therefore applied once, twice and so on.
    Edits edits;
    for (size_t times = 1; times <= most_applications; ++times)
      edits.emplace_back([&, times](Graph& part) -> Result<void> {
        Graph edited(part);
        FE_TRY(const size_t count, apply_times(alone, edited, registry_, pass_->plugin->id, times));
        if (count == times) part = std::move(edited);
        return {};
      });
    const auto named = [&](const Difference& difference, const std::string& place) {
      return at(
          rule.where(rule.position),
          error(FE_EINVALID, "FE-R31",
                "rule '{}' of plugin '{}' changes what the model computes; application {} of pass '{}', "
                "at {}: {}",
                rule.name, pass_->plugin->id, applications_, pass_->name, place, difference.text()));
    };
    auto well = check_pairs(replaced, graph, same, edits, named);
    if (!well) blame_ = well.error();
    return well;
  }

  const CheckCounts& counts() const { return counts_; }

 private:
  /// The edits that a pass or rule may make to a part.
  using Edits = std::vector<Edit>;
  /// Words the verdict for a difference at a place.
  using Named = std::function<Error(const Difference&, const std::string&)>;

  /// Compares the operands that a node reads now with those that it read before, where the node is in both
  /// graphs; where they differ, and where the node itself was changed, compares its results. False where a
  /// difference is suspected.
  Result<bool> check_node(NodeId id, const Graph& after, const SameNodes& same, const Edits& edits,
                          const Named& named) {
    const graph::Node &old = before_->node(id), &now = after.node(id);
    bool well = same.op_and_attributes(id);
    const size_t known = suspects_.size();
    if (well && old.operands == now.operands) return true;
    for (size_t k = 0; well && k < old.operands.size(); ++k) {
      const Pair pair{old.operands[k], now.operands[k]};
      if (pair.before == pair.after) continue;
      if (!pair.before || !pair.after) {
        well = false;
        break;
      }
      FE_TRY(const Finding finding, check_pair(pair, after, same, edits, named));
      well = finding != Finding::suspected;
    }
    bool equal = true;
    for (size_t k = 0; !well && k < now.results.size(); ++k) {
      FE_TRY(const Finding finding, check_pair({old.results[k], now.results[k]}, after, same, edits, named));
      if (finding == Finding::suspected) return false;
      equal = equal && finding == Finding::equal;
    }
    // It reads something else but computes the same.
    if (!well && equal) settle(known);
    return true;
  }

  Result<void> check_pairs(std::span<const rewrite::Replaced> replaced, const Graph& after,
                           const SameNodes& same, const Edits& edits, const Named& named) {
    bool suspected = false;
    const size_t known = suspects_.size();
    for (const auto& [from, to] : replaced) {
      FE_TRY(const Finding finding, check_pair({from, to}, after, same, edits, named));
      suspected = suspected || finding == Finding::suspected;
    }
    return suspected ? check_whole(after, edits, named, known) : Result<void>();
  }

  Result<Finding> check_pair(const Pair& pair, const Graph& after, const SameNodes& same, const Edits& edits,
                             const Named& named) {
    if (same.equal_by_structure(pair.before, pair.after)) {
      ++counts_.alike;
      return Finding::equal;
    }
    Finding finding = Finding::skipped;
    Reason reason;
    std::vector<ValueId> nearer;
    // A difference over the nearest common values may be impossible within the model. A larger part restricts
    // the values more.
    for (const size_t levels : {0, 1, 2, 4, 8}) {
      const auto inputs = same.common_ends(pair.before, pair.after, levels);
      if (levels > 0 && inputs == nearer) break;  // the model ends above this level
      nearer = inputs;
      auto was = extract(*before_, registry_.ops(), {inputs, {pair.before}, {}});
      auto is = extract(after, registry_.ops(), {inputs, {pair.after}, {}});
      if (!was || !is) {
        reason = was ? is.error() : was.error();
        break;
      }
      const Finding here = compare_parts(*was, *is, pair, after, inputs, reason);
      if (here == Finding::equal) return here;
      if (here == Finding::skipped) break;
      finding = Finding::suspected;
      for (const Edit& edit : edits)
        if (auto effect = effect_of(edit, *was, registry_, ordinary_contents))
          return verdict(std::move(*was), *effect, place_of(pair.before), edit, named);
    }
    if (finding == Finding::suspected) {
      ++counts_.suspected;
      suspects_.push_back(place_of(pair.before) + (rule_.empty() ? "" : fmt::format(" (rule '{}')", rule_)));
    } else if (reason) {
      counts_.skipped.failed(*reason);
    } else {
      counts_.skipped.too_large();
    }
    return finding;
  }

  /// Compares the parts of a pair; equal parts are compared once. `reason` is set where the part is skipped.
  Finding compare_parts(const Graph& was, const Graph& is, const Pair& pair, const Graph& after,
                        const std::vector<ValueId>& inputs, Reason& reason) {
    reason.reset();
    const auto failed = [&](const auto& one, const auto& other) {
      reason = one ? other.error() : one.error();
      return Finding::skipped;
    };
    const std::string text = graph::print(was) + graph::print(is);
    // The text does not show the contents of constants in memory, so equal texts need not be equal graphs.
    const bool has_hidden_data = text.find(" memory") != std::string::npos;
    const std::string key = hash128(text);
    if (!has_hidden_data && equal_.contains(key)) {
      ++counts_.alike;
      return Finding::equal;
    }
    auto before = Interpreted::make(was, registry_);
    auto now = Interpreted::make(is, registry_);
    if (!before || !now) return failed(before, now);
    if (before->points() > options_.most_points || now->points() > options_.most_points) {
      // Tries the same edit on smaller tensors. Only free sizes can shrink, not those of constants.
      std::set<int64_t> fixed;
      for (const ValueId constant : was.constants())
        for (const auto dim : was.type(constant).dims) fixed.insert(dim);
      std::map<int64_t, int64_t> sizes;
      for (const auto& input : was.inputs())
        for (const auto dim : was.type(input.value).dims)
          if (dim > 4 && !fixed.contains(dim)) sizes[dim] = dim % 2 == 0 ? 4 : 3;
      auto small_was = extract(*before_, registry_.ops(), {inputs, {pair.before}, sizes});
      auto small_is = extract(after, registry_.ops(), {inputs, {pair.after}, sizes});
      if (!small_was || !small_is) return Finding::skipped;
      if (!small_was->type(small_was->outputs()[0].value)
               .same_shape(small_is->type(small_is->outputs()[0].value)))
        return Finding::skipped;
      before = Interpreted::make(std::move(*small_was), registry_);
      now = Interpreted::make(std::move(*small_is), registry_);
      if (!before || !now) return failed(before, now);
      if (before->points() > options_.most_points || now->points() > options_.most_points)
        return Finding::skipped;
    }
    auto found = compare(*before, *now, ordinary_contents, 1);
    if (!found) return failed(found, found);
    ++counts_.places;
    if (*found) return Finding::suspected;
    if (!has_hidden_data) equal_.insert(key);
    return Finding::equal;
  }

  /// Withdraws suspicions: all but the first `known` ones of the pass.
  void settle(size_t known) {
    counts_.suspected -= suspects_.size() - known;
    suspects_.resize(known);
  }

  /// Warns of suspicions that neither a part nor the whole graph could confirm.
  void warn_of_suspects() const {
    if (suspects_.empty()) return;
    log::warn("passes",
              fmt::format("pass '{}' of plugin '{}' is suspected: at {}{} something else is computed than "
                          "before, and the pass does not do that to a part of the model; compare the model's "
                          "results with and without it",
                          pass_->name, pass_->plugin->id, suspects_[0],
                          suspects_.size() > 1 ? fmt::format(" and {} more places", suspects_.size() - 1)
                                               : std::string()));
  }

  /// The last resort for suspicions: interprets the whole graph, where it is not too large.
  Result<void> check_whole(const Graph& after, const Edits& edits, const Named& named, size_t known) {
    const auto whole = Interpreted::make(*before_, registry_);
    // The whole graph is rarely interpreted, so it may be larger than a part.
    if (!whole || whole->points() > 4 * options_.most_points) return {};
    for (const Edit& edit : edits)
      if (const auto effect = effect_of(edit, *before_, registry_, ordinary_contents))
        return verdict(*before_, *effect, "an output", edit, named);
    // Equal results of the whole model withdraw the suspicions.
    const auto now = Interpreted::make(after, registry_);
    if (!now || now->points() > 4 * options_.most_points) return {};
    if (const auto found = compare(*whole, *now, ordinary_contents, 1); found && !*found) settle(known);
    return {};
  }

  std::string place_of(ValueId value) const {
    const NodeId producer = before_->value(value).producer;
    return producer ? before_->describe(producer) : "%" + before_->value(value).name;
  }

  Error verdict(Graph part, const Difference& difference, const std::string& place, const Edit& edit,
                const Named& named) {
    const Graph smallest = reduce(std::move(part), edit, registry_, ordinary_contents);
    Error fault = named(difference, place);
    auto told = write_reproducer(smallest,
                                 {options_.folder, options_.options, phase_, pass_->name, rule_, fault.text});
    if (!told) return std::move(told.error());
    fault.text += *told;
    return fault;
  }

  const plugin::Registry& registry_;
  const CheckOptions options_;
  CheckCounts counts_;
  std::string phase_;
  const plugin::PassEntry* pass_ = nullptr;
  std::optional<Graph> before_;
  std::string rule_;                   // the rule whose application is being checked; empty for a pass
  std::vector<std::string> suspects_;  // of this pass: the places
  size_t applications_ = 0;            // of this pass
  std::optional<Error> blame_;
  std::set<std::string> equal_;
};

PassCheck::PassCheck(const plugin::Registry& registry, CheckOptions options)
    : impl_(std::make_unique<Impl>(registry, std::move(options))) {}
PassCheck::~PassCheck() = default;

void PassCheck::begin(std::string_view phase, const plugin::PassEntry& pass, const Graph& graph) {
  impl_->begin(phase, pass, graph);
}
Result<void> PassCheck::end(const Graph& graph, bool well) { return impl_->end(graph, well); }
void PassCheck::before(const rewrite::Rule&, const Graph& graph) { impl_->before_rule(graph); }
Result<void> PassCheck::after(const rewrite::Rule& rule, const Graph& graph,
                              std::span<const rewrite::Replaced> replaced) {
  return impl_->after_rule(rule, graph, replaced);
}

const CheckCounts& PassCheck::counts() const { return impl_->counts(); }

std::string PassCheck::summary() const {
  const CheckCounts& n = impl_->counts();
  std::string text = fmt::format("checked {} and {} of rules: ", counted(n.passes, "pass", "passes"),
                                 counted(n.applications, "application"));
  // A reader of this line alone must not take suspicions, or a lack of comparisons, for success.
  if (n.suspected > 0)
    text += fmt::format("{} of {} suspected", n.suspected, counted(n.places, "place"));
  else if (n.places + n.alike > 0)
    text += fmt::format("no difference in {}", counted(n.places, "place"));
  else if (n.skipped.count() > 0)
    return text + fmt::format("nothing was compared: {}", n.skipped.text());
  else
    return text + "nothing was compared, as no value took the place of another";
  return text + fmt::format(" ({} alike{})", n.alike, n.skipped.and_text());
}

std::optional<Error> PassCheck::nothing_compared() const {
  const CheckCounts& n = impl_->counts();
  if (n.skipped.count() == 0 || n.places + n.alike > 0) return std::nullopt;
  return error(
      FE_EUNSUPPORTED, "FE-R66",
      "--check-passes compared nothing, so that it says nothing of the passes and rules: {}; check a "
      "smaller model, or smaller sizes with --dim",
      n.skipped.text());
}

}  // namespace ferrite::core::validate
