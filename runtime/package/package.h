// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model as one file: its programs, each compiled for a target, its weights, and its graph to compile again.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/ir/graph/graph.h"
#include "core/plugin/registry.h"
#include "runtime/package/container.h"
#include "runtime/package/program.h"

namespace ferrite::core::package {

inline constexpr std::string_view suffix = ".fepkg";

/// Of one package: each has two sections beside the three that all share.
inline constexpr uint32_t most_targets = (most_sections - 3) / 2;

/// The kinds of devices that the programs of a package need, without looking at what else is in it; none where it is no package.
std::vector<std::string> kinds_of(const std::string& path);

/// A program that was made and not loaded.
struct Made {
  const run::Executable& executable;
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

/// A program of a package on its devices.
struct Loaded {
  std::shared_ptr<run::Executable> executable;
  Figures figures;
  std::string target;                    ///< "cpu (x86-64-v4)"; empty where the package has one program only
  std::vector<std::string> passed_over;  ///< the first device of each that stands before it, and does not fit
};

/// A package that was opened: all of it was checked against its hashes. Any-thread.
class Package {
 public:
  /// FE-K50 no package, FE-K51 cut short or altered, FE-K52 contents that cannot be.
  static Result<std::shared_ptr<const Package>> open(std::shared_ptr<const graph::MappedFile> file);

  const std::vector<run::PortInfo>& inputs() const { return ports_.first; }
  const std::vector<run::PortInfo>& outputs() const { return ports_.second; }

  /// The graph as it was imported; its weights stay in the file, which lives as long as they do. FE-K52 where it has other
  /// inputs or outputs than the program, FE-P34, FE-G codes.
  Result<graph::Graph> graph() const;
  /// The first of the programs whose devices and libraries are here and take it, loaded; nothing is compiled. `names`: the devices
  /// that it has to be for; empty: any. FE-K53 where there is none, with the reason of each, FE-D codes.
  Result<Loaded> program(const std::string& names, const plugin::Registry& registry, int64_t threads,
                         const std::shared_ptr<run::Allocator>& allocator) const;

 private:
  explicit Package(Container container) : container_(std::move(container)) {}
  Result<void> read();
  /// Gives the program the devices and libraries that it needs. FE-K53 where one is not here.
  Result<void> fit(const std::string& names, Read& program, const plugin::Registry& registry) const;
  /// The program, which fits, loaded.
  Result<Loaded> load(uint32_t target, Read program, int64_t threads) const;

  Container container_;
  std::span<const std::byte> weights_;                                       ///< in the file
  std::vector<std::vector<std::byte>> programs_;                             ///< by target
  std::pair<std::vector<run::PortInfo>, std::vector<run::PortInfo>> ports_;  ///< inputs and outputs
};

}  // namespace ferrite::core::package
