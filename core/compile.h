// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The way of a program from graph to executable.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/plugin/registry.h"
#include "core/run/executable.h"
#include "core/schedule/schedule.h"
#include "core/support/ledger.h"

namespace ferrite::core {

struct CompileOptions {
  std::string device;  ///< a runtime's id, or "interpreter"; the core has no favourite: manifests name one
  int64_t threads = 0;         ///< workers; 0 = the machine's
  bool fuse = true;
  std::vector<std::string> only_passes;  ///< not empty: run these passes only
  std::string from, to;                  ///< stages; empty = the first, the last
  bool listings = false;                 ///< keep the kernels' listings for --log output_code
};

/// The stages in their order, by the names of the command line.
std::span<const std::string_view> stages();

struct CompileStats {
  size_t nodes = 0;       ///< of the imported graph
  size_t statements = 0;  ///< after lowering
  size_t kernels = 0;     ///< launches of a run
  size_t unique_kernels = 0;
  double compile_ms = 0, load_ms = 0, init_ms = 0;
};

/// A program at the stage that it has reached; text() is what the stage's text form shows.
struct Compilation {
  graph::Graph graph;
  std::optional<loop::LoopProgram> program;
  std::optional<schedule::Schedule> schedule;
  std::shared_ptr<run::Executable> executable;
  CompileStats stats;
  std::string text() const;
};

/// Compiles `graph` for options.device, every step in the one order of ARCHITECTURE. All passes run through the pass gate.
/// Stops behind options.to. Errors carry the step's own codes.
Result<Compilation> compile(graph::Graph graph, const plugin::Registry& registry,
                            const CompileOptions& options, Ledger& ledger);

}  // namespace ferrite::core
