// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "importer.h"

#include <algorithm>

#include "build.h"
#include "ferrite/counted.hpp"
#include "format/archive.h"
#include "format/node_stream.h"
#include "functional.h"
#include "helpers.h"
#include "registry.h"

namespace ferrite::from_torch {

TorchModel::TorchModel(Program program) : program_(std::move(program)) { check(program_); }

std::vector<Port> TorchModel::ports(const std::vector<ProgramPort>& ports) {
  std::vector<Port> made;
  for (const auto& port : ports)
    made.push_back(
        {port.name, port.type.dtype, true, port.type.dims, std::vector<std::string>(port.type.rank())});
  return made;
}

std::vector<Value> TorchModel::add_inputs(Graph& graph, std::span<const TensorType> input_types) const {
  if (input_types.size() != program_.inputs.size())
    fail("FE-I51", "the program has ", counted(program_.inputs.size(), "input"), ", and the types of ",
         input_types.size(), " were given");
  std::vector<Value> inputs;
  for (size_t k = 0; k < input_types.size(); ++k)
    inputs.push_back(graph.input(program_.inputs[k].name, input_types[k]));
  for (const auto& constant : program_.constants) {
    // Stored with the slowest dim first; its own order of dims is a transposition of that.
    Dims stored;
    for (const auto d : constant.order) stored.push_back(constant.type.dims[static_cast<size_t>(d)]);
    graph.set_origin(constant.name);
    Value value = graph.weight(constant.name, {constant.type.dtype, stored}, program_.file, constant.offset);
    if (!std::ranges::is_sorted(constant.order))
      value = graph.make("transpose", {value}, {attr("perm", inverse(constant.order))});
    inputs.push_back(value);
  }
  return inputs;
}

void TorchModel::build_with(Graph& graph, std::span<const TensorType> input_types, const PluginOps& plugins) {
  const auto outputs = build_graph(graph, program_, plugins, add_inputs(graph, input_types));
  for (size_t k = 0; k < outputs.size(); ++k) graph.output(program_.outputs[k].name, outputs[k]);
}

std::string TorchModel::unsupported(Graph& graph, std::span<const TensorType> input_types,
                                    const PluginOps& plugins) {
  return unsupported_nodes(graph, program_, plugins, add_inputs(graph, input_types));
}

std::unique_ptr<Model> TorchImporter::open(std::string_view path, Bytes bytes) {
  if (!path.ends_with(".pt2")) return std::make_unique<TorchModel>(read_node_stream(bytes));
  Program program = read_archive(path, bytes);
  check(program);
  return std::make_unique<TorchModel>(without_writes(std::move(program)));
}

std::string TorchImporter::coverage() { return coverage_text(); }

}  // namespace ferrite::from_torch
