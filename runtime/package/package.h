// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model as one file: its programs, each compiled for a target, its weights, and its graph to compile again. Opening one and running what is in it needs no compiler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/package/container.h"
#include "runtime/package/program.h"
#include "runtime/plugin/backends.h"

namespace ferrite::core::package {

inline constexpr std::string_view suffix = ".fepkg";

/// Of one package: each has two sections beside the three that all share.
inline constexpr uint32_t most_targets = (most_sections - 3) / 2;

/// The kinds of devices that the programs of a package need, without looking at what else is in it; none where it is no package.
std::vector<std::string> kinds_of(const std::string& path);

/// A program of a package on its devices.
struct Loaded {
  std::shared_ptr<runtime::Executable> executable;
  Figures figures;
  std::string target;                    ///< "cpu (x86-64-v4)"; empty where the package has one program only
  std::vector<std::string> passed_over;  ///< the first device of each that stands before it, and does not fit
};

/// A package that was opened: all of it was checked against its hashes. Any-thread.
class Package {
 public:
  /// FE-K50 no package, FE-K51 cut short or altered, FE-K52 contents that cannot be.
  static Result<std::shared_ptr<const Package>> open(std::shared_ptr<const graph::MappedFile> file);

  const std::vector<runtime::PortInfo>& inputs() const { return ports_.first; }
  const std::vector<runtime::PortInfo>& outputs() const { return ports_.second; }

  /// Of all its programs: the kinds of devices, and the ids of libraries that launch kernels themselves.
  struct Needs {
    std::vector<std::string> kinds, libraries;
  };
  /// FE-K52.
  Result<Needs> needs() const;
  /// The section that holds the graph, decompressed. FE-K52.
  Result<std::vector<std::byte>> graph_bytes() const;
  /// Weights, which lie in the file and live as long as it.
  std::span<const std::byte> weights() const { return weights_; }
  const std::shared_ptr<const graph::MappedFile>& file() const { return container_.file(); }
  /// The first of the programs whose devices and libraries are here and take it, loaded; nothing is compiled. `names`: the devices
  /// that it has to be for; empty: any. FE-K53 where there is none, with the reason of each, FE-D codes.
  Result<Loaded> program(const std::string& names, const plugin::Backends& backends, int64_t threads,
                         const std::shared_ptr<runtime::Allocator>& allocator) const;

 private:
  explicit Package(Container container) : container_(std::move(container)) {}
  Result<void> read();
  /// Gives the program the devices and libraries that it needs. FE-K53 where one is not here.
  Result<void> fit(const std::string& names, Read& program, const plugin::Backends& backends) const;
  /// The program, which fits, loaded.
  Result<Loaded> load(uint32_t target, Read program, int64_t threads) const;

  Container container_;
  std::span<const std::byte> weights_;                                               ///< in the file
  std::vector<std::vector<std::byte>> programs_;                                     ///< by target
  std::pair<std::vector<runtime::PortInfo>, std::vector<runtime::PortInfo>> ports_;  ///< inputs and outputs
};

}  // namespace ferrite::core::package
