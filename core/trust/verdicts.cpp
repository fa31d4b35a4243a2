// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/trust/verdicts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "core/cache/folder.h"
#include "core/rewrite/region.h"
#include "core/support/hash.h"
#include "core/trust/reproducer.h"
#include "core/trust/try_rule.h"

namespace ferrite::core::trust {
namespace {

namespace fs = std::filesystem;
using plugin::RuleSetEntry;

constexpr int trial_version = 2;  // counts up where trying became stricter

/// A file as it is now, without reading it.
std::string file_identity(const std::string& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  const auto modified = fs::last_write_time(path, failed).time_since_epoch().count();
  return failed ? std::string() : fmt::format("{} {} {}", path, size, modified);
}

/// All that a verdict depends on.
std::string key_of(const RuleSetEntry& set, const rewrite::CompiledRules& rules,
                   const plugin::Registry& registry) {
  std::set<std::string> definers;
  bool regions = false;
  for (const auto& rule : rules.rules) {
    regions = regions || !rule.regions.empty();
    for (const auto* terms : {&rule.terms, &rule.yields})
      for (const auto& term : *terms)
        if (!term.region) definers.insert(registry.ops().find(term.op)->plugin);
  }
  for (const auto* op : registry.ops().all())  // any of them can be in a sample
    if (regions && rewrite::pointwise(*op)) definers.insert(op->plugin);
  std::string text = fmt::format("{} {}\n", FERRITE_VERSION, trial_version);
  for (const auto& plugin : registry.plugins())
    if (definers.contains(plugin->id))
      text += fmt::format("{} {} {}\n", plugin->id, plugin->version, file_identity(plugin->library));
  if (!set.predicates.empty()) text += file_hash128(set.plugin->library) + "\n";
  text += set.text;
  return hash128(text);
}

/// One rule's line of a verdict file: "passed NAME", or "untested NAME: REASON". A wrong rule has none: it is tried again.
struct Kept {
  bool tested = false;
  std::string text;
};

std::optional<std::vector<Kept>> read_kept(const fs::path& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::vector<Kept> kept;
  for (std::string line; std::getline(file, line);) {
    const bool passed = line.starts_with("passed ");
    if (!passed && !line.starts_with("untested ")) return std::nullopt;
    kept.push_back({passed, line.substr(line.find(' ') + 1)});
  }
  return kept;
}

void write_kept(const std::string& folder, const std::string& name, const std::vector<Kept>& kept) {
  std::string text;
  for (const Kept& one : kept) {
    std::string line = one.text;
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += (one.tested ? "passed " : "untested ") + line + '\n';
  }
  if (const auto fault = cache::write_file(folder, name, text); !fault.empty())
    log::print("plugins", "verdicts on rules cannot be kept in {}: {}", folder, fault);
}

/// The options that load the plugin: what enabled it was one itself, or a place in a manifest.
std::string options_of(const plugin::LoadedPlugin& plugin) {
  if (plugin.why.starts_with("--plugin ")) return plugin.why;
  std::string manifest = plugin.why;
  for (int part = 0; part < 2; ++part)  // line and column
    if (const size_t colon = manifest.rfind(':'); colon != std::string::npos) manifest.resize(colon);
  return "--manifest " + manifest;
}

Error wrong(const RuleSetEntry& set, const rewrite::Rule& rule, const Verdict& verdict,
            const std::string& folder) {
  std::string text =
      fmt::format("rule '{}' of plugin '{}' is wrong: {}", rule.name, set.plugin->id, verdict.reason);
  auto told = write_reproducer(*verdict.counterexample,
                               {folder, options_of(*set.plugin), rule.phase, set.pass, text});
  text += told ? *told : fmt::format(" ({})", told.error().message());
  return at(rule.where(rule.position), error(FE_EINVALID, "FE-R30", "{}", text));
}

/// The verdicts on all rules of a set, in their order; the error of the first that is wrong.
Result<std::vector<Kept>> try_all(const RuleSetEntry& set, const rewrite::CompiledRules& rules,
                                  const plugin::Registry& registry, const std::string& folder) {
  std::vector<Kept> kept;
  TryOptions options;
  options.plugin = set.plugin->id;
  for (size_t k = 0; k < rules.rules.size(); ++k) {
    const Verdict verdict = try_rule(rules, k, registry, options);
    if (verdict.kind == Verdict::Kind::wrong) return wrong(set, rules.rules[k], verdict, folder);
    const bool passed = verdict.kind == Verdict::Kind::passed;
    kept.push_back({passed, passed ? rules.rules[k].name : rules.rules[k].name + ": " + verdict.reason});
  }
  return kept;
}

}  // namespace

Result<void> trust_rules(plugin::Registry& registry, plugin::Trust level, const std::string& built_in_folder,
                         const std::string& folder) {
  if (level == plugin::Trust::off) return {};
  std::error_code ignored;
  const std::string counterexamples =
      !folder.empty() ? folder : (fs::temp_directory_path(ignored) / "ferrite-trust").string();
  for (size_t k = 0; k < registry.rule_sets().size(); ++k) {
    const RuleSetEntry& set = registry.rule_sets()[k];
    const auto& passes = registry.passes();
    const auto of_set = [&](const plugin::PassEntry& pass) { return !pass.pass && pass.rule_set == k; };
    if (std::none_of(passes.begin(), passes.end(), [&](const auto& p) { return of_set(p) && p.enabled; }))
      continue;
    // Those of the built-in plugins are tried by the tests of this tree.
    if (!set.plugin->library.empty() && fs::path(set.plugin->library).parent_path() == built_in_folder)
      continue;
    const auto judge = [&]() -> Result<void> {
      const auto& rules = registry.compiled_rules(k);
      const std::string name = key_of(set, rules, registry) + ".verdicts";
      auto kept = folder.empty() ? std::nullopt : read_kept(fs::path(folder) / name);
      if (!kept || kept->size() != rules.rules.size()) {
        FE_TRY(kept, try_all(set, rules, registry, counterexamples));
        if (!folder.empty()) write_kept(folder, name, *kept);
      }
      for (size_t r = 0; r < kept->size(); ++r) {
        if ((*kept)[r].tested) continue;
        if (level == plugin::Trust::strict)
          return at(rules.rules[r].where(rules.rules[r].position),
                    error(FE_EINVALID, "FE-R36",
                          "rule {}; trust = \"strict\" refuses rules that are untested", (*kept)[r].text));
        log::print("plugins", "rule is untested: {}", (*kept)[r].text);
      }
      return {};
    };
    auto judged = judge();
    if (judged) continue;
    if (set.plugin->on_error != plugin::OnError::skip) return judged;
    log::print("plugins", "rules of {} disabled: {}", set.plugin->id, judged.error().message());
    for (auto& pass : registry.passes())
      if (of_set(pass)) pass.enabled = false;
  }
  return {};
}

}  // namespace ferrite::core::trust
