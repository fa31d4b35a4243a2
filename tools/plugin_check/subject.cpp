// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/subject.h"

#include <algorithm>
#include <filesystem>

#include "core/ir/text/parse_graph.h"
#include "core/link/builder.h"
#include "core/plugin/import_ops.h"
#include "core/support/abi/abi.h"
#include "driver/config/descriptor.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::plugin_check {

Result<config::Pipeline> pipeline_of(const CheckOptions& options) {
  config::PipelineRequest request;
  request.manifest = options.manifest;
  request.profile = options.profile;
  // A lock file cannot name a plugin that is still being developed.
  request.use_lock = false;
  request.plugins = options.plugins;
  request.plugins.push_back(options.target.path);
  return config::read_pipeline(request);
}

bool is_target(const Target& target, const plugin::PluginRequest& request) {
  if (target.descriptor.empty()) return request.library == target.path;
  const auto descriptor = config::Descriptor::read(target.descriptor);
  return descriptor && descriptor->id == request.id;
}

Result<std::unique_ptr<Subject>> Subject::open(const CheckOptions& options) {
  FE_TRY(auto pipeline, pipeline_of(options));
  std::string id, library;
  for (auto& request : pipeline.plugins) {
    if (!is_target(options.target, request)) continue;
    id = request.id;
    library = request.library;
    // Whether failures are tolerated is the decision of a plugin's user, not of its author.
    request.on_error = plugin::OnError::fail;
    // The checks run in a process of their own, which may crash.
    request.isolation = plugin::Isolation::in_process;
    if (request.fault) return *request.fault;
  }
  // A check of its own tests the rules.
  pipeline.validate_rules = config::RuleValidation::off;
  auto subject = std::make_unique<Subject>();
  FE_TRY(subject->session_, Session::open(pipeline));
  for (const auto& plugin : subject->registry().plugins())
    if (id.empty() ? plugin->library == library : plugin->id == id) subject->plugin_ = plugin.get();
  if (!subject->plugin_)
    return at(options.target.path,
              error(FE_EINVALID, "FE-P45", "the plugin is not among those that the manifest loads"));
  return subject;
}

std::vector<const graph::OpInfo*> Subject::ops() const {
  auto ops = registry().ops().all();
  std::erase_if(ops, [&](const graph::OpInfo* op) { return op->plugin != plugin_->id; });
  return ops;
}

std::vector<const plugin::PassEntry*> Subject::passes() const {
  std::vector<const plugin::PassEntry*> result;
  for (const auto& pass : registry().passes())
    if (pass.plugin == plugin_) result.push_back(&pass);
  return result;
}

std::vector<const fe_lowering*> Subject::lowerings() const {
  std::vector<std::string> devices = {std::string(runtime::interpreter_name)};
  for (const auto& runtime : registry().runtimes()) devices.push_back(abi::string(runtime.table->id));
  std::vector<const fe_lowering*> result;
  for (const auto* op : registry().ops().all())
    for (const auto& device : devices)
      for (const auto& lowering : registry().lowerings(op->name, device))
        if (lowering.plugin == plugin_ &&
            std::find(result.begin(), result.end(), lowering.table) == result.end())
          result.push_back(lowering.table);
  return result;
}

bool Subject::reads_ops_of(const fe_importer& importer) const {
  const auto format = abi::string(abi::read(&importer).format);
  if (format.empty()) return false;
  const auto of_format = [&](std::string_view source) { return source.starts_with(format + ":"); };
  return std::ranges::any_of(registry().import_handlers(),
                             [&](const auto& entry) {
                               return entry.plugin == plugin_ && of_format(abi::view(entry.table->source));
                             }) ||
         std::ranges::any_of(registry().aliases(), [&](const auto& entry) {
           return entry.second.plugin == plugin_ && of_format(entry.first);
         });
}

std::vector<std::string> Subject::contributions() const {
  std::vector<std::string> result;
  for (const auto* op : ops()) result.push_back(fmt::format("op {}", op->name));
  for (const auto* lowering : lowerings())
    result.push_back(fmt::format("lowering {} on {}", abi::view(lowering->op), abi::view(lowering->device)));
  for (const auto* op : registry().ops().all())
    for (const auto& decomposition : registry().decompositions(op->name))
      if (decomposition.plugin == plugin_) result.push_back(fmt::format("decomposition {}", op->name));
  for (const auto* pass : passes())
    result.push_back(fmt::format("{} {} at {}", pass->pass ? "pass" : "rules", pass->name, pass->phase));
  auto add = [&](const auto& list, std::string_view what) {
    for (const auto& entry : list)
      if (entry.plugin == plugin_) result.push_back(fmt::format("{} {}", what, abi::view(entry.table->id)));
  };
  add(registry().providers(), "provider");
  add(registry().runtimes(), "runtime");
  add(registry().importers(), "importer");
  for (const auto& entry : registry().import_handlers())
    if (entry.plugin == plugin_)
      result.push_back(fmt::format("import-handler {} in versions {}", abi::view(entry.table->source),
                                   plugin::versions_text(entry.table->first, entry.table->last)));
  for (const auto& [source, entry] : registry().aliases())
    if (entry.plugin == plugin_) result.push_back(fmt::format("alias {} of {}", source, entry.alias.op));
  add(registry().fusion_policies(), "fusion-policy");
  add(registry().cost_models(), "cost-model");
  add(registry().metric_sinks(), "metric-sink");
  std::sort(result.begin(), result.end());
  return result;
}

Result<graph::Graph> Subject::import_model(const std::string& path) const {
  FE_TRY(auto model, Model::open(session(), path));
  std::vector<std::vector<int64_t>> dims;
  for (const auto& input : model->inputs()) {
    if (!input.ranked)
      return at(path, error(FE_EUNSUPPORTED, "FE-P49", "the rank of its input '{}' is open", input.name));
    auto& sizes = dims.emplace_back(input.dims);
    std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{1});
  }
  FE_TRY(auto graph, model->graph(dims));
  models_.push_back(std::move(model));
  return graph;
}

Result<std::vector<graph::Graph>> samples_of(const graph::OpInfo& op, const graph::OpRegistry& ops) {
  std::vector<graph::Graph> graphs;
  if (!op.def.samples) return graphs;
  abi::Collector<> text;
  abi::Call call;
  const auto none = abi::sized<fe_none>();
  auto sink = text.sink();
  const int32_t status = op.def.samples(op.def.self, call.get(), &none, &sink);
  if (status != FE_OK) return at(op.name, call.error(status, "FE-P51", "its samples cannot be read"));
  // A line "---" separates two texts.
  std::vector<std::string> texts(1);
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const auto line = rest.substr(0, end);
    if (line == "---\n")
      texts.emplace_back();
    else
      texts.back() += line;
    rest.remove_prefix(end);
  }
  if (texts.size() == 1 && texts[0].empty()) return graphs;
  for (size_t k = 0; k < texts.size(); ++k) {
    graph::ParseOptions options;
    options.file = fmt::format("{} sample {}", op.name, k + 1);
    options.registry = &ops;
    auto graph = graph::parse(texts[k], options);
    if (!graph)
      return error(FE_EINVALID, "FE-P51", "sample {} of op '{}' is no graph: {}", k + 1, op.name,
                   graph.error().message());
    graphs.push_back(std::move(*graph));
  }
  return graphs;
}

std::string name_of_sample(const std::string& path) {
  const std::filesystem::path file(path);
  return (file.parent_path().filename() / file.filename()).string();
}

void check_samples(const CheckOptions& options, const Subject& subject, Runner& runner) {
  for (const auto& path : options.samples)
    runner.run("sample " + name_of_sample(path), [&]() -> Verdict {
      FE_TRY(const auto graph, subject.import_model(path));
      return Verdict::passed(counted(graph.node_count(), "node"));
    });
}

}  // namespace ferrite::core::plugin_check
