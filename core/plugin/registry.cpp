// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/registry.h"

#include <algorithm>
#include <deque>
#include <filesystem>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/stages.h"
#include "core/plugin/import_ops.h"
#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/suggest.h"
#include "ferrite/counted.hpp"
#include "runtime/plugin/loading.h"
#include "runtime/plugin/tables.h"

namespace ferrite::core::plugin {
namespace {

bool is_phase(std::string_view name) {
  return std::find(std::begin(phase_names), std::end(phase_names), name) != std::end(phase_names);
}

/// Adds an advisor. Ids must be unique per kind, because ledger records name advisors by id.
template <class Table>
Result<void> add_advice(std::vector<Contributed<Table>>& list, const Table* table, const LoadedPlugin& plugin,
                        std::string_view what) {
  FE_TRY(const auto id, name_of(table->id, what));
  for (const auto& other : list)
    if (abi::view(other.table->id) == id)
      return error(FE_EINVALID, "FE-P08", "{} '{}' is already given by {}", what, id, other.plugin->id);
  callback::own(table, plugin.id);
  list.push_back({table, &plugin});
  return {};
}

}  // namespace

std::span<const std::string_view> phases() { return phase_names; }

Registry::Registry(const fe_host& host, StartPlugin start) : host_(host), start_(std::move(start)) {}

Result<const LoadedPlugin*> Registry::load(const PluginRequest& request) {
  if (request.fault) return *request.fault;
  auto plugin = std::make_unique<LoadedPlugin>();
  plugin->id = request.id;
  plugin->version = request.version;
  plugin->library = request.library;
  plugin->why = request.why;
  plugin->on_error = request.on_error;
  plugin->isolation = request.isolation;
  for (const auto& setting : request.config)
    plugin->settings += setting.name + " = " + graph::print_attribute_value(setting.value) + "\n";
  auto place = request.library.empty() ? request.id : request.library;

  std::vector<fe_contribution> contributions;
  if (!request.library.empty() && request.isolation == Isolation::process) {
    if (!start_)
      return at(place,
                error(FE_EUNSUPPORTED, "FE-P26", "this process starts no plugins in processes of their own"));
    auto opened = start_(request, op_plugins_);
    if (!opened) return at(place, std::move(opened.error()));
    plugin->process = std::move(*opened);
    plugin->id = plugin->process->id();
    plugin->version = plugin->process->version();
    contributions = plugin->process->contributions();
  } else if (!request.library.empty()) {
    auto described = describe_library(request.library, request.library_sha256, plugin->id);
    if (!described) return std::move(described.error());
    plugin->id = std::move(described->id);
    plugin->version = std::move(described->version);
    plugin->description = described->description;
  }
  if (!request.library.empty() && !request.version.empty() && plugin->version != request.version)
    return at(request.version_place,
              error(FE_EINVALID, "FE-M22",
                    "the descriptor says version {}, its library {} says {}; correct one of them",
                    request.version, request.library, plugin->version));
  FE_CHECK(check_new(plugin->id, place));

  if (plugin->description) {
    std::vector<fe_attr> config;
    std::deque<std::vector<fe_string>> strings;
    for (const auto& setting : request.config)
      config.push_back(graph::view_of(setting, strings.emplace_back()));
    FE_TRY(contributions, create(*plugin, host_, config));
  }
  for (const auto& contribution : contributions) plugin->kinds.push_back(contribution.kind);
  // Contributions refer to the plugin, so it must have its final address before they are added.
  plugins_.push_back(std::move(plugin));
  const LoadedPlugin& loaded = *plugins_.back();
  const auto add_all = [&]() -> Result<void> {
    for (const auto& contribution : contributions) {
      if (auto added = add(loaded, contribution); !added) return at(loaded.id, std::move(added.error()));
    }
    for (const auto& alias : request.aliases) {
      const auto [entry, added] = aliases_.emplace(alias.source, AliasEntry{alias, &loaded});
      if (!added)
        return at(alias.where, error(FE_EINVALID, "FE-P08",
                                     "'{}' is an alias of plugin '{}' already, at {}; drop one of the two",
                                     alias.source, entry->second.plugin->id, entry->second.alias.where));
    }
    return {};
  };
  if (auto added = add_all(); !added) {
    // All or nothing: undo the contributions that were already registered, so that the program can continue
    // without the plugin.
    auto fault = std::move(added.error());
    auto is_its = [&](const auto& item) { return item.plugin == &loaded; };
    std::erase_if(lowerings_, is_its);
    std::erase_if(decompositions_, is_its);
    std::erase_if(passes_, is_its);
    std::erase_if(rule_sets_, is_its);
    remove_backends(loaded);
    std::erase_if(importers_, is_its);
    std::erase_if(import_handlers_, is_its);
    std::erase_if(aliases_, [&](const auto& item) { return is_its(item.second); });
    std::erase_if(fusion_policies_, is_its);
    std::erase_if(cost_models_, is_its);
    std::erase_if(metric_sinks_, is_its);
    // OpRegistry cannot erase: rebuild it without the plugin's ops.
    graph::OpRegistry others;
    for (const auto* op : ops_.all())
      if (op->plugin != loaded.id) FE_CHECK(others.add(op->def, op->plugin));
    ops_ = std::move(others);
    destroy(loaded);
    plugins_.pop_back();
    return fault;
  }
  const auto ops = ops_.all();
  if (std::any_of(ops.begin(), ops.end(), [&](const auto* op) { return op->plugin == loaded.id; }))
    op_plugins_.push_back(request);
  for (const auto& [path, text] : request.rule_files) {
    const std::string pass = loaded.id + "/" + std::filesystem::path(path).filename().string();
    rule_sets_.push_back({text, path, pass, {}, &loaded});
  }
  log::print("plugins", "{} {} from {} ({}): {}", loaded.id, loaded.version,
             loaded.library.empty() ? "its descriptor" : loaded.library, loaded.why,
             counted(contributions.size(), "contribution"));
  return &loaded;
}

Result<void> Registry::add(const LoadedPlugin& plugin, const fe_contribution& contribution) {
  switch (contribution.kind) {
    case FE_CONTRIBUTION_OP: {
      FE_TRY(const auto* table, table_of<fe_op_def>(contribution, "op"));
      if (!table->infer) return null_slot("op", "infer");
      return ops_.add(*table, plugin.id);
    }
    case FE_CONTRIBUTION_LOWERING: {
      FE_TRY(const auto* table, table_of<fe_lowering>(contribution, "lowering"));
      if (!table->lower) return null_slot("lowering", "lower");
      FE_CHECK(name_of(table->op, "lowering's op"));
      for (const auto& other : lowerings_)
        if (other.plugin == &plugin && abi::view(other.table->op) == abi::view(table->op) &&
            abi::view(other.table->device) == abi::view(table->device))
          return error(FE_EINVALID, "FE-P08", "it gives two lowerings of '{}' for device '{}'",
                       abi::view(table->op), abi::view(table->device));
      lowerings_.push_back({table, &plugin});
      return {};
    }
    case FE_CONTRIBUTION_DECOMPOSITION: {
      FE_TRY(const auto* table, table_of<fe_decomposition>(contribution, "decomposition"));
      if (!table->decompose) return null_slot("decomposition", "decompose");
      for (const auto& other : decompositions_)
        if (other.plugin == &plugin && abi::view(other.table->op) == abi::view(table->op))
          return error(FE_EINVALID, "FE-P08", "it gives two decompositions of '{}'", abi::view(table->op));
      decompositions_.push_back({table, &plugin});
      return {};
    }
    case FE_CONTRIBUTION_RULES: {
      FE_TRY(const auto* table, table_of<fe_rule_set>(contribution, "rules"));
      std::string file(abi::view(table->file));
      if (file.empty()) file = plugin.id + ".rules";
      if (!abi::readable<fe_predicate>(table->predicates) || table->predicates.count > most_items ||
          (table->predicates.count > 0 && table->predicates.stride != sizeof(fe_predicate)))
        return error(FE_EINVALID, "FE-P07",
                     "its array of predicates cannot be read: {} elements, a stride of {}",
                     table->predicates.count, table->predicates.stride);
      rule_sets_.push_back(
          {std::string(abi::view(table->text)),
           file,
           file,
           {static_cast<const fe_predicate*>(table->predicates.data), table->predicates.count},
           &plugin});
      return {};
    }
    case FE_CONTRIBUTION_PASS: {
      FE_TRY(const auto* table, table_of<fe_pass>(contribution, "pass"));
      if (!table->run) return null_slot("pass", "run");
      PassEntry entry;
      FE_TRY(entry.name, name_of(table->name, "pass's name"));
      FE_TRY(entry.phase, name_of(table->phase, "pass's phase"));
      FE_TRY(entry.after, names_of(table->after, "names after which a pass runs"));
      FE_TRY(entry.before, names_of(table->before, "names before which a pass runs"));
      entry.plugin = &plugin;
      entry.pass = table;
      if (!is_phase(entry.phase))
        return error(FE_EINVALID, "FE-M09",
                     "pass '{}' is for phase '{}', which does not exist; the phases are {}{}", entry.name,
                     entry.phase, fmt::join(phase_names, ", "), did_you_mean(entry.phase, phase_names));
      for (const auto& other : passes_)
        if (other.name == entry.name)
          return error(FE_EINVALID, "FE-P08", "pass '{}' is already defined by {}", entry.name,
                       other.plugin->id);
      passes_.push_back(std::move(entry));
      return {};
    }
    case FE_CONTRIBUTION_PROVIDER:
    case FE_CONTRIBUTION_RUNTIME: return add_backend(plugin, contribution);
    case FE_CONTRIBUTION_IMPORTER: {
      FE_TRY(const auto* table,
             table_of<fe_importer>(contribution, "importer", offsetof(fe_importer, format)));
      if (!table->model_open || !table->signature || !table->build)
        return null_slot("importer", "model_open, signature or build");
      FE_CHECK(name_of(table->id, "importer's id"));
      FE_CHECK(name_of(table->extensions, "importer's extensions"));
      callback::own(table, plugin.id);
      importers_.push_back({table, &plugin});
      return {};
    }
    case FE_CONTRIBUTION_IMPORT_HANDLER: {
      FE_TRY(const auto* table, table_of<fe_import_handler>(contribution, "import handler"));
      return add_import_handler(plugin, *table);
    }
    case FE_CONTRIBUTION_FUSION_POLICY: {
      FE_TRY(const auto* table, table_of<fe_fusion_policy>(contribution, "fusion policy"));
      if (!table->decide) return null_slot("fusion policy", "decide");
      return add_advice(fusion_policies_, table, plugin, "fusion policy");
    }
    case FE_CONTRIBUTION_COST_MODEL: {
      FE_TRY(const auto* table, table_of<fe_cost_model>(contribution, "cost model"));
      if (!table->estimate) return null_slot("cost model", "estimate");
      return add_advice(cost_models_, table, plugin, "cost model");
    }
    case FE_CONTRIBUTION_METRIC_SINK: {
      FE_TRY(const auto* table, table_of<fe_metric_sink>(contribution, "metric sink"));
      if (!table->write) return null_slot("metric sink", "write");
      FE_CHECK(names_of(table->tables, "tables of a metric sink"));
      return add_advice(metric_sinks_, table, plugin, "metric sink");
    }
    default:
      return error(FE_EUNSUPPORTED, "FE-P07",
                   "it contributes something of kind {}, which this host does not know", contribution.kind);
  }
}

Result<void> Registry::add_import_handler(const LoadedPlugin& plugin, const fe_import_handler& table) {
  if (!table.import_node) return null_slot("import handler", "import_node");
  FE_TRY(const auto source, name_of(table.source, "import handler's source op"));
  if (!valid_source(source))
    return error(
        FE_EINVALID, "FE-P07",
        "its import handler is for '{}', which is no source op; write the format, ':' and the op, as "
        "in {}",
        source, source_example);
  if (table.first > table.last)
    return error(FE_EINVALID, "FE-P07", "its import handler of '{}' is for versions {} to {}, an empty range",
                 source, table.first, table.last);
  for (const auto& other : import_handlers_)
    if (abi::view(other.table->source) == source && other.table->first <= table.last &&
        table.first <= other.table->last)
      return error(FE_EINVALID, "FE-P08",
                   "its import handler reads '{}' in versions {}, and one of plugin '{}' in versions {}; "
                   "enable only one of the two",
                   source, versions_text(table.first, table.last), other.plugin->id,
                   versions_text(other.table->first, other.table->last));
  callback::own(&table, plugin.id);
  import_handlers_.push_back({&table, &plugin});
  return {};
}

/// Checks the formats of aliases and import handlers. FE-P96 if no importer reads models of a format.
static Result<void> check_formats(const Registry& registry) {
  std::vector<std::string_view> known(known_formats.begin(), known_formats.end());
  for (const auto& [table, plugin] : registry.importers())
    if (const auto format = abi::view(abi::read(table).format);
        !format.empty() && std::ranges::find(known, format) == known.end())
      known.push_back(format);
  const auto check = [&](std::string_view source, std::string_view what) -> Result<void> {
    const auto format = source.substr(0, source.find(':'));
    if (std::ranges::find(known, format) != known.end()) return {};
    return error(
        FE_EINVALID, "FE-P96",
        "{} '{}' is for models of format '{}', which no enabled importer reads{}; the formats are {}", what,
        source, format, did_you_mean(format, known), fmt::join(known, ", "));
  };
  for (const auto& [source, entry] : registry.aliases())
    if (auto checked = check(source, "the alias"); !checked)
      return at(entry.alias.where, std::move(checked.error()));
  for (const auto& [table, plugin] : registry.import_handlers())
    if (auto checked = check(abi::view(table->source), "the import handler for"); !checked)
      return at(plugin->id, std::move(checked.error()));
  return {};
}

Result<void> Registry::settle_aliases() {
  FE_CHECK(check_formats(*this));
  const auto all = ops_.all();
  for (auto& [source, entry] : aliases_) {
    auto& alias = entry.alias;
    if (alias.op.empty()) {
      std::vector<std::string_view> own;
      for (const auto* op : all)
        if (op->plugin == entry.plugin->id) own.push_back(op->name);
      if (own.size() != 1)
        return at(alias.where,
                  error(FE_EINVALID, "FE-P95",
                        "the alias '{}' does not say which op it stands for, and plugin '{}' defines {}; "
                        "write \"{} = OP\"",
                        source, entry.plugin->id,
                        own.empty() ? "none" : fmt::format("{}", fmt::join(own, ", ")), source));
      alias.op = own[0];
    }
    if (ops_.find(alias.op)) continue;
    std::vector<std::string_view> names;
    for (const auto* op : all) names.push_back(op->name);
    return at(alias.where,
              error(FE_EINVALID, "FE-P95",
                    "the alias '{}' stands for op '{}', which no enabled plugin defines; enable the "
                    "plugin that does, or correct the name{}",
                    source, alias.op, did_you_mean(alias.op, names)));
  }
  return {};
}

Result<void> Registry::compile_rules() {
  // Only the sets added since the last call.
  for (size_t k = compiled_rules_.size(); k < rule_sets_.size(); ++k) {
    const auto& set = rule_sets_[k];
    auto compiled = rewrite::compile_rules(set.text, set.file, set.predicates, ops_);
    if (!compiled) return at(set.plugin->id, std::move(compiled.error()));
    for (size_t j = 0; j < k; ++j)
      for (const auto& other : compiled_rules_[j].rules)
        for (const auto& rule : compiled->rules)
          if (rule.name == other.name)
            return at(
                rule.where(rule.position),
                error(FE_EINVALID, "FE-R03",
                      "there are two rules '{}': of plugin '{}', and of plugin '{}' at {}; rename one",
                      rule.name, set.plugin->id, rule_sets_[j].plugin->id, other.where(other.position)));
    for (const auto& phase : compiled->phases()) {
      if (!is_phase(phase))
        return at(set.file, error(FE_EINVALID, "FE-M09",
                                  "rules for phase '{}', which does not exist; the phases are {}{}", phase,
                                  fmt::join(phase_names, ", "), did_you_mean(phase, phase_names)));
      PassEntry entry;
      entry.name = set.pass;
      entry.phase = phase;
      entry.plugin = set.plugin;
      entry.rule_set = k;
      for (const auto& rule : compiled->rules)
        if (rule.phase == phase) entry.rules.push_back(rule.name);
      for (const auto& other : passes_)
        if (other.name == entry.name && other.phase == phase)
          return at(set.plugin->id,
                    error(FE_EINVALID, "FE-P08",
                          "the rules '{}' have the name of a pass of {} in {}; give them another", entry.name,
                          other.plugin->id, phase));
      passes_.push_back(std::move(entry));
    }
    compiled_rules_.push_back(std::move(*compiled));
  }
  return {};
}

std::vector<Contributed<fe_lowering>> Registry::lowerings(std::string_view op,
                                                          std::string_view device) const {
  std::vector<Contributed<fe_lowering>> result;
  // Latest first: a plugin loaded later overrides earlier ones.
  for (auto lowering = lowerings_.rbegin(); lowering != lowerings_.rend(); ++lowering) {
    auto kind = abi::view(lowering->table->device);
    if (abi::view(lowering->table->op) == op && (kind.empty() || kind == device)) result.push_back(*lowering);
  }
  return result;
}

std::vector<Contributed<fe_decomposition>> Registry::decompositions(std::string_view op) const {
  std::vector<Contributed<fe_decomposition>> result;
  for (auto entry = decompositions_.rbegin(); entry != decompositions_.rend(); ++entry)
    if (abi::view(entry->table->op) == op) result.push_back(*entry);
  return result;
}

}  // namespace ferrite::core::plugin
