// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/session.h"

#include <chrono>
#include <filesystem>

#include "core/ir/graph/api.h"
#include "core/ir/loop/interpreter.h"
#include "core/ir/text/parse_graph.h"
#include "core/link/ports.h"
#include "core/lower/lower.h"
#include "core/observe/observation.h"
#include "core/passes/joint/changed_regions.h"
#include "core/passes/joint/subgraph.h"
#include "core/plugin/import_ops.h"
#include "core/select/claims.h"
#include "core/source.h"
#include "core/support/abi/abi.h"
#include "core/support/elapsed.h"
#include "core/support/files/installed_files.h"
#include "core/support/files/user_folder.h"
#include "core/support/hash.h"
#include "core/support/warning.h"
#include "driver/compile_for.h"
#include "driver/isolate/isolated_plugin.h"
#include "driver/observe/sinks.h"
#include "driver/package/save_package.h"
#include "driver/regions_json.h"
#include "driver/validate/verdicts.h"
#include "ferrite/counted.hpp"
#include "runtime/host.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core {

Result<std::unique_ptr<Session>> Session::open(const config::Pipeline& pipeline) {
  std::unique_ptr<Session> session(new Session());
  session->pipeline_ = pipeline;
  FE_TRY(session->metrics_, observe::Metrics::from_environment());
  session->host_ = plugin::make_host();
  session->registry_ = std::make_unique<plugin::Registry>(
      *session->host_,
      [](const plugin::PluginRequest& request, const std::deque<plugin::PluginRequest>& op_plugins)
          -> Result<std::shared_ptr<plugin::PluginProcess>> {
        FE_TRY(auto opened, isolate::Plugin::open(request, op_plugins));
        return std::shared_ptr<plugin::PluginProcess>(std::move(opened));
      });
  session->registry_->set_device_kinds(pipeline.device_kinds);
  FE_CHECK(session->registry_->add_core_op(select::region_op_def()));
  for (const auto& request : pipeline.plugins) {
    auto loaded = session->registry_->load(request);
    if (loaded) continue;
    if (request.on_error != plugin::OnError::skip) {
      std::string place;
      if (loaded.error().where == request.library)
        place = loaded.error().code == "FE-P30" ? request.isolation_place : request.library_place;
      return named_at(place, std::move(loaded.error()));
    }
    log::warn("plugins", fmt::format("{} skipped: {}", request.id, loaded.error().message()));
  }
  // The order matters: rules may use ops of all plugins, so they are compiled after loading; settings may
  // disable passes, whose rules then need no validation.
  FE_CHECK(observe::check_sinks(session->registry_->metric_sinks()));
  FE_CHECK(session->registry_->settle_aliases());
  FE_CHECK(session->registry_->compile_rules());
  FE_CHECK(config::apply_pass_settings(pipeline, session->registry_->passes()));
  FE_CHECK(validate::validate_rules(
      *session->registry_, pipeline.validate_rules.value_or(config::RuleValidation::on),
      plugin::installed_files().plugin_folder, cache::user_folder("validated-rules"), pipeline.options));
  return session;
}

Result<std::string> Session::identity() const {
  std::string text = FERRITE_VERSION;
  std::vector<std::string> files = {plugin::installed_files().library};
  files.insert(files.end(), pipeline_.manifests.begin(), pipeline_.manifests.end());
  for (const auto& request : pipeline_.plugins)
    for (const auto& path : {request.library, request.descriptor})
      if (!path.empty()) files.push_back(path);
  for (const auto& path : files) {
    const auto hash = file_hash128(path);
    if (hash.empty())
      return at(path, error(FE_EINVALID, "FE-M14", "it cannot be read; correct its rights or its path"));
    text += "\n" + hash;
  }
  for (const auto& request : pipeline_.plugins)
    for (const auto& [path, rules] : request.rule_files) text += "\n" + hash128(rules);
  for (const auto& plugin : registry_->plugins())
    text += "\n" + hash128({plugin->id, plugin->version, plugin->settings});
  return hash128(text);
}

struct Model::State {
  std::shared_ptr<const graph::MappedFile> file;
  const fe_importer* importer = nullptr;
  void* model = nullptr;
  std::optional<graph::OpenGraph> text_graph;
  graph::ParseOptions text_options;
  std::shared_ptr<const package::Package> package;
  std::optional<graph::Graph> part;  ///< of a joint graph
  std::string part_stage;            ///< at which it enters
  std::vector<LedgerRecord> before;  ///< records of the stages that it has passed

  std::string_view text() const {
    const auto bytes = file->bytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

Model::Model(const Session& session) : session_(session) {}

Model::~Model() {
  // Only importers set `model`. It is closed before the file, whose bytes it may use until then.
  if (!state_ || !state_->model || !state_->importer->model_close) return;
  abi::Call call;
  auto args = abi::sized<fe_model_args>();
  args.model = state_->model;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*state_->importer, state_->importer->model_close, call, &args, &out);
}

Result<std::unique_ptr<Model>> Model::open(const Session& session, const std::string& path) {
  auto mapped = graph::MappedFile::open(path);
  if (!mapped)
    return at(path.empty() ? "MODEL" : path,
              error(mapped.error().status, "FE-I01", "the model cannot be read: {}; give the path of a file",
                    mapped.error().text));
  std::unique_ptr<Model> model(new Model(session));
  model->path_ = path;
  FE_CHECK(model->open(std::move(*mapped)));
  return model;
}

Result<std::unique_ptr<Model>> Model::open(const Session& session, const std::string& path,
                                           std::span<const std::byte> contents) {
  FE_TRY(auto file, graph::MappedFile::copy_of(contents));
  std::unique_ptr<Model> model(new Model(session));
  model->path_ = path;
  FE_CHECK(model->open(std::move(file)));
  return model;
}

Result<void> Model::open(std::shared_ptr<const graph::MappedFile> file) {
  state_ = std::make_unique<State>();
  state_->file = std::move(file);
  const auto extension = std::filesystem::path(path_).extension();
  if (extension == ".fe") return open_text();
  if (extension != package::suffix) return open_imported();
  auto package = package::Package::open(state_->file);
  if (!package) return at(path_, std::move(package.error()));
  state_->package = std::move(*package);
  inputs_ = package::model_ports(state_->package->inputs());
  outputs_ = package::model_ports(state_->package->outputs());
  return {};
}

Result<void> Model::open_text() {
  auto& state = *state_;
  state.text_options.file = path_;
  state.text_options.weight_folder = std::filesystem::path(path_).parent_path().string();
  state.text_options.registry = &session_.registry().ops();
  FE_TRY(state.text_graph, graph::parse_open(state.text(), state.text_options));
  auto& graph = state.text_graph->graph;
  auto port_of = [&](const std::string& name, const graph::TensorType& type) {
    ModelPort port{name, type.dtype, true, {}, {}};
    for (auto dim : type.dims) {
      port.dims.push_back(graph::is_static(dim) ? dim : -1);
      // A size such as 2 * n is open but has no name, so an input of this size gives n no value.
      std::string symbol;
      if (!graph::is_static(dim))
        if (auto s = graph.symbols().pool().as_symbol(graph::expression_of(dim)))
          symbol = graph.symbols().pool().symbol_name(*s);
      port.dim_names.push_back(symbol);
    }
    return port;
  };
  for (const auto& input : graph.inputs()) {
    const auto& value = graph.value(input.value);
    inputs_.push_back(port_of(value.name, value.type));
  }
  for (const auto& output : state.text_graph->outputs)
    outputs_.push_back(output.type ? port_of(output.name, *output.type)
                                   : ModelPort{output.name, DType::none, false, {}, {}});
  return {};
}

Result<void> Model::open_imported() {
  auto& state = *state_;
  const auto extension = std::filesystem::path(path_).extension().string();
  std::string known = fmt::format(".fe, {}", package::suffix);
  for (const auto& importer : session_.registry().importers()) {
    std::string extensions(abi::view(importer.table->extensions));
    known += ", " + extensions;
    // With commas on both sides, ".pt" does not match ".pt2". The loop goes on after a match: the message
    // lists all extensions, and the last importer wins.
    if (("," + extensions + ",").find("," + extension + ",") != std::string::npos && !extension.empty())
      state.importer = importer.table;
  }
  if (!state.importer)
    return at(path_, error(FE_EUNSUPPORTED, "FE-I02",
                           "no enabled plugin imports '{}' files; known extensions: {}", extension, known));

  abi::Call open_call;
  auto open_args = abi::sized<fe_model_open_args>();
  open_args.path = abi::string(path_);
  const auto bytes = state.file->bytes();
  open_args.bytes = {bytes.data(), bytes.size(), 1};
  auto opened = abi::sized<fe_model_open_out>();
  int32_t status =
      plugin::invoke(*state.importer, state.importer->model_open, open_call, &open_args, &opened);
  if (status != FE_OK)
    return at(path_, open_call.error(status, "FE-I03", "the importer could not read the model"));
  // From here on ~Model() closes it, even if its signature cannot be read.
  state.model = opened.model;

  abi::Call signature_call;
  auto signature_args = abi::sized<fe_model_args>();
  signature_args.model = state.model;
  auto signature = abi::sized<fe_signature_out>();
  status =
      plugin::invoke(*state.importer, state.importer->signature, signature_call, &signature_args, &signature);
  if (status != FE_OK)
    return at(path_, signature_call.error(status, "FE-I03", "the model's signature could not be read"));
  auto read = [](const fe_array& array) {
    std::vector<ModelPort> ports;
    for (size_t k = 0; k < array.count; ++k) {
      const auto& abi = abi::element<fe_port>(array, k);
      ModelPort port{
          std::string(abi::view(abi.name)), static_cast<DType>(abi.dtype), abi.rank != FE_NONE32, {}, {}};
      for (uint32_t d = 0; port.ranked && d < abi.rank; ++d) {
        port.dims.push_back(abi.dims[d]);
        port.dim_names.emplace_back(abi::view(abi.dim_names[d]));
      }
      ports.push_back(std::move(port));
    }
    return ports;
  };
  inputs_ = read(signature.inputs);
  outputs_ = read(signature.outputs);
  return {};
}

Result<void> Model::check_dims(std::span<const std::vector<int64_t>> input_dims) const {
  if (input_dims.size() != inputs_.size())
    return at(path_, error(FE_EINVALID, "FE-X01", "the model has {}, not {}",
                           counted(inputs_.size(), "input"), input_dims.size()));
  for (size_t k = 0; k < inputs_.size(); ++k) {
    const auto& port = inputs_[k];
    auto shape = [](const std::vector<int64_t>& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); };
    if (port.ranked && port.dims.size() != input_dims[k].size())
      return at(path_, error(FE_EINVALID, "FE-X03", "input '{}' has rank {}, a tensor of shape {} was given",
                             port.name, port.dims.size(), shape(input_dims[k])));
    for (size_t d = 0; port.ranked && d < port.dims.size(); ++d)
      if (input_dims[k][d] < 0 || (port.dims[d] >= 0 && port.dims[d] != input_dims[k][d]))
        return at(
            path_,
            error(FE_EINVALID, "FE-X04", "input '{}' has shape {}{}, a tensor of shape {} was given",
                  port.name, shape(port.dims),
                  std::ranges::any_of(port.dims, [](int64_t dim) { return dim < 0; }) ? " (-1: any)" : "",
                  shape(input_dims[k])));
  }
  return {};
}

Result<graph::Graph> Model::graph(std::span<const std::vector<int64_t>> input_dims) const {
  FE_CHECK(check_dims(input_dims));
  if (state_->package) {
    auto packaged = package::graph_of(*state_->package);
    if (!packaged) return at(path_, std::move(packaged.error()));
    return packaged;
  }
  if (state_->part) return *state_->part;
  if (state_->text_graph) {
    std::vector<std::pair<std::string, int64_t>> bindings;
    for (size_t k = 0; k < inputs_.size(); ++k)
      for (size_t d = 0; d < inputs_[k].dims.size(); ++d) {
        const auto& name = inputs_[k].dim_names[d];
        if (inputs_[k].dims[d] >= 0 || name.empty()) continue;
        bool bound = false;
        for (const auto& [other, size] : bindings) {
          if (other != name) continue;
          bound = true;
          if (size != input_dims[k][d])
            return at(path_,
                      error(FE_EINVALID, "FE-X04", "dimension '{}' is {} in one input and {} in another",
                            name, size, input_dims[k][d]));
        }
        if (!bound) bindings.emplace_back(name, input_dims[k][d]);
      }
    const auto& read = state_->text_graph->graph;
    // A text without symbols has no open sizes, so the first parse left nothing out.
    if (read.symbols().size() == 0) return read;
    // The text is parsed again with the sizes, so that the ops' shape inference sees them.
    auto options = state_->text_options;
    options.sizes = bindings;
    FE_TRY(const graph::Graph sized, graph::parse(state_->text(), options));
    return graph::specialise(sized, bindings);
  }
  graph::Graph graph = empty_graph();
  FE_CHECK(import(graph, input_dims, [&](abi::Call& call, const fe_build_args& args) {
    auto out = abi::sized<fe_none>();
    return plugin::invoke(*state_->importer, state_->importer->build, call, &args, &out);
  }));
  graph.commit();
  return graph;
}

graph::Graph Model::empty_graph() const {
  const std::filesystem::path path(path_);
  return graph::Graph(path.stem().string(), path.parent_path().string());
}

Result<void> Model::import(graph::Graph& graph, std::span<const std::vector<int64_t>> input_dims,
                           const std::function<int32_t(abi::Call&, const fe_build_args&)>& build) const {
  lower::Evaluator evaluator(session_.registry());
  graph::GraphApi api(graph, session_.registry().ops());
  api.set_evaluate([&](graph::Graph& g, graph::ValueId value) { return evaluator.evaluate(g, value); });
  std::vector<fe_tensor_type> types;
  for (size_t k = 0; k < inputs_.size(); ++k) {
    auto type = abi::sized<fe_tensor_type>();
    type.dtype = static_cast<fe_dtype>(inputs_[k].dtype);
    type.rank = static_cast<uint32_t>(input_dims[k].size());
    type.dims = input_dims[k].data();
    types.push_back(type);
  }
  abi::Call call;
  auto args = abi::sized<fe_build_args>();
  args.model = state_->model;
  args.graph = api.api();
  args.input_types = abi::array(types);
  plugin::ImportOps plugins(session_.registry(), api);
  args.plugins = plugins.api();
  const int32_t status = build(call, args);
  if (status != FE_OK) return at(path_, call.error(status, "FE-I04", "the model could not be imported"));
  if (auto kept = api.check(); !kept) return at(path_, std::move(kept.error()));
  return {};
}

Result<std::string> Model::unsupported(std::span<const std::vector<int64_t>> input_dims) const {
  FE_CHECK(check_dims(input_dims));
  const auto slot = state_->importer ? abi::read(state_->importer).unsupported : nullptr;
  if (!slot)
    return at(path_,
              error(FE_EUNSUPPORTED, "FE-I06",
                    "the model's importer cannot tell node by node what is not supported; import it, and the "
                    "error names what is not"));
  graph::Graph discarded = empty_graph();
  abi::Collector<> lines;
  FE_CHECK(import(discarded, input_dims, [&](abi::Call& call, const fe_build_args& args) {
    auto sink = lines.sink();
    return plugin::invoke(*state_->importer, slot, call, &args, &sink);
  }));
  return std::move(lines.bytes());
}

namespace {

/// The Compilation of a program from a package, which was not compiled here.
Compilation packaged(package::Loaded loaded, double load_ms) {
  Compilation c;
  c.stats.nodes = loaded.figures.nodes;
  c.stats.statements = loaded.figures.statements;
  c.stats.count(*loaded.executable);
  c.stats.load_ms = load_ms - c.stats.init_ms;
  c.stats.packaged = true;
  c.stats.target = std::move(loaded.target);
  c.stats.passed_over = std::move(loaded.passed_over);
  c.executable = std::move(loaded.executable);
  return c;
}

}  // namespace

Result<std::vector<std::byte>> Model::package(std::span<const std::vector<int64_t>> input_dims,
                                              const CompileOptions& options) {
  if (state_->package)
    return at(path_, error(FE_EUNSUPPORTED, "FE-X41", "it is a package already; copy the file"));
  std::vector<std::byte> bytes;
  FE_TRY(const auto made, program(input_dims, options, &bytes));
  return bytes;
}

Result<std::shared_ptr<Program>> Model::program(std::span<const std::vector<int64_t>> input_dims,
                                                const CompileOptions& options,
                                                std::vector<std::byte>* package) {
  // The ports of a package's program are always in the host's memory, even where ports on a device are
  // requested.
  const bool from_package = state_->package && !options.recompile;
  std::string key = fmt::format("{}/{}/{}/{}/{}", options.device, options.threads, options.without.text(),
                                options.recompile, !from_package && options.ports_on_device);
  for (const auto& target : options.targets) key += fmt::format("/{}:{}", target.kind, target.description);
  for (const auto& dims : input_dims) key += fmt::format(";{}", fmt::join(dims, ","));
  std::shared_ptr<Entry> entry;
  {
    std::lock_guard lock(mutex_);
    auto& found = programs_[std::move(key)];
    if (!found) found = std::make_shared<Entry>();
    entry = found;
  }
  // Callers of the same program wait for its compilation; callers of other programs do not.
  std::lock_guard lock(entry->mutex);
  if (entry->program && !package) return entry->program;
  auto start = std::chrono::steady_clock::now();
  auto program = std::make_shared<Program>();
  if (from_package) {
    const auto& tune = options.tune;
    if (tune.mode == tune::Mode::measure || !tune.replay.empty() || !tune.lock.empty())
      return at(path_,
                error(FE_EINVALID, "FE-T45",
                      "a package is compiled already, and nothing is decided anew: add --recompile, or leave "
                      "out --tune SECONDS, --decisions and --lock-decisions"));
    FE_CHECK(check_dims(input_dims));
    const bool anywhere = !options.device_chosen && options.device != runtime::interpreter_name;
    auto loaded = state_->package->program(anywhere ? std::string() : options.device, session_.registry(),
                                           options.threads, options.allocator);
    if (!loaded) return at(path_, std::move(loaded.error()));
    program->compilation = packaged(std::move(*loaded), milliseconds_since(start));
    entry->program = program;
    return program;
  }
  FE_TRY(auto imported, graph(input_dims));
  const auto imported_at = std::chrono::steady_clock::now();
  program->import_ms = milliseconds_between(start, imported_at);
  // Metrics and sinks need an observation even where the caller wants none.
  CompileOptions watched = options;
  watched.keep_code = package != nullptr;
  const graph::Graph packaged_graph = package ? imported : graph::Graph();
  if (watched.from.empty()) watched.from = state_->part_stage;
  for (const auto& record : state_->before) program->ledger.add(record);
  observe::Observation seen;
  const auto& metrics = session_.metrics();
  const auto& sinks = session_.registry().metric_sinks();
  if (!watched.observation && (metrics.any() || !sinks.empty())) watched.observation = &seen;
  // A sink may request any table.
  if (watched.observation && (metrics.has("statement") || !sinks.empty()))
    watched.observation->statements = true;
  if (watched.observation) watched.observation->add({"session", "import", start, imported_at, 0, {}});
  auto compiled = compile(std::move(imported), session_.registry(), watched, program->ledger);
  if (!compiled) return at(path_, std::move(compiled.error()));
  program->compilation = std::move(*compiled);
  program->compilation.stats.compile_ms += program->import_ms;
  if (metrics.any() && program->compilation.executable)
    FE_CHECK(metrics.write(path_, *watched.observation, program->compilation, program->ledger));
  if (!sinks.empty() && program->compilation.executable)
    FE_CHECK(observe::give_to_sinks(
        sinks, {path_, *watched.observation, program->compilation, program->ledger, {}}));
  entry->program = program;
  if (package) {
    const auto& [executable, stats] = std::tie(program->compilation.executable, program->compilation.stats);
    if (!executable)
      return at(path_, error(FE_EUNSUPPORTED, "FE-K54",
                             "device '{}' has no code to keep; name one that compiles", options.device));
    const package::Made made{*executable, {stats.nodes, stats.statements}};
    auto bytes = package::bytes_of({packaged_graph, {&made, 1}, session_.registry()});
    executable->release_sources();
    if (!bytes) return at(path_, std::move(bytes.error()));
    *package = std::move(*bytes);
  }
  return program;
}

std::unique_ptr<Model> Model::of_graph(const Session& session, const std::string& path, graph::Graph graph,
                                       std::string_view from, std::span<const LedgerRecord> before) {
  std::unique_ptr<Model> model(new Model(session));
  model->path_ = path;
  model->state_ = std::make_unique<State>();
  const auto port_of = [&](std::string name, graph::ValueId value) {
    const auto& type = graph.type(value);
    return ModelPort{std::move(name), type.dtype, true, type.dims, std::vector<std::string>(type.rank())};
  };
  for (const auto& input : graph.inputs())
    model->inputs_.push_back(port_of(graph.value(input.value).name, input.value));
  for (const auto& output : graph.outputs()) model->outputs_.push_back(port_of(output.name, output.value));
  model->state_->part = std::move(graph);
  model->state_->part_stage = from;
  model->state_->before.assign(before.begin(), before.end());
  return model;
}

std::vector<std::vector<int64_t>> Model::declared_dims() const {
  std::vector<std::vector<int64_t>> dims;
  for (const auto& port : inputs_) dims.push_back(port.dims);
  return dims;
}

Result<graph::Graph> Model::joint_graph(uint32_t forward_outputs) const {
  FE_TRY(auto imported, graph(declared_dims()));
  imported.set_forward_outputs(forward_outputs);
  return imported;
}

Result<std::unique_ptr<Model>> Model::joint(uint32_t forward_outputs, std::string_view first_stage) const {
  FE_TRY(auto imported, joint_graph(forward_outputs));
  CompileOptions options;
  options.from = first_stage;
  FE_CHECK(stages_of(Source(graph::Graph()), options));
  return of_graph(session_, path_, std::move(imported), first_stage, {});
}

Result<Model::Parts> Model::partition(uint32_t forward_outputs, std::string_view first_stage,
                                      const joint::PartitionOptions& partition_options,
                                      const CompileOptions& options) const {
  FE_TRY(auto imported, joint_graph(forward_outputs));
  CompileOptions joint_options = options;
  joint_options.from = first_stage;
  joint_options.to = "joint_post";
  Ledger ledger;
  auto compiled = compile(std::move(imported), session_.registry(), joint_options, ledger);
  if (!compiled) return at(path_, std::move(compiled.error()));
  auto divided = joint::partition(compiled->graph, session_.registry(), runtime::last_kind(options.device),
                                  partition_options, ledger);
  if (!divided) return at(path_, std::move(divided.error()));
  Parts parts;
  parts.forward = of_graph(session_, path_, std::move(divided->forward), "post_grad_pre", ledger.records());
  parts.backward = of_graph(session_, path_, std::move(divided->backward), "post_grad_pre", {});
  return parts;
}

Result<std::string> Model::changed_regions(std::string_view phase, std::span<const uint64_t> outputs,
                                           const CompileOptions& options) const {
  FE_TRY(const auto whole, graph(declared_dims()));
  // A graph with the real outputs only, so that rules see which values have other uses.
  graph::Graph before(whole.name(), whole.weight_folder());
  joint::Subgraph copy(whole, before);
  std::vector<joint::NamedValue> names;
  for (const auto& input : whole.inputs()) {
    const auto& name = whole.value(input.value).name;
    FE_CHECK(copy.add_input(input.value, name));
    names.emplace_back(copy.image(input.value), name);
  }
  for (graph::NodeId id = whole.first(); id; id = whole.next(id)) FE_CHECK(copy.add_node(id));
  for (const auto& output : whole.outputs()) names.emplace_back(copy.image(output.value), output.name);
  for (const auto number : outputs) {
    const auto& output = whole.outputs()[number];
    FE_CHECK(copy.add_output(output.value, output.name));
  }
  before.commit();
  CompileOptions one_phase = options;
  one_phase.from = one_phase.to = phase;
  Ledger ledger;
  auto changed = compile(before, session_.registry(), one_phase, ledger);
  if (!changed) return at(path_, std::move(changed.error()));
  FE_TRY(const auto regions, joint::changed_regions(before, changed->graph, names));
  return regions_json(regions);
}

Result<Saved> Model::save(std::span<const std::vector<int64_t>> input_dims, const CompileOptions& options,
                          std::span<const TargetName> targets, const std::string& path) const {
  FE_TRY(const auto imported, graph(input_dims));
  auto made = compile_for(imported, session_.registry(), options, targets);
  if (!made) return at(path_, std::move(made.error()));
  Saved saved;
  std::vector<package::Made> programs;
  for (const auto& compilation : *made) {
    const auto& [executable, stats] = std::tie(*compilation.executable, compilation.stats);
    programs.push_back({executable, {stats.nodes, stats.statements}});
    saved.programs.push_back({runtime::text_of(runtime::targets_of(executable.devices)), stats});
  }
  FE_TRY(saved.bytes, package::save(path, {imported, programs, session_.registry()}));
  return saved;
}

std::vector<runtime::PortInfo> Program::inputs() const {
  if (compilation.executable) return compilation.executable->inputs;
  return link::describe_ports(*compilation.program, compilation.program->inputs);
}

std::vector<runtime::PortInfo> Program::outputs() const {
  if (compilation.executable) return compilation.executable->outputs;
  return link::describe_ports(*compilation.program, compilation.program->outputs);
}

Result<void> Program::run(runtime::Executable::Context* context, std::span<const void* const> inputs,
                          std::span<void* const> outputs) const {
  if (compilation.executable) return compilation.executable->run(*context, inputs, outputs);
  const auto& program = *compilation.program;
  std::vector<loop::ConstMemory> in;
  std::vector<loop::Memory> out;
  for (size_t k = 0; k < program.inputs.size(); ++k)
    in.emplace_back(static_cast<const std::byte*>(inputs[k]),
                    static_cast<size_t>(program.buffers[program.inputs[k]].bytes()));
  for (size_t k = 0; k < program.outputs.size(); ++k)
    out.emplace_back(static_cast<std::byte*>(outputs[k]),
                     static_cast<size_t>(program.buffers[program.outputs[k]].bytes()));
  // Inputs that a model changes are the caller's memory.
  std::vector<loop::Memory> changed;
  for (const auto& input : in) changed.emplace_back(const_cast<std::byte*>(input.data()), input.size());
  return loop::evaluate(program, in, out, changed);
}

}  // namespace ferrite::core
