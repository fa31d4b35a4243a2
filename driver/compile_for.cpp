// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/compile_for.h"

#include <algorithm>

#include "driver/config/manifest.h"
#include "driver/target_names.h"
#include "runtime/package/package.h"

namespace ferrite::core {
namespace {

Result<Compilation> compile_one(const graph::Graph& graph, const plugin::Registry& registry,
                                CompileOptions options) {
  options.load = false;
  Ledger ledger;
  FE_TRY(auto compiled, compile(graph, registry, options, ledger));
  if (!compiled.executable)
    return error(
        FE_EUNSUPPORTED, "FE-K54",
        "device '{}' has no code to keep; compile for one that `ferrite targets` lists as compiled for",
        options.device);
  return compiled;
}

/// The devices of a program for a target: of the named ones, the one of the target's kind and those after it;
/// else the kind alone.
std::string devices_for(const std::string& kind, const std::string& names) {
  std::string result;
  for (const auto& name : runtime::device_names(names))
    if (!result.empty() || runtime::kind_of(name) == kind) result += (result.empty() ? "" : ",") + name;
  return result.empty() ? kind : result;
}

/// The targets by their names, each once.
Result<runtime::Devices> find_targets(std::span<const TargetName> names, const CompileOptions& options,
                                      const plugin::Registry& registry) {
  const auto kinds = options.device_chosen ? runtime::kinds_of(options.device) : std::vector<std::string>();
  runtime::Devices found;
  for (const auto& [text, where] : names) {
    auto target = runtime::find_target(text, kinds, registry);
    if (!target) return named_at(where, std::move(target.error()));
    for (const auto& other : found)
      if (other->kind == (*target)->kind && other->description == (*target)->description)
        return at(where, error(FE_EINVALID, "FE-D24", "the target '{}' is named twice; drop one", text));
    found.push_back(std::move(*target));
  }
  return found;
}

CompileOptions options_of(const runtime::Device& target, const TargetName& name,
                          const CompileOptions& options) {
  CompileOptions one = options;
  one.device = devices_for(target.kind, options.device);
  one.device_where = name.where;
  one.targets = {{target.kind, target.description}};
  one.load = false;
  return one;
}

}  // namespace

Result<CompileOptions> options_for(const TargetName& target, const CompileOptions& options,
                                   const plugin::Registry& registry) {
  FE_TRY(const auto found, find_targets({&target, 1}, options, registry));
  return options_of(*found[0], target, options);
}

Result<std::vector<Compilation>> compile_for(const graph::Graph& graph, const plugin::Registry& registry,
                                             const CompileOptions& options,
                                             std::span<const TargetName> names) {
  std::vector<Compilation> programs;
  if (names.empty()) {
    FE_TRY(auto only, compile_one(graph, registry, options));
    programs.push_back(std::move(only));
    return programs;
  }
  if (names.size() > package::most_targets)
    return at(names.back().where, error(FE_EINVALID, "FE-D24", "{} targets; a package has at most {}",
                                        names.size(), package::most_targets));
  const auto& tune = options.tune;
  if (names.size() > 1 && (!tune.replay.empty() || !tune.lock.empty()))
    return at(
        names.back().where,
        error(FE_EINVALID, "FE-T47",
              "a decisions lock is of one target, {} are named; compile for one at a time", names.size()));
  FE_TRY(const auto targets, find_targets(names, options, registry));

  programs.resize(targets.size());
  std::vector<runtime::Target> host_target;  // the slowest; its device takes what others do not
  double slowest = 0;
  for (const bool host : {true, false})
    for (size_t k = 0; k < targets.size(); ++k) {
      if (runtime::takes_the_rest(*targets[k]) != host) continue;
      auto one = options_of(*targets[k], names[k], options);
      if (!host) one.targets.insert(one.targets.end(), host_target.begin(), host_target.end());
      FE_TRY(programs[k], compile_one(graph, registry, one));
      const double seconds = programs[k].executable->estimate;
      if (!host || seconds < slowest) continue;
      slowest = seconds;
      host_target = {one.targets.front()};
    }
  std::ranges::stable_sort(programs, {},
                           [](const Compilation& program) { return program.executable->estimate; });
  return programs;
}

}  // namespace ferrite::core
