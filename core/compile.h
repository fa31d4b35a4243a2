// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way of a program from graph to executable.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/ir/text/parse_graph.h"
#include "core/link/kernel_cache.h"
#include "core/link/measure.h"
#include "core/plugin/registry.h"
#include "core/schedule/schedule.h"
#include "core/select/tuning_options.h"
#include "core/support/ledger.h"
#include "runtime/executable.h"

namespace ferrite::core {

namespace plugin {
class PassWatcher;
}
namespace observe {
class Observation;
}

struct CompileOptions {
  std::string device;  ///< a runtime's id, or "interpreter"; the core has no favourite: manifests name one
  std::string
      device_where;  ///< file:line:col where a manifest names it, or the option that says its target; empty: neither
  bool device_chosen =
      false;  ///< somebody asked for that device; else a package runs on whichever of its targets is here
  std::vector<runtime::Target>
      targets;       ///< of the devices of these kinds, and of one behind them, what is compiled for instead
  bool load = true;  ///< else the program cannot run here; it goes into a package
  bool ports_on_device = false;                   ///< inputs and outputs lie in the first device's memory
  std::shared_ptr<runtime::Allocator> allocator;  ///< of devices' memory; null: their runtimes
  bool red_zones = false;                         ///< runtime::BuildOptions::red_zones
  bool recompile = false;                         ///< of a package: its graph, as if it were a model
  int64_t threads = 0;                            ///< workers; 0 = the machine's
  /// Bytes of results, and of what lives between kernels, at a time: what takes more is refused (FE-S30). 0: what this process can have
  /// (host_memory_bytes()), for what runs here and lies in the host's memory.
  int64_t memory_limit = 0;
  int64_t jobs = 0;                      ///< kernels that compile at a time; 0 = as many as there are workers
  schedule::Features without;            ///< features of the scheduler that are switched off
  std::vector<std::string> only_passes;  ///< not empty: run these passes only
  std::string from, to;  ///< stages; empty = the first that the source enters, all and then the link
  plugin::PassWatcher* watcher = nullptr;  ///< of the passes over graphs; outlives the compilation
  std::string
      cache;  ///< a folder where compiled kernels are kept from one process to the next; empty: nowhere
  tune::Options tune;     ///< what decides between the candidates of a kernel
  bool listings = false;  ///< keep the kernels' listings for --log output_code
  observe::Observation* observation =
      nullptr;  ///< where not null: filled with what is seen; outlives the compilation
  rewrite::NearMisses* near_misses = nullptr;  ///< where not null: where rules nearly matched is added to it
};

/// The stages in their order, by the names of the command line.
std::span<const std::string_view> stages();

struct CompileStats {
  size_t nodes = 0;            ///< of the imported graph
  size_t statements = 0;       ///< after lowering
  size_t kernels = 0;          ///< launches of a run
  size_t kernels_at_load = 0;  ///< launches when the program is loaded, which prepare constants
  size_t unique_kernels = 0;   ///< different ones in both
  double compile_ms = 0;       ///< from import to link, with load_ms
  double load_ms = 0;          ///< putting kernels into memory; of a package reading it, too
  double init_ms = 0;          ///< preparing constants at load, in neither of the others
  cache::Counts cache;
  bool packaged = false;  ///< the program came compiled
  std::string target{};   ///< of a package with several: which of them it is
  std::vector<std::string>
      passed_over{};  ///< the first device of each that stands before it, and is of no use here

  /// Of a program that was linked.
  void count(const runtime::Executable& executable);
};

/// What a compilation starts from. A graph enters at the stages import to lower, a loop program at inline to fuse, a schedule
/// at post_fusion to emit, a kernel at emit; a kernel alone is never linked.
using Source = std::variant<graph::Graph, loop::LoopProgram, schedule::Schedule, loop::Kernel>;

/// Reads a text of any of these forms; its first line says which. Errors are those of the form's own parser.
Result<Source> parse_source(std::string_view text, const graph::ParseOptions& options);

/// A program at the stage that it has reached; text() is what the stage's text form shows.
struct Compilation {
  graph::Graph graph;  ///< empty where the source is none
  std::optional<loop::LoopProgram> program;
  std::optional<schedule::Schedule> schedule;
  std::optional<loop::Kernel> kernel;  ///< the source, where it is one
  std::string listing;                 ///< of emit or code, where options.to asks for it
  std::shared_ptr<runtime::Executable> executable;
  CompileStats stats;
  std::string text() const;
};

/// What the program around the core does for a compilation, as the core opens no caches and measures nothing.
struct Services {
  /// A cache of compiled kernels in a folder; an empty folder: one that keeps nothing. Empty: no cache.
  std::function<std::unique_ptr<cache::KernelCache>(const std::string& folder)> open_cache;
  tune::Measure measure;  ///< empty: costs decide, whatever the options say
};

/// Compiles `source` for options.device, every step in the order of the page in compile.cpp. All passes run through the pass gate.
/// Stops after options.to; a program is linked where that is empty. FE-C04 where a stage is none, is not one at which the
/// source enters, or `from` is after `to`. All other errors carry the step's own codes. driver/compile.h has the usual services.
Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            const Services& services, Ledger& ledger);

}  // namespace ferrite::core
