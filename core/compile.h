// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compilation: the way of a program from graph to executable.
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
  std::string device;  ///< a runtime's id or "interpreter"; the core has no default: manifests name one
  std::string
      device_where;  ///< file:line:col in the manifest, or the option that names its target; empty: neither
  /// The device was requested explicitly; else a package runs on any of its targets that is available.
  bool device_chosen = false;
  std::vector<runtime::Target>
      targets;             ///< cross-compilation: the targets to use instead of the devices of these kinds
  bool load = true;        ///< load the kernels; if false the program cannot run here and goes into a package
  bool keep_code = false;  ///< a loaded program keeps its code too, so that it can go into a package
  bool ports_on_device = false;                   ///< inputs and outputs are in the first device's memory
  std::shared_ptr<runtime::Allocator> allocator;  ///< for device memory; null: the devices' runtimes
  bool red_zones = false;                         ///< link::BuildOptions::red_zones
  bool recompile = false;                         ///< for a package: compile its graph again, like a model
  int64_t threads = 0;                            ///< number of workers; 0: the machine's
  /// Limit in bytes on results and on buffers that live between kernels, at any one time. A larger program is
  /// refused (FE-S30). 0: the memory that this process can have (host_memory_bytes()), applied to programs
  /// that run here and use the host's memory.
  int64_t memory_limit = 0;
  int64_t jobs = 0;            ///< number of kernels that compile in parallel; 0: as many as workers
  schedule::Features without;  ///< features of the scheduler to switch off
  std::vector<std::string> only_passes;  ///< if not empty, run only these passes
  /// Stages; empty: from the first stage that the source enters, through all stages and the link.
  std::string from, to;
  plugin::PassWatcher* watcher = nullptr;  ///< observes passes over graphs; must outlive the compilation
  std::string cache;      ///< folder of the persistent cache of compiled kernels; empty: none
  tune::Options tune;     ///< how to choose between the candidates of a kernel
  bool listings = false;  ///< keep the kernels' listings for --log output_code
  observe::Observation* observation =
      nullptr;  ///< if not null, receives the observations; must outlive the compilation
  rewrite::NearMisses* near_misses = nullptr;  ///< if not null, receives near misses of rules
};

/// The names of the stages on the command line, in their order.
std::span<const std::string_view> stages();

struct CompileStats {
  size_t nodes = 0;            ///< of the imported graph
  size_t statements = 0;       ///< after lowering
  size_t kernels = 0;          ///< launches per run
  size_t kernels_at_load = 0;  ///< launches at load time, which prepare constants
  size_t unique_kernels = 0;   ///< distinct kernels in both
  double compile_ms = 0;       ///< from import to link, including load_ms
  double load_ms = 0;          ///< loading kernels into memory; for a package also reading it
  double init_ms = 0;          ///< preparing constants at load; not part of the other times
  cache::Counts cache;
  bool packaged = false;  ///< the program came compiled, from a package
  std::string target{};   ///< for a package with several targets: the one used
  std::vector<std::string>
      passed_over{};  ///< the first device of each target that precedes it but cannot be used here

  /// Sets the counts of kernels from a linked program.
  void count(const runtime::Executable& executable);
};

/// The start of a compilation. A graph enters at the stages import to lower, a loop program at inline to
/// fuse, a schedule at post_fusion to emit, a kernel at emit; a kernel alone is never linked.
using Source = std::variant<graph::Graph, loop::LoopProgram, schedule::Schedule, loop::Kernel>;

/// Parses a text of any of these forms; its first line says which. Errors are those of the form's own parser.
Result<Source> parse_source(std::string_view text, const graph::ParseOptions& options);

/// A program at the stage that it has reached. text() is the text form of that stage.
struct Compilation {
  graph::Graph graph;  ///< empty if the source is no graph
  std::optional<loop::LoopProgram> program;
  std::optional<schedule::Schedule> schedule;
  std::optional<loop::Kernel> kernel;  ///< the source, if it is a kernel
  std::string listing;                 ///< of emit or code, if options.to asks for it
  std::shared_ptr<runtime::Executable> executable;
  CompileStats stats;
  std::string text() const;
};

/// Services that the program around the core provides: the core itself opens no files and measures nothing.
struct Services {
  /// Opens a cache of compiled kernels in a folder; with an empty folder, one that stores nothing. If not
  /// set, there is no cache.
  std::function<std::unique_ptr<cache::KernelCache>(const std::string& folder)> open_cache;
  tune::Services tune;
};

/// Compiles `source` for options.device: runs every step in the order of the page in compile.cpp. All passes
/// run through the pass gate. Stops after options.to; if that is empty, the program is linked. FE-C04 if a
/// stage is unknown, is not one at which the source enters, or `from` is after `to`. All other errors have
/// the codes of their steps. driver/compile.h adds the usual services.
Result<Compilation> compile(Source source, const plugin::Registry& registry, const CompileOptions& options,
                            const Services& services, Ledger& ledger);

}  // namespace ferrite::core
