// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A model as one file: its programs, each compiled for one target, its weights, and its graph for compiling
// again. Opening a package and running its programs needs no compiler.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/model_port.h"
#include "runtime/package/container.h"
#include "runtime/package/program.h"
#include "runtime/plugin/backends.h"

namespace ferrite::core::package {

inline constexpr std::string_view suffix = ".fepkg";

/// The maximum number of targets in a package: each has two sections, and three sections are shared.
inline constexpr uint32_t most_targets = (most_sections - 3) / 2;

/// The device kinds that the programs of a package need, without verifying its other contents; none if the
/// file is no package.
std::vector<std::string> kinds_of(const std::string& path);

/// A program of a package, loaded on its devices.
struct Loaded {
  std::shared_ptr<runtime::Executable> executable;
  Figures figures;
  std::string target;                    ///< "cpu (x86-64-v4)"; empty if the package has only one program
  std::vector<std::string> passed_over;  ///< the first device of each earlier target that does not fit
};

/// An open package; all of it was verified against its hashes. Any-thread.
class Package {
 public:
  /// FE-K50 no package, FE-K51 truncated or altered, FE-K52 invalid contents.
  static Result<std::shared_ptr<const Package>> open(std::shared_ptr<const graph::MappedFile> file);

  const std::vector<runtime::PortInfo>& inputs() const { return ports_.first; }
  const std::vector<runtime::PortInfo>& outputs() const { return ports_.second; }

  /// The needs of all programs together: device kinds, and the ids of libraries that launch kernels
  /// themselves.
  struct Needs {
    std::vector<std::string> kinds, libraries;
  };
  const Needs& needs() const { return needs_; }
  /// The decompressed section with the graph. FE-K52.
  Result<std::vector<std::byte>> graph_bytes() const;
  /// The weights. They are in the mapped file and live as long as it.
  std::span<const std::byte> weights() const { return weights_; }
  const std::shared_ptr<const graph::MappedFile>& file() const { return container_.file(); }
  /// Loads the first program whose devices and libraries are present and accept it; nothing is compiled.
  /// `names`: the required devices; empty: any. FE-K53 if no program fits, with the reason for each; FE-D
  /// codes.
  Result<Loaded> program(const std::string& names, const plugin::Backends& backends, int64_t threads,
                         const std::shared_ptr<runtime::Allocator>& allocator) const;

 private:
  explicit Package(Container container) : container_(std::move(container)) {}
  Result<void> read();
  /// Gives the program the devices and libraries that it needs. FE-K53 if one is missing.
  Result<void> fit(const std::string& names, Read& program, const plugin::Backends& backends) const;
  /// Loads a program that fits.
  Result<Loaded> load(uint32_t target, Read program, int64_t threads) const;

  Container container_;
  std::span<const std::byte> weights_;                                               ///< in the file
  std::vector<std::vector<std::byte>> programs_;                                     ///< by target
  std::pair<std::vector<runtime::PortInfo>, std::vector<runtime::PortInfo>> ports_;  ///< inputs and outputs
  Needs needs_;
};

/// Ports of a program as those of a model: all dims are fixed.
std::vector<ModelPort> model_ports(std::span<const runtime::PortInfo> ports);

}  // namespace ferrite::core::package
