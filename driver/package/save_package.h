// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writing packages, and reading a package's graph to compile it again.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "runtime/package/package.h"

namespace ferrite::core::package {

/// A program that was compiled but not loaded.
struct Made {
  const runtime::Executable& executable;
  Figures figures;
};

/// The contents of a package: the graph as imported, the programs compiled from it, the best first, and the
/// plugins of the registry.
struct Contents {
  const graph::Graph& graph;
  std::span<const Made> programs;
  const plugin::Registry& registry;
};

/// Writes a package and returns its size; equal contents give equal bytes. FE-K54 where no file can hold the
/// program, FE-K55 where the file cannot be written.
Result<uint64_t> save(const std::string& path, const Contents& contents);

/// The bytes of a package for programs that know which plugins they have: it does not state the hashes of the
/// plugins' libraries. FE-K54.
Result<std::vector<std::byte>> bytes_of(const Contents& contents);

/// The graph as imported; its weights stay in the file, which lives as long as they do. FE-K52 where its
/// inputs or outputs differ from the program's, FE-P34, FE-G codes.
Result<graph::Graph> graph_of(const Package& package);

}  // namespace ferrite::core::package
