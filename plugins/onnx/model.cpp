// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "model.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <filesystem>
#include <limits>
#include <set>

#include "build.h"
#include "ferrite/counted.hpp"
#include "registry.h"

namespace ferrite::from_onnx {
namespace {

constexpr int nesting_limit = 64;  // nesting of messages; each level of subgraphs takes five

[[noreturn]] void refuse(const char* code, const std::string& text) {
  throw Failure(FE_EUNSUPPORTED, code, text);
}

}  // namespace

OnnxModel::OnnxModel(std::string_view path, Bytes bytes, Warn warn)
    : file_{std::filesystem::absolute(std::filesystem::path(path)).lexically_normal().string(), bytes},
      warn_(std::move(warn)) {
  parse(bytes);
  read_opsets();
  functions_.emplace(proto_, opsets_);
  std::set<std::string_view> constants;
  for (const auto& tensor : proto_.graph().initializer()) constants.insert(tensor.name());
  for (const auto& info : proto_.graph().input())
    if (!constants.contains(info.name())) inputs_.push_back(port_of(info, "input"));
  for (const auto& info : proto_.graph().output()) outputs_.push_back(port_of(info, "output"));
  if (outputs_.empty()) fail("FE-I14", "the model's graph has no outputs; export it again");
  std::set<std::string_view> names;
  for (const auto& port : inputs_) {
    if (port.name.empty()) fail("FE-I14", "an input of the model has no name; export it again");
    if (!names.insert(port.name).second)
      fail("FE-I14", "two inputs of the model are named '", port.name, "'; export it again");
  }
}

void OnnxModel::parse(Bytes bytes) {
  auto slim = slim_model(bytes);
  if (slim.message.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
    fail("FE-I13",
         "the model has more than 2 GiB outside of its weights; store large constants as initializers");
  google::protobuf::LogSilencer quiet;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(slim.message.data()),
                                                static_cast<int>(slim.message.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(nesting_limit);
  if (!proto_.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    fail("FE-I13", "the model is truncated or damaged, or nests deeper than ", nesting_limit,
         " messages; copy or export it again");
  if (!proto_.has_graph())
    fail("FE-I12", "not an ONNX model: it holds no graph; give a file that holds a ModelProto");
  raw_ = std::move(slim.raw);
}

void OnnxModel::read_opsets() {
  for (const auto& opset : proto_.opset_import())
    opsets_.insert_or_assign(std::string(domain_of(opset.domain())), opset.version());
  if (opsets_.empty() && proto_.ir_version() >= 3)
    fail("FE-I14", "the model names no operator set (opset_import is empty); export it again");
  opsets_.try_emplace("", 1);
}

Port OnnxModel::port_of(const onnx::ValueInfoProto& info, const char* what) const {
  const std::string where = std::string(what) + " '" + info.name() + "'";
  const auto& type = info.type();
  if (!type.has_tensor_type())
    refuse("FE-I24",
           where +
               " is no tensor; sequences, maps, optional and sparse values are not supported, export the "
               "model with tensors as inputs and outputs");
  Port port;
  port.name = info.name();
  port.dtype = dtype_of(type.tensor_type().elem_type(), where);
  port.ranked = type.tensor_type().has_shape();
  for (const auto& dim : type.tensor_type().shape().dim()) {
    bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
    port.dims.push_back(fixed ? dim.dim_value() : -1);
    port.names.push_back(fixed || !dim.has_dim_param() ? std::string() : dim.dim_param());
  }
  return port;
}

void OnnxModel::build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps& plugins) {
  if (input_types.size() != inputs_.size())
    fail("FE-I14", "the model has ", counted(inputs_.size(), "input"), ", and the types of ",
         input_types.size(), " were given");
  std::vector<std::pair<std::string, Value>> inputs;
  for (size_t k = 0; k < inputs_.size(); ++k)
    inputs.emplace_back(inputs_[k].name, graph.input(inputs_[k].name, input_types[k]));
  auto outputs =
      build_graph(graph, {file_, proto_.graph(), raw_, opsets_, *functions_, plugins, warn_}, inputs);
  for (size_t k = 0; k < outputs.size(); ++k) graph.output(outputs_[k].name, outputs[k]);
}

std::string OnnxImporter::coverage() { return coverage_text(); }

}  // namespace ferrite::from_onnx
