// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "context.h"

#include <algorithm>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

const Argument none{};

std::string_view kind_of(const Argument& argument) {
  static constexpr std::string_view names[] = {"None",   "a tensor", "an integer", "a float",
                                               "a bool", "a string", "a dtype",    "a list"};
  return names[argument.value.index()];
}

}  // namespace

Context::Context(Graph& graph, const Program& program, const ProgramNode& node, const OpEntry& entry,
                 const std::vector<Value>& values)
    : graph(graph),
      node(node),
      entry(entry),
      program_(program),
      values_(values),
      given_(node.results.size()) {
  for (std::string_view rest = entry.parameters; !rest.empty();) {
    std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    const bool ignorable = name.starts_with('~');
    if (ignorable) name.remove_prefix(1);
    parameters_.push_back({name, nullptr, ignorable});
  }
  const bool open = !parameters_.empty() && parameters_.back().name == "*";
  if (open) parameters_.pop_back();
  if (node.args.size() > parameters_.size() && !open)
    bad("it has ", node.args.size(), " arguments, and the overload has ", parameters_.size(),
        " parameters; the program may come from a newer PyTorch");
  for (size_t k = 0; k < std::min(node.args.size(), parameters_.size()); ++k)
    parameters_[k].argument = &node.args[k];
  for (const auto& [name, argument] : node.kwargs) {
    const auto found = std::ranges::find(parameters_, name, &Parameter::name);
    if (found == parameters_.end() && open) continue;
    if (found == parameters_.end())
      bad("the overload has no parameter '", name, "'; the program may come from a newer PyTorch");
    found->argument = &argument;
  }
}

const Argument& Context::argument(std::string_view name) {
  const auto found = std::ranges::find(parameters_, name, &Parameter::name);
  if (found == parameters_.end()) return none;  // of another overload that the handler serves
  found->read = true;
  return found->argument ? *found->argument : none;
}

Value Context::value_of(const Argument& argument, std::string_view name) const {
  const auto* tensor = argument.tensor();
  if (!tensor) bad("argument '", name, "' is ", kind_of(argument), ", and a tensor is wanted");
  const Value value = values_[tensor->number];
  if (!value) bad("argument '", name, "' is a result that is no tensor");
  return value;
}

Value Context::tensor(std::string_view name) { return value_of(argument(name), name); }

std::vector<Value> Context::tensors(std::string_view name) {
  auto values = optional_tensors(name);
  for (const auto& value : values)
    if (!value) bad("argument '", name, "' has None where a tensor is wanted");
  return values;
}

std::vector<Value> Context::optional_tensors(std::string_view name) {
  const auto& found = argument(name);
  if (!found.list()) bad("argument '", name, "' is ", kind_of(found), ", and a list of tensors is wanted");
  std::vector<Value> values;
  for (const auto& element : *found.list())
    values.push_back(element.is_none() ? Value() : value_of(element, name));
  return values;
}

int64_t Context::integer(std::string_view name, std::optional<int64_t> otherwise) {
  const auto& found = argument(name);
  if (found.is_none() && otherwise) return *otherwise;
  if (const auto* number = std::get_if<int64_t>(&found.value)) return *number;
  if (const auto* flag = std::get_if<bool>(&found.value)) return *flag;
  bad("argument '", name, "' is ", kind_of(found), ", and an integer is wanted");
}

double Context::number(std::string_view name, std::optional<double> otherwise) {
  const auto& found = argument(name);
  if (found.is_none() && otherwise) return *otherwise;
  if (const auto* number = std::get_if<double>(&found.value)) return *number;
  return static_cast<double>(integer(name));
}

bool Context::flag(std::string_view name, bool otherwise) {
  const auto& found = argument(name);
  if (found.is_none()) return otherwise;
  if (const auto* flag = std::get_if<bool>(&found.value)) return *flag;
  return integer(name) != 0;
}

std::string Context::text(std::string_view name, std::string_view otherwise) {
  const auto& found = argument(name);
  if (found.is_none()) return std::string(otherwise);
  if (const auto* text = std::get_if<std::string>(&found.value)) return *text;
  bad("argument '", name, "' is ", kind_of(found), ", and a string is wanted");
}

Dims Context::integers(std::string_view name) {
  const auto& found = argument(name);
  if (found.is_none()) return {};
  if (std::get_if<int64_t>(&found.value)) return {integer(name)};
  if (!found.list()) bad("argument '", name, "' is ", kind_of(found), ", and a list of integers is wanted");
  Dims values;
  for (const auto& element : *found.list()) {
    const auto* number = std::get_if<int64_t>(&element.value);
    if (!number) bad("argument '", name, "' has ", kind_of(element), " where an integer is wanted");
    values.push_back(*number);
  }
  return values;
}

std::optional<DType> Context::dtype(std::string_view name) {
  const auto& found = argument(name);
  if (found.is_none()) return std::nullopt;
  if (const auto* dtype = std::get_if<DType>(&found.value)) return *dtype;
  bad("argument '", name, "' is ", kind_of(found), ", and a dtype is wanted");
}

Value Context::operand(std::string_view name, DType dtype) {
  const auto& found = argument(name);
  if (found.tensor()) return cast_to(*this, value_of(found, name), dtype);
  if (const auto* integer = std::get_if<int64_t>(&found.value)) return integer_scalar(*this, dtype, *integer);
  return graph.scalar(dtype, number(name));
}

DType Context::promoted(std::initializer_list<std::string_view> names) {
  // The dtypes of tensors with dims, of tensors of rank 0 and of numbers are promoted apart. A lower kind
  // counts only where its class (bool, integer, float) is above that of the kinds before it.
  DType kinds[3] = {DType::none, DType::none, DType::none};
  for (const auto name : names) {
    const auto& found = argument(name);
    if (found.tensor()) {
      const Value value = value_of(found, name);
      auto& kind = kinds[value.rank() == 0];
      kind = promote(kind, value.dtype());
    } else if (std::holds_alternative<double>(found.value)) {
      kinds[2] = promote(kinds[2], f32);
    } else if (std::holds_alternative<int64_t>(found.value)) {
      kinds[2] = promote(kinds[2], i64);
    } else if (std::holds_alternative<bool>(found.value)) {
      kinds[2] = promote(kinds[2], boolean);
    }
  }
  const auto combine = [](DType high, DType low) {
    return high == DType::none || category(low) > category(high) ? promote(high, low) : high;
  };
  return combine(combine(kinds[0], kinds[1]), kinds[2]);
}

int64_t Context::dim(int64_t value, size_t rank) const {
  const auto count = static_cast<int64_t>(std::max<size_t>(rank, 1));
  if (value < -count || value >= count) bad("dim ", value, " is out of range for rank ", rank);
  return value < 0 ? value + count : value;
}

Dims Context::dims(const Dims& values, size_t rank) const {
  Dims normal;
  for (const auto value : values) {
    normal.push_back(dim(value, rank));
    if (std::ranges::count(normal, normal.back()) > 1) bad("dim ", value, " is given twice");
  }
  return normal;
}

Value Context::random_seed() {
  if (!program_.draws) unsupported("random numbers of PyTorch's generator: the node runs in PyTorch");
  uint64_t key = 0, stream = 0xcbf29ce484222325;  // 64 bits of FNV-1a
  for (const char letter : node.name) stream = (stream ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  const TensorType word{u64, {1}};
  Value seed = graph.literal(word, &key);
  for (size_t k = 0; k < program_.inputs.size(); ++k) {
    const auto& input = program_.inputs[k];
    if (input.name == "seed" && is_integer(input.type.dtype) && product(input.type.dims) == 1)
      seed = reshape_to(*this, cast_to(*this, values_[k], u64), {1});
  }
  return concat(*this, {seed, graph.literal(word, &stream)}, 0);
}

const TensorType& Context::result(size_t k) const {
  if (!wants(k)) bad("the program has no type of result ", k);
  return *node.results[k];
}

void Context::give(size_t k, Value value) {
  if (k < given_.size()) given_[k] = value;
}

void Context::check_all_read() const {
  for (const auto& parameter : parameters_)
    if (!parameter.read && parameter.argument && !parameter.argument->is_none())
      throw Failure(FE_EUNSUPPORTED, "FE-I53",
                    detail::concatenate(where(), ": argument '", parameter.name, "' is not supported"));
}

}  // namespace ferrite::from_torch
