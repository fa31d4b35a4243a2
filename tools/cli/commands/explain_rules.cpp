// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/commands/explain_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/support/suggest.h"
#include "ferrite/counted.hpp"

namespace ferrite::cli {
namespace {

/// A rule and what came of it.
struct RuleUse {
  std::string name, plugin, phase;
  size_t count = 0;
  std::vector<std::string> nodes;
};

/// Every rule of every enabled plugin, those that were applied most often first.
std::vector<RuleUse> uses_of_rules(const core::plugin::Registry& registry,
                                   const std::vector<core::LedgerRecord>& records, size_t limit) {
  std::vector<RuleUse> uses;
  for (size_t set = 0; set < registry.rule_sets().size(); ++set)
    for (const auto& rule : registry.compiled_rules(set).rules)
      uses.push_back({rule.name, registry.rule_sets()[set].plugin->id, rule.phase, 0, {}});
  for (const auto& record : records) {
    if (record.kind != "rule" || record.outcome != "applied") continue;
    for (auto& use : uses)
      if (use.name == record.subject && use.plugin == record.object) {
        if (++use.count <= limit) use.nodes.push_back(record.text);
        break;
      }
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const RuleUse& a, const RuleUse& b) { return a.count > b.count; });
  return uses;
}

/// Names come from models and may be no UTF-8.
std::string dump(const nlohmann::ordered_json& json) {
  return json.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

Result<void> check_rule_name(const core::plugin::Registry& registry, const std::string& rule) {
  if (rule.empty()) return {};
  std::vector<std::string_view> names;
  for (size_t set = 0; set < registry.rule_sets().size(); ++set)
    for (const auto& known : registry.compiled_rules(set).rules) names.push_back(known.name);
  if (std::find(names.begin(), names.end(), rule) != names.end()) return {};
  return core::at("--near-misses", error(FE_EINVALID, "FE-R40", "no enabled plugin has a rule '{}'{}", rule,
                                         names.empty() ? "; none has any" : core::did_you_mean(rule, names)));
}

void print_applied(const core::plugin::Registry& registry, const std::vector<core::LedgerRecord>& records,
                   size_t limit, bool json) {
  const auto uses = uses_of_rules(registry, records, limit);
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& use : uses)
      list.push_back({{"rule", use.name},
                      {"plugin", use.plugin},
                      {"phase", use.phase},
                      {"count", use.count},
                      {"nodes", use.nodes}});
    fmt::print("{}\n", dump(list));
    return;
  }
  size_t applied = 0, total = 0;
  for (const auto& use : uses) {
    fmt::print("{:>6}  {}  {}  {}\n", use.count, use.name, use.plugin, use.phase);
    for (const auto& node : use.nodes) fmt::print("          {}\n", node);
    if (use.count > use.nodes.size()) fmt::print("          and {} more\n", use.count - use.nodes.size());
    applied += use.count != 0;
    total += use.count;
  }
  fmt::print("{} of {} rules applied, {}\n", applied, uses.size(), counted(total, "time"));
}

void print_near_misses(const core::plugin::Registry& registry, const core::rewrite::NearMisses& misses,
                       const std::string& rule, const std::vector<core::LedgerRecord>& records, bool json) {
  const auto nearest = misses.nearest();
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const auto& miss : nearest)
      list.push_back({{"rule", miss.rule},
                      {"plugin", miss.plugin},
                      {"phase", miss.phase},
                      {"node", miss.node},
                      {"place", miss.place},
                      {"failed", miss.failed},
                      {"wanted", miss.wanted},
                      {"found", miss.found},
                      {"alternatives", miss.alternatives},
                      {"held", miss.held},
                      {"parts", miss.parts}});
    fmt::print("{}\n", dump(list));
    return;
  }
  for (const auto& miss : nearest) {
    fmt::print("{} of {} at {}: {} of {} parts hold\n", miss.rule, miss.plugin, miss.phase, miss.held,
               miss.parts);
    if (!miss.node.empty()) fmt::print("  node    {}\n", miss.node);
    fmt::print("  failed  {}  ({})\n  wanted  {}\n  found   {}\n", miss.failed, miss.place, miss.wanted,
               miss.found);
    for (const auto& alternative : miss.alternatives) fmt::print("  taken   {}\n", alternative);
  }
  if (misses.count() > nearest.size())
    fmt::print("the nearest {} of {} near misses; --limit shows more\n", nearest.size(), misses.count());
  else
    fmt::print("{}\n", counted(misses.count(), "near miss", "near misses"));
  if (rule.empty()) return;
  for (const auto& use : uses_of_rules(registry, records, 0)) {
    if (use.name != rule) continue;
    if (misses.tried(rule))
      fmt::print("{} was applied {}\n", rule, counted(use.count, "time"));
    else
      fmt::print("{} was not tried: its phase '{}' did not run, or its pass is turned off\n", rule,
                 use.phase);
  }
}

}  // namespace ferrite::cli
