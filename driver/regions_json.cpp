// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/regions_json.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace ferrite::core {
namespace {

template <class T>
nlohmann::json element_json(const T& value) {
  if constexpr (std::is_same_v<T, DType>) {
    return std::string(name_of(value));
  } else {
    if constexpr (std::is_same_v<T, double>)
      if (!std::isfinite(value)) return {{"f", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"}};
    return value;
  }
}

nlohmann::json value_json(const graph::AttributeValue& value) {
  return std::visit(
      []<class T>(const T& one) -> nlohmann::json {
        if constexpr (requires { one.begin(); } && !std::is_same_v<T, std::string>) {
          auto list = nlohmann::json::array();
          for (const auto& element : one) list.push_back(element_json(element));
          return list;
        } else {
          return element_json(one);
        }
      },
      value);
}

}  // namespace

Result<std::string> regions_json(const std::vector<joint::ChangedRegion>& regions) {
  auto list = nlohmann::json::array();
  for (const auto& region : regions) {
    const auto& graph = region.graph;
    std::map<graph::ValueId, size_t> numbers;
    const auto number = [&](graph::ValueId value) { numbers.emplace(value, numbers.size()); };
    auto inputs = nlohmann::json::array(), constants = inputs, ops = inputs, outputs = inputs;
    for (const auto& input : graph.inputs()) {
      inputs.push_back(graph.value(input.value).name);
      number(input.value);
    }
    for (const auto id : graph.constants()) {
      FE_TRY(const auto bytes, graph.constant_bytes(id));
      std::string hex;
      for (const auto byte : bytes) hex += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
      constants.push_back({std::string(name_of(graph.type(id).dtype)), graph.type(id).dims, hex});
      number(id);
    }
    for (graph::NodeId id = graph.first(); id; id = graph.next(id)) {
      const auto& node = graph.node(id);
      auto operands = nlohmann::json::array();
      for (const auto operand : node.operands)
        operands.push_back(operand ? nlohmann::json(numbers.at(operand)) : nlohmann::json());
      auto attributes = nlohmann::json::object();
      for (const auto& attribute : node.attributes)
        attributes[attribute.name] = {attribute.kind(), value_json(attribute.value)};
      ops.push_back({std::string(graph.op(id)), operands, attributes, node.results.size()});
      for (const auto result : node.results) number(result);
    }
    for (const auto& output : graph.outputs()) outputs.push_back({output.name, numbers.at(output.value)});
    list.push_back({{"nodes", region.nodes},
                    {"passes", region.passes},
                    {"inputs", inputs},
                    {"constants", constants},
                    {"ops", ops},
                    {"outputs", outputs}});
  }
  return list.dump();
}

}  // namespace ferrite::core
