// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libferrite_runtime.so: runs packages and compiles nothing. Plugins for devices and libraries are loaded
// when a package needs them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <set>
#include <utility>

#include "core/support/abi/abi.h"
#include "core/support/elapsed.h"
#include "core/support/files/installed_files.h"
#include "core/support/log.h"
#include "core/support/warning.h"
#include "runtime/capi/engine.h"
#include "runtime/host.h"
#include "runtime/package/package.h"
#include "runtime/plugin/loading.h"

namespace ferrite::core::capi {
namespace {

namespace fs = std::filesystem;

class PackagedProgram final : public RunnableProgram {
 public:
  PackagedProgram(package::Loaded loaded, double load_ms) : loaded_(std::move(loaded)), load_ms_(load_ms) {}
  const std::vector<runtime::PortInfo>& inputs() const override { return loaded_.executable->inputs; }
  const std::vector<runtime::PortInfo>& outputs() const override { return loaded_.executable->outputs; }
  std::shared_ptr<const runtime::Executable> executable() const override { return loaded_.executable; }
  Result<void> run(runtime::Executable::Context* context, std::span<const void* const> inputs,
                   std::span<void* const> outputs) const override {
    return loaded_.executable->run(*context, inputs, outputs);
  }
  ProgramFigures figures() const override {
    const auto& made = *loaded_.executable;
    return {loaded_.figures.nodes, loaded_.figures.statements, runtime::count_kernels(made.steps), 0,
            made.init_ms,          load_ms_ - made.init_ms};
  }
  std::string ledger() const override { return "[]"; }  // packages do not store decisions

 private:
  const package::Loaded loaded_;
  const double load_ms_;
};

Result<void> check_is_package(const std::string& path) {
  if (fs::path(path).extension() == package::suffix) return {};
  return at(path,
            error(FE_EUNSUPPORTED, "FE-X41",
                  "this library runs packages and compiles nothing; make one with 'ferrite compile', or link "
                  "Ferrite::ferrite"));
}

class PackageEngine final : public Engine {
 public:
  explicit PackageEngine(const ferrite_session_options& options,
                         std::shared_ptr<runtime::Allocator> allocator)
      : devices_(options.device ? options.device : ""),
        threads_(options.threads),
        allocator_(std::move(allocator)),
        loads_installed_(options.plugin_count == 0) {}

  Result<void> load(const std::string& library) {
    std::lock_guard lock(mutex_);
    FE_CHECK(plugins_.load(library));
    return {};
  }
  Result<runtime::Devices> devices() const override;
  std::string passes(std::string_view) const override { return {}; }
  Result<std::string> identity() const override { return std::string(FERRITE_VERSION); }
  Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path) override;
  Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path,
                                                  std::span<const std::byte> contents) override;
  Result<package::Loaded> load(const package::Package& package);

 private:
  Result<std::unique_ptr<LoadedModel>> open_package(const std::string& path,
                                                    std::shared_ptr<const graph::MappedFile> file);
  /// Loads the plugins of this name that are installed with this library, each once. A missing plugin is no
  /// error here: opening the missing device reports it.
  void load_installed(const std::string& name);

  const std::string devices_;
  const int64_t threads_;
  const std::shared_ptr<runtime::Allocator> allocator_;
  const bool loads_installed_;
  const std::unique_ptr<fe_host> host_ = plugin::make_host();
  mutable std::mutex mutex_;  // guards the members below
  plugin::BackendPlugins plugins_{*host_};
  std::set<std::string> asked_;
};

class PackageModel final : public LoadedModel {
 public:
  PackageModel(PackageEngine& engine, std::string path, std::shared_ptr<const package::Package> package)
      : engine_(engine),
        path_(std::move(path)),
        package_(std::move(package)),
        inputs_(package::model_ports(package_->inputs())),
        outputs_(package::model_ports(package_->outputs())) {}
  const std::vector<ModelPort>& inputs() const override { return inputs_; }
  const std::vector<ModelPort>& outputs() const override { return outputs_; }

  Result<std::string> unsupported(std::span<const std::vector<int64_t>>) override {
    return std::string();  // all of a package was imported when it was made
  }
  Result<std::shared_ptr<const RunnableProgram>> program(std::span<const std::vector<int64_t>> input_dims,
                                                         bool) override {
    for (size_t k = 0; k < inputs_.size(); ++k)
      if (inputs_[k].dims != input_dims[k])
        return at(path_,
                  error(FE_EINVALID, "FE-X04", "input '{}' has shape [{}], a tensor of shape [{}] was given",
                        inputs_[k].name, fmt::join(inputs_[k].dims, ","), fmt::join(input_dims[k], ",")));
    std::lock_guard lock(mutex_);
    if (!program_) {
      const auto start = std::chrono::steady_clock::now();
      auto loaded = engine_.load(*package_);
      if (!loaded) return at(path_, std::move(loaded.error()));
      program_ = std::make_shared<PackagedProgram>(std::move(*loaded), milliseconds_since(start));
    }
    return program_;
  }
  Result<void> save(std::span<const std::vector<int64_t>>, std::span<const std::string>,
                    const std::string& path) override {
    return at(path, error(FE_EUNSUPPORTED, "FE-X41",
                          "this library compiles nothing, so it writes no package; copy '{}', or link "
                          "Ferrite::ferrite",
                          path_));
  }
  Result<std::vector<std::byte>> package(std::span<const std::vector<int64_t>>) override {
    return is_compiled();
  }
  Result<std::string> changed_regions(std::string_view, std::span<const uint64_t>) override {
    return is_compiled();
  }
  Result<Parts> partition(const PartitionRequest&) override { return is_compiled(); }
  Result<std::unique_ptr<LoadedModel>> joint(uint32_t, std::string_view) override { return is_compiled(); }

 private:
  Error is_compiled() const {
    return at(path_, error(FE_EUNSUPPORTED, "FE-X41",
                           "a package is compiled already, and no passes run on it; give its model, with "
                           "Ferrite::ferrite"));
  }

  PackageEngine& engine_;
  const std::string path_;
  const std::shared_ptr<const package::Package> package_;
  const std::vector<ModelPort> inputs_, outputs_;
  std::mutex mutex_;
  std::shared_ptr<const RunnableProgram> program_;
};

Result<runtime::Devices> PackageEngine::devices() const {
  std::lock_guard lock(mutex_);
  if (!devices_.empty()) return runtime::open_devices(devices_, plugins_);
  for (const auto& runtime : plugins_.runtimes())
    if (auto opened = runtime::open_devices(std::string(abi::view(runtime.table->id)), plugins_))
      return opened;
  return error(FE_EINVALID, "FE-D01",
               "no device is known before a package is loaded; name one in the session's options");
}

Result<std::unique_ptr<LoadedModel>> PackageEngine::open_model(const std::string& path) {
  FE_CHECK(check_is_package(path));
  auto file = graph::MappedFile::open(path);
  if (!file)
    return at(path, error(file.error().status, "FE-I01",
                          "the package cannot be read: {}; give the path of a file", file.error().text));
  return open_package(path, std::move(*file));
}

Result<std::unique_ptr<LoadedModel>> PackageEngine::open_model(const std::string& path,
                                                               std::span<const std::byte> contents) {
  FE_CHECK(check_is_package(path));
  FE_TRY(auto file, graph::MappedFile::copy_of(contents));
  return open_package(path, std::move(file));
}

Result<std::unique_ptr<LoadedModel>> PackageEngine::open_package(
    const std::string& path, std::shared_ptr<const graph::MappedFile> file) {
  auto package = package::Package::open(std::move(file));
  if (!package) return at(path, std::move(package.error()));
  return std::unique_ptr<LoadedModel>(new PackageModel(*this, path, std::move(*package)));
}

Result<package::Loaded> PackageEngine::load(const package::Package& package) {
  std::lock_guard lock(mutex_);
  const auto& needs = package.needs();
  if (loads_installed_) {
    for (const auto& kind : needs.kinds) load_installed("ferrite_" + kind);
    // By convention the library of plugin acme.gemm is acme_gemm.so.
    for (auto id : needs.libraries) {
      std::ranges::replace(id, '.', '_');
      load_installed(id);
    }
    plugins_.set_device_kinds(needs.kinds);
  }
  return package.program(devices_, plugins_, threads_, allocator_);
}

void PackageEngine::load_installed(const std::string& name) {
  if (!asked_.insert(name).second) return;
  const auto library = fs::path(plugin::installed_files().plugin_folder) / (name + ".so");
  std::error_code failed;
  if (!fs::exists(library, failed)) return;
  if (auto loaded = plugins_.load(library.string()); !loaded)
    log::warn("plugins", fmt::format("skipped: {}", loaded.error().message()));
}

}  // namespace

Result<std::shared_ptr<Engine>> open_engine(const ferrite_session_options& options,
                                            std::shared_ptr<runtime::Allocator> allocator) {
  for (const auto& [given, name] : {std::pair(options.manifest, "manifest"), {options.profile, "profile"}})
    if (given)
      return at("ferrite_session_open",
                error(FE_EUNSUPPORTED, "FE-X41",
                      "'{}' is set, and this library reads no manifests; leave it out, or link "
                      "Ferrite::ferrite",
                      name));
  auto engine = std::make_shared<PackageEngine>(options, std::move(allocator));
  for (uint64_t k = 0; options.plugins && k < options.plugin_count; ++k)
    FE_CHECK(engine->load(options.plugins[k]));
  return std::shared_ptr<Engine>(std::move(engine));
}

}  // namespace ferrite::core::capi
