// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/validate/verdicts.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/ir/graph/print.h"
#include "core/passes/rewrite/language/region.h"
#include "core/support/digest.h"
#include "core/support/files/user_folder.h"
#include "core/support/hash.h"
#include "core/support/warning.h"
#include "driver/validate/reproducer.h"
#include "driver/validate/try_rule.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::validate {
namespace {

namespace fs = std::filesystem;
using plugin::RuleSetEntry;

constexpr int trial_version = 9;           // incremented when the samples, or the meaning of thin, change
constexpr uint64_t most_bytes = 16 << 20;  // of a verdict file

/// The current state of a file, without reading it.
std::string file_identity(const std::string& path) {
  std::error_code failed;
  const auto size = fs::file_size(path, failed);
  const auto modified = fs::last_write_time(path, failed).time_since_epoch().count();
  return failed ? std::string() : fmt::format("{} {} {}", path, size, modified);
}

/// Everything on which a verdict depends.
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
  // Predicates are code, so the contents of the library count, not only its date.
  if (!set.predicates.empty()) text += file_hash128(set.plugin->library) + "\n";
  text += set.text;
  // Hashed, because the text contains texts of the plugin's author.
  return sha256(text);
}

/// One rule's line of a verdict file: "passed NAME", "thin NAME: REASON" where it passed on thin evidence, or
/// "untested NAME: REASON". A wrong rule has no line: it is tried again, and so is a set whose plugin's
/// process failed.
struct Kept {
  enum class Kind : uint8_t { passed, thin, untested };
  Kind kind = Kind::untested;
  std::string text;
  bool broken = false;
};

constexpr std::array<std::string_view, 3> words = {"passed", "thin", "untested"};  // as Kept::Kind

/// None where the file does not have a line for each of these rules, in their order.
std::optional<std::vector<Kept>> read_kept(const fs::path& path, const std::vector<rewrite::Rule>& rules) {
  std::string fault;
  const auto contents = cache::read_file(path, most_bytes, fault);
  if (!fault.empty()) log::print("plugins", "{}: {}", path.string(), fault);
  if (!contents) return std::nullopt;
  std::istringstream file(*contents);
  std::vector<Kept> kept;
  for (std::string line; std::getline(file, line);) {
    const auto word = std::ranges::find(words, line.substr(0, line.find(' ')));
    if (word == words.end() || kept.size() == rules.size()) return std::nullopt;
    const auto kind = static_cast<Kept::Kind>(word - words.begin());
    line.erase(0, word->size() + 1);
    const auto& name = rules[kept.size()].name;
    if (kind == Kept::Kind::passed ? line != name : !line.starts_with(name + ": ")) return std::nullopt;
    kept.push_back({kind, std::move(line), false});
  }
  return kept.size() == rules.size() ? std::optional(std::move(kept)) : std::nullopt;
}

void write_kept(const std::string& folder, const std::string& name, const std::vector<Kept>& kept) {
  std::string text;
  for (const Kept& one : kept) {
    std::string line = one.text;
    // An entry is one line, but a reason may have several.
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += fmt::format("{} {}\n", words[static_cast<size_t>(one.kind)], line);
  }
  if (const auto fault = cache::write_file(folder, name, text); !fault.empty())
    log::print("plugins", "verdicts on rules cannot be kept in {}: {}", folder, fault);
}

/// The folder for counterexamples: the folder of verdicts, or a new one where that cannot be used.
std::string counterexample_folder(const std::string& folder) {
  std::error_code ignored;
  if (folder.empty()) {
    std::string made = (fs::temp_directory_path(ignored) / "ferrite-validation-XXXXXX").string();
    static_cast<void>(mkdtemp(made.data()));  // on failure, writing into it reports the reason
    return made;
  }
  // As for all caches: a user who could write here could decide which rules are trusted.
  if (fs::create_directories(folder, ignored)) fs::permissions(folder, fs::perms::owner_all, ignored);
  return folder;
}

Error wrong(const RuleSetEntry& set, const rewrite::Rule& rule, const Verdict& verdict,
            const std::string& folder, const std::string& options) {
  std::string text =
      fmt::format("rule '{}' of plugin '{}' is wrong: {}", rule.name, set.plugin->id, verdict.reason);
  auto told = write_reproducer(*verdict.counterexample, {counterexample_folder(folder), options, rule.phase,
                                                         set.pass, rule.name, text});
  text += told ? *told : fmt::format(" ({})", told.error().message());
  text += "\n" + graph::print(*verdict.counterexample);
  while (text.ends_with('\n')) text.pop_back();
  return at(rule.where(rule.position), error(FE_EINVALID, "FE-R30", "{}", text));
}

/// The verdicts on all rules of a set, in their order; the error of the first wrong one.
Result<std::vector<Kept>> try_all(const RuleSetEntry& set, const rewrite::CompiledRules& rules,
                                  const plugin::Registry& registry, const std::string& folder,
                                  const std::string& loading) {
  std::vector<Kept> kept;
  TryOptions options;
  options.plugin = set.plugin->id;
  for (size_t k = 0; k < rules.rules.size(); ++k) {
    // The model still needs the remaining restarts of the plugin's process
    if (!kept.empty() && kept.back().broken) {
      kept.push_back({Kept::Kind::untested,
                      fmt::format("{}: not tried after {}", rules.rules[k].name, kept.back().text), true});
      continue;
    }
    const Verdict verdict = try_rule(rules, k, registry, options);
    if (verdict.kind == Verdict::Kind::wrong) return wrong(set, rules.rules[k], verdict, folder, loading);
    const auto& name = rules.rules[k].name;
    if (verdict.kind == Verdict::Kind::passed)
      log::print("plugins", "rule {} passed on {}: {}", name, counted(verdict.samples, "graph"),
                 verdict.covered.text());
    if (verdict.kind == Verdict::Kind::untested)
      kept.push_back({Kept::Kind::untested, name + ": " + verdict.reason, verdict.broken});
    else if (!verdict.thin.empty())
      kept.push_back({Kept::Kind::thin, fmt::format("{}: {}", name, fmt::join(verdict.thin, "; ")), false});
    else
      kept.push_back({Kept::Kind::passed, name, false});
  }
  return kept;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// FE-M20 where a manifest expects the pass, or one of its rules, to be applied.
Result<void> expected_of_disabled(const plugin::PassEntry& pass, const std::string& reason) {
  const auto check = [&](const plugin::Expectation& expect, std::string_view what,
                         std::string_view name) -> Result<void> {
    if (expect.holds(0)) return {};
    return at(expect.where, error(FE_EINVALID, "FE-M20",
                                  "{} '{}' is expected to be applied {} times and is disabled, as "
                                  "on_error = \"skip\" asks: {}",
                                  what, name, expect.text, reason));
  };
  if (pass.expect) FE_CHECK(check(*pass.expect, "pass", pass.name));
  for (const auto& [name, expect] : pass.rule_expectations) FE_CHECK(check(expect, "rule", name));
  return {};
}

/// Returns `given`, or nothing, with a line in the log, where other users could have written its contents.
std::string trusted_folder(const std::string& given) {
  if (given.empty()) return given;
  const auto fault = cache::distrusted(given);
  if (fault.empty()) return given;
  log::print("plugins", "verdicts on rules are neither read nor kept in {}: {}", given, fault);
  return {};
}

}  // namespace

Result<void> validate_rules(plugin::Registry& registry, config::RuleValidation level,
                            const std::string& built_in_folder, const std::string& given_folder,
                            const std::string& loading) {
  if (level == config::RuleValidation::off) return {};
  const std::string folder = trusted_folder(given_folder);
  for (size_t k = 0; k < registry.rule_sets().size(); ++k) {
    const RuleSetEntry& set = registry.rule_sets()[k];
    const auto& passes = registry.passes();
    const auto of_set = [&](const plugin::PassEntry& pass) { return !pass.pass && pass.rule_set == k; };
    if (std::none_of(passes.begin(), passes.end(), [&](const auto& p) { return of_set(p) && p.enabled; }))
      continue;
    // The rules of built-in plugins are tested by the tests of this repository.
    if (!set.plugin->library.empty() && fs::path(set.plugin->library).parent_path() == built_in_folder)
      continue;
    const auto judge = [&]() -> Result<void> {
      const auto& rules = registry.compiled_rules(k);
      const std::string name = key_of(set, rules, registry) + ".verdicts";
      auto kept = folder.empty() ? std::nullopt : read_kept(fs::path(folder) / name, rules.rules);
      if (!kept) {
        FE_TRY(kept, try_all(set, rules, registry, folder, loading));
        const bool broken = std::ranges::any_of(*kept, [](const Kept& one) { return one.broken; });
        if (!folder.empty() && !broken) write_kept(folder, name, *kept);
      }
      std::vector<std::string_view> untested;
      for (size_t r = 0; r < kept->size(); ++r) {
        if ((*kept)[r].kind == Kept::Kind::passed) continue;
        if ((*kept)[r].kind == Kept::Kind::thin) {
          log::warn("plugins",
                    at(rules.rules[r].where(rules.rules[r].position),
                       error(FE_EINVALID, "FE-R65",
                             "the trial of a rule is thin evidence: rule {}; `ferrite plugin check` "
                             "lists what it covered",
                             (*kept)[r].text))
                        .message());
          continue;
        }
        if (level == config::RuleValidation::strict)
          return at(
              rules.rules[r].where(rules.rules[r].position),
              error(FE_EINVALID, "FE-R36",
                    "rule {}; validate_rules = \"strict\" refuses rules that are untested", (*kept)[r].text));
        log::print("plugins", "rule is untested: {}", (*kept)[r].text);
        untested.push_back(rules.rules[r].name);
      }
      if (const auto fault = std::ranges::find_if(*kept, [](const Kept& one) { return one.broken; });
          fault != kept->end())
        log::warn(
            "plugins",
            fmt::format("plugin '{}' failed while its rules were tried; they are applied untested now and "
                        "tried again next time: {}: {}",
                        set.plugin->id, fmt::join(untested, ", "), fault->text));
      else if (!untested.empty() && !log::enabled("plugins"))
        log::warn("plugins",
                  fmt::format("plugin '{}' has rules that no sample reaches, applied untested: {}; "
                              "see --log plugins",
                              set.plugin->id, fmt::join(untested, ", ")));
      return {};
    };
    auto judged = judge();
    if (judged) continue;
    if (set.plugin->on_error != plugin::OnError::skip) return judged;
    log::warn("plugins",
              fmt::format("rules of {} disabled: {}", set.plugin->id, first_line(judged.error().message())));
    for (auto& pass : registry.passes()) {
      if (!of_set(pass)) continue;
      pass.enabled = false;
      FE_CHECK(expected_of_disabled(pass, first_line(judged.error().message())));
    }
  }
  return {};
}

}  // namespace ferrite::core::validate
