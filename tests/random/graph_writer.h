// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph in the making: values with their shapes and error bounds, and the text.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "graph_generator.h"
#include "random_source.h"

namespace ferrite::random_graphs {

inline constexpr int64_t most_elements = 16384;  ///< of one value: the interpreter walks them one at a time

struct Tensor {
  std::string name;
  DType dtype = DType::none;
  Dims dims;
  double magnitude = 1;  ///< no finite element is larger
  double error = 0;      ///< how far an element may be off
  double quantum = 0;    ///< > 0: elements are exact multiples of it
  bool special = false;  ///< may hold NaN or infinities
  int uses = 0;

  size_t rank() const { return dims.size(); }
  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
};

/// The distance of neighbouring numbers near 1, with room for what a vector function loses.
inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::f16_: return 0x1p-10;
    case DType::bf16_: return 0x1p-7;
    case DType::f32_: return 0x1p-22;
    case DType::f64_: return 0x1p-44;
    default: return is_f8(dtype) ? std::ldexp(1.0, -f8_format(dtype).mantissa) : 0;
  }
}
inline double most_integer(DType dtype) {
  return dtype == DType::bool_ ? 1 : std::ldexp(1.0, bits_of(dtype) - (is_signed(dtype) ? 1 : 0));
}

class GraphWriter {
 public:
  explicit GraphWriter(uint64_t seed) : random(seed) {}

  RandomSource random;
  std::vector<Tensor> values;

  /// Adds an input and gives its number.
  size_t input(DType dtype, Dims dims, Contents contents, double magnitude, bool special) {
    Tensor tensor{fmt::format("x{}", inputs_.size()), dtype, std::move(dims), magnitude, 0, 0, special, 0};
    if (contents == Contents::quantised) tensor.quantum = 0.5;
    if (contents == Contents::whole || contents == Contents::index) tensor.quantum = is_float(dtype) ? 1 : 0;
    if (contents == Contents::extreme) tensor.magnitude = most_integer(dtype);
    inputs_.push_back({tensor.name, dtype, tensor.dims, contents, magnitude, special, {}, 0});
    return add(std::move(tensor));
  }
  /// A constant with random multiples of 1/8 in [-2, 2]: a literal or, where it is large, a weight.
  size_t constant(DType dtype, const Dims& dims) {
    Tensor tensor{fmt::format("c{}", constants_), dtype, dims, 2, 0, 0.125, false, 0};
    const bool large = tensor.elements() * bits_of(dtype) > 8 * 1024 || random.chance(0.3);
    std::vector<double> elements(static_cast<size_t>(tensor.elements()));
    for (auto& element : elements) element = 0.125 * static_cast<double>(random.integer(-16, 16));
    auto text = fmt::format("{}[{}] {{{}}}", name_of(dtype), fmt::join(dims, ","), fmt::join(elements, ", "));
    constant_text_ += large ? fmt::format("  #{} = data {}\n", tensor.name, text)
                            : fmt::format("  %{} = literal {}\n", tensor.name, text);
    ++constants_;
    tensor.name = (large ? "#" : "%") + tensor.name;
    return add(std::move(tensor));
  }
  std::string scalar(DType dtype, double value) {
    auto name = fmt::format("%c{}", constants_++);
    if (is_float(dtype))
      constant_text_ += fmt::format("  {} = literal {}[] {{{}}}\n", name, name_of(dtype), value);
    else
      constant_text_ +=
          fmt::format("  {} = literal {}[] {{{}}}\n", name, name_of(dtype), static_cast<int64_t>(value));
    return name;
  }
  /// One node: `call` is what stands after '='. The tensor's name is made here.
  size_t node(Tensor tensor, std::string call) {
    tensor.name = fmt::format("v{}", nodes_++);
    body_ += fmt::format("  %{} = {}\n", tensor.name, call);
    tensor.uses = 0;
    return add(std::move(tensor));
  }
  /// Several results of one node, all named before.
  std::vector<size_t> nodes(std::vector<Tensor> tensors, const std::string& call) {
    std::vector<size_t> numbers;
    std::vector<std::string> names;
    for (auto& tensor : tensors) {
      tensor.name = fmt::format("v{}", nodes_++);
      tensor.uses = 0;
      names.push_back("%" + tensor.name);
      numbers.push_back(add(std::move(tensor)));
    }
    body_ += fmt::format("  {} = {}\n", fmt::join(names, ", "), call);
    return numbers;
  }
  /// The name with its sigil; counts as a use.
  std::string use(size_t k) {
    ++values[k].uses;
    const auto& name = values[k].name;
    return name[0] == '%' || name[0] == '#' ? name : "%" + name;
  }
  int node_count() const { return nodes_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  /// Input number `input` holds value k after the run.
  void mutate(size_t input, size_t k) {
    inputs_[input].absolute = values[k].error;
    inputs_[input].mutated_by = use(k);
  }

  GeneratedGraph finish(const std::vector<size_t>& outputs) {
    GeneratedGraph graph;
    std::vector<std::string> ports, results;
    for (const auto& input : inputs_)
      ports.push_back(fmt::format("%{}: {}[{}]{}{}", input.name, name_of(input.dtype),
                                  fmt::join(input.dims, ","), input.mutated_by.empty() ? "" : " mutated_by ",
                                  input.mutated_by));
    for (size_t k = 0; k < outputs.size(); ++k) {
      results.push_back(fmt::format("{} \"out{}\"", use(outputs[k]), k));
      graph.absolute.push_back(values[outputs[k]].error);
    }
    graph.text = fmt::format("ferrite graph 0\ngraph @random({}) -> ({}) {{\n{}{}}}\n",
                             fmt::join(ports, ", "), fmt::join(results, ", "), constant_text_, body_);
    graph.inputs = inputs_;
    return graph;
  }

 private:
  size_t add(Tensor tensor) {
    values.push_back(std::move(tensor));
    return values.size() - 1;
  }
  std::vector<Input> inputs_;
  std::string constant_text_, body_;
  int nodes_ = 0, constants_ = 0;
};

}  // namespace ferrite::random_graphs
