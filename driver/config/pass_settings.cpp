// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Applies descriptors and a manifest's [pass."name"] and [rule."name"] tables to the registered passes.
#include <algorithm>
#include <set>

#include "core/support/log.h"
#include "core/support/suggest.h"
#include "driver/config/manifest.h"
#include "driver/config/manifest_read.h"

namespace ferrite::core::config {
namespace {

using Names = std::vector<std::string>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Later limits override earlier ones.
void put(PassLimits& limits, const PassLimits& over) {
  if (over.mode) limits.mode = over.mode;
  if (over.max_rewrites) limits.max_rewrites = over.max_rewrites;
  if (over.timeout) limits.timeout = over.timeout;
}

/// Adds names to the list `word` of a pass, "after" or "before", with the place of each.
void put(PassEntry& pass, const std::string& word, const Names& names, const Names& places) {
  auto& list = word == "after" ? pass.after : pass.before;
  for (size_t k = 0; k < names.size(); ++k) {
    list.push_back(names[k]);
    pass.places[{word, names[k]}] = places[k];
  }
}

Error disagreement(const DescribedPass& described, std::string_view key, const std::string& said,
                   const std::string& has, const PluginRequest& request) {
  return at(described.places.find(key)->second,
            error(FE_EINVALID, "FE-M22",
                  "the descriptor says {} = {} of pass '{}', {} says {}; correct one of them", key, said,
                  described.name, request.library.empty() ? "its rule file" : request.library, has));
}

std::string list_text(Names names) {
  std::sort(names.begin(), names.end());
  return names.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(names, "\", \""));
}

class Settings {
 public:
  Settings(const Pipeline& pipeline, std::vector<PassEntry>& passes) : pipeline_(pipeline), passes_(passes) {
    for (const auto& pass : passes) {
      if (!contains(names_, pass.name)) names_.push_back(pass.name);
      rules_.insert(rules_.end(), pass.rules.begin(), pass.rules.end());
      giving_.insert(pass.plugin->id);
    }
    // A plugin that may be skipped may be missing, and with it the names of its passes.
    some_skipped_ =
        std::any_of(pipeline.plugins.begin(), pipeline.plugins.end(), [&](const PluginRequest& request) {
          return request.on_error == OnError::skip && !giving_.contains(request.id);
        });
  }

  Result<void> apply() {
    for (const auto& request : pipeline_.plugins)
      if (giving_.contains(request.id) || request.on_error == OnError::fail)
        for (const auto& described : request.passes) FE_CHECK(describe(request, described));
    for (const auto& change : pipeline_.passes) FE_CHECK(override_pass(change));
    for (const auto& change : pipeline_.rules) FE_CHECK(override_rule(change));
    return check_expectations();
  }

 private:
  /// The plugin that is not enabled and has a pass or rule of this name; empty where none is known. For
  /// passes that only a library knows, the name alone decides: it begins with the plugin's id.
  std::string idle_plugin(std::string_view kind, const std::string& name) const {
    const auto& idle = kind == "pass" ? pipeline_.idle_passes : pipeline_.idle_rules;
    if (const auto found = std::ranges::find(idle, name, &IdleName::name); found != idle.end())
      return found->plugin;
    for (const auto& [id, where] : pipeline_.disabled)
      if (name.starts_with(id + ".") || name.starts_with(id + "/")) return id;
    return {};
  }

  /// `may_be_gone`: the name was used before a plugin was disabled and may be one of its names; expectations
  /// about it are then dropped too.
  Result<void> unknown(std::string_view kind, const std::string& name, const std::string& where,
                       const Names& known, bool may_be_gone,
                       const std::optional<Expectation>& expect = {}) const {
    if (may_be_gone) {
      log::print("plugins", "{}: there is no {} '{}'; a plugin is disabled", where, kind, name);
      return {};
    }
    if (const std::string idle = idle_plugin(kind, name); !idle.empty()) {
      const auto disabled = pipeline_.disabled.find(idle);
      return at(where,
                error(FE_EINVALID, "FE-M05", "{} '{}' is of plugin '{}', which is {}", kind, name, idle,
                      disabled == pipeline_.disabled.end()
                          ? std::string("not enabled; add it to 'enable'")
                          : fmt::format("disabled at {}; drop one of the two", disabled->second)));
    }
    if (some_skipped_ && expect && !expect->holds(0))
      return at(expect->where,
                error(FE_EINVALID, "FE-M20",
                      "{} '{}' is expected to be applied {} times and is not there: a plugin is skipped; "
                      "see --log plugins",
                      kind, name, expect->text));
    if (some_skipped_) {
      log::print("plugins", "{}: there is no {} '{}'; a plugin is skipped or has no passes", where, kind,
                 name);
      return {};
    }
    if (contains(kind == "pass" ? rules_ : names_, name))
      return at(where,
                error(FE_EINVALID, "FE-M11", "there is no {} '{}'; it is a {}: write [{}.\"{}\"]", kind, name,
                      kind == "pass" ? "rule" : "pass", kind == "pass" ? "rule" : "pass", name));
    return at(where, error(FE_EINVALID, "FE-M11", "there is no {} '{}'{}; {}", kind, name,
                           did_you_mean(name, name_views(known)),
                           kind == "rule" ? "`ferrite explain MODEL --near-misses` names rules"
                                          : "`ferrite plugin order` lists the passes"));
  }

  /// Applies the descriptor's entry of a pass. If the library declares the pass too, both must agree. For a
  /// rule file, only the descriptor can declare an order.
  Result<void> describe(const PluginRequest& request, const DescribedPass& described) {
    Names phases;  // a rule file may have rules for several
    for (auto& pass : passes_) {
      if (pass.name != described.name || pass.plugin->id != request.id) continue;
      phases.push_back(pass.phase);
      for (auto [key, said, list] : {std::tuple{"after", &described.after, &pass.after},
                                     std::tuple{"before", &described.before, &pass.before}}) {
        if (!*said) continue;
        if (!pass.pass)
          put(pass, key, **said, Names((*said)->size(), described.places.find(key)->second));
        else if (list_text(**said) != list_text(*list))
          return disagreement(described, key, list_text(**said), list_text(*list), request);
      }
      put(pass.limits, described.limits);
    }
    if (!phases.empty())
      return described.phase.empty() || contains(phases, described.phase)
                 ? Result<void>()
                 : disagreement(described, "phase", described.phase,
                                fmt::format("{}", fmt::join(phases, ", ")), request);
    Names own;
    for (const auto& pass : passes_)
      if (pass.plugin->id == request.id) own.push_back(pass.name);
    return at(
        described.where,
        error(FE_EINVALID, "FE-M22", "plugin '{}' has no pass '{}', which its descriptor lists; it has {}{}",
              request.id, described.name,
              own.empty() ? std::string("none") : fmt::format("{}", fmt::join(own, ", ")),
              did_you_mean(described.name, name_views(own))));
  }

  /// Checks that both run in a common phase; rules of a file may run in several.
  Result<void> check_phase(const std::string& name, const std::string& other,
                           const std::string& where) const {
    const auto phases_of = [&](const std::string& wanted) {
      Names phases;
      for (const auto& pass : passes_)
        if (pass.name == wanted) phases.push_back(pass.phase);
      return phases;
    };
    const Names own = phases_of(name), others = phases_of(other);
    if (std::any_of(own.begin(), own.end(), [&](const auto& phase) { return contains(others, phase); }))
      return {};
    return at(where,
              error(FE_EINVALID, "FE-M11",
                    "pass '{}' runs in {} and '{}' in {}: passes are ordered within a phase, and phases "
                    "run in their own order; drop it",
                    name, fmt::join(own, ", "), other, fmt::join(others, ", ")));
  }

  Result<void> override_pass(const PassOverride& change) {
    if (!contains(names_, change.name))
      return unknown("pass", change.name, change.where, names_, change.may_be_gone, change.expect);
    for (const auto& [list, places] :
         {std::pair(&change.after, &change.after_places), std::pair(&change.before, &change.before_places)})
      for (size_t k = 0; k < list->size(); ++k)
        if (contains(names_, (*list)[k]))
          FE_CHECK(check_phase(change.name, (*list)[k], (*places)[k]));
        else if (std::ranges::find(pipeline_.idle_passes, (*list)[k], &IdleName::name) ==
                 pipeline_.idle_passes.end())
          FE_CHECK(unknown("pass", (*list)[k], (*places)[k], names_, change.may_be_gone));
    for (auto& pass : passes_) {
      if (pass.name != change.name) continue;
      if (change.enabled) pass.enabled = *change.enabled;
      put(pass, "after", change.after, change.after_places);
      put(pass, "before", change.before, change.before_places);
      put(pass.limits, change.limits);
      if (change.expect) pass.expect = change.expect;
    }
    return {};
  }

  Result<void> override_rule(const RuleOverride& change) {
    if (!contains(rules_, change.name))
      return unknown("rule", change.name, change.where, rules_, change.may_be_gone, change.expect);
    for (auto& pass : passes_)
      if (change.expect && contains(pass.rules, change.name))
        pass.rule_expectations.insert_or_assign(change.name, *change.expect);
    return {};
  }

  /// A disabled pass or rule is applied 0 times.
  Result<void> check_expectations() const {
    const auto check = [](const Expectation& expect, std::string_view what,
                          std::string_view name) -> Result<void> {
      if (expect.holds(0)) return {};
      return at(expect.where,
                error(FE_EINVALID, "FE-M20",
                      "{} '{}' is expected to be applied {} times and is disabled; drop one of the two", what,
                      name, expect.text));
    };
    for (const auto& pass : passes_) {
      if (pass.enabled) continue;
      if (pass.expect) FE_CHECK(check(*pass.expect, "pass", pass.name));
      for (const auto& [name, expect] : pass.rule_expectations) FE_CHECK(check(expect, "rule", name));
    }
    return {};
  }

  const Pipeline& pipeline_;
  std::vector<PassEntry>& passes_;
  Names names_, rules_;
  std::set<std::string, std::less<>> giving_;
  bool some_skipped_ = false;
};

}  // namespace

Result<void> apply_pass_settings(const Pipeline& pipeline, std::vector<PassEntry>& passes) {
  FE_CHECK(Settings(pipeline, passes).apply());
  if (pipeline.passes.empty()) return {};
  for (auto phase : phases()) FE_CHECK(order_passes(passes, phase));
  return {};
}

}  // namespace ferrite::core::config
