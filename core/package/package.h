// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model as one file: its program compiled for a target, its weights, and its graph to compile again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/package/container.h"
#include "core/package/program.h"
#include "core/plugin/registry.h"

namespace ferrite::core::package {

inline constexpr std::string_view suffix = ".fepkg";

/// What goes into a package: the graph as it was imported, the program that was made of it and not loaded, the plugins of the
/// registry.
struct Contents {
  const graph::Graph& graph;
  const run::Executable& executable;
  Figures figures;
  const plugin::Registry& registry;
};

/// Writes a package: equal contents give equal bytes. The size of the file; FE-K54 where no file can hold the program, FE-K55 where
/// it cannot be written.
Result<uint64_t> save(const std::string& path, const Contents& contents);

/// A package that was opened: all of it was checked against its hashes. Any-thread.
class Package {
 public:
  /// FE-K50 no package, FE-K51 cut short or altered, FE-K52 contents that cannot be.
  static Result<std::shared_ptr<const Package>> open(std::shared_ptr<const graph::MappedFile> file);

  const std::vector<run::PortInfo>& inputs() const { return inputs_; }
  const std::vector<run::PortInfo>& outputs() const { return outputs_; }
  const Figures& figures() const { return figures_; }

  /// The graph as it was imported; its weights stay in the file, which lives as long as they do. FE-K52 where it has other
  /// inputs or outputs than the program, FE-P34, FE-G codes.
  Result<graph::Graph> graph() const;
  /// The program on these devices, loaded; nothing is compiled. FE-K53 where it was compiled for others, FE-D codes.
  Result<std::shared_ptr<run::Executable>> program(const std::string& devices,
                                                   const plugin::Registry& registry, int64_t threads) const;

 private:
  explicit Package(Container container) : container_(std::move(container)) {}
  Result<void> read();
  /// Devices that are what the program needs.
  Result<run::Devices> devices(const std::string& names, const std::vector<Need>& needs,
                               const plugin::Registry& registry) const;

  Container container_;
  std::span<const std::byte> weights_;  ///< in the file
  std::vector<std::byte> program_, code_;
  std::vector<run::PortInfo> inputs_, outputs_;
  Figures figures_;
};

}  // namespace ferrite::core::package
