// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defining ops, lowerings and passes in C++: builders over the tables of abi/contrib.h.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/abi/plugin.h"
#include "ferrite/graph.hpp"
#include "ferrite/lowering.hpp"

namespace ferrite::inline v0 {

/// Computes the result types of an op. Throws (fail) if operands or attributes do not fit; `op` has operands
/// and attributes only.
using InferFunction = std::function<std::vector<TensorType>(const Instance& op)>;
/// Records the op's statements. decline() makes the host try the next lowering, and finally the
/// decomposition.
using LowerFunction = std::function<void(Lowering&)>;
/// Builds replacements of the op's results from other ops.
using DecomposeFunction =
    std::function<std::vector<Value>(Graph&, const Instance& op, std::span<const Value> operands)>;

/// The result has the type of operand k.
inline InferFunction same_as(size_t k) {
  return [k](const Instance& op) { return std::vector{op.operand(k)}; };
}
/// NumPy broadcasting of two lists of dims; throws if they do not fit.
inline Dims broadcast_dims(std::string_view op, const Dims& a, const Dims& b) {
  const auto shape = [](const Dims& dims) { return to_string(TensorType{DType::none, dims}).substr(1); };
  Dims result(std::max(a.size(), b.size()));
  for (size_t k = 0; k < result.size(); ++k) {
    int64_t x = k < a.size() ? a[a.size() - 1 - k] : 1, y = k < b.size() ? b[b.size() - 1 - k] : 1;
    if (x != y && x != 1 && y != 1)
      fail("FE-G60", op, ": the shapes ", shape(a), " and ", shape(b), " do not broadcast: ", x, " and ", y,
           " differ, and neither is 1");
    result[result.size() - 1 - k] = x == 1 ? y : x;
  }
  return result;
}
/// The result has the dtype of the last operand and the broadcast dims of all operands; operands
/// [first_typed, ..) must share that dtype.
inline std::vector<TensorType> broadcast(const Instance& op) {
  TensorType result = op.operand(0);
  for (size_t k = 1; k < op.operand_count(); ++k) {
    auto type = op.operand(k);
    if (type.dtype != result.dtype)
      fail("FE-G61", op.op(), ": operands have dtypes ", name_of(result.dtype), " and ", name_of(type.dtype));
    result.dims = broadcast_dims(op.op(), result.dims, type.dims);
  }
  return {result};
}

/// Describes one op; pass it to FERRITE_PLUGIN. Copyable; strings are copied.
class OpDef {
 public:
  explicit OpDef(std::string name) : name_(std::move(name)) {}

  OpDef& doc(std::string text) {
    doc_ = std::move(text);
    return *this;
  }
  /// "x"; "bias?" is optional; "xs..." is variadic and must be the last one.
  OpDef& operands(std::initializer_list<std::string> names) {
    for (const auto& name : names) {
      uint32_t flags = name.ends_with("?")     ? FE_OPERAND_OPTIONAL
                       : name.ends_with("...") ? FE_OPERAND_VARIADIC
                                               : 0;
      size_t cut = flags == FE_OPERAND_OPTIONAL ? 1 : flags == FE_OPERAND_VARIADIC ? 3 : 0;
      operands_.push_back({name.substr(0, name.size() - cut), flags});
    }
    return *this;
  }
  template <class... Names>
    requires(std::convertible_to<Names, std::string> && ...)
  OpDef& operands(Names... names) {
    return operands({std::string(names)...});
  }
  /// An attribute with a default.
  OpDef& attr(Attr value, std::string text = {}) {
    attrs_.push_back({std::move(value), false, std::move(text), 0});
    return *this;
  }
  /// A required attribute; `kind` shows its type by an example value.
  OpDef& required(Attr kind, std::string text = {}) {
    attrs_.push_back({std::move(kind), true, std::move(text), 0});
    return *this;
  }
  /// Declares that the last attribute names a dim, or a set of dims, of operand 0; negative numbers count
  /// from the end.
  OpDef& axis() {
    attrs_.back().flags |= FE_ATTRIBUTE_AXIS;
    return *this;
  }
  /// Declares that the last attribute names dims of result 0 in the same way.
  OpDef& axis_of_result() {
    attrs_.back().flags |= FE_ATTRIBUTE_AXIS_OF_RESULT;
    return *this;
  }
  OpDef& results(uint32_t count) {
    results_ = count;
    return *this;
  }
  OpDef& flags(uint32_t bits) {
    flags_ |= bits;
    return *this;
  }
  OpDef& commutative() { return flags(FE_OP_COMMUTATIVE); }
  OpDef& infer(InferFunction function) {
    infer_ = std::move(function);
    return *this;
  }
  OpDef& shape(InferFunction function) { return infer(std::move(function)); }
  OpDef& lower(LowerFunction function) {
    lower_ = std::move(function);
    return *this;
  }
  OpDef& decompose(DecomposeFunction function) {
    decompose_ = std::move(function);
    return *this;
  }
  /// Graph texts for conformance tests.
  OpDef& samples(std::vector<std::string> texts) {
    samples_ = std::move(texts);
    return *this;
  }
  const std::string& name() const { return name_; }

 private:
  friend class PluginBuilder;
  struct Operand {
    std::string name;
    uint32_t flags;
  };
  struct Attribute {
    Attr value;
    bool required;
    std::string doc;
    uint32_t flags = 0;
  };
  std::string name_, doc_;
  std::vector<Operand> operands_;
  std::vector<Attribute> attrs_;
  std::vector<std::string> samples_;
  uint32_t results_ = 1, flags_ = 0;
  InferFunction infer_;
  LowerFunction lower_;
  DecomposeFunction decompose_;
};
inline OpDef op_def(std::string name) { return OpDef(std::move(name)); }

/// A lowering for an op that another plugin defines, for one device kind ("" = any).
struct LoweringDef {
  std::string op, device;
  LowerFunction lower;
};
inline std::string on(std::string device) { return device; }
inline LoweringDef lowering(std::string op, std::string device, LowerFunction function) {
  return {std::move(op), std::move(device), std::move(function)};
}
inline LoweringDef lowering(std::string op, LowerFunction function) {
  return {std::move(op), {}, std::move(function)};
}

/// A decomposition for an op that another plugin defines. decline() leaves the op to the other decompositions
/// and lowerings.
struct DecompositionDef {
  std::string op;
  DecomposeFunction decompose;
};
inline DecompositionDef decomposition(std::string op, DecomposeFunction function) {
  return {std::move(op), std::move(function)};
}

/// An imperative pass over the graph; returns whether it changed anything.
struct PassDef {
  std::string phase, name;
  std::vector<std::string> after, before;
  std::function<bool(const fe_pass_args&)> run;
  PassDef& run_after(std::string pass) {
    after.push_back(std::move(pass));
    return *this;
  }
  PassDef& run_before(std::string pass) {
    before.push_back(std::move(pass));
    return *this;
  }
};
/// pass("pre_grad", "acme.drop_dropout", fn): fn(Graph&) -> bool.
inline PassDef pass(std::string phase, std::string name, std::function<bool(Graph&)> function) {
  return {
      std::move(phase), std::move(name), {}, {}, [function = std::move(function)](const fe_pass_args& args) {
        if (!args.graph) fail("FE-P23", "this hook has no graph");
        Graph graph(args.graph);
        return function(graph);
      }};
}
/// A pass for phase pre_fusion.
inline PassDef loop_pass(std::string name, std::function<bool(const fe_loop_api&)> function) {
  return {"pre_fusion", std::move(name), {}, {}, [function = std::move(function)](const fe_pass_args& args) {
            if (!args.loops) fail("FE-P23", "this hook has no loop program");
            return function(*args.loops);
          }};
}
/// A pass for phase post_fusion.
inline PassDef schedule_pass(std::string name, std::function<bool(const fe_schedule_api&)> function) {
  return {"post_fusion", std::move(name), {}, {}, [function = std::move(function)](const fe_pass_args& args) {
            if (!args.schedule) fail("FE-P23", "this hook has no schedule");
            return function(*args.schedule);
          }};
}

}  // namespace ferrite::inline v0
