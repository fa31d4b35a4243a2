// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An opened ONNX model.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/provider.hpp"
#include "format/declared.h"
#include "format/proto.h"
#include "format/tensors.h"
#include "format/wire.h"
#include "functions.h"

namespace ferrite::from_onnx {

class OnnxModel : public Model {
 public:
  /// Errors: those of slim_model, FE-I12 and FE-I13 for a message that is no model, FE-I14 for an incomplete
  /// one, FE-I19 and FE-I24 for inputs or outputs that are no tensors of a supported type.
  OnnxModel(std::string_view path, Bytes bytes, Warn warn);

  std::vector<Port> inputs() override { return inputs_; }
  std::vector<Port> outputs() override { return outputs_; }
  void build(Graph& graph, std::span<const TensorType> input_types) override {
    build_with(graph, input_types, PluginOps(nullptr));
  }
  void build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps& plugins) override;

 private:
  void parse(Bytes bytes);
  void read_opsets();
  Port port_of(const onnx::ValueInfoProto& info, const char* what) const;  ///< "input" or "output"

  ModelFile file_;
  Warn warn_;
  onnx::ModelProto proto_;
  std::vector<RawRange> raw_;  ///< raw data of the main graph's initializers
  Opsets opsets_;
  std::optional<Functions> functions_;
  std::vector<Port> inputs_, outputs_;
};

class OnnxImporter : public Importer {
 public:
  /// `warn` receives the warnings of building graphs; without it they are dropped.
  explicit OnnxImporter(Warn warn = {}) : warn_(std::move(warn)) {}
  std::string id() const override { return "ferrite.onnx"; }
  std::string extensions() const override { return ".onnx"; }
  std::string format() const override { return "onnx"; }
  std::unique_ptr<Model> open(std::string_view path, Bytes bytes) override {
    return std::make_unique<OnnxModel>(path, bytes, warn_);
  }
  std::string coverage() override;

 private:
  Warn warn_;
};

}  // namespace ferrite::from_onnx
