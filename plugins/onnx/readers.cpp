// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "readers.h"

#include <deque>

#include "ferrite/graph.hpp"

namespace ferrite::from_onnx {
namespace {

using Proto = onnx::AttributeProto;

/// Element types by ONNX's numbers, for attributes that contain one.
const std::vector<fe_dtype>& element_types() {
  static const std::vector<fe_dtype> all = [] {
    std::vector<fe_dtype> result;
    for (int32_t number = 0; number <= last_element_type; ++number)
      result.push_back(static_cast<fe_dtype>(known_dtype(number).value_or(DType::none)));
    return result;
  }();
  return all;
}

std::optional<Attr> plain_attribute(const Proto& attribute) {
  const auto list = [&](const auto& values, auto sample) {
    return Attr(attribute.name(), std::vector<decltype(sample)>(values.begin(), values.end()));
  };
  switch (attribute.type()) {
    case Proto::INT: return attr(attribute.name(), int64_t{attribute.i()});
    case Proto::FLOAT: return attr(attribute.name(), static_cast<double>(attribute.f()));
    case Proto::STRING: return attr(attribute.name(), attribute.s());
    case Proto::INTS: return list(attribute.ints(), int64_t{});
    case Proto::FLOATS: return list(attribute.floats(), double{});
    case Proto::STRINGS: return list(attribute.strings(), std::string());
    default: return std::nullopt;
  }
}

}  // namespace

std::string NodeOp::source() const {
  return "onnx:" + (domain.empty() ? std::string() : domain + "::") + name;
}

NodeOp op_of(const onnx::NodeProto& node, const Opsets& opsets) {
  NodeOp op;
  op.domain = domain_of(node.domain());
  op.name = node.op_type();
  op.overload = overload_of(node);
  if (const auto found = opsets.find(op.domain); found != opsets.end()) op.version = found->second;
  return op;
}

std::string place_of(const onnx::NodeProto& node, int index, const NodeOp& op) {
  const std::string in_opset = op.text() + ", opset " + std::to_string(op.version);
  if (!node.name().empty()) return "node '" + node.name() + "' (" + in_opset + ")";
  std::string makes;
  for (const auto& output : node.output())
    if (makes.empty() && !output.empty()) makes = ", makes '" + output + "'";
  return "node " + std::to_string(index) + " (" + in_opset + makes + ")";
}

Readers ReaderTable::find(const NodeOp& op) {
  Readers readers;
  // Plugins have no overloads; only functions of the model have.
  if (op.overload.empty()) {
    auto [found, added] = readers_.try_emplace({op.source(), op.version});
    if (added) {
      static const std::vector<std::string> known = supported_sources();
      std::vector<fe_string> names;
      for (const auto& name : known) names.push_back(to_abi(name));
      found->second = plugins_.find(found->first.first, op.version, names);
    }
    readers.plugin = &found->second;
  }
  readers.function = functions_.find(op.domain, op.name, op.overload);
  if (op.overload.empty()) readers.entry = find_op(op.domain, op.name);
  return readers;
}

bool reads(const OpEntry* entry, int64_t version) {
  return entry && version >= entry->first && version <= entry->last;
}

std::vector<Value> import_by_plugin(Graph& graph, const ModelFile& file, const PluginOps& plugins,
                                    const onnx::NodeProto& node, const NodeOp& op,
                                    const std::vector<Value>& operands, std::string_view name,
                                    std::string_view place) {
  std::deque<Attr> kept;
  std::deque<std::vector<fe_string>> strings;
  std::vector<fe_attr> attrs;
  std::vector<fe_named_value> tensors;
  for (const auto& attribute : node.attribute()) {
    if (auto plain = plain_attribute(attribute)) {
      kept.push_back(std::move(*plain));
      attrs.push_back(kept.back().abi(strings.emplace_back()));
    } else if (attribute.type() == Proto::TENSOR) {
      auto tensor = sized<fe_named_value>();
      tensor.name = to_abi(attribute.name());
      tensor.value = constant_of(graph, file, attribute.t(), nullptr).handle();
      tensors.push_back(tensor);
    } else {
      throw Failure(FE_EUNSUPPORTED, "FE-I24",
                    detail::concatenate(place, ": attribute '", attribute.name(),
                                        "' is of a type that plugins are not given; numbers, strings, lists "
                                        "of them and tensors are"));
    }
  }
  std::vector<fe_value> handles;
  for (const Value& operand : operands) handles.push_back(operand.handle());
  std::vector<fe_string> results;
  for (const auto& output : node.output()) results.push_back(to_abi(output));
  const std::string source = op.source();
  auto given = sized<fe_import_node>();
  given.source = to_abi(source);
  given.version = op.version;
  given.name = to_abi(name);
  given.place = to_abi(place);
  given.operands = to_array(handles.data(), handles.size());
  given.attrs = to_array(attrs.data(), attrs.size());
  given.tensors = to_array(tensors.data(), tensors.size());
  given.element_types = to_array(element_types().data(), element_types().size());
  given.results = to_array(results.data(), results.size());
  return plugins.import_node(graph, given);
}

}  // namespace ferrite::from_onnx
