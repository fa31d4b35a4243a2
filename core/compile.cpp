// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/compile.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "core/graph/print.h"
#include "core/graph/verify.h"
#include "core/loop/print.h"
#include "core/loop/verify.h"
#include "core/lower/lower.h"
#include "core/plugin/gate.h"
#include "core/run/build.h"

namespace ferrite::core {
namespace {

constexpr std::array<std::string_view, 16> stage_names = {
    "import",     "pre_grad",       "decompose_early", "joint_pre", "joint_post", "post_grad_pre",
    "post_grad",  "post_grad_post", "decompose_late",  "pre_lower", "lower",      "inline",
    "pre_fusion", "fuse",           "post_fusion",     "emit"};

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

void show(std::string_view channel, std::string_view stage, const Compilation& compilation) {
  if (log::enabled(channel)) log::write(channel, fmt::format("{}\n{}", stage, compilation.text()));
}

}  // namespace

std::span<const std::string_view> stages() { return stage_names; }

std::string Compilation::text() const {
  if (schedule) return schedule::print(*schedule);
  if (program) return loop::print(*program);
  return graph::print(graph);
}

// THE PAGE. Every step of the way from graph to executable, in its order, each named by its stage. A step that is a hook runs
// the passes of plugins through the pass gate and nothing else.
Result<Compilation> compile(graph::Graph graph, const plugin::Registry& registry,
                            const CompileOptions& options, Ledger& ledger) {
  auto start = Clock::now();
  Compilation c{std::move(graph), {}, {}, {}, {}};
  const plugin::GateOptions gate{options.only_passes};
  std::shared_ptr<run::Device> device;
  std::string device_kind = options.device.substr(0, options.device.find(':'));
  const bool interpreted = device_kind == "interpreter";

  auto position = [](std::string_view stage) {
    return std::find(stage_names.begin(), stage_names.end(), stage) - stage_names.begin();
  };
  const auto first = options.from.empty() ? 0 : position(options.from);
  const auto last = options.to.empty() ? position("emit") : position(options.to);
  for (const auto& name : {options.from, options.to})
    if (!name.empty() && position(name) == static_cast<ptrdiff_t>(stage_names.size()))
      return error(FE_EINVALID, "FE-C04", "there is no stage '{}'; the stages are {}", name,
                   fmt::join(stage_names, ", "));
  auto runs = [&](std::string_view stage) { return position(stage) >= first && position(stage) <= last; };
  auto hook = [&](std::string_view phase) {
    return plugin::run_phase(phase, c.graph, registry, gate, ledger);
  };

  c.stats.nodes = c.graph.node_count();
  FE_CHECK(graph::verify(c.graph, registry.ops()));
  show("graph", "import", c);

  // pre_grad: the graph as the model has it, before anything is differentiated.
  if (runs("pre_grad")) FE_CHECK(hook("pre_grad"));
  // Ops marked early go first, so that patterns are written over their parts.
  if (runs("decompose_early")) FE_CHECK(lower::decompose(c.graph, registry, device_kind, true, ledger));
  // The joint hooks see a graph that holds both directions.
  if (c.graph.forward_outputs()) {
    if (runs("joint_pre")) FE_CHECK(hook("joint_pre"));
    if (runs("joint_post")) FE_CHECK(hook("joint_post"));
  }
  // Composite ops are still whole here: a pattern matches `layer_norm`, not its parts.
  if (runs("post_grad_pre")) FE_CHECK(hook("post_grad_pre"));
  // The standard passes of the default manifest.
  if (runs("post_grad")) FE_CHECK(hook("post_grad"));
  if (runs("post_grad_post")) FE_CHECK(hook("post_grad_post"));
  // What no lowering claimed is replaced by its parts.
  if (runs("decompose_late")) FE_CHECK(lower::decompose(c.graph, registry, device_kind, false, ledger));
  // Primitive ops only; common subexpressions and constants are looked for again, because decompositions made new ones.
  if (runs("pre_lower")) FE_CHECK(hook("pre_lower"));
  show("graph", "pre_lower", c);
  if (last < position("lower")) return c;

  // One statement an op; views become index maps.
  FE_TRY(auto program, lower::lower(c.graph, registry, device_kind, ledger));
  c.program = std::move(program);
  c.stats.statements = c.program->statements.size();
  FE_CHECK(loop::verify(*c.program));
  show("loops", "lower", c);
  if (interpreted) {
    c.stats.compile_ms = milliseconds_since(start);
    return c;
  }
  // Producers go into their consumers before groups are formed, so that fusion sees real traffic only.
  if (last >= position("inline")) {
    schedule::inline_producers(*c.program, ledger);
    FE_CHECK(loop::verify(*c.program));
    show("loops", "inline", c);
  }
  schedule::FusionRequests requests;
  if (last >= position("pre_fusion"))
    FE_CHECK(plugin::run_pre_fusion(*c.program, registry, gate, requests, ledger));
  if (last < position("fuse")) return c;

  FE_TRY(device, run::Device::open(options.device, registry));
  schedule::FusionLimits limits;
  limits.fuse = options.fuse;
  limits.local_bytes = device->target.local_bytes;
  c.schedule = schedule::fuse(std::move(*c.program), requests, limits, ledger);
  c.program.reset();
  show("schedule", "fuse", c);
  if (last >= position("post_fusion")) {
    FE_CHECK(plugin::run_post_fusion(*c.schedule, registry, gate, ledger));
    // Groups are final: maps move into the statement whose loops they share.
    schedule::merge_statements(*c.schedule);
    show("schedule", "post_fusion", c);
  }
  if (last < position("emit")) return c;

  // select, plan, emit, link
  FE_TRY(c.executable, run::build(*c.schedule, *device, {options.threads, options.listings}, ledger));
  c.executable->keeps_alive = device;
  c.stats.kernels = c.executable->steps.size();
  c.stats.unique_kernels = c.executable->kernels.size();
  c.stats.compile_ms = milliseconds_since(start);
  return c;
}

}  // namespace ferrite::core
