// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libferrite.so: the compiler's sessions, models and programs, as the embedding API offers them.
#include "runtime/capi/engine.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "driver/cache/kernel_folder.h"
#include "driver/session.h"
#include "runtime/plugin/library_pages.h"

namespace ferrite::core::capi {
namespace {

class CompiledProgram final : public RunnableProgram {
 public:
  explicit CompiledProgram(std::shared_ptr<const Program> program)
      : program_(std::move(program)), inputs_(program_->inputs()), outputs_(program_->outputs()) {}
  const std::vector<runtime::PortInfo>& inputs() const override { return inputs_; }
  const std::vector<runtime::PortInfo>& outputs() const override { return outputs_; }
  std::shared_ptr<const runtime::Executable> executable() const override {
    return program_->compilation.executable;
  }
  Result<void> run(runtime::Executable::Context* context, std::span<const void* const> inputs,
                   std::span<void* const> outputs) const override {
    return program_->run(context, inputs, outputs);
  }
  ProgramFigures figures() const override {
    const auto& stats = program_->compilation.stats;
    return {stats.nodes, stats.statements, stats.kernels, stats.compile_ms, stats.init_ms, stats.load_ms};
  }
  std::string ledger() const override { return ledger_json(program_->ledger.records()); }

 private:
  const std::shared_ptr<const Program> program_;
  const std::vector<runtime::PortInfo> inputs_, outputs_;
};

class SessionModel final : public LoadedModel {
 public:
  SessionModel(std::unique_ptr<Model> model, const CompileOptions& options)
      : model_(std::move(model)), options_(options) {}
  const std::vector<ModelPort>& inputs() const override { return model_->inputs(); }
  const std::vector<ModelPort>& outputs() const override { return model_->outputs(); }

  Result<std::string> unsupported(std::span<const std::vector<int64_t>> input_dims) override {
    return model_->unsupported(input_dims);
  }
  Result<std::shared_ptr<const RunnableProgram>> program(std::span<const std::vector<int64_t>> input_dims,
                                                         bool ports_on_device) override {
    {
      std::lock_guard lock(mutex_);
      if (const auto known = programs_.find(Request{input_dims, ports_on_device}); known != programs_.end())
        return known->second;
    }
    auto options = options_;
    options.ports_on_device = ports_on_device;
    FE_TRY(auto program, model_->program(input_dims, options));
    plugin::release_library_pages();
    std::lock_guard lock(mutex_);
    // One object for each program, because it holds the program's contexts.
    auto& runnable = programs_[{{input_dims.begin(), input_dims.end()}, ports_on_device}];
    if (!runnable) runnable = std::make_shared<const CompiledProgram>(program);
    return runnable;
  }
  Result<void> save(std::span<const std::vector<int64_t>> input_dims, std::span<const std::string> targets,
                    const std::string& path) override {
    std::vector<TargetName> names;
    for (const auto& target : targets) names.push_back({target, "target " + target});
    FE_TRY(const auto saved, model_->save(input_dims, options_, names, path));
    return {};
  }
  Result<std::vector<std::byte>> package(std::span<const std::vector<int64_t>> input_dims) override {
    return model_->package(input_dims, options_);
  }
  Result<std::string> changed_regions(std::string_view phase, std::span<const uint64_t> outputs) override {
    return model_->changed_regions(phase, outputs, options_);
  }
  Result<Parts> partition(const PartitionRequest& request) override {
    joint::PartitionOptions options;
    for (const uint8_t kind : request.input_kinds) {
      if (kind > FERRITE_INPUT_TANGENT)
        return error(FE_EINVALID, "FE-G58", "{} is no kind of an input; the kinds are FERRITE_INPUT_*", kind);
      options.inputs.push_back(static_cast<joint::InputKind>(kind));
    }
    options.memory_budget = request.memory_budget;
    options.saved.insert(request.saved.begin(), request.saved.end());
    options.recomputed.insert(request.recomputed.begin(), request.recomputed.end());
    for (const auto& [dims, order, rank] : request.orders)
      options.orders.push_back({{dims, dims + rank}, {order, order + rank}});
    options.reorder_op = request.reorder_op;
    options.donate_saved = request.donate_saved;
    FE_TRY(auto parts, model_->partition(request.forward_outputs, request.first_stage, options, options_));
    return Parts{std::make_unique<SessionModel>(std::move(parts.forward), options_),
                 std::make_unique<SessionModel>(std::move(parts.backward), options_)};
  }
  Result<std::unique_ptr<LoadedModel>> joint(uint32_t forward_outputs,
                                             std::string_view first_stage) override {
    FE_TRY(auto made, model_->joint(forward_outputs, first_stage));
    return std::unique_ptr<LoadedModel>(std::make_unique<SessionModel>(std::move(made), options_));
  }

 private:
  const std::unique_ptr<Model> model_;
  const CompileOptions& options_;
  struct Key {
    std::vector<std::vector<int64_t>> input_dims;
    bool ports_on_device;
  };
  /// As a key, but with the caller's dims: every call looks its program up, and copies none.
  struct Request {
    std::span<const std::vector<int64_t>> input_dims;
    bool ports_on_device;
  };
  struct Before {
    using is_transparent = void;
    bool operator()(const auto& one, const auto& other) const {
      if (one.ports_on_device != other.ports_on_device) return other.ports_on_device;
      return std::ranges::lexicographical_compare(one.input_dims, other.input_dims);
    }
  };
  std::mutex mutex_;  // guards the member below
  std::map<Key, std::shared_ptr<const RunnableProgram>, Before> programs_;
};

class SessionEngine final : public Engine {
 public:
  static Result<std::shared_ptr<Engine>> open(const ferrite_session_options& given,
                                              std::shared_ptr<runtime::Allocator> allocator) {
    config::PipelineRequest request;
    if (given.manifest) request.manifest = given.manifest;
    for (uint64_t k = 0; given.plugins && k < given.plugin_count; ++k)
      request.plugins.emplace_back(given.plugins[k]);
    if (given.profile) request.profile = given.profile;
    request.safe_mode = given.safe_mode != 0;
    request.tf32 = given.tf32 != 0;
    if (given.device) request.devices = given.device;
    FE_TRY(auto pipeline, config::read_pipeline(request));
    if (given.device) {
      pipeline.device = given.device;
      pipeline.device_where.clear();
      pipeline.device_chosen = true;
    }
    if (given.threads > 0) pipeline.threads = given.threads;
    auto engine = std::make_shared<SessionEngine>();
    auto& options = engine->options_;
    options.device = pipeline.device.value_or(options.device);
    options.device_where = pipeline.device_where;
    options.device_chosen = pipeline.device_chosen;
    options.threads = pipeline.threads.value_or(0);
    options.memory_limit = pipeline.memory_limit.value_or(0);
    options.without = pipeline.without;
    options.cache = cache::kernel_folder(pipeline.cache);
    if (given.tune) pipeline.tune = given.tune;
    if (auto valid = tune::read_mode(pipeline.tune.value_or("cached"), options.tune); !valid)
      return at("option 'tune'", std::move(valid.error()));
    options.tune.folder = tune::store_folder(options.cache);
    options.allocator = std::move(allocator);
    FE_TRY(engine->session_, Session::open(pipeline));
    return std::shared_ptr<Engine>(std::move(engine));
  }

  Result<runtime::Devices> devices() const override {
    if (options_.device == runtime::interpreter_name) return runtime::Devices();
    return runtime::open_devices(options_.device, session_->registry());
  }
  std::string passes(std::string_view phase) const override {
    std::string lines;
    for (const auto& entry : session_->registry().passes())
      if (entry.phase == phase && entry.enabled)
        lines += fmt::format("{}\t{}\n", entry.name, entry.plugin->id);
    return lines;
  }
  Result<std::string> identity() const override {
    FE_TRY(auto text, session_->identity());
    FE_TRY(const auto opened, devices());
    return text + " " + runtime::text_of(runtime::targets_of(opened));
  }
  Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path) override {
    FE_TRY(auto model, Model::open(*session_, path));
    return std::unique_ptr<LoadedModel>(new SessionModel(std::move(model), options_));
  }
  Result<std::unique_ptr<LoadedModel>> open_model(const std::string& path,
                                                  std::span<const std::byte> contents) override {
    FE_TRY(auto model, Model::open(*session_, path, contents));
    return std::unique_ptr<LoadedModel>(new SessionModel(std::move(model), options_));
  }

 private:
  std::unique_ptr<Session> session_;
  CompileOptions options_;
};

}  // namespace

Result<std::shared_ptr<Engine>> open_engine(const ferrite_session_options& options,
                                            std::shared_ptr<runtime::Allocator> allocator) {
  return SessionEngine::open(options, std::move(allocator));
}

}  // namespace ferrite::core::capi
