// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/plugin/loading.h"

#include <cstddef>
#include <memory>

#include "core/support/abi/abi.h"
#include "core/support/abi/callback.h"
#include "core/support/log.h"
#include "ferrite/counted.hpp"
#include "runtime/plugin/plugin_library.h"
#include "runtime/plugin/tables.h"

namespace ferrite::core::plugin {

Result<DescribedLibrary> describe_library(const std::string& path, const std::string& sha256,
                                          const std::string& id) {
  // dlopen runs the library's constructors, and then its entry runs: plugin code on this thread.
  const callback::Scope loading({id, "loading of", path});
  FE_TRY(auto entry, open_library(path, sha256));
  const fe_plugin_v0* description = nullptr;
  try {
    description = entry(FE_ABI_MINOR);
  } catch (...) {
    return at(path, error(FE_EINTERNAL, "FE-P61", "an exception left its entry"));
  }
  // A description of another ABI version may be shorter. Every version begins with the version number.
  if (!description || description->size < offsetof(fe_plugin_v0, self) || description->size > largest_struct)
    return at(path, error(FE_EINVALID, "FE-P07", "its description is missing, or its size is invalid"));
  if (description->major != FE_ABI_MAJOR || description->minor != FE_ABI_MINOR)
    return at(path, error(FE_EINVALID, "FE-P04",
                          "it was built for ABI {}.{}, this is {}.{}; rebuild it with this SDK",
                          description->major, description->minor, FE_ABI_MAJOR, FE_ABI_MINOR));
  if (description->size < sizeof(fe_plugin_v0))
    return at(path, error(FE_EINVALID, "FE-P07", "its description has {} bytes, the ABI's has {}",
                          description->size, sizeof(fe_plugin_v0)));
  auto named = name_of(description->id, "id");
  if (!named) return at(path, std::move(named.error()));
  if (!id.empty() && id != *named)
    return at(path, error(FE_EINVALID, "FE-P05",
                          "it calls itself '{}', the manifest or descriptor says '{}'; "
                          "correct the id in one of them",
                          *named, id));
  DescribedLibrary described{std::move(*named), {}, description};
  if (description->version.length <= longest_name) described.version = abi::view(description->version);
  return described;
}

Result<std::vector<fe_contribution>> create(LoadedPlugin& plugin, const fe_host& host,
                                            std::span<const fe_attr> config) {
  const auto& description = *plugin.description;
  if (!description.create) return at(plugin.library, null_slot("plugin", "create"));
  abi::Call call;
  auto args = abi::sized<fe_create_args>();
  args.host = &host;
  args.config = {config.data(), config.size(), sizeof(fe_attr)};
  auto out = abi::sized<fe_create_out>();
  const int32_t status =
      callback::call({plugin.id, "create", {}}, description.create, description.self, call, &args, &out);
  if (status != FE_OK)
    return at(plugin.library, call.error(status, "FE-P06", "the plugin could not be created"));
  plugin.instance = out.instance;
  const auto& given = out.contributions;
  if (!abi::readable<fe_contribution>(given) || given.count > most_items) {
    destroy(plugin);
    return at(plugin.library,
              error(FE_EINVALID, "FE-P07",
                    "its array of {} contributions is null, too long, or its stride is {}, less than {}",
                    given.count, given.stride, sizeof(fe_contribution)));
  }
  std::vector<fe_contribution> contributions;
  for (size_t k = 0; k < given.count; ++k) contributions.push_back(abi::element<fe_contribution>(given, k));
  return contributions;
}

void destroy(const LoadedPlugin& plugin) {
  const auto* description = plugin.description;
  if (!description || !description->destroy || !plugin.instance) return;
  abi::Call call;
  auto args = abi::sized<fe_destroy_args>();
  args.instance = plugin.instance;
  auto out = abi::sized<fe_none>();
  callback::call({plugin.id, "destroy", {}}, description->destroy, description->self, call, &args, &out);
}

Backends::~Backends() {
  for (auto plugin = plugins_.rbegin(); plugin != plugins_.rend(); ++plugin) destroy(**plugin);
}

Result<void> Backends::add_backend(const LoadedPlugin& plugin, const fe_contribution& contribution) {
  if (contribution.kind == FE_CONTRIBUTION_PROVIDER) {
    FE_TRY(const auto* table,
           table_of<fe_provider>(contribution, "provider", offsetof(fe_provider, exec_create)));
    if (!table->open_target) return null_slot("provider", "open_target");
    FE_CHECK(name_of(table->id, "provider's id"));
    FE_CHECK(name_of(table->device_kind, "provider's device_kind"));
    callback::own(table, plugin.id);
    providers_.push_back({table, &plugin});
    return {};
  }
  if (contribution.kind == FE_CONTRIBUTION_RUNTIME) {
    FE_TRY(const auto* table, table_of<fe_runtime>(contribution, "runtime", offsetof(fe_runtime, accept)));
    for (auto [slot, name] : {std::pair{reinterpret_cast<const void*>(table->describe), "describe"},
                              {reinterpret_cast<const void*>(table->alloc), "alloc"},
                              {reinterpret_cast<const void*>(table->launch), "launch"}})
      if (!slot) return null_slot("runtime", name);
    FE_CHECK(name_of(table->id, "runtime's id"));
    callback::own(table, plugin.id);
    runtimes_.push_back({table, &plugin});
    return {};
  }
  return {};
}

Result<void> Backends::check_new(const std::string& id, const std::string& place) const {
  for (const auto& other : plugins_)
    if (other->id == id)
      return at(place,
                error(FE_EINVALID, "FE-P08", "plugin '{}' is already loaded from {}", id, other->library));
  return {};
}

void Backends::remove_backends(const LoadedPlugin& plugin) {
  const auto is_its = [&](const auto& item) { return item.plugin == &plugin; };
  std::erase_if(providers_, is_its);
  std::erase_if(runtimes_, is_its);
}

Result<const LoadedPlugin*> BackendPlugins::load(const std::string& library) {
  FE_TRY(auto described, describe_library(library, {}, {}));
  FE_CHECK(check_new(described.id, library));
  auto plugin = std::make_unique<LoadedPlugin>();
  plugin->id = std::move(described.id);
  plugin->version = std::move(described.version);
  plugin->library = library;
  plugin->description = described.description;
  FE_TRY(const auto contributions, create(*plugin, host_, {}));
  plugins_.push_back(std::move(plugin));
  const LoadedPlugin& loaded = *plugins_.back();
  for (const auto& contribution : contributions)
    if (auto added = add_backend(loaded, contribution); !added) {
      auto fault = at(loaded.id, std::move(added.error()));
      remove_backends(loaded);
      destroy(loaded);
      plugins_.pop_back();
      return fault;
    }
  log::print("plugins", "{} {} from {}: {}", loaded.id, loaded.version, library,
             counted(contributions.size(), "contribution"));
  return &loaded;
}

}  // namespace ferrite::core::plugin
