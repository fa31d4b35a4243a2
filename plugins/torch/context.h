// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The context of a handler: one call of an overload with its arguments, the types of its results as PyTorch
// inferred them, and the graph to add to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/graph.hpp"
#include "format/program.h"
#include "registry.h"

namespace ferrite::from_torch {

class Context {
 public:
  /// `values`: the graph's value of each value of the program that is defined so far.
  /// Throws FE-I52 if the call has arguments that the overload does not define.
  Context(Graph& graph, const Program& program, const ProgramNode& node, const OpEntry& entry,
          const std::vector<Value>& values);
  Context(const Context&) = delete;

  Graph& graph;
  const ProgramNode& node;
  const OpEntry& entry;

  // Arguments, by the names of the overload's schema. One that the call leaves out is None. The typed
  // accessors throw FE-I52 if an argument is of another kind.
  const Argument& argument(std::string_view name);
  bool has(std::string_view name) { return !argument(name).is_none(); }
  bool is_tensor(std::string_view name) { return argument(name).tensor() != nullptr; }
  Value tensor(std::string_view name);
  Value optional(std::string_view name) { return has(name) ? tensor(name) : Value(); }
  std::vector<Value> tensors(std::string_view name);           ///< a list without None
  std::vector<Value> optional_tensors(std::string_view name);  ///< None is an absent value
  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {});
  double number(std::string_view name, std::optional<double> otherwise = {});  ///< also of an integer or bool
  bool flag(std::string_view name, bool otherwise);
  std::string text(std::string_view name, std::string_view otherwise);
  Dims integers(std::string_view name);  ///< a list; one integer is a list of one; None is an empty list
  std::optional<DType> dtype(std::string_view name);

  /// A tensor argument, or a number as a constant of rank 0, converted to `dtype`.
  Value operand(std::string_view name, DType dtype);
  /// The dtype in which PyTorch computes with these arguments (tensors and numbers); the rules are those of
  /// "Type promotion" in PyTorch's documentation.
  DType promoted(std::initializer_list<std::string_view> names);

  /// A dim in [0, rank); negative ones count from the end. A tensor of rank 0 has the dims 0 and -1.
  int64_t dim(int64_t value, size_t rank) const;
  /// Each dim in [0, rank); FE-I52 if one occurs twice.
  Dims dims(const Dims& values, size_t rank) const;

  /// The seed of the node's random numbers, u64[2]: that of the program, and a number of the node's name.
  /// FE-I53 where PyTorch draws them.
  Value random_seed();

  // Results. A handler gives each result that wants() is true for; the build loop checks their types.
  size_t result_count() const { return node.results.size(); }
  bool wants(size_t k) const { return k < node.results.size() && node.results[k].has_value(); }
  /// The type of result k as PyTorch inferred it.
  const TensorType& result(size_t k = 0) const;
  void give(Value value) { give(0, value); }
  void give(size_t k, Value value);
  const std::vector<Value>& given() const { return given_; }

  template <class... Parts>
  Value make(std::string_view op, std::initializer_list<Value> operands, Parts&&... attrs) {
    return graph.make(op, std::vector<Value>(operands), std::vector<Attr>{std::forward<Parts>(attrs)...});
  }

  std::string where() const { return from_torch::where(node); }
  /// The arguments are not what the overload defines.
  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail("FE-I52", where(), ": ", parts...);
  }
  /// The overload is known, this use of it is not supported.
  template <class... Parts>
  [[noreturn]] void unsupported(const Parts&... parts) const {
    throw Failure(FE_EUNSUPPORTED, "FE-I53", detail::concatenate(where(), ": ", parts...));
  }
  /// Refuses a call of which the handler read not every argument: it would be ignored silently.
  void check_all_read() const;

 private:
  struct Parameter {
    std::string_view name;
    const Argument* argument = nullptr;
    bool read = false;
  };
  Value value_of(const Argument& argument, std::string_view name) const;

  const Program& program_;
  const std::vector<Value>& values_;
  std::vector<Parameter> parameters_;
  std::vector<Value> given_;
};

}  // namespace ferrite::from_torch
