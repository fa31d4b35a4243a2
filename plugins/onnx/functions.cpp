// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "functions.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

#include "ferrite/counted.hpp"
#include "ferrite/graph.hpp"

namespace ferrite::from_onnx {
namespace {

// Fields that older ONNX headers lack; the parser keeps them as unknown fields.
constexpr int node_overload = 8, function_overload = 13, function_attribute_proto = 11;

/// The payloads of one field.
template <class Message>
std::vector<std::string> unknown_payloads(const Message& message, int number) {
  std::vector<std::string> result;
  const auto& fields = message.unknown_fields();
  for (int k = 0; k < fields.field_count(); ++k)
    if (const auto& field = fields.field(k);
        field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      result.push_back(field.length_delimited());
  return result;
}

template <class Message>
std::string overload(const Message& message, int number) {
  if constexpr (requires { message.overload(); }) return message.overload();
  const auto found = unknown_payloads(message, number);
  return found.empty() ? std::string() : found.back();
}

template <class Message>
std::vector<onnx::AttributeProto> defaults_of(const Message& function) {
  std::vector<onnx::AttributeProto> result;
  if constexpr (requires { function.attribute_proto(); })
    result.assign(function.attribute_proto().begin(), function.attribute_proto().end());
  for (const auto& bytes : unknown_payloads(function, function_attribute_proto))
    if (!result.emplace_back().ParseFromString(bytes))
      fail("FE-I13", "the model is truncated or damaged: a default of function '", function.name(),
           "' is no attribute; copy or export it again");
  return result;
}

}  // namespace

std::string op_text(std::string_view domain, std::string_view op) {
  return (domain.empty() ? std::string() : std::string(domain) + ".") + std::string(op);
}

std::string overload_of(const onnx::NodeProto& node) { return overload(node, node_overload); }

Bindings Function::bind(const onnx::NodeProto& call, std::string_view place) const {
  const auto check_count = [&](int given, int taken, const char* what) {
    if (given > taken)
      fail("FE-I23", place, ": the node has ", counted(given, what), ", and the function has ", taken,
           "; the model is damaged, export it again");
  };
  check_count(call.input_size(), proto->input_size(), "input");
  check_count(call.output_size(), proto->output_size(), "output");
  const auto& required = proto->attribute();
  Bindings bindings = defaults;
  for (const auto& attribute : call.attribute()) {
    if (!defaults.contains(attribute.name()) && std::ranges::count(required, attribute.name()) == 0)
      fail("FE-I23", place, ": the function has no attribute '", attribute.name(), "'");
    bindings.insert_or_assign(attribute.name(), attribute);
  }
  return bindings;
}

Functions::Functions(const onnx::ModelProto& model, const Opsets& opsets) {
  for (const auto& proto : model.functions()) {
    Function function;
    function.proto = &proto;
    const std::string domain(domain_of(proto.domain())), which = overload(proto, function_overload);
    function.text = op_text(domain, proto.name()) + (which.empty() ? "" : " (" + which + ")");
    for (const auto& opset : proto.opset_import())
      function.opsets.insert_or_assign(std::string(domain_of(opset.domain())), opset.version());
    function.opsets.insert(opsets.begin(), opsets.end());
    for (auto& attribute : defaults_of(proto)) {
      const std::string name = attribute.name();
      function.defaults.insert_or_assign(name, std::move(attribute));
    }
    const std::string text = function.text;
    if (!functions_.emplace(std::tuple(domain, proto.name(), which), std::move(function)).second)
      fail("FE-I25", "the function ", text, " is defined twice; the model is damaged, export it again");
  }
}

const Function* Functions::find(std::string_view domain, std::string_view name,
                                std::string_view overload) const {
  if (functions_.empty()) return nullptr;
  const auto found =
      functions_.find(std::tuple(std::string(domain), std::string(name), std::string(overload)));
  return found == functions_.end() ? nullptr : &found->second;
}

std::optional<onnx::NodeProto> bound_node(const onnx::NodeProto& node, const Bindings& bindings,
                                          std::string_view place) {
  const auto refers = [](const auto& attribute) { return !attribute.ref_attr_name().empty(); };
  if (std::ranges::none_of(node.attribute(), refers)) return std::nullopt;
  onnx::NodeProto bound = node;
  bound.clear_attribute();
  for (const auto& attribute : node.attribute()) {
    if (!refers(attribute)) {
      *bound.add_attribute() = attribute;
      continue;
    }
    const auto found = bindings.find(attribute.ref_attr_name());
    if (found == bindings.end()) continue;
    if (attribute.type() != onnx::AttributeProto::UNDEFINED && attribute.type() != found->second.type())
      fail("FE-I23", place, ": attribute '", attribute.name(), "' refers to '", attribute.ref_attr_name(),
           "' of the function, which the call gives another type");
    auto& given = *bound.add_attribute();
    given = found->second;
    given.set_name(attribute.name());
  }
  return bound;
}

}  // namespace ferrite::from_onnx
