// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// L3 of ops and lowerings, over the ops' own samples; L3 of importers, over the given models.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/loop/interpreter.h"
#include "core/link/builder.h"
#include "core/lower/lower.h"
#include "core/support/abi/abi.h"
#include "driver/compile.h"
#include "driver/validate/compare.h"
#include "ferrite/counted.hpp"
#include "tools/plugin_check/numerics.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

struct Sample {
  const graph::OpInfo* op;
  graph::Graph graph;
};

/// The results of a graph after its ops went through the lowerings of a device; the loop program is
/// interpreted.
Result<std::vector<validate::Tensor>> evaluate_for(std::string_view device, graph::Graph graph,
                                                   const plugin::Registry& registry,
                                                   const std::vector<validate::Tensor>& inputs) {
  Ledger ledger;
  FE_CHECK(lower::decompose(graph, registry, device, false, ledger));
  FE_TRY(const auto program, lower::lower(graph, registry, device, ledger));
  const std::vector<loop::ConstMemory> in(inputs.begin(), inputs.end());
  std::vector<validate::Tensor> outputs;
  for (const auto id : program.outputs)
    outputs.emplace_back(static_cast<size_t>(program.buffers[id].bytes()));
  const std::vector<loop::Memory> out(outputs.begin(), outputs.end());
  FE_CHECK(loop::evaluate(program, in, out));
  return outputs;
}

/// Replaces each node of an op in the graph by its decomposition, whether or not the op has a lowering of its
/// own.
Result<void> take_apart(graph::Graph& graph, const graph::OpInfo& op, const plugin::Registry& registry) {
  for (const auto id : graph.nodes()) {
    if (graph.op(id) == op.name)
      FE_CHECK(
          lower::decompose_node(graph, registry, id, {op.name, op.plugin, op.def.decompose, op.def.self}));
  }
  return graph::verify(graph, registry.ops());
}

/// Every sample can be interpreted on some ordinary inputs, and gives the same bits twice.
Verdict check_evaluated(const std::vector<Sample>& samples, const plugin::Registry& registry, uint64_t seed) {
  for (const auto& [op, graph] : samples) {
    const auto program = validate::Interpreted::make(graph, registry);
    if (!program)
      return error(FE_EINVALID, "FE-P51", "a sample of op '{}' cannot be computed: {}", op->name,
                   program.error().message());
    std::optional<Error> fault;
    bool ran = false;
    for (const auto contents : validate::ordinary_contents) {
      const auto inputs = program->random_inputs(contents, seed);
      const auto first = program->run(inputs), second = program->run(inputs);
      if (!first || !second) {
        fault = first ? second.error() : first.error();
        continue;
      }
      ran = true;
      if (*first != *second)
        return error(FE_EINVALID, "FE-P51", "op '{}' gives two results for the same inputs", op->name);
    }
    if (!ran)
      return error(FE_EINVALID, "FE-P51", "a sample of op '{}' fails on every input: {}", op->name,
                   fault->message());
  }
  return Verdict::passed(counted(samples.size(), "sample"));
}

Verdict check_forms(const std::vector<Sample>& samples, const plugin::Registry& registry, uint64_t seed) {
  size_t compared = 0;
  for (const auto& [op, graph] : samples) {
    if (!op->def.decompose || !op->def.lower) continue;
    graph::Graph parts(graph);
    if (auto done = take_apart(parts, *op, registry); !done) {
      if (done.error().status == FE_EUNSUPPORTED) continue;
      return error(FE_EINVALID, "FE-P51", "op '{}': {}", op->name, done.error().message());
    }
    const auto whole = validate::Interpreted::make(graph, registry);
    const auto apart = validate::Interpreted::make(std::move(parts), registry);
    if (!whole || !apart) continue;
    const auto difference = validate::compare(*whole, *apart, validate::ordinary_contents, seed);
    if (!difference) continue;
    ++compared;
    if (*difference)
      return error(FE_EINVALID, "FE-P51",
                   "op '{}' computes one thing by its lowering and another by its decomposition: {}",
                   op->name, (*difference)->text());
  }
  if (compared == 0) return Verdict::skipped("no op has both");
  return Verdict::passed(counted(compared, "sample"));
}

/// Compares a lowering for `device`, or with `lowers` false a decomposition, of another plugin's op with the
/// op's behaviour without it.
Verdict check_override(std::string_view device, bool lowers, const graph::OpInfo& op, const Subject& subject,
                       const plugin::Registry& others, uint64_t seed) {
  FE_TRY(const auto samples, samples_of(op, subject.registry().ops()));
  size_t compared = 0;
  bool declined = false;
  for (const auto& sample : samples) {
    bool taken = true;
    for (const auto node : sample.nodes()) {
      if (!lowers || sample.op(node) != op.name) continue;
      Ledger ledger;
      FE_TRY(taken, lower::accepts(sample, subject.registry(), device, node, ledger));
    }
    declined = declined || !taken;
    if (!taken) continue;
    const auto reference = validate::Interpreted::make(sample, others);
    if (!reference) continue;
    for (const auto contents : validate::ordinary_contents) {
      const auto inputs = reference->random_inputs(contents, seed);
      const auto expected = reference->run(inputs);
      if (!expected) continue;
      const auto actual = evaluate_for(device, sample, subject.registry(), inputs);
      if (!actual)
        return error(FE_EINVALID, "FE-P51", "with the plugin, a sample of op '{}' cannot be computed: {}",
                     op.name, actual.error().message());
      ++compared;
      const auto outputs = sample.outputs();
      for (size_t k = 0; k < outputs.size(); ++k)
        if (const auto wrong =
                validate::first_mismatch(sample.type(outputs[k].value), (*expected)[k], (*actual)[k]))
          return error(FE_EINVALID, "FE-P51",
                       "op '{}' is {:.7g} with the plugin and {:.7g} without it, at element {}", op.name,
                       wrong->actual, wrong->expected, wrong->element);
    }
  }
  if (compared == 0)
    return Verdict::skipped(declined ? "it declines the samples of the op"
                                     : "the op has no samples that can be computed");
  return Verdict::passed(counted(compared, "run"));
}

/// The session without the plugin; an error where the manifest enables the plugin itself.
Result<std::unique_ptr<Session>> without_plugin(const CheckOptions& options) {
  config::PipelineRequest request;
  request.manifest = options.manifest;
  request.profile = options.profile;
  request.use_lock = false;
  request.plugins = options.plugins;
  FE_TRY(const auto pipeline, config::read_pipeline(request));
  for (const auto& each : pipeline.plugins)
    if (is_target(options.target, each))
      return error(FE_EUNSUPPORTED, "FE-P51", "the manifest enables the plugin by itself");
  return Session::open(pipeline);
}

/// Checks that a model's graph computes the same in the interpreter and compiled for the session's device.
/// Returns a description.
Result<std::string> computed(const graph::Graph& graph, const Subject& subject, uint64_t seed) {
  const auto interpreted = validate::Interpreted::make(graph, subject.registry());
  if (!interpreted && interpreted.error().code == "FE-R34")
    return std::string("not computed: a type of it cannot be compared");
  if (!interpreted)
    return error(FE_EINVALID, "FE-P51", "the model cannot be lowered: {}", interpreted.error().message());
  if (interpreted->points() > most_points) return std::string("not computed: it is too large to interpret");
  const auto& device = subject.session().pipeline().device;
  if (!device) return std::string("not computed: there is no device");
  CompileOptions options;
  options.device = *device;
  options.red_zones = true;
  Ledger ledger;
  const auto compiled = compile(graph::Graph(graph), subject.registry(), options, ledger);
  if (!compiled)
    return error(FE_EINVALID, "FE-P51", "the model cannot be compiled: {}", compiled.error().message());
  const auto difference = validate::compare(
      *interpreted, [&](auto inputs) { return run_on(*compiled->executable, inputs); },
      validate::ordinary_contents, seed);
  if (!difference)
    return error(FE_EINVALID, "FE-P51", "the model fails on every input: {}", difference.error().message());
  if (*difference)
    return error(FE_EINVALID, "FE-P51", "the model computes one thing interpreted and another compiled: {}",
                 (*difference)->text());
  return std::string("computed");
}

bool reads(const fe_importer& importer, const std::string& path) {
  const auto extension = std::filesystem::path(path).extension().string();
  return !extension.empty() &&
         fmt::format(",{},", abi::view(importer.extensions)).find("," + extension + ",") != std::string::npos;
}

}  // namespace

void check_ops(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  const auto ops = subject.ops();
  std::vector<Sample> samples;
  std::vector<std::string> without;
  std::optional<Error> unread;
  for (const auto* op : ops) {
    auto read = samples_of(*op, registry.ops());
    if (!read) {
      if (!unread) unread = std::move(read.error());
      continue;
    }
    if (read->empty()) without.push_back(op->name);
    for (auto& graph : *read) samples.push_back({op, std::move(graph)});
  }
  if (!ops.empty()) {
    runner.run("ops: samples", [&]() -> Verdict {
      if (unread) return *unread;
      if (samples.empty()) return Verdict::skipped("no op has samples");
      return Verdict::passed(fmt::format("{} of {} ops", samples.size(), ops.size() - without.size()));
    });
    if (!without.empty())
      runner.run("ops without samples",
                 [&] { return Verdict::skipped(fmt::format("{}", fmt::join(without, ", "))); });
    auto with_samples = [&](std::string_view name, const std::function<Verdict()>& check) {
      runner.run(name, [&]() -> Verdict {
        return samples.empty() ? Verdict::skipped("no op has samples") : check();
      });
    };
    with_samples("ops: computed", [&] { return check_evaluated(samples, registry, options.seed); });
    with_samples("ops: lowering and decomposition agree",
                 [&] { return check_forms(samples, registry, options.seed); });
  }
  const auto lowerings = subject.lowerings();
  auto overrides = [&](const std::string& name, std::string_view device, bool lowers) {
    runner.run(fmt::format("{} {}{}{}", lowers ? "lowering" : "decomposition", name,
                           device.empty() ? "" : " on ", device),
               [&]() -> Verdict {
                 const auto* op = registry.ops().find(name);
                 const auto others = without_plugin(options);
                 if (!others) return Verdict::skipped(others.error().text);
                 if (!op || !(*others)->registry().ops().find(name))
                   return Verdict::skipped("the op is the plugin's own");
                 return check_override(lowers ? device : runtime::interpreter_name, lowers, *op, subject,
                                       (*others)->registry(), options.seed);
               });
  };
  for (const auto* lowering : lowerings)
    overrides(abi::string(lowering->op), abi::view(lowering->device), true);
  for (const auto* op : registry.ops().all())
    for (const auto& decomposition : registry.decompositions(op->name))
      if (decomposition.plugin == &subject.plugin()) overrides(op->name, {}, false);
  const auto& kinds = subject.plugin().kinds;
  const auto given = std::count(kinds.begin(), kinds.end(), FE_CONTRIBUTION_LOWERING);
  if (given > std::ssize(lowerings))
    runner.run("other lowerings", [&] {
      return Verdict::skipped(fmt::format("{} are for ops or devices of which no plugin is loaded",
                                          given - std::ssize(lowerings)));
    });
}

void check_importers(const CheckOptions& options, const Subject& subject, Runner& runner) {
  for (const auto& importer : subject.registry().importers()) {
    if (importer.plugin != &subject.plugin()) continue;
    const auto id = abi::string(importer.table->id);
    bool any = false;
    for (const auto& path : options.samples) {
      if (!reads(*importer.table, path)) continue;
      any = true;
      runner.run(fmt::format("importer {}: {}", id, name_of_sample(path)), [&]() -> Verdict {
        FE_TRY(const auto first, subject.import_model(path));
        if (auto verified = graph::verify(first, subject.registry().ops()); !verified)
          return error(FE_EINVALID, "FE-P49", "the graph is invalid: {}", verified.error().message());
        FE_TRY(const auto second, subject.import_model(path));
        if (graph::print(first) != graph::print(second))
          return error(FE_EINVALID, "FE-P50", "read twice, the model is two graphs");
        return Verdict::passed(counted(first.node_count(), "node"));
      });
    }
    if (!any)
      runner.run(fmt::format("importer {}", id), [&] {
        return Verdict::skipped(
            fmt::format("no model of {} is given with --sample", abi::view(importer.table->extensions)));
      });
  }
}

void check_readers(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const auto& registry = subject.registry();
  std::vector<std::string> sources;
  for (const auto& [table, plugin] : registry.import_handlers())
    if (plugin == &subject.plugin()) sources.push_back(abi::string(table->source));
  for (const auto& [source, entry] : registry.aliases())
    if (entry.plugin == &subject.plugin()) sources.push_back(source);
  if (sources.empty()) return;
  size_t tried = 0;
  for (const auto& importer : registry.importers()) {
    if (!subject.reads_ops_of(*importer.table)) continue;
    for (const auto& path : options.samples) {
      if (!reads(*importer.table, path)) continue;
      ++tried;
      runner.run(fmt::format("ops of models: {}", name_of_sample(path)), [&]() -> Verdict {
        FE_TRY(const auto first, subject.import_model(path));
        if (auto verified = graph::verify(first, registry.ops()); !verified)
          return error(FE_EINVALID, "FE-P49", "the graph is invalid: {}", verified.error().message());
        FE_TRY(const auto second, subject.import_model(path));
        if (graph::print(first) != graph::print(second))
          return error(FE_EINVALID, "FE-P50", "read twice, the model is two graphs");
        // Without the plugin, the model must be rejected or give another graph; otherwise the plugin did not
        // contribute to it.
        const auto others = without_plugin(options);
        if (!others) return Verdict::skipped(others.error().text);
        FE_TRY(const auto model, Model::open(**others, path));
        std::vector<std::vector<int64_t>> dims;
        for (const auto& input : model->inputs()) {
          auto& sizes = dims.emplace_back(input.dims);
          std::replace(sizes.begin(), sizes.end(), int64_t{-1}, int64_t{1});
        }
        if (const auto without = model->graph(dims); without && graph::print(*without) == graph::print(first))
          return Verdict::skipped("no node of the model is read by the plugin");
        FE_TRY(const auto done, computed(first, subject, options.seed));
        return Verdict::passed(fmt::format("{}, {}", counted(first.node_count(), "node"), done));
      });
    }
  }
  if (tried == 0)
    runner.run("ops of models", [&] {
      return Verdict::skipped(
          fmt::format("no model is given with --sample that has {}", fmt::join(sources, ", ")));
    });
}

}  // namespace ferrite::core::plugin_check
