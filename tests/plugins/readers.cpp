// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops that models reach by name or by an alias, and import handlers: of several versions, one that declines, ones that are wrong.
#include <stdexcept>

#include "ferrite/plugin.hpp"

namespace {

using namespace ferrite;
using Operands = std::span<const Value>;

/// x * scale + bias, cast; an operand that may be absent, and an attribute of each kind.
OpDef affine() {
  return op_def("test.affine")
      .operands("x", "bias?")
      .required(attr("scale", 1.0))
      .attr(attr("negate", false))
      .attr(attr("times", 1))
      .attr(attr("dtype", f32))
      .attr(attr("label", "none"))
      .attr(attr("sizes", Dims{}))
      .infer([](const Instance& op) {
        return std::vector{TensorType{op.attrs.dtype("dtype"), op.operand(0).dims}};
      })
      .decompose([](Graph& graph, const Instance& op, Operands x) {
        double factor = op.attrs.number("scale") * static_cast<double>(op.attrs.integer("times"));
        if (op.attrs.boolean("negate")) factor = -factor;
        Value y = graph.make("mul", {x[0], graph.scalar(x[0].dtype(), factor)});
        if (op.has_operand(1)) y = graph.make("add", {y, x[1]});
        const DType dtype = op.attrs.dtype("dtype");
        return std::vector{dtype == y.dtype() ? y : graph.make("cast", {y}, {attr("dtype", dtype)})};
      });
}

OpDef sum() {
  return op_def("test.sum")
      .operands("first", "others...")
      .infer(same_as(0))
      .decompose([](Graph& graph, const Instance&, Operands x) {
        Value y = x[0];
        for (size_t k = 1; k < x.size(); ++k) y = graph.make("add", {y, x[k]});
        return std::vector{graph.make("add", {y, graph.scalar(y.dtype(), 0)})};
      });
}

OpDef both() {
  return op_def("test.both")
      .operands("x")
      .results(2)
      .infer([](const Instance& op) { return std::vector{op.operand(0), op.operand(0)}; })
      .decompose([](Graph& graph, const Instance&, Operands x) {
        return std::vector{graph.make("neg", {x[0]}), graph.make("abs", {x[0]})};
      });
}

/// Several nodes, an attribute with a default, a tensor in an attribute, an input that must be a constant.
std::vector<Value> table(Graph& graph, const ImportNode& node) {
  const Value values = node.tensor("values");
  if (!values) fail("test.readers/values", node.place(), ": attribute 'values' is missing");
  const auto shift = node.constant(1);
  if (!shift) fail("test.readers/shift", node.place(), ": input 1 must be a constant");
  const Value moved = graph.make("add", {values, *shift});
  const Value scaled = graph.make("mul", {moved, graph.scalar(f32, node.attrs.number("factor", 2.0))});
  std::vector<Value> results{graph.make("add", {node.operand(0), scaled})};
  if (node.wants(1)) results.push_back(moved);
  return results;
}

std::vector<Value> times(Graph& graph, const ImportNode& node, double factor) {
  const Value x = node.operand(0);
  return {graph.make("mul", {x, graph.scalar(x.dtype(), factor)})};
}

/// In place of the importer's own Celu, where alpha is 7.
std::vector<Value> celu(Graph& graph, const ImportNode& node) {
  graph.make("exp", {node.operand(0)});
  if (node.attrs.number("alpha", 1.0) != 7) decline("only for an alpha of 7");
  return times(graph, node, 100);
}

std::vector<Value> declining(Graph&, const ImportNode&) { decline("never for anything"); }
std::vector<Value> nothing(Graph&, const ImportNode& node) {
  node.operand(0);
  return {};
}
std::vector<Value> too_many(Graph&, const ImportNode& node) { return {node.operand(0), node.operand(0)}; }
std::vector<Value> adds_an_input(Graph& graph, const ImportNode& node) {
  node.operand(0);
  return {graph.input("more", TensorType{f32, {2, 3}})};
}
/// Fails in the way that the attribute says, none of which is a decline.
std::vector<Value> failing(Graph& graph, const ImportNode& node) {
  const Value x = node.operand(0);
  const auto how = node.attrs.string("how");
  if (how == "no op") return {graph.make("nosuch", {x})};
  if (how == "no attribute") return {graph.make("neg", {x}, {attr("strange", 1.0)})};
  if (how == "shapes") return {graph.make("add", {x, graph.make("reshape", {x}, {attr("shape", Dims{6})})})};
  if (how == "exception") throw std::runtime_error("boom");
  throw Failure(FE_EUNSUPPORTED, "test.readers/unsupported", "not a decline");
}

}  // namespace

FERRITE_PLUGIN("test.readers", "1.0.0", import_handler("onnx:com.test::Table", table), affine(), sum(),
               both(),
               import_handler("onnx:com.test::Times",
                              [](Graph& graph, const ImportNode& node) { return times(graph, node, 2); })
                   .versions(1, 2),
               import_handler("onnx:com.test::Times",
                              [](Graph& graph, const ImportNode& node) { return times(graph, node, 3); })
                   .versions(4, 4),
               import_handler("onnx:Celu", celu),
               import_handler("onnx:custom::Inner",
                              [](Graph& graph, const ImportNode& node) { return times(graph, node, 10); }),
               import_handler("onnx:com.test::Never", declining),
               import_handler("onnx:com.test::Failing", failing),
               import_handler("onnx:com.test::Nothing", nothing),
               import_handler("onnx:com.test::TooMany", too_many),
               import_handler("onnx:com.test::Input", adds_an_input))
