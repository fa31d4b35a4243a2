// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/compile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <set>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/loop/verify.h"
#include "core/ir/stages.h"
#include "core/ir/text/print_loops.h"
#include "core/link/build_rounds.h"
#include "core/lower/lower.h"
#include "core/observe/observation.h"
#include "core/observe/stage_watch.h"
#include "core/passes/gate.h"
#include "core/plugin/advice.h"
#include "core/schedule/cut_loops.h"
#include "core/schedule/fusion/repeat_products.h"
#include "core/schedule/group_kernel.h"
#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/memory/memory_demand.h"
#include "core/schedule/memory/recompute.h"
#include "core/schedule/rewrites/at_load.h"
#include "core/schedule/rewrites/k_contiguous.h"
#include "core/schedule/rewrites/layout.h"
#include "core/schedule/rewrites/padding.h"
#include "core/schedule/rewrites/parallel_scatter.h"
#include "core/schedule/rewrites/reinplace.h"
#include "core/schedule/rewrites/scattered_operands.h"
#include "core/schedule/rewrites/split.h"
#include "core/schedule/rewrites/split_concat_consumers.h"
#include "core/select/device_requests.h"
#include "core/select/stored_operands.h"
#include "core/source.h"
#include "core/support/elapsed.h"
#include "core/support/host_memory.h"
#include "runtime/pool.h"

namespace ferrite::core {
namespace {

using schedule::Feature;

/// A compilation: all that has been made so far, and a function for each step.
class Steps {
 public:
  Steps(Source source, StageSpan stages, const plugin::Registry& registry, const CompileOptions& options,
        const Services& services, Ledger& ledger);

  // In the order of the page, which explains each step.
  Result<void> check_source();
  Result<void> hook();
  Result<void> decompose_early();
  Result<void> claim_regions();
  Result<void> decompose_late();
  Result<void> lower();
  Result<void> open_target();
  Result<void> inline_producers();
  Result<void> choose_layouts();
  Result<void> pre_fusion();
  Result<void> fuse();
  Result<void> post_fusion();
  Result<void> finish_schedule();
  Result<void> build();

  Result<Compilation> run();

 private:
  bool interprets() const { return options_.device == runtime::interpreter_name; }
  bool does(Feature feature) const { return !options_.without.has(feature); }
  bool wants(std::string_view stage) const;
  Result<void> run_stage(std::string_view stage, Result<void> (Steps::*step)());
  Result<runtime::Devices> open_devices() const;
  schedule::HeldMemory held_memory() const;
  /// The memory that the plan may use, and the number of workers that share it.
  schedule::MemoryLimit memory() const;
  plugin::CostModels& costs();
  observe::Sizes sizes() const;
  observe::GraphView view() const;
  void observe_statements(const schedule::DeviceAssignment& assignment);
  void log_program(std::string_view channel);
  Compilation finish();

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const StageSpan stages_;
  const plugin::Registry& registry_;
  const CompileOptions& options_;
  const Services& services_;
  Ledger& ledger_;
  const plugin::GateOptions gate_;
  const std::string device_kind_;
  Compilation made_;
  observe::StageWatch watch_;
  std::string_view stage_;  // the stage that is running
  std::string logged_;      // the text logged last

  // State of the target.
  runtime::Devices devices_;
  std::vector<select::Region> regions_;
  select::CandidateBlocklist blocklist_;
  select::Decisions decisions_;
  runtime::TargetNumbers target_;
  std::optional<plugin::CostModels> costs_;

  // State of the schedule.
  // The memory needed with one kernel per statement: an upper bound for the memory plan.
  std::optional<int64_t> op_by_op_bytes_;
  schedule::FusionRequests requests_;  // from the passes at pre_fusion
  std::optional<schedule::Schedule>
      unmerged_;  // with its maps separate, for libraries that take part of a group
};

/// A stage and its function. A step without a name runs if the compilation reaches the stage before it.
struct Step {
  std::string_view stage;
  Result<void> (Steps::*run)();
};

// THE PAGE: every step from graph to executable, in order, each with its reason. The functions below follow
// the same order and list the parts of each step. Hooks of the graph are rows of stage_table
// (core/ir/stages.h) alone.
// clang-format off: the columns are read as a table
constexpr Step steps[] = {
    {"import",          &Steps::check_source},      // importers are plugins: their graph is verified first
    {"decompose_early", &Steps::decompose_early},   // so that patterns match the parts of these ops
    {"claim",           &Steps::claim_regions},     // providers take whole regions, before ops are decomposed
    {"decompose_late",  &Steps::decompose_late},    // ops without a lowering of their own become their parts
    {"lower",           &Steps::lower},             // an op becomes a statement, a view an index map
    {"",                &Steps::open_target},       // decisions depend on the devices from here on
    {"inline",          &Steps::inline_producers},  // before fusion, so that it sees real traffic only
    {"layout",          &Steps::choose_layouts},    // over the whole program, as neighbours share a layout
    {"pre_fusion",      &Steps::pre_fusion},        // the requests of passes are known to fusion
    {"fuse",            &Steps::fuse},              // statements become groups, one kernel each
    {"post_fusion",     &Steps::post_fusion},       // the last chance to change the groups
    {"schedule",        &Steps::finish_schedule},   // groups are final: split, pad, order, merge them
    {"emit",            &Steps::build},             // rounds, as candidates may fail: build_rounds.cpp
    {"code",            nullptr},                   // the end of emit, where code is asked for as text
};
// clang-format on

/// `steps`, with the hooks of the graph between them. Does not compile unless the steps with a name are the
/// other rows of stage_table, in the same order.
consteval auto with_hooks() {
  const auto is_filled_in = [](const StageInfo& stage) {
    return stage.hook == Hook::yes && stage.form == Form::graph;
  };
  std::array<Step, std::size(steps) + graph_phase_names.size()> rows{};
  auto row = rows.begin();
  const auto* stage = std::begin(stage_table);
  for (const auto& step : steps) {
    if (!step.stage.empty()) {
      for (; is_filled_in(*stage); ++stage) *row++ = {stage->name, &Steps::hook};
      if (step.stage != stage->name) throw "the step is not the next row of stage_table";
      ++stage;
    }
    *row++ = step;
  }
  if (stage != std::end(stage_table)) throw "a row of stage_table has no step";
  return rows;
}
constexpr auto page = with_hooks();

Result<Compilation> Steps::run() {
  FE_CHECK(check_source());
  ptrdiff_t before = 0;  // index of the preceding stage
  for (const auto& step : page) {
    if (!step.stage.empty()) before = position_of(step.stage);
    if (before > stages_.last || !step.run || step.run == &Steps::check_source) continue;
    if (step.stage.empty())
      FE_CHECK((this->*step.run)());
    else if (stages_.has(step.stage) && wants(step.stage))
      FE_CHECK(run_stage(step.stage, step.run));
    // The interpreter runs the loop program directly after lowering, unscheduled.
    if (step.stage == "lower" && interprets()) {
      if (options_.to.empty()) FE_CHECK(schedule::check_held(*made_.program, held_memory().limit));
      break;
    }
  }
  watch_.end();
  return finish();
}

bool Steps::wants(std::string_view stage) const {
  // Hooks of both directions are for graphs that hold both.
  if (stage.starts_with("joint")) return made_.graph.forward_outputs().has_value();
  if (stage == "claim") return select::has_claims(registry_) && !interprets();
  return true;
}

Result<void> Steps::run_stage(std::string_view stage, Result<void> (Steps::*step)()) {
  stage_ = stage;
  // `build` reports its parts (select, emit, load, ...) as stages of their own.
  if (step != &Steps::build) watch_.begin(stage);
  FE_CHECK((this->*step)());
  if (made_.program) FE_CHECK(loop::verify(*made_.program));
  if (step != &Steps::build) log_program(made_.schedule ? "schedule" : made_.program ? "loops" : "graph");
  return {};
}

Result<void> Steps::check_source() {
  if (made_.program) made_.stats.statements = made_.program->statements.size();
  // Only a graph comes from an importer. The other forms are texts, which their parsers verify.
  if (made_.schedule || made_.program || made_.kernel) return {};
  stage_ = "import";
  made_.stats.nodes = made_.graph.node_count();
  FE_CHECK(graph::verify(made_.graph, registry_.ops()));
  log_program("graph");
  return {};
}

Result<void> Steps::hook() { return plugin::run_phase(stage_, made_.graph, registry_, gate_, ledger_); }

Result<void> Steps::decompose_early() {
  return lower::decompose(made_.graph, registry_, device_kind_, true, ledger_);
}

Result<void> Steps::claim_regions() {
  FE_TRY(devices_, open_devices());
  FE_TRY(regions_, select::claim_regions(made_.graph, devices_, blocklist_, ledger_));
  return {};
}

Result<void> Steps::decompose_late() {
  return lower::decompose(made_.graph, registry_, device_kind_, false, ledger_);
}

Result<void> Steps::lower() {
  FE_TRY(made_.program, lower::lower(made_.graph, registry_, device_kind_, ledger_));
  made_.stats.statements = made_.program->statements.size();
  return {};
}

Result<void> Steps::open_target() {
  for (size_t k = 0; k < schedule::feature_count; ++k)
    if (const auto feature = static_cast<Feature>(k); !does(feature))
      ledger_.add({"feature",
                   std::string(schedule::name_of(feature)),
                   {},
                   "off",
                   {},
                   std::string(schedule::doc_of(feature))});
  if (devices_.empty()) {
    FE_TRY(devices_, open_devices());
  }
  if (services_.tune.open_decisions) {
    FE_TRY(decisions_, services_.tune.open_decisions(options_.tune, [&] {
      return select::decision_contexts(devices_, options_.threads);
    }));
  }
  decisions_.set_libraries_first(options_.tune.libraries_first);
  // The lock records the numbers that decide fusion, so that every replay forms the same groups.
  decisions_.lock_numbers(devices_);
  target_ = runtime::numbers_of(devices_);
  return {};
}

Result<void> Steps::inline_producers() {
  auto& program = *made_.program;
  op_by_op_bytes_ = schedule::op_by_op_bytes(program);
  // Results that are constants are computed once, at load.
  schedule::keep_constant_results(program, target_);
  if (does(Feature::inline_producers)) {
    const auto inline_all = [&] {
      schedule::inline_producers(program, target_, ledger_,
                                 select::assign_devices(program, devices_, blocklist_));
    };
    inline_all();
    // A map over a concatenation becomes one map per part, so that the part's producers can be inlined.
    if (schedule::split_concat_consumers(program, ledger_)) inline_all();
  }
  // Divide loops to match those of statements that write the same buffers, so that both can share a loop
  // nest.
  if (does(Feature::cut_loops)) schedule::cut_loops(program);
  // Update mutated inputs in place. This comes last, once it is known which copies remain.
  if (does(Feature::in_place)) schedule::reinplace(program, ledger_);
  return {};
}

Result<void> Steps::choose_layouts() {
  if (!does(Feature::layout)) return {};
  // Store tensors of convolutions in the order that the target prefers.
  schedule::choose_layouts(*made_.program, target_, ledger_);
  // Store operands of matrix products with the summed dim last, so that kernels read rows contiguously.
  schedule::make_k_contiguous(*made_.program, ledger_);
  // Results that are copies in the chosen order become the memory of what they copy.
  if (does(Feature::in_place)) schedule::compute_in_results(*made_.program, ledger_);
  // Copy the operands that lie scattered even so, or in rows that are not aligned.
  schedule::store_scattered_operands(*made_.program, select::row_padding(devices_), ledger_);
  return {};
}

Result<void> Steps::pre_fusion() {
  // Before passes see the program: requests name statements by number.
  if (does(Feature::fuse) && does(Feature::gemm_chains) && target_.products == schedule::Products::softmax) {
    schedule::FusionLimits limits;
    limits.target = target_;
    schedule::repeat_products(*made_.program, limits, ledger_);
  }
  return plugin::run_pre_fusion(*made_.program, registry_, gate_, requests_, ledger_);
}

Result<void> Steps::fuse() {
  schedule::FusionLimits limits;
  limits.without = options_.without;
  limits.target = target_;
  // Groups stay on one device, so statements assigned to different devices must not fuse.
  limits.assignment = select::assign_devices(*made_.program, devices_, blocklist_);
  if (options_.observation && options_.observation->statements) observe_statements(limits.assignment);
  limits.prologues = select::takes_prologues(devices_, ledger_);
  // A library that takes no computed operands would lose every product whose operand fusion computes inside
  // the group. Compare the costs before fusing a prologue.
  std::optional<select::StoredOperands> operands;
  if (limits.prologues && select::wants_stored_operands(devices_))
    limits.operands = &operands.emplace(devices_, costs(), memory(), blocklist_, decisions_);
  plugin::PolicyAdvisor policies(registry_.fusion_policies(), costs(), devices_.front()->kind, ledger_);
  made_.schedule = schedule::fuse(std::move(*made_.program), requests_, limits, ledger_, policies.if_any());
  made_.program.reset();
  FE_CHECK(policies.check());
  if (operands) FE_CHECK(operands->check());
  return {};
}

Result<void> Steps::post_fusion() {
  return plugin::run_post_fusion(*made_.schedule, registry_, gate_, ledger_);
}

Result<void> Steps::finish_schedule() {
  auto& groups = *made_.schedule;
  schedule::drop_unread(groups);
  // Reductions over rows join the group that works along rows: each block of rows gives a part while it is in
  // the caches.
  if (does(Feature::fuse) && does(Feature::mixed_order_reductions))
    schedule::reduce_mixed_orders(groups, target_, memory(), ledger_);
  // Divide loops that would otherwise run on a single worker.
  if (does(Feature::fuse) && does(Feature::split)) {
    schedule::split_reductions(groups, target_, memory(), ledger_);
    schedule::split_scans(groups, target_, memory(), ledger_);
    schedule::parallel_scatter(groups, target_, memory(), ledger_);
  }
  // Pad the rows of large buffers to the stride that the target prefers.
  if (does(Feature::padding)) schedule::pad_rows(groups, select::row_padding(devices_), memory(), ledger_);
  // Order kernels to minimise the memory that is alive at any one time.
  if (does(Feature::memory_order)) schedule::order_for_memory(groups);
  // Compute cheap values again where keeping them from an early reader to a late one raises the peak.
  if (does(Feature::recompute)) schedule::recompute(groups, target_, ledger_);
  // Keep a version with separate maps for libraries that take only part of a group. It must be copied before
  // statements merge.
  if (select::has_libraries(devices_)) {
    unmerged_ = groups;
    schedule::expose_epilogues(*unmerged_);
  }
  // Merge maps into the statement whose loops they share, so that a group has as few statements as possible.
  schedule::merge_statements(groups);
  return {};
}

Result<void> Steps::build() {
  // Refuse a program that cannot fit in memory before any of its kernels runs, even for a measurement.
  if (made_.schedule) FE_CHECK(schedule::check_held(*made_.schedule, held_memory()));
  // A single kernel compiles like a schedule without groups.
  schedule::Schedule no_groups;
  const cache::OpenKernelCache open_cache =
      services_.open_cache ? [&] { return services_.open_cache(options_.cache); } : cache::OpenKernelCache();
  const auto kernels = open_cache ? open_cache() : nullptr;
  link::BuildRequest request;
  request.options = {options_.threads,
                     options_.jobs,
                     options_.listings || options_.to == "code",
                     kernels.get(),
                     options_.observation,
                     options_.load,
                     options_.ports_on_device,
                     options_.allocator,
                     does(Feature::record),
                     &decisions_,
                     memory(),
                     options_.red_zones,
                     {},
                     options_.keep_code};
  // The memory of an input that the model changes is a result.
  for (const auto& input : made_.graph.inputs())
    request.options.donated.push_back(input.donated && !input.mutated_by);
  request.open_cache = open_cache;
  request.services = services_.tune;
  request.tune = options_.tune;
  request.stores_in_place = does(Feature::in_place);
  request.links = options_.to.empty() && !made_.kernel;
  request.lists_code = stages_.has("code");
  const link::BuildInputs inputs{made_.schedule ? *made_.schedule : no_groups,
                                 unmerged_,
                                 made_.kernel,
                                 regions_,
                                 devices_,
                                 blocklist_,
                                 costs(),
                                 decisions_,
                                 ledger_,
                                 watch_};
  FE_TRY(auto built, link::build(inputs, request));
  made_.executable = std::move(built.executable);
  made_.listing = std::move(built.listing);
  if (kernels) made_.stats.cache = kernels->counts();
  return {};
}

Compilation Steps::finish() {
  if (made_.executable) {
    auto& outputs = made_.executable->outputs;
    // Take the names of results from the model. A program compiled from the text of a later stage has no
    // model.
    if (made_.graph.outputs().size() == outputs.size())
      for (size_t k = 0; k < outputs.size(); ++k) outputs[k].name = made_.graph.outputs()[k].name;
    made_.stats.count(*made_.executable);
  }
  made_.stats.compile_ms = milliseconds_since(start_) - made_.stats.init_ms;
  return std::move(made_);
}

Steps::Steps(Source source, StageSpan stages, const plugin::Registry& registry, const CompileOptions& options,
             const Services& services, Ledger& ledger)
    : stages_(stages),
      registry_(registry),
      options_(options),
      services_(services),
      ledger_(ledger),
      gate_{.only_passes = options.only_passes,
            .near_misses = options.near_misses,
            .watcher = options.watcher,
            .observation = options.observation},
      device_kind_(runtime::last_kind(options.device)),
      watch_(
          options.observation, [this] { return sizes(); }, [this] { return view(); },
          [this] { return made_.text(); }) {
  if (auto* graph = std::get_if<graph::Graph>(&source)) made_.graph = std::move(*graph);
  if (auto* program = std::get_if<loop::LoopProgram>(&source)) made_.program = std::move(*program);
  if (auto* schedule = std::get_if<schedule::Schedule>(&source)) made_.schedule = std::move(*schedule);
  if (auto* kernel = std::get_if<loop::Kernel>(&source)) made_.kernel = std::move(*kernel);
}

Result<runtime::Devices> Steps::open_devices() const {
  auto opened = runtime::open_devices(options_.device, registry_, options_.targets);
  if (!opened) return named_at(options_.device_where, std::move(opened.error()));
  return opened;
}

schedule::HeldMemory Steps::held_memory() const {
  if (options_.memory_limit > 0) return {options_.memory_limit};
  // The memory of another machine is unknown here, and so is that of a device.
  const bool here = options_.load && options_.targets.empty();
  return {here ? host_memory_bytes() : std::numeric_limits<int64_t>::max(),
          std::ranges::all_of(devices_, [](const auto& device) { return device->host_memory; })};
}

schedule::MemoryLimit Steps::memory() const {
  return {op_by_op_bytes_, options_.threads > 0 ? options_.threads : runtime::Pool::process().workers(),
          devices_.front()->host_memory ? 0 : target_.workers};
}

plugin::CostModels& Steps::costs() {
  if (!costs_) {
    std::map<std::string, fe_target_numbers, std::less<>> numbers;
    for (const auto& device : devices_)
      numbers.emplace(device->kind, runtime::abi_numbers(device->numbers.values));
    costs_.emplace(registry_.cost_models(), std::move(numbers), ledger_);
  }
  return *costs_;
}

observe::Sizes Steps::sizes() const {
  observe::Sizes sizes;
  if (made_.schedule) {
    sizes.statements = made_.schedule->program.statements.size();
    sizes.groups = made_.schedule->groups.size();
  } else if (made_.program) {
    sizes.statements = made_.program->statements.size();
  } else {
    for (auto node : made_.graph.nodes()) ++sizes.ops[std::string(made_.graph.op(node))];
    sizes.nodes = made_.graph.node_count();
  }
  return sizes;
}

observe::GraphView Steps::view() const {
  return made_.schedule ? observe::view_of(*made_.schedule) : observe::view_of(made_.graph);
}

/// Observes each statement as it is before fusion.
void Steps::observe_statements(const schedule::DeviceAssignment& assignment) {
  const auto& program = *made_.program;
  for (uint32_t s = 0; s < program.statements.size(); ++s) {
    const auto& statement = program.statements[s];
    if (statement.kind == FE_STATEMENT_CALL) continue;
    const auto alone = schedule::kernel_of(program, s);
    options_.observation->unfused.push_back({schedule::origin_names(statement),
                                             observe::facts_of(alone.kernel),
                                             assignment.of.empty() ? 0 : assignment.of[s]});
  }
}

/// Shows the program where the stage that runs has changed it.
void Steps::log_program(std::string_view channel) {
  if (!log::enabled(channel)) return;
  auto text = made_.text();
  if (text == logged_) return;
  log::write(channel, fmt::format("{}\n{}", stage_, text));
  logged_ = std::move(text);
}

}  // namespace

std::span<const std::string_view> stages() { return stage_names; }

void CompileStats::count(const runtime::Executable& executable) {
  kernels = runtime::count_kernels(executable.steps);
  kernels_at_load = runtime::count_kernels(executable.init);
  std::set<std::string> calls;
  for (const auto* launches : {&executable.init, &executable.steps})
    for (const auto& launch : *launches)
      if (launch.call.function) calls.insert(launch.call.name);
  unique_kernels = executable.kernels.size() + calls.size();
  load_ms = executable.load_ms;
  init_ms = executable.init_ms;
}

std::string Compilation::text() const {
  if (!listing.empty()) return listing;
  if (schedule) return schedule::print(*schedule);
  if (program) return loop::print(*program);
  return graph::print(graph);
}

Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            const Services& services, Ledger& ledger) {
  FE_TRY(const auto stages, stages_of(source, options));
  return Steps(std::move(source), stages, registry, options, services, ledger).run();
}

}  // namespace ferrite::core
