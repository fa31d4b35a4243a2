// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing packages, and the graph of one to compile again.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "runtime/package/package.h"

namespace ferrite::core::package {

/// A program that was made and not loaded.
struct Made {
  const runtime::Executable& executable;
  Figures figures;
};

/// What goes into a package: the graph as it was imported, the programs that were made of it, the best first, the plugins of the
/// registry.
struct Contents {
  const graph::Graph& graph;
  std::span<const Made> programs;
  const plugin::Registry& registry;
};

/// Writes a package: equal contents give equal bytes. The size of the file; FE-K54 where no file can hold the program, FE-K55 where
/// it cannot be written.
Result<uint64_t> save(const std::string& path, const Contents& contents);

/// The graph as it was imported; its weights stay in the file, which lives as long as they do. FE-K52 where it has other
/// inputs or outputs than the program, FE-P34, FE-G codes.
Result<graph::Graph> graph_of(const Package& package);

}  // namespace ferrite::core::package
