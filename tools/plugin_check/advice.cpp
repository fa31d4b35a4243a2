// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/advice.h"

#include <array>
#include <cmath>
#include <optional>

#include "core/ir/kernel/flatten.h"
#include "core/ir/loop/interpreter.h"
#include "core/lower/lower.h"
#include "core/plugin/advice.h"
#include "driver/validate/compare.h"
#include "ferrite/counted.hpp"
#include "runtime/device.h"
#include "runtime/plugin/serialised_calls.h"
#include "tools/plugin_check/hostile.h"
#include "tools/plugin_check/numerics.h"
#include "tools/plugin_check/subject.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr size_t advised_graphs = 60, hostile_graphs = 12;
constexpr int64_t most_points = 20'000'000;  // of a graph that is interpreted

/// A policy that is called with longer structs than those of this version.
class Enlarging {
 public:
  explicit Enlarging(const fe_fusion_policy& real) : real_(real), table_(real) {
    table_.self = this;
    if (real.rank)
      table_.rank = [](void* self, fe_call* call, const fe_fusion_rank_args* args, fe_fusion_rank_out* out) {
        auto& policy = *static_cast<Enlarging*>(self);
        auto given = *args;
        EnlargedArray<fe_fusion_pair> pairs(args->pairs);
        given.pairs = pairs.get();
        return policy.call(policy.real_.rank, call, given, *out);
      };
    table_.decide = [](void* self, fe_call* call, const fe_fusion_decide_args* args,
                       fe_fusion_decide_out* out) {
      auto& policy = *static_cast<Enlarging*>(self);
      auto given = *args;
      Enlarged<fe_fusion_pair> pair(*args->pair);
      given.pair = pair.get();
      const int32_t status = policy.call(policy.real_.decide, call, given, *out);
      policy.intact_ = policy.intact_ && pair.intact();
      return status;
    };
  }
  Enlarging(const Enlarging&) = delete;
  const fe_fusion_policy* table() const { return &table_; }
  bool intact() const { return intact_; }

 private:
  template <class Slot, class Args, class Out>
  int32_t call(Slot slot, fe_call* call, Args given, Out& out) {
    Enlarged<fe_loop_api> loops(*given.loops);
    given.loops = loops.get();
    Enlarged<Args> args(given);
    Enlarged<Out> answer(out);
    const int32_t status = slot(real_.self, call, args.get(), answer.get());
    abi::write(&out, abi::read(answer.get()));
    intact_ = intact_ && loops.intact() && args.intact() && answer.intact();
    return status;
  }

  const fe_fusion_policy& real_;
  fe_fusion_policy table_;
  bool intact_ = true;
};

using Policies = std::vector<plugin::Contributed<fe_fusion_policy>>;

Policies policies_of(const Subject& subject) {
  Policies result;
  for (const auto& policy : subject.registry().fusion_policies())
    if (policy.plugin == &subject.plugin()) result.push_back(policy);
  return result;
}

/// The loop program before fusion, for the interpreter; nothing where the graph has none.
std::optional<loop::LoopProgram> program_of(graph::Graph& graph, const plugin::Registry& registry) {
  Ledger ledger;
  if (!lower::decompose(graph, registry, "interpreter", false, ledger)) return {};
  auto program = lower::lower(graph, registry, "interpreter", ledger);
  if (!program) return {};
  schedule::inline_producers(*program, {}, ledger);
  return std::move(*program);
}

/// The groups that the policies leave, after checking that they are legal.
Result<schedule::Schedule> schedule_by(const Policies& policies, const loop::LoopProgram& program,
                                       size_t* decided = nullptr) {
  Ledger ledger;
  plugin::CostModels costs({}, {}, ledger);
  plugin::PolicyAdvisor advisor(policies, costs, "interpreter", ledger);
  auto schedule = schedule::fuse(program, {}, {}, ledger, &advisor);
  FE_CHECK(advisor.check());
  FE_CHECK(schedule::verify(schedule));
  if (decided) *decided += advisor.opinions();
  return schedule;
}

Verdict check_larger(const Policies& policies, std::vector<graph::Graph> graphs,
                     const plugin::Registry& registry) {
  size_t tried = 0;
  for (auto& graph : graphs) {
    const auto program = program_of(graph, registry);
    if (!program) continue;
    ++tried;
    for (const auto& policy : policies) {
      FE_TRY(const auto expected, schedule_by({policy}, *program));
      Enlarging enlarging(*policy.table);
      const auto given = schedule_by({{enlarging.table(), policy.plugin}}, *program);
      if (!enlarging.intact())
        return error(FE_EINVALID, "FE-P46",
                     "it writes past the end of the structs that it is given: use their 'size', and that of "
                     "this version");
      if (!given || schedule::print(*given) != schedule::print(expected))
        return error(FE_EINVALID, "FE-P46", "with structs of a later version it decides otherwise on {}",
                     graph.name());
    }
  }
  if (tried == 0) return Verdict::skipped("none of the sampled graphs could be lowered");
  return Verdict::passed(counted(tried, "graph"));
}

Verdict check_schedules(const Policies& policies, const std::vector<graph::Graph>& graphs,
                        const plugin::Registry& registry, uint64_t seed) {
  size_t tried = 0, decided = 0;
  validate::Uncompared skipped;
  for (const auto& graph : graphs) {
    const auto before = interpretable(graph, registry, skipped);
    if (!before) continue;
    graph::Graph parts(graph);
    const auto program = program_of(parts, registry);
    if (!program) continue;
    FE_TRY(auto schedule, schedule_by(policies, *program, &decided));
    FE_TRY(const auto again, schedule_by(policies, *program));
    if (schedule::print(schedule) != schedule::print(again))
      return error(FE_EINVALID, "FE-P50", "asked twice on {}, it gives two schedules", graph.name());
    schedule::drop_unread(schedule);
    schedule::merge_statements(schedule);
    const auto& merged = schedule.program;
    const auto run = [&](std::span<const validate::Tensor> inputs) -> Result<std::vector<validate::Tensor>> {
      const std::vector<loop::ConstMemory> in(inputs.begin(), inputs.end());
      std::vector<validate::Tensor> outputs;
      for (const auto id : merged.outputs)
        outputs.emplace_back(static_cast<size_t>(merged.buffers[id].bytes()));
      const std::vector<loop::Memory> out(outputs.begin(), outputs.end());
      FE_CHECK(loop::evaluate(merged, in, out));
      return outputs;
    };
    const auto difference = validate::compare(*before, run, validate::ordinary_contents, seed);
    if (!difference) {  // the inputs are valid for no op of the graph
      skipped.failed(difference.error());
      continue;
    }
    ++tried;
    if (*difference)
      return error(FE_EINVALID, "FE-P49", "by its schedule {} computes something else: {}\n{}", graph.name(),
                   (*difference)->text(), schedule::print(schedule));
  }
  if (tried == 0) return nothing_compared(skipped);
  return Verdict::passed(
      fmt::format("{}{}, {}", counted(tried, "graph"), skipped.and_text(), counted(decided, "decision")));
}

/// The kernels of graphs, with one statement each.
std::vector<kernel::FlatKernel> kernels_of(std::vector<graph::Graph> graphs,
                                           const plugin::Registry& registry) {
  std::vector<kernel::FlatKernel> result;
  for (auto& graph : graphs) {
    auto program = program_of(graph, registry);
    if (!program) continue;
    Ledger ledger;
    schedule::FusionLimits limits;
    limits.without.add(schedule::Feature::fuse);
    const auto schedule = schedule::fuse(std::move(*program), {}, limits, ledger);
    const schedule::KernelMaker maker(schedule);
    for (size_t g = 0; g < schedule.groups.size(); ++g) {
      if (schedule.program.statements[schedule.groups[g].statements[0]].kind == FE_STATEMENT_CALL) continue;
      if (auto flat = kernel::flatten(maker.make(g).kernel)) result.push_back(std::move(*flat));
    }
  }
  return result;
}

/// A model's cost of a kernel as text: a time, or the reason why it gives none.
Result<std::string> cost_of(const fe_cost_model& model, std::string_view device,
                            const kernel::FlatKernel& kernel, bool larger, bool& intact) {
  auto args = abi::sized<fe_cost_args>();
  args.device = abi::string(device);
  args.kernel = {kernel.bytes.data(), kernel.bytes.size(), 1};
  const auto numbers = runtime::abi_numbers({});
  args.numbers = &numbers;
  auto out = abi::sized<fe_cost_out>();
  out.operations = out.bytes = -1;
  Enlarged<fe_cost_args> larger_args(args);
  Enlarged<fe_cost_out> larger_out(out);
  abi::Call call;
  const int32_t status = plugin::invoke(model, model.estimate, call, larger ? larger_args.get() : &args,
                                        larger ? larger_out.get() : &out);
  if (larger) out = abi::read(larger_out.get());
  intact = larger_args.intact() && larger_out.intact();
  if (status == FE_EUNSUPPORTED) return std::string();
  FE_CHECK(call.check(status, "FE-P82", "it gave no reason"));
  if (!std::isfinite(out.seconds) || out.seconds < 0)
    return error(FE_EINVALID, "FE-P83", "it says that {} takes {} s", kernel.entry, out.seconds);
  return fmt::format("{:a} s, {:a} operations, {} bytes", out.seconds, out.operations, out.bytes);
}

/// Asks twice; where `larger`, the second time with structs of a later version.
Verdict check_costs(const fe_cost_model& model, std::string_view device,
                    const std::vector<kernel::FlatKernel>& kernels, bool larger) {
  size_t known = 0;
  for (const auto& kernel : kernels) {
    bool intact = true;
    FE_TRY(const auto first, cost_of(model, device, kernel, false, intact));
    const auto second = cost_of(model, device, kernel, larger, intact);
    if (!intact)
      return error(FE_EINVALID, "FE-P46",
                   "it writes past the end of the structs that it is given: use their 'size', and that of "
                   "this version");
    if (!second || *second != first)
      return error(FE_EINVALID, larger ? "FE-P46" : "FE-P50", "{} it says otherwise of {}",
                   larger ? "with structs of a later version" : "asked twice", kernel.entry);
    known += !first.empty();
  }
  if (known == 0) return Verdict::skipped("it knows no kernel of the sampled graphs");
  return Verdict::passed(fmt::format("{} of {} kernels", known, kernels.size()));
}

void with_kernels(const CheckOptions& options, const Subject& subject, Runner& runner, bool larger) {
  std::optional<std::vector<kernel::FlatKernel>> kernels;
  const auto& runtimes = subject.registry().runtimes();
  const auto any = runtimes.empty() ? runtime::interpreter_name : abi::view(runtimes[0].table->id);
  for (const auto& model : subject.registry().cost_models()) {
    if (model.plugin != &subject.plugin()) continue;
    runner.run(
        fmt::format("cost model {}: {}", abi::view(model.table->id), larger ? "larger structs" : "costs"),
        [&]() -> Verdict {
          if (!kernels)
            kernels = kernels_of(sample_graphs(subject, options, hostile_graphs), subject.registry());
          const auto kind = abi::view(model.table->device);
          return check_costs(*model.table, kind.empty() ? any : kind, *kernels, larger);
        });
  }
}

/// Sends a table of two rows, with structs of this version and of a later one.
Verdict check_sink(const fe_metric_sink& sink) {
  const std::array<fe_string, 2> columns = {abi::string(std::string_view("model")),
                                            abi::string(std::string_view("kernels"))};
  const std::array<fe_string, 4> values = {columns[0], columns[1], columns[1], columns[0]};
  std::array<int32_t, 2> status{};
  auto args = abi::sized<fe_metric_args>();
  args.table = abi::string(std::string_view("sample"));
  args.columns = abi::array(columns.data(), columns.size());
  args.values = abi::array(values.data(), values.size());
  Enlarged<fe_metric_args> larger(args);
  for (size_t k = 0; k < status.size(); ++k) {
    auto none = abi::sized<fe_none>();
    abi::Call call;
    status[k] = plugin::invoke(sink, sink.write, call, k == 0 ? &args : larger.get(), &none);
  }
  if (status[0] != status[1] || !larger.intact())
    return error(FE_EINVALID, "FE-P46", "with structs of a later version the sink does otherwise");
  return {};
}

/// Runs a check over all policies of the plugin on graphs; none where it has no policy.
template <class Check>
void with_graphs(const CheckOptions& options, const Subject& subject, Runner& runner, std::string_view what,
                 size_t count, Check check) {
  const auto policies = policies_of(subject);
  if (policies.empty()) return;
  runner.run(fmt::format("fusion policies: {}", what), [&]() -> Verdict {
    auto graphs = sample_graphs(subject, options, count);
    if (graphs.empty()) return Verdict::skipped("no op has samples out of which graphs could be made");
    return check(policies, std::move(graphs));
  });
}

}  // namespace

void check_hostile_advice(const CheckOptions& options, const Subject& subject, Runner& runner) {
  with_graphs(options, subject, runner, "larger structs", hostile_graphs,
              [&](const Policies& policies, std::vector<graph::Graph> graphs) {
                return check_larger(policies, std::move(graphs), subject.registry());
              });
  with_kernels(options, subject, runner, true);
  for (const auto& sink : subject.registry().metric_sinks())
    if (sink.plugin == &subject.plugin())
      runner.run(fmt::format("metric sink {}: larger structs", abi::view(sink.table->id)),
                 [&] { return check_sink(*sink.table); });
}

void check_advice(const CheckOptions& options, const Subject& subject, Runner& runner) {
  with_graphs(options, subject, runner, "schedules", advised_graphs,
              [&](const Policies& policies, const std::vector<graph::Graph>& graphs) {
                return check_schedules(policies, graphs, subject.registry(), options.seed);
              });
  with_kernels(options, subject, runner, false);
}

}  // namespace ferrite::core::plugin_check
