// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "context.h"

#include <algorithm>

namespace ferrite::from_onnx {

Value Context::operand(size_t k) const {
  if (!has(k)) bad("input ", k, " is missing");
  return operands_[k];
}

const onnx::AttributeProto* Context::find(std::string_view name) const {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

const onnx::AttributeProto& Context::attribute(std::string_view name, int type) const {
  const auto* found = find(name);
  if (!found) bad("attribute '", name, "' is missing");
  if (!found->ref_attr_name().empty())
    unsupported("attribute '", name, "' refers to one of a model-defined function");
  if (found->type() != type) bad("attribute '", name, "' has another type than the op defines");
  return *found;
}

int64_t Context::integer(std::string_view name) const {
  return attribute(name, onnx::AttributeProto::INT).i();
}
int64_t Context::integer(std::string_view name, int64_t otherwise) const {
  return find(name) ? integer(name) : otherwise;
}
double Context::number(std::string_view name, double otherwise) const {
  return find(name) ? static_cast<double>(attribute(name, onnx::AttributeProto::FLOAT).f()) : otherwise;
}
std::string Context::text(std::string_view name, std::string_view otherwise) const {
  return find(name) ? attribute(name, onnx::AttributeProto::STRING).s() : std::string(otherwise);
}
std::optional<Dims> Context::integers(std::string_view name) const {
  if (!find(name)) return std::nullopt;
  const auto& list = attribute(name, onnx::AttributeProto::INTS).ints();
  return Dims(list.begin(), list.end());
}
std::optional<std::vector<double>> Context::numbers(std::string_view name) const {
  if (!find(name)) return std::nullopt;
  const auto& list = attribute(name, onnx::AttributeProto::FLOATS).floats();
  return std::vector<double>(list.begin(), list.end());
}

std::optional<Value> Context::known(const Value& value) const {
  if (value.is_constant()) return value;
  if (value.view().is_input) return std::nullopt;
  return graph.evaluate(value);
}

Value Context::constant(size_t k) const {
  if (auto value = known(k)) return *value;
  throw Failure(FE_EUNSUPPORTED, "FE-I22",
                detail::concatenate(
                    where_, ": value-dependent shape: input ", k, " of ", node.op_type(), " '", node.name(),
                    "' is computed from model inputs; export the model with that value as a constant"));
}
Dims Context::constant_integers(size_t k) const {
  DType dtype = operand(k).dtype();
  if (!is_integer(dtype) && dtype != boolean)
    bad("input ", k, " must hold integers and holds ", name_of(dtype));
  return integers_of(constant(k));
}
int64_t Context::constant_integer(size_t k) const {
  auto values = constant_integers(k);
  if (values.size() != 1) bad("input ", k, " must hold one number and holds ", values.size());
  return values[0];
}
std::vector<double> Context::constant_numbers(size_t k) const { return numbers_of(constant(k)); }
double Context::constant_number(size_t k) const {
  auto values = constant_numbers(k);
  if (values.size() != 1) bad("input ", k, " must hold one number and holds ", values.size());
  return values[0];
}

int64_t Context::axis(int64_t value, size_t rank) const {
  const auto limit = static_cast<int64_t>(rank);
  if (value < -limit || value >= limit) bad("axis ", value, " does not lie in a tensor of rank ", rank);
  return value < 0 ? value + limit : value;
}
Dims Context::axes(Dims values, size_t rank) const {
  for (auto& value : values) value = axis(value, rank);
  auto sorted = values;
  std::ranges::sort(sorted);
  if (std::ranges::adjacent_find(sorted) != sorted.end()) bad("an axis is named twice");
  return values;
}

void Context::only_results(size_t first) const {
  for (size_t k = first; k < results_.size(); ++k)
    if (wants(k)) unsupported("output ", k, " is not supported");
}

}  // namespace ferrite::from_onnx
