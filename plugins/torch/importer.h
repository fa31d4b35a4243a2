// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The importer of PyTorch programs: node streams (.aten), and archives of torch.export (.pt2).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/provider.hpp"
#include "format/program.h"

namespace ferrite::from_torch {

class TorchModel : public Model {
 public:
  explicit TorchModel(Program program);

  std::vector<Port> inputs() override { return ports(program_.inputs); }
  std::vector<Port> outputs() override { return ports(program_.outputs); }
  void build(Graph& graph, std::span<const TensorType> input_types) override {
    build_with(graph, input_types, PluginOps(nullptr));
  }
  void build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps& plugins) override;
  std::string unsupported(Graph& graph, std::span<const TensorType> input_types,
                          const PluginOps& plugins) override;

 private:
  static std::vector<Port> ports(const std::vector<ProgramPort>& ports);
  std::vector<Value> add_inputs(Graph& graph, std::span<const TensorType> input_types) const;

  Program program_;
};

class TorchImporter : public Importer {
 public:
  std::string id() const override { return "ferrite.torch"; }
  std::string extensions() const override { return ".aten,.pt2"; }
  std::string format() const override { return "torch"; }
  /// Errors: FE-I51 for a file that is damaged or of another version, FE-I53 for an archive with symbolic
  /// sizes.
  std::unique_ptr<Model> open(std::string_view path, Bytes bytes) override;
  std::string coverage() override;
};

}  // namespace ferrite::from_torch
