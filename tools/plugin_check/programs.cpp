// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Providers of whole regions and of libraries: sampled graphs, of which these providers run parts, against
// the interpreter.
#include <algorithm>

#include "core/ir/graph/print.h"
#include "core/support/abi/abi.h"
#include "driver/compile.h"
#include "driver/validate/compare.h"
#include "ferrite/counted.hpp"
#include "tools/plugin_check/backend.h"
#include "tools/plugin_check/numerics.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

/// Sampled graphs. The further ones are tried only while the provider has taken no part of any: which ops a
/// graph is made of depends on the ops that are loaded, and some providers take few.
constexpr size_t program_graphs = 60, further_graphs = 180;

/// The sample graphs of all ops, with all inputs of floats after the first made constant: most libraries
/// support only constant weights, which graphs drawn from all ops seldom have.
std::vector<graph::Graph> weighted_graphs(const graph::OpRegistry& ops, uint64_t seed) {
  std::vector<graph::Graph> result;
  validate::Random random(seed);
  for (const auto* op : ops.all()) {
    auto samples = samples_of(*op, ops);
    if (!samples) continue;  // the check of ops reports it
    for (auto& graph : *samples) {
      bool changed = false, first = true;
      for (const auto& port : std::vector(graph.inputs().begin(), graph.inputs().end())) {
        const auto input = port.value;
        const auto type = graph.type(input);
        if (!is_float(type.dtype) || !type.bytes()) continue;
        if (std::exchange(first, false)) continue;
        auto weight =
            graph.add_literal(type, validate::random_tensor(type, validate::Contents::positive, random));
        changed = (weight && graph.replace_uses(input, *weight)) || changed;
      }
      if (changed) result.push_back(std::move(graph));
    }
  }
  return result;
}

/// The number of parts of a program that the provider runs.
size_t parts_of(const Compilation& compiled, const Ledger& ledger, const fe_provider& provider) {
  const auto& kernels = compiled.executable->kernels;
  const auto launched = std::ranges::count_if(
      kernels, [&](const auto& kernel) { return kernel.library && kernel.library->table == &provider; });
  const auto object = fmt::format(" of {}", abi::view(provider.id));
  const auto taken = std::ranges::count_if(ledger.records(), [&](const LedgerRecord& record) {
    return record.kind == "claim" && record.outcome == "taken" && record.object.ends_with(object);
  });
  return static_cast<size_t>(launched + taken);
}

}  // namespace

Result<std::vector<validate::Tensor>> run_on(const runtime::Executable& executable,
                                             std::span<const validate::Tensor> inputs) {
  std::vector<const void*> in;
  std::vector<void*> out;
  std::vector<validate::Tensor> outputs;
  for (const auto& input : inputs) in.push_back(input.data());
  for (const auto& port : executable.outputs) outputs.emplace_back(static_cast<size_t>(port.bytes));
  for (auto& output : outputs) out.push_back(output.data());
  runtime::Executable::Context context(executable);
  constexpr std::byte unwritten{0xFF};
  FE_CHECK(context.fill_arenas(unwritten));
  FE_CHECK(executable.run(context, in, out));
  FE_TRY(const auto beside, context.written_beside(unwritten));
  if (!beside.empty()) return error(FE_EINVALID, "FE-P52", "{}", beside);
  return outputs;
}

namespace {

Verdict check_provider(const fe_provider& provider, const std::vector<graph::Graph>& graphs,
                       const std::string& device, const Subject& subject, uint64_t seed) {
  size_t parts = 0, compared = 0;
  validate::Uncompared skipped;
  for (size_t g = 0; g < graphs.size(); ++g) {
    if (compared > 0 && graphs.size() > further_graphs && g >= graphs.size() - further_graphs) break;
    const auto& graph = graphs[g];
    const auto before = interpretable(graph, subject.registry(), skipped);
    if (!before) continue;
    CompileOptions options;
    options.device = device;
    options.tune.libraries_first = true;
    options.red_zones = true;
    Ledger ledger;
    auto compiled = compile(graph::Graph(graph), subject.registry(), options, ledger);
    if (!compiled && compiled.error().status == FE_EUNSUPPORTED) continue;
    if (!compiled) {
      // Values that depend on constants alone are computed when a program is loaded. A sampled graph may have
      // no results, as with an index that is out of range; the interpreter then refuses it, too.
      const auto reference = before->run(before->random_inputs(validate::Contents::positive, seed));
      if (!reference) {
        skipped.failed(reference.error());
        continue;
      }
      return error(FE_EINVALID, "FE-P52", "on {}: {}\n{}", graph.name(), compiled.error().message(),
                   graph::print(graph));
    }
    const size_t own = parts_of(*compiled, ledger, provider);
    if (own == 0) continue;
    const auto difference = validate::compare(
        *before, [&](auto inputs) { return run_on(*compiled->executable, inputs); },
        validate::ordinary_contents, seed);
    if (!difference) {  // the inputs are valid for no op of it, according to the interpreter
      skipped.failed(difference.error());
      continue;
    }
    if (*difference)
      return error(FE_EINVALID, "FE-P52", "on {}: {}\n{}", graph.name(), (*difference)->text(),
                   graph::print(graph));
    parts += own;
    ++compared;
  }
  if (compared == 0)
    return Verdict::skipped(fmt::format(
        "it takes no part of the sampled graphs that could be compared{}; give models with --sample",
        skipped.and_text()));
  return Verdict::passed(
      fmt::format("{} of {}{}", counted(parts, "part"), counted(compared, "graph"), skipped.and_text()));
}

}  // namespace

void check_programs(const CheckOptions& options, const Subject& subject, Runner& runner) {
  const std::string home = subject.session().pipeline().device.value_or(std::string());
  std::vector<graph::Graph> graphs;
  for (const auto& [table, plugin] : subject.registry().providers()) {
    if (plugin != &subject.plugin()) continue;
    const auto slots = abi::read(table);
    if (!slots.claim && !slots.exec_create) continue;
    const std::string kind(abi::view(slots.device_kind)), id(abi::view(slots.id));
    runner.run(fmt::format("provider {}: programs", id), [&, table = table]() -> Verdict {
      const auto& runtimes = subject.registry().runtimes();
      if (std::ranges::none_of(runtimes, [&](const auto& r) { return abi::view(r.table->id) == kind; }))
        return Verdict::skipped(fmt::format("no runtime '{}' is loaded; load it with --plugin", kind));
      if (home.empty()) return Verdict::skipped("there is no device for what the provider does not take");
      if (graphs.empty()) {
        graphs = weighted_graphs(subject.registry().ops(), options.seed);
        std::ranges::move(sample_graphs(subject, options, program_graphs + further_graphs),
                          std::back_inserter(graphs));
      }
      return check_provider(*table, graphs, home.substr(0, home.find(':')) == kind ? home : kind + "," + home,
                            subject, options.seed);
    });
  }
}

}  // namespace ferrite::core::plugin_check
