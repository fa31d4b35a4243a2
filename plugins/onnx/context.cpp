// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "context.h"

#include <algorithm>
#include <set>

namespace ferrite::from_onnx {
namespace {

/// The names of the model's inputs that a value depends on, each in quotes.
std::string inputs_of(const Value& value) {
  std::set<fe_value> seen;
  std::set<std::string> names;
  std::vector<Value> open{value};
  while (!open.empty()) {
    const Value next = open.back();
    open.pop_back();
    if (!next || !seen.insert(next.handle()).second) continue;
    const auto view = next.view();
    if (view.is_input) names.insert("'" + std::string(from_abi(view.name)) + "'");
    if (view.producer == 0) continue;
    const Node producer = next.producer();
    for (size_t k = 0; k < producer.operand_count(); ++k) open.push_back(producer.operand(k));
  }
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return (names.size() == 1 ? "the model's input " : "the model's inputs ") + text;
}

}  // namespace

Value Context::operand(size_t k) const {
  if (!has(k)) bad(input_text(signature, k), " is missing");
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
  const Value value = operand(k);
  if (auto constant = known(value)) return *constant;
  std::string source = inputs_of(value);
  throw Failure(FE_EUNSUPPORTED, "FE-I22",
                detail::concatenate(
                    where_, ": ", input_text(signature, k), " '", node.input(static_cast<int>(k)),
                    "' must be known when the model is imported, and is ",
                    value.view().is_input ? "" : "computed from ", source,
                    "; where it is the same in every run, export it as a constant; where it depends on data, "
                    "so do shapes, which is not supported: compute this part outside of the model"));
}
Dims Context::constant_integers(size_t k) const {
  DType dtype = operand(k).dtype();
  if (!is_integer(dtype) && dtype != boolean)
    bad(input_text(signature, k), " must hold integers and holds ", name_of(dtype));
  return integers_of(constant(k));
}
int64_t Context::constant_integer(size_t k) const {
  auto values = constant_integers(k);
  if (values.size() != 1) bad(input_text(signature, k), " must hold one number and holds ", values.size());
  return values[0];
}
std::vector<double> Context::constant_numbers(size_t k) const { return numbers_of(constant(k)); }
double Context::constant_number(size_t k) const {
  auto values = constant_numbers(k);
  if (values.size() != 1) bad(input_text(signature, k), " must hold one number and holds ", values.size());
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

std::string Context::result_text(size_t k) const {
  return output_text(signature, k) + " '" + node.output(static_cast<int>(k)) + "'";
}
void Context::only_results(size_t first, std::string_view cure) const {
  for (size_t k = first; k < results_.size(); ++k)
    if (wants(k)) unsupported(result_text(k), " is not supported; ", cure);
}

}  // namespace ferrite::from_onnx
