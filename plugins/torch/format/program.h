// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A PyTorch program in memory: a list of calls of ATen overloads. Both readers (node streams and .pt2
// archives) make it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/graph.hpp"

namespace ferrite::from_torch {

/// A value of the program, by its number: inputs come first, then constants, then the results of each node.
struct ValueRef {
  size_t number = 0;
  bool operator==(const ValueRef&) const = default;
};

/// An argument of a call, as PyTorch's schemas have them. None is std::monostate.
struct Argument {
  using List = std::vector<Argument>;
  std::variant<std::monostate, ValueRef, int64_t, double, bool, std::string, DType, List> value;

  bool is_none() const { return std::holds_alternative<std::monostate>(value); }
  const ValueRef* tensor() const { return std::get_if<ValueRef>(&value); }
  const List* list() const { return std::get_if<List>(&value); }
};

/// A result that the program does not have: None, or one that is no tensor.
using ResultType = std::optional<TensorType>;

/// One call of an overload.
struct ProgramNode {
  std::string target;  ///< "aten.add.Tensor"
  std::string name;    ///< of the node; becomes the origin of the nodes made for it
  std::string place;   ///< the line of the model that made it: "model.py:12"; may be empty
  std::vector<Argument> args;
  std::vector<std::pair<std::string, Argument>> kwargs;
  std::vector<ResultType> results;  ///< as PyTorch has inferred them
  bool converts = false;            ///< result 0 is converted to its dtype, as in-place overloads do
};

/// How a tensor lies in memory. An archive says it, a node stream does not.
struct Layout {
  Dims strides;
  int64_t offset = 0;
  std::string device;  ///< its type, and its number if it has one
};

struct ProgramPort {
  std::string name;
  TensorType type;
  size_t value = 0;                  ///< for outputs
  std::optional<size_t> mutated_by;  ///< for inputs: the value that the input's memory holds after the run
  bool donated = false;              ///< for inputs: the program may overwrite the memory
};

/// A weight, buffer or constant of an archive: a range of its file.
struct ProgramConstant {
  std::string name;
  TensorType type;
  Dims order;  ///< its dims from the slowest to the fastest in memory
  uint64_t offset = 0;
};

struct Program {
  std::string file;  ///< that the constants are in; empty if there are none
  /// Whether random nodes are functions of the input "seed", an integer, or of 0 if there is none; if not,
  /// PyTorch draws them.
  bool draws = false;
  std::vector<ProgramPort> inputs;
  std::vector<ProgramConstant> constants;
  std::vector<ProgramNode> nodes;
  std::vector<ProgramPort> outputs;
  std::vector<Layout> layouts;  ///< by value, of archives; empty otherwise
};

/// "node 'add_1' (aten.add.Tensor) at model.py:12"
std::string where(const ProgramNode& node);

/// The most nodes, values and nested lists that a program may have; more is damage.
inline constexpr size_t most_values = 1u << 24;

/// "float32" or "torch.float32" as a dtype; none for a name that is not known.
DType dtype_of(std::string_view name);

/// An overload's parts: "aten", "add_" and "Tensor" of "aten.add_.Tensor".
struct TargetParts {
  std::string_view space, name, overload;
};
TargetParts parts_of(std::string_view target);

/// Checks that each value is defined before it is used, and that ports are named apart. FE-I51.
void check(const Program& program);

}  // namespace ferrite::from_torch
