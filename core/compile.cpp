// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/compile.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iterator>
#include <limits>
#include <set>

#include "core/graph/print.h"
#include "core/graph/verify.h"
#include "core/loop/keywords.h"
#include "core/loop/print.h"
#include "core/loop/verify.h"
#include "core/lower/lower.h"
#include "core/observe/observation.h"
#include "core/place/operands.h"
#include "core/plugin/advice.h"
#include "core/plugin/gate.h"
#include "core/plugin/manifest.h"
#include "core/run/build.h"
#include "core/run/pool.h"
#include "core/schedule/at_load.h"
#include "core/schedule/cut_loops.h"
#include "core/schedule/depth_last.h"
#include "core/schedule/group_kernel.h"
#include "core/schedule/held_memory.h"
#include "core/schedule/layout.h"
#include "core/schedule/memory.h"
#include "core/schedule/padding.h"
#include "core/schedule/read_in_parts.h"
#include "core/schedule/reinplace.h"
#include "core/schedule/scatter_at_once.h"
#include "core/schedule/split.h"
#include "core/support/elapsed.h"
#include "core/support/host_memory.h"
#include "core/text/lexer.h"
#include "core/tune/tune.h"

namespace ferrite::core {
namespace {

constexpr std::array<std::string_view, 19> stage_names = {
    "import",         "pre_grad", "decompose_early", "joint_pre", "joint_post", "post_grad_pre", "post_grad",
    "post_grad_post", "place",    "decompose_late",  "pre_lower", "lower",      "inline",        "layout",
    "pre_fusion",     "fuse",     "post_fusion",     "emit",      "code"};

using Clock = std::chrono::steady_clock;

void show(std::string_view channel, std::string_view stage, const Compilation& compilation) {
  if (log::enabled(channel)) log::write(channel, fmt::format("{}\n{}", stage, compilation.text()));
}

/// What a source can be: its name for people, and the stages at which it enters.
struct Entrance {
  std::string_view source, first, last;
};
constexpr std::array<Entrance, 4> entrances = {
    Entrance{"a graph", "import", "lower"}, Entrance{"a loop program", "inline", "fuse"},
    Entrance{"a schedule", "post_fusion", "emit"}, Entrance{"a kernel", "emit", "emit"}};  // by Source

ptrdiff_t position(std::string_view stage) {
  return std::find(stage_names.begin(), stage_names.end(), stage) - stage_names.begin();
}

/// The stages that run, by position, both inclusive.
struct Span {
  ptrdiff_t first = 0, last = 0;
};

Result<Span> span_of(const Source& source, const CompileOptions& options) {
  for (const auto& name : {options.from, options.to})
    if (!name.empty() && position(name) == std::ssize(stage_names))
      return error(FE_EINVALID, "FE-C04", "there is no stage '{}'; the stages are {}", name,
                   fmt::join(stage_names, ", "));
  const auto& entrance = entrances[source.index()];
  const std::string_view from = options.from.empty() ? entrance.first : options.from;
  const std::string_view to = options.to.empty() ? stage_names.back() : options.to;
  const Span span{position(from), position(to)};
  if (span.first < position(entrance.first) || span.first > position(entrance.last))
    return error(FE_EINVALID, "FE-C04", "{} enters at {}, not at '{}'", entrance.source,
                 entrance.first == entrance.last
                     ? fmt::format("'{}'", entrance.first)
                     : fmt::format("a stage from '{}' to '{}'", entrance.first, entrance.last),
                 from);
  if (span.last < span.first)
    return options.from.empty()
               ? error(FE_EINVALID, "FE-C04", "{} enters at '{}', behind stage '{}'", entrance.source, from,
                       to)
               : error(FE_EINVALID, "FE-C04", "stage '{}' is behind '{}', the last to run", from, to);
  if (options.device == run::interpreter_name && (!options.to.empty() || source.index() != 0) &&
      span.last > position("lower"))
    return error(FE_EINVALID, "FE-C04", "device '{}' has no stage behind 'lower'", options.device);
  return span;
}

/// Tells an observation of each stage: one ends where the next one begins, and the last one with end(), while the program is
/// still in `compilation`. Does nothing where there is no observation.
class StageWatch {
 public:
  StageWatch(observe::Observation* observation, const Compilation& compilation)
      : observation_(observation), compilation_(compilation) {}
  ~StageWatch() { end(); }
  StageWatch(const StageWatch&) = delete;

  void begin(std::string_view stage) {
    if (!observation_) return;
    end();
    if (stage == "pre_grad") keep_view("import");
    stage_ = {std::string(stage), 0, sizes(), {}, {}};
    start_ = Clock::now();
    open_ = true;
  }
  void end() {
    if (!open_) return;
    open_ = false;
    const auto now = Clock::now();
    stage_.milliseconds = milliseconds_between(start_, now);
    stage_.after = sizes();
    if (stage_.name == "post_grad_post" || stage_.name == "link") keep_view(stage_.name);
    if (observation_->texts) {
      auto text = compilation_.text();
      if (text != text_) stage_.text = text_ = std::move(text);
    }
    observation_->add({"stage",
                       stage_.name,
                       start_,
                       now,
                       0,
                       {{"nodes", static_cast<int64_t>(stage_.after.nodes)},
                        {"statements", static_cast<int64_t>(stage_.after.statements)},
                        {"groups", static_cast<int64_t>(stage_.after.groups)}}});
    observation_->stages.push_back(std::move(stage_));
  }

 private:
  void keep_view(std::string_view stage) {
    if (!observation_->graphs) return;
    auto& views = observation_->views;
    views.push_back(compilation_.schedule ? observe::view_of(*compilation_.schedule)
                                          : observe::view_of(compilation_.graph));
    views.back().stage = stage;
  }

  observe::Sizes sizes() const {
    observe::Sizes sizes;
    if (compilation_.schedule) {
      sizes.statements = compilation_.schedule->program.statements.size();
      sizes.groups = compilation_.schedule->groups.size();
    } else if (compilation_.program) {
      sizes.statements = compilation_.program->statements.size();
    } else {
      for (auto node : compilation_.graph.nodes()) ++sizes.ops[std::string(compilation_.graph.op(node))];
      sizes.nodes = compilation_.graph.node_count();
    }
    return sizes;
  }

  observe::Observation* observation_;
  const Compilation& compilation_;
  observe::Stage stage_;
  std::string text_;  ///< of the stage before
  Clock::time_point start_;
  bool open_ = false;
};

/// What is known of each statement before it is fused.
void observe_statements(const loop::LoopProgram& program, const schedule::Homes& homes,
                        observe::Observation& seen) {
  for (uint32_t s = 0; s < program.statements.size(); ++s) {
    const auto& statement = program.statements[s];
    if (statement.kind == FE_STATEMENT_CALL) continue;
    const auto alone = schedule::kernel_of(program, s);
    seen.unfused.push_back({schedule::origin_names(statement), observe::facts_of(alone.kernel),
                            homes.of.empty() ? 0 : homes.of[s]});
  }
}

/// Whether all code generators take contractions that compute operands; the ledger has those that do not.
bool takes_prologues(const run::Devices& devices, Ledger& ledger) {
  bool all = true;
  for (const auto& device : devices)
    for (const auto& generator : device->generators()) {
      if (generator.slots.features & FE_FLAT_PROLOGUES) continue;
      all = false;
      ledger.add({"fusion",
                  "prologues",
                  generator.id,
                  "switched off",
                  {},
                  "the code generator takes no operands of contractions that are computed",
                  0});
    }
  return all;
}

/// The wish for the rows of buffers of the first device that compiles loops, as its numbers count for fusion: the others take the strides
/// that they get. A device wishes what the first of its code generators does that has a wish.
schedule::RowPadding row_padding(const run::Devices& devices) {
  for (const auto& device : devices) {
    for (const auto& generator : device->generators())
      if (const auto& target = generator.target; target.row_alignment != 0)
        return {target.row_alignment, target.row_padding_percent, target.row_padding_from};
    if (!device->generators().empty()) break;
  }
  return {};
}

/// What results, and what lives between kernels, may take. Another machine's memory is not known here, nor is a device's own.
schedule::HeldMemory held_memory(const CompileOptions& options, const run::Devices& devices) {
  if (options.memory_limit > 0) return {options.memory_limit};
  const bool here = options.load && options.targets.empty();
  return {here ? host_memory_bytes() : std::numeric_limits<int64_t>::max(),
          std::ranges::all_of(devices, [](const auto& device) { return device->host_memory; })};
}

Error enters_nothing(std::string_view what) {
  return error(FE_EINVALID, "FE-C04",
               "{} enters no stage; give what an earlier stage prints, --to fuse or before", what);
}

}  // namespace

std::span<const std::string_view> stages() { return stage_names; }

Result<Source> parse_source(std::string_view text, const graph::ParseOptions& options) {
  size_t form = 0;
  // The code of a backend is no text that could be split into tokens.
  if (text.starts_with("ferrite code ")) return at(options.file + ":1:1", enters_nothing("compiled code"));
  {
    FE_TRY(const auto tokens, text::TokenList::read(text, options.file));
    const text::Cursor cursor(tokens);
    if (cursor.is(loop::keyword::ferrite) && cursor.is(loop::keyword::listing, 1))
      return at(cursor.where(), enters_nothing("a listing"));
    if (cursor.is(loop::keyword::ferrite))
      form = cursor.is(loop::keyword::loops, 1)      ? 1
             : cursor.is(loop::keyword::schedule, 1) ? 2
             : cursor.is(loop::keyword::kernel, 1)   ? 3
                                                     : 0;
  }
  if (form == 1) {
    FE_TRY(auto program, loop::parse_program(text, options.file));
    return Source(std::move(program));
  }
  if (form == 2) {
    FE_TRY(auto schedule, schedule::parse(text, options.file));
    return Source(std::move(schedule));
  }
  if (form == 3) {
    FE_TRY(auto kernel, loop::parse_kernel(text, options.file));
    return Source(std::move(kernel));
  }
  FE_TRY(auto graph, graph::parse(text, options));
  return Source(std::move(graph));
}

void CompileStats::count(const run::Executable& executable) {
  const auto count = [](const std::vector<run::Launch>& launches) {
    return static_cast<size_t>(std::ranges::count(launches, run::no_copy, &run::Launch::copy));
  };
  kernels = count(executable.steps);
  kernels_at_load = count(executable.init);
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

// THE PAGE. Every step of the way from graph to executable, in its order, each named by its stage. A step that is a hook runs
// the passes of plugins through the pass gate and nothing else.
Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            Ledger& ledger) {
  auto start = Clock::now();
  FE_TRY(const auto span, span_of(source, options));
  Compilation c;
  if (auto* graph = std::get_if<graph::Graph>(&source)) c.graph = std::move(*graph);
  if (auto* program = std::get_if<loop::LoopProgram>(&source)) c.program = std::move(*program);
  if (auto* schedule = std::get_if<schedule::Schedule>(&source)) c.schedule = std::move(*schedule);
  if (auto* kernel = std::get_if<loop::Kernel>(&source)) c.kernel = std::move(*kernel);

  const plugin::GateOptions gate{.only_passes = options.only_passes,
                                 .near_misses = options.near_misses,
                                 .watcher = options.watcher,
                                 .observation = options.observation};
  const std::string device_kind = run::last_kind(options.device);
  StageWatch watch(options.observation, c);
  auto enters = [&](std::string_view stage) {
    const bool within = position(stage) >= span.first && position(stage) <= span.last;
    if (within) watch.begin(stage);
    return within;
  };
  auto ends_before = [&](std::string_view stage) {
    const bool done = span.last < position(stage);
    if (done) watch.end();
    return done;
  };
  using schedule::Feature;
  const auto does = [&](Feature feature) { return !options.without.has(feature); };
  auto hook = [&](std::string_view phase) {
    return plugin::run_phase(phase, c.graph, registry, gate, ledger);
  };

  if (source.index() == 0) {
    c.stats.nodes = c.graph.node_count();
    FE_CHECK(graph::verify(c.graph, registry.ops()));
    show("graph", "import", c);
  }
  // pre_grad: the graph as the model has it, before anything is differentiated.
  if (enters("pre_grad")) FE_CHECK(hook("pre_grad"));
  // Ops marked early go first, so that patterns are written over their parts.
  if (enters("decompose_early")) FE_CHECK(lower::decompose(c.graph, registry, device_kind, true, ledger));
  // The joint hooks see a graph that holds both directions.
  if (c.graph.forward_outputs()) {
    if (enters("joint_pre")) FE_CHECK(hook("joint_pre"));
    if (enters("joint_post")) FE_CHECK(hook("joint_post"));
  }
  // Composite ops are still whole here: a pattern matches `layer_norm`, not its parts.
  if (enters("post_grad_pre")) FE_CHECK(hook("post_grad_pre"));
  // The standard passes of the default manifest.
  if (enters("post_grad")) FE_CHECK(hook("post_grad"));
  if (enters("post_grad_post")) FE_CHECK(hook("post_grad_post"));
  const auto open_devices = [&]() -> Result<run::Devices> {
    auto opened = run::open_devices(options.device, registry, options.targets);
    if (!opened) return plugin::named_at(options.device_where, std::move(opened.error()));
    return opened;
  };
  // Regions that a provider takes as a whole are cut out, while ops are still what the model's author wrote.
  run::Devices devices;
  place::Refusals refusals;
  std::vector<place::Region> regions;
  if (place::has_claims(registry) && options.device != run::interpreter_name && enters("place")) {
    FE_TRY(devices, open_devices());
    FE_TRY(regions, place::claim_regions(c.graph, devices, refusals, ledger));
    show("graph", "place", c);
  }
  // What no lowering claimed is replaced by its parts.
  if (enters("decompose_late")) FE_CHECK(lower::decompose(c.graph, registry, device_kind, false, ledger));
  // Primitive ops only; common subexpressions and constants are looked for again, because decompositions made new ones.
  if (enters("pre_lower")) {
    FE_CHECK(hook("pre_lower"));
    show("graph", "pre_lower", c);
  }
  if (ends_before("lower")) return c;

  // One statement an op; views become index maps.
  if (enters("lower")) {
    FE_TRY(c.program, lower::lower(c.graph, registry, device_kind, ledger));
    FE_CHECK(loop::verify(*c.program));
    show("loops", "lower", c);
  }
  if (c.program) c.stats.statements = c.program->statements.size();
  if (options.device == run::interpreter_name) {
    if (options.to.empty()) FE_CHECK(schedule::check_held(*c.program, held_memory(options, {}).limit));
    watch.end();
    c.stats.compile_ms = milliseconds_since(start) - c.stats.init_ms;
    return c;
  }
  for (size_t k = 0; k < schedule::feature_count; ++k)
    if (const auto feature = static_cast<Feature>(k); !does(feature))
      ledger.add({"feature",
                  std::string(schedule::name_of(feature)),
                  {},
                  "off",
                  {},
                  std::string(schedule::doc_of(feature))});
  if (devices.empty()) {
    FE_TRY(devices, open_devices());
  }
  FE_TRY(auto decisions,
         tune::Decisions::open(options.tune, [&] { return tune::contexts(devices, options.threads); }));
  // A lock says by which numbers groups were formed, so that they are the same ones wherever it is replayed.
  decisions.lock_numbers(devices);
  const auto target = run::numbers_of(devices);
  // Producers go into their consumers before groups are formed, so that fusion sees real traffic only.
  std::optional<int64_t> op_by_op;
  if (enters("inline")) {
    // What a kernel for each statement would need bounds the memory plan.
    op_by_op = schedule::op_by_op_bytes(*c.program);
    // Results that are constants are made once, at load.
    schedule::keep_constant_results(*c.program, target);
    if (does(Feature::inline_producers)) {
      const auto inline_all = [&] {
        schedule::inline_producers(*c.program, target, ledger, place::homes(*c.program, devices, refusals));
      };
      inline_all();
      if (schedule::read_in_parts(*c.program, ledger)) inline_all();
    }
    if (does(Feature::cut_loops)) schedule::cut_loops(*c.program);
    // What the model changes of its inputs is changed there.
    if (does(Feature::in_place)) schedule::reinplace(*c.program, ledger);
    FE_CHECK(loop::verify(*c.program));
    show("loops", "inline", c);
  }
  // What convolutions touch is stored in the order that the target wants, over the whole program, what a product reads in that of its
  // sum.
  if (enters("layout")) {
    if (does(Feature::layout)) {
      schedule::choose_layouts(*c.program, target, ledger);
      schedule::keep_depth_together(*c.program, ledger);
    }
    FE_CHECK(loop::verify(*c.program));
    show("loops", "layout", c);
  }
  schedule::FusionRequests requests;
  if (enters("pre_fusion")) FE_CHECK(plugin::run_pre_fusion(*c.program, registry, gate, requests, ledger));
  if (ends_before("fuse")) return c;

  std::map<std::string, fe_target_numbers, std::less<>> numbers;
  for (const auto& device : devices) numbers.emplace(device->kind, run::abi_numbers(device->numbers.values));
  plugin::CostModels costs(registry.cost_models(), std::move(numbers), ledger);
  const schedule::MemoryLimit memory{op_by_op,
                                     options.threads > 0 ? options.threads : run::Pool::process().workers(),
                                     devices.front()->host_memory ? 0 : target.workers};
  if (enters("fuse")) {
    schedule::FusionLimits limits;
    limits.without = options.without;
    limits.target = target;
    limits.homes = place::homes(*c.program, devices, refusals);
    if (options.observation && options.observation->statements)
      observe_statements(*c.program, limits.homes, *options.observation);
    limits.prologues = takes_prologues(devices, ledger);
    // A library that does not take them is not to lose products.
    std::optional<place::StoredOperands> operands;
    if (limits.prologues && place::wants_stored_operands(devices))
      limits.operands = &operands.emplace(devices, costs, memory, refusals, decisions);
    plugin::PolicyAdvisor policies(registry.fusion_policies(), costs, devices.front()->kind, ledger);
    c.schedule = schedule::fuse(std::move(*c.program), requests, limits, ledger, policies.if_any());
    FE_CHECK(policies.check());
    if (operands) FE_CHECK(operands->check());
    c.program.reset();
    show("schedule", "fuse", c);
  }
  // Providers that take a part of a group see it with its maps apart.
  std::optional<schedule::Schedule> parts;
  if (enters("post_fusion")) {
    FE_CHECK(plugin::run_post_fusion(*c.schedule, registry, gate, ledger));
    // Groups are final: maps move into the statement whose loops they share.
    schedule::drop_unread(*c.schedule);
    // Reductions over rows go where rows are at hand; one with few results is divided, so that all workers have a part of it.
    if (does(Feature::fuse) && does(Feature::mixed_orders))
      schedule::mix_orders(*c.schedule, target, memory, ledger);
    if (does(Feature::fuse) && does(Feature::split)) {
      schedule::split_reductions(*c.schedule, target, memory, ledger);
      schedule::split_scans(*c.schedule, target, memory, ledger);
      schedule::scatter_at_once(*c.schedule, target, memory, ledger);
    }
    // Rows of large buffers lie as far apart as the target wants.
    if (does(Feature::padding)) schedule::pad_rows(*c.schedule, row_padding(devices), memory, ledger);
    // Kernels run in an order in which less has to live at a time.
    if (does(Feature::memory_order)) schedule::order_for_memory(*c.schedule);
    if (place::has_libraries(devices)) {
      parts = *c.schedule;
      schedule::expose_epilogues(*parts);
    }
    schedule::merge_statements(*c.schedule);
    show("schedule", "post_fusion", c);
  }
  if (ends_before("emit")) return c;

  // What nobody could hold is refused before anything is run, be it to measure it.
  if (c.schedule) FE_CHECK(schedule::check_held(*c.schedule, held_memory(options, devices)));
  // A kernel alone stands for a schedule without groups.
  schedule::Schedule no_groups;
  auto& groups = c.schedule ? *c.schedule : no_groups;
  cache::Kernels kernels(options.cache);
  const run::BuildOptions build{options.threads,
                                options.jobs,
                                options.listings || options.to == "code",
                                &kernels,
                                options.observation,
                                options.load,
                                options.ports_on_device,
                                options.allocator,
                                does(Feature::record),
                                &decisions,
                                memory,
                                options.red_zones};
  std::optional<schedule::Schedule> merged;  // as it was before groups were split
  if (parts || devices.size() > 1) merged = groups;
  place::Placement placement;
  while (true) {
    const size_t refused = refusals.count(), declined = refusals.groups.size();
    if (merged) groups = *merged;
    watch.begin("select");
    // A device for each group, by what it covers.
    placement = place::place(groups, devices, refusals, ledger);
    decisions.begin();
    // What nothing is known of yet is measured, where that is asked for.
    if (options.tune.mode == tune::Mode::measure && !decisions.is_locked() && c.schedule) {
      cache::Kernels trials(options.cache);  // with counts of its own
      auto trial = build;
      trial.cache = &trials;
      watch.begin("tune");
      FE_CHECK(tune::measure({groups, parts ? &*parts : nullptr, placement, devices}, options.tune, trial,
                             costs, refusals, decisions, ledger));
      watch.begin("select");
    }
    // Libraries that cover a group, or a part of it and leave the rest to the code generator.
    if (parts)
      FE_CHECK(place::select_libraries(groups, *parts, placement, devices, costs, build.memory, refusals,
                                       ledger, decisions));
    // Where most lives at a time, results take the place of operands that nobody reads again. A library may read an operand again
    // when it has stored a part of the result.
    if (does(Feature::in_place)) {
      std::vector<bool> allowed;
      for (const auto& choice : placement) allowed.push_back(!choice.compiler);
      schedule::store_in_place(groups, allowed, ledger);
    }
    run::Builder builder(groups, devices, placement, regions, build, refusals, ledger);
    // A kernel for each group, and the cheapest candidate that is proposed for it.
    FE_CHECK(c.kernel ? builder.select(*c.kernel) : builder.select());
    // What nobody compiles for its device is placed again.
    if (refusals.groups.size() != declined) continue;
    watch.begin("emit");
    // Machine code, all kernels in parallel. What does not compile is placed again.
    FE_CHECK(builder.emit());
    if (refusals.count() != refused) continue;
    const bool links = options.to.empty() && !c.kernel;
    if (links) {
      watch.begin("load");
      FE_CHECK(builder.load());
      if (refusals.count() != refused) continue;
    }
    watch.begin("plan");
    // Places in the arena for what lives between kernels, and for their workspaces. Where a candidate takes too much, another is
    // taken.
    builder.plan();
    if (refusals.count() != refused) continue;
    FE_CHECK(decisions.check());
    if (!options.tune.lock.empty()) FE_CHECK(decisions.write_lock(options.tune.lock, devices));
    if (options.observation)
      options.observation->selections = {decisions.taken().begin(), decisions.taken().end()};
    if (!links) {
      c.listing = enters("code") ? builder.code() : builder.text();
      watch.end();
      return c;
    }
    watch.begin("link");
    // The launches of a load and of a run.
    FE_TRY(c.executable, builder.link());
    if (c.executable) break;
  }
  watch.end();
  // Results have the names that the model gives them; what is compiled from a later stage's text has none.
  if (c.graph.outputs().size() == c.executable->outputs.size())
    for (size_t k = 0; k < c.executable->outputs.size(); ++k)
      c.executable->outputs[k].name = c.graph.outputs()[k].name;
  c.stats.count(*c.executable);
  c.stats.cache = kernels.counts();
  c.stats.compile_ms = milliseconds_since(start) - c.stats.init_ms;
  return c;
}

}  // namespace ferrite::core
