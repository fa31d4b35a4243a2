// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "format/node_stream.h"

#include <limits>
#include <string>

#include <nlohmann/json.hpp>

#include "ferrite/error.hpp"

namespace ferrite::from_torch {
namespace {

using Json = nlohmann::json;

[[noreturn]] void damaged_stream(std::string_view what) {
  fail("FE-I51", "the node stream is damaged: ", what, "; make it again");
}

const Json& item(const Json& list, size_t k, std::string_view what) {
  if (!list.is_array() || k >= list.size())
    damaged_stream(std::string(what) + " is no list of the right length");
  return list[k];
}

std::string text(const Json& value, std::string_view what) {
  if (!value.is_string()) damaged_stream(std::string(what) + " is no string");
  return value.get<std::string>();
}

DType dtype(const Json& value) {
  const auto name = text(value, "a dtype");
  const DType found = dtype_of(name);
  if (found == DType::none)
    throw Failure(FE_EUNSUPPORTED, "FE-I19", "the dtype '" + name + "' is not supported; convert the tensor");
  return found;
}

TensorType type(const Json& list, size_t first) {
  TensorType made{dtype(item(list, first, "a type")), {}};
  const auto& dims = item(list, first + 1, "a type");
  if (!dims.is_array()) damaged_stream("a shape is no list");
  for (const auto& dim : dims) {
    if (!dim.is_number_integer() || dim.get<int64_t>() < 0) damaged_stream("a dim of a shape is no size");
    made.dims.push_back(dim.get<int64_t>());
  }
  return made;
}

size_t value_number(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= most_values)
    damaged_stream("the number of a value is wrong");
  return value.get<size_t>();
}

constexpr int nesting_limit = 16;  // of lists

Argument argument(const Json& json, int depth = 0) {
  if (depth > nesting_limit) damaged_stream("its lists are nested too deep");
  switch (json.type()) {
    case Json::value_t::null: return {};
    case Json::value_t::boolean: return {json.get<bool>()};
    case Json::value_t::number_integer: return {json.get<int64_t>()};
    case Json::value_t::number_unsigned: {
      // Beyond the range of i64 only the bits count: such numbers fill unsigned tensors.
      return {static_cast<int64_t>(json.get<uint64_t>())};
    }
    case Json::value_t::number_float: return {json.get<double>()};
    case Json::value_t::string: return {json.get<std::string>()};
    case Json::value_t::array: {
      Argument::List list;
      for (const auto& element : json) list.push_back(argument(element, depth + 1));
      return {std::move(list)};
    }
    default: break;
  }
  if (json.size() == 1) {
    const auto member = json.begin();
    const std::string& key = member.key();
    const Json& value = member.value();
    if (key == "v") return {ValueRef{value_number(value)}};
    if (key == "d") return {dtype(value)};
    if (key == "f") {
      const auto name = text(value, "a float");
      if (name == "inf") return {std::numeric_limits<double>::infinity()};
      if (name == "-inf") return {-std::numeric_limits<double>::infinity()};
      if (name == "nan") return {std::numeric_limits<double>::quiet_NaN()};
    }
  }
  damaged_stream("an argument is an object of another kind");
}

ProgramNode node(const Json& json) {
  ProgramNode made;
  made.target = text(item(json, 0, "a node"), "the overload of a node");
  made.name = text(item(json, 1, "a node"), "the name of a node");
  made.place = text(item(json, 2, "a node"), "the place of a node");
  const auto& args = item(json, 3, "a node");
  if (!args.is_array()) damaged_stream("the arguments of a node are no list");
  for (const auto& value : args) made.args.push_back(argument(value));
  const auto& kwargs = item(json, 4, "a node");
  if (!kwargs.is_object()) damaged_stream("the keyword arguments of a node are no object");
  for (const auto& [name, value] : kwargs.items()) made.kwargs.emplace_back(name, argument(value));
  const auto& results = item(json, 5, "a node");
  if (!results.is_array()) damaged_stream("the results of a node are no list");
  for (const auto& result : results)
    made.results.push_back(result.is_null() ? ResultType() : ResultType(type(result, 0)));
  return made;
}

ProgramPort input_port(const Json& json) {
  ProgramPort port{text(item(json, 0, "an input"), "a name"), type(json, 1)};
  if (json.size() <= 3) return port;
  const auto& memory = json[3];
  if (!memory.is_object()) damaged_stream("the use of an input's memory is no object");
  for (const auto& [key, value] : memory.items()) {
    if (key == "mutated_by")
      port.mutated_by = value_number(value);
    else if (key == "donated" && value.is_boolean())
      port.donated = value.get<bool>();
    else
      damaged_stream("the use of an input's memory cannot be read");
  }
  return port;
}

}  // namespace

Program read_node_stream(Bytes bytes) {
  const Json json = Json::parse(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                                nullptr, false);
  if (json.is_discarded()) damaged_stream("it is no JSON");
  if (!json.is_object() || !json.contains("aten") || json["aten"] != 1)
    fail("FE-I51",
         "the file is no node stream of version 1; make it with the version of the package ferrite that "
         "belongs "
         "to this library");
  Program program;
  for (const auto* key : {"inputs", "nodes", "outputs"})
    if (!json.contains(key) || !json[key].is_array())
      damaged_stream(std::string("it has no list '") + key + "'");
  for (const auto& input : json["inputs"]) program.inputs.push_back(input_port(input));
  for (const auto& one : json["nodes"]) program.nodes.push_back(node(one));
  std::vector<std::optional<TensorType>> types;
  for (const auto& input : program.inputs) types.emplace_back(input.type);
  for (const auto& one : program.nodes) types.insert(types.end(), one.results.begin(), one.results.end());
  for (const auto& input : program.inputs) {
    if (!input.mutated_by) continue;
    if (*input.mutated_by >= types.size() || types[*input.mutated_by] != input.type)
      damaged_stream("the contents of an input's memory after the run are no tensor of the input's type");
  }
  for (const auto& output : json["outputs"]) {
    ProgramPort port{
        text(item(output, 0, "an output"), "a name"), {}, value_number(item(output, 1, "an output"))};
    if (port.value >= types.size() || !types[port.value])
      damaged_stream("an output is no tensor of the program");
    port.type = *types[port.value];
    program.outputs.push_back(std::move(port));
  }
  return program;
}

}  // namespace ferrite::from_torch
