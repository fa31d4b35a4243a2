// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a manifest's [pass."name"] tables do to the passes that are registered.
#include <algorithm>
#include <set>

#include "core/plugin/manifest.h"
#include "core/support/log.h"
#include "core/support/suggest.h"

namespace ferrite::core::plugin {

Result<void> apply_pass_settings(const Pipeline& pipeline, std::vector<PassEntry>& passes) {
  std::vector<std::string_view> names;
  std::set<std::string_view> giving;
  for (const auto& pass : passes) {
    names.push_back(pass.name);
    giving.insert(pass.plugin->id);
  }
  auto loaded = [&](std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const auto& request : pipeline.plugins)
    for (const auto& [name, where] : request.passes)
      if (giving.contains(request.id) && !loaded(name))
        return at(where,
                  error(FE_EINVALID, "FE-M11", "plugin '{}' has no pass '{}', which its descriptor lists{}",
                        request.id, name, did_you_mean(name, names)));
  if (pipeline.passes.empty()) return {};

  // The passes of a plugin that the manifest lets fail may be gone, and with them their names.
  const bool some_skipped =
      std::any_of(pipeline.plugins.begin(), pipeline.plugins.end(), [&](const PluginRequest& request) {
        return request.on_error == OnError::skip && !giving.contains(request.id);
      });
  auto unknown = [&](const std::string& name, const std::string& where) -> Result<void> {
    if (some_skipped) {
      log::print("plugins", "{}: there is no pass '{}'; a plugin is skipped or has no passes", where, name);
      return {};
    }
    return at(where,
              error(FE_EINVALID, "FE-M11", "there is no pass '{}'{}", name, did_you_mean(name, names)));
  };
  auto idle = [&](const std::string& name) {
    return std::find(pipeline.idle_passes.begin(), pipeline.idle_passes.end(), name) !=
           pipeline.idle_passes.end();
  };
  for (const auto& change : pipeline.passes) {
    if (!loaded(change.name)) {
      FE_CHECK(unknown(change.name, change.where));
      continue;
    }
    for (const auto& [list, places] :
         {std::pair(&change.after, &change.after_places), std::pair(&change.before, &change.before_places)})
      for (size_t k = 0; k < list->size(); ++k)
        if (!loaded((*list)[k]) && !idle((*list)[k])) FE_CHECK(unknown((*list)[k], (*places)[k]));
    for (auto& pass : passes) {
      if (pass.name != change.name) continue;
      if (change.enabled) pass.enabled = *change.enabled;
      pass.after.insert(pass.after.end(), change.after.begin(), change.after.end());
      pass.before.insert(pass.before.end(), change.before.begin(), change.before.end());
      for (size_t k = 0; k < change.after.size(); ++k) pass.places[change.after[k]] = change.after_places[k];
      for (size_t k = 0; k < change.before.size(); ++k)
        pass.places[change.before[k]] = change.before_places[k];
    }
  }
  for (auto phase : phases()) FE_CHECK(order_passes(passes, phase));
  return {};
}

}  // namespace ferrite::core::plugin
