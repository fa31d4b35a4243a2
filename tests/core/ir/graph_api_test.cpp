// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The verifier, the op registry, weights, and the graph as plugins see it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>

#include "core/ir/graph/api.h"
#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "tests/core/ir/graph_ops.h"

namespace ferrite::core::graph {
namespace {

using test::f32_type;

const test::Ops& ops() {
  static const test::Ops ops;
  return ops;
}
Graph read(const std::string& statements, const std::string& inputs = "%x: f32[2,3]",
           const std::string& outputs = "") {
  auto graph =
      parse("ferrite graph 0\ngraph @main(" + inputs + ") -> (" + outputs + ") {\n" + statements + "}\n",
            {"t.fe", "", &ops().registry()});
  EXPECT_TRUE(graph) << graph.error().message();
  return graph ? std::move(*graph) : Graph();
}
std::string code(const Result<void>& result) { return result ? "" : result.error().code; }

TEST(GraphVerify, FindsWhatAPassBroke) {
  Graph graph = read("%a = relu(%x)\n%b = relu(%a)\n%s = split(%b) {sizes = [1], axis = 0}\n", "%x: f32[2,3]",
                     "%b \"y\"");
  const OpRegistry& registry = ops().registry();
  ASSERT_EQ(code(verify(graph, registry)), "");
  const std::vector<NodeId> nodes = graph.nodes();
  const ValueId x = graph.inputs()[0].value;
  graph.commit();
  const auto broken = [&](auto edit) {
    const Mark mark = graph.mark();
    edit();
    std::string whole = code(verify(graph, registry));
    const std::string touched = code(verify(graph, registry, graph.touched(mark)));
    EXPECT_EQ(whole, touched);
    EXPECT_TRUE(graph.rollback(mark));
    EXPECT_EQ(code(verify(graph, registry)), "");
    return whole;
  };
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_operand(nodes[0], 0, graph.node(nodes[1]).results[0])); }),
            "FE-G55");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_operand(nodes[0], 0, graph.node(nodes[0]).results[0])); }),
            "FE-G55");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_operand(nodes[0], 0, {})); }), "FE-G14");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_type(x, f32_type({3, 2}))); }), "FE-G57");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_attribute(nodes[0], {"k", int64_t{1}})); }), "FE-G15");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_attribute(nodes[2], {"axis", 1.0})); }), "FE-G15");
  EXPECT_EQ(
      broken([&] { EXPECT_TRUE(graph.set_attribute(nodes[2], {"sizes", std::vector<int64_t>{1, 1}})); }),
      "FE-G57");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_attribute(nodes[2], {"axis", int64_t{7}})); }), "test/shape");
  EXPECT_EQ(broken([&] { EXPECT_TRUE(graph.set_mutated_by(0, graph.node(nodes[2]).results[0])); }), "FE-G52");
  EXPECT_EQ(broken([&] {
              auto k = graph.add_input("k", f32_type({}));
              EXPECT_TRUE(graph.set_output_place(0, *k, {}));
            }),
            "FE-G53");
  EXPECT_EQ(broken([&] {
              NodeSpec spec;
              spec.op = "unheard.of";
              EXPECT_TRUE(graph.make(spec));
            }),
            "FE-G13");
  graph.set_forward_outputs(2);
  EXPECT_EQ(code(verify(graph, registry)), "FE-G53");
}

TEST(GraphOps, DefinitionsAreChecked) {
  fe_op_def def = ops().defs()[0];
  const auto refused = [](const fe_op_def& given) {
    auto info = OpInfo::read(given, "acme");
    return info ? "" : info.error().code;
  };
  EXPECT_EQ(refused(def), "");
  def.infer = nullptr;
  EXPECT_EQ(refused(def), "FE-G20");
  def = ops().defs()[0];
  def.size = 8;  // a table that ends after its size
  EXPECT_EQ(refused(def), "FE-G20");
  def = ops().defs()[0];
  def.operands.data = nullptr;
  EXPECT_EQ(refused(def), "FE-G20");
  def = ops().defs()[0];
  const fe_operand_def pair[] = {{sizeof(fe_operand_def), {"a", 1}, FE_OPERAND_VARIADIC, 0},
                                 {sizeof(fe_operand_def), {"b", 1}, 0, 0}};
  def.operands = abi::array(pair, 2);
  EXPECT_EQ(refused(def), "FE-G20");
  OpRegistry registry;
  EXPECT_TRUE(registry.add(ops().defs()[0], "one"));
  const auto twice = registry.add(ops().defs()[0], "two");
  EXPECT_EQ(code(twice), "FE-G21");
  EXPECT_NE(twice.error().text.find("'one'"), std::string::npos);
}

TEST(GraphWeights, AreMappedWhenReadAndKnownByIdentity) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "graph_weights";
  std::filesystem::create_directories(folder);
  const float numbers[] = {1, 2, 3, 4};
  std::ofstream(folder / "w.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(numbers), sizeof(numbers));
  auto graph = parse(
      "ferrite graph 0\ngraph @main() -> () {\n#a = weight(\"w.bin\", 4, 8) : f32[2]\n"
      "#b = weight(\"w.bin\", 12, 8) : f32[2]\n#c = weight(\"none.bin\", 0, 8) : f32[2]\n#d = memory : "
      "f32[2]\n"
      "#e = weight(\".\", 0, 8) : f32[2]\n#f = weight(\"w.bin\", 18446744073709551615, 8) : f32[2]\n"
      "%l = literal f32[1] {5}\n}\n",
      {"t.fe", folder.string(), nullptr});
  ASSERT_TRUE(graph) << graph.error().message();
  const auto bytes = [&](const char* name) { return graph->constant_bytes(*graph->find_value(name)); };
  ASSERT_TRUE(bytes("a"));
  EXPECT_TRUE(std::ranges::equal(bytes("a")->first(8), std::as_bytes(std::span(numbers)).subspan(4, 8)));
  EXPECT_EQ(bytes("b").error().code, "FE-G41");
  EXPECT_EQ(bytes("f").error().code, "FE-G41");
  EXPECT_EQ(bytes("c").error().code, "FE-G40");
  EXPECT_EQ(bytes("e").error().code, "FE-G40");
  EXPECT_EQ(bytes("d").error().code, "FE-G42");
  EXPECT_EQ(bytes("l")->size(), 4u);
  const Graph copy = *graph;
  EXPECT_EQ(copy.constant_bytes(*copy.find_value("a"))->data(), bytes("a")->data());
  const auto identity = graph->weight_identity(*graph->find_value("a"));
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->offset, 4u);
  EXPECT_EQ(identity->file_bytes, 16u);
  EXPECT_EQ(graph->weight_identity(*graph->find_value("l")).error().code, "FE-G42");
}

/// Calls slots as a plugin would, keeping the code of the last error.
struct Caller {
  explicit Caller(Graph& graph) : host(graph, ops().registry()), api(host.api()) {
    host.set_made_by("test");
    call = abi::sized<fe_call>();
    call.host = this;
    call.set_error = [](void* self, fe_string given, fe_string) {
      static_cast<Caller*>(self)->code = abi::string(given);
    };
    call.cancelled = [](void*) { return int32_t{0}; };
  }
  int32_t make(std::string_view op, const std::vector<fe_value>& operands, std::vector<fe_attr> attrs,
               fe_make_out& out, fe_node before = 0, fe_node like = 0) {
    auto args = abi::sized<fe_make_args>();
    args.op = abi::string(op);
    args.operands = abi::array(operands.data(), operands.size());
    args.attrs = abi::array(attrs.data(), attrs.size());
    args.before = before;
    args.like = like;
    out = abi::sized<fe_make_out>();
    out.results = results;
    out.capacity = 4;
    return api->make(api->self, &call, &args, &out);
  }
  template <class Args, class Out>
  int32_t operator()(int32_t (*slot)(void*, fe_call*, const Args*, Out*), Args args, Out& out) {
    args.size = sizeof(Args);
    out.size = sizeof(Out);
    return slot(api->self, &call, &args, &out);
  }
  GraphApi host;
  const fe_graph_api* api;
  fe_call call;
  fe_value results[4] = {};
  std::string code;
};

TEST(GraphApi, ReadsAndEdits) {
  Graph graph = read("%a = relu(%x) from \"Relu_0\"\n%b = relu(%a)\n", "%x: f32[2,3]", "%b \"y\"");
  Caller call(graph);
  fe_graph_view view{};
  ASSERT_EQ(call(call.api->view, fe_none{}, view), FE_OK);
  ASSERT_EQ(view.nodes.count, 2u);
  const auto first = abi::element<fe_node>(view.nodes, 0), second = abi::element<fe_node>(view.nodes, 1);
  fe_node_view node{};
  ASSERT_EQ(call(call.api->node, fe_node_args{0, first}, node), FE_OK);
  EXPECT_EQ(abi::view(node.op), "relu");
  EXPECT_EQ(abi::view(node.origin), "Relu_0");
  const auto x = abi::element<fe_value>(node.operands, 0), a = abi::element<fe_value>(node.results, 0);
  fe_value_view value{};
  ASSERT_EQ(call(call.api->value, fe_value_args{0, a}, value), FE_OK);
  EXPECT_EQ(value.use_count, 1u);
  EXPECT_EQ(value.producer, first);
  EXPECT_EQ(value.type.rank, 2u);
  EXPECT_EQ(value.type.dims[1], 3);
  fe_users_out users{};
  ASSERT_EQ(call(call.api->users, fe_value_args{0, a}, users), FE_OK);
  ASSERT_EQ(users.nodes.count, 1u);
  EXPECT_EQ(abi::element<fe_node>(users.nodes, 0), second);

  fe_make_out made{};
  ASSERT_EQ(call.make("add", {a, x}, {}, made, second, first), FE_OK) << call.code;
  EXPECT_EQ(made.count, 1u);
  fe_none none{};
  ASSERT_EQ(call(call.api->set_operand, fe_operand_args{0, second, 0, 0, call.results[0]}, none), FE_OK);
  fe_handle_out handle{};
  const float numbers[6] = {};
  const TensorType type = f32_type({2, 3});
  ASSERT_EQ(call(call.api->literal, fe_literal_args{0, view_of(type), numbers, sizeof(numbers)}, handle),
            FE_OK);
  ASSERT_EQ(call(call.api->value, fe_value_args{0, handle.handle}, value), FE_OK);
  EXPECT_EQ(value.constant, FE_CONSTANT_LITERAL);
  EXPECT_EQ(value.data_bytes, 24u);
  ASSERT_EQ(call(call.api->replace_uses, fe_replace_args{0, x, handle.handle}, none), FE_OK);
  EXPECT_EQ(print(graph),
            "ferrite graph 0\ngraph @main(%x: f32[2,3]) -> (%b \"y\") {\n  %0 = literal f32[2,3] {0, 0, 0, "
            "0, 0, 0}\n"
            "  %a = relu(%0) : f32[2,3] from \"Relu_0\"\n  %1 = add(%a, %0) : f32[2,3] from \"Relu_0\" by "
            "\"test\"\n"
            "  %b = relu(%1) : f32[2,3]\n}\n");
  EXPECT_TRUE(verify(graph, ops().registry()));
}

TEST(GraphApi, EditsInferTypesDownstream) {
  Graph graph =
      read("%a = relu(%x)\n%b = relu(%a)\n%c = acme.leaky(%b)\n%d = split(%b) {axis = 0, sizes = [1]}\n",
           "%x: f32[2,3], %z: f32[5]", "%c \"y\"");
  Caller call(graph);
  const std::vector<NodeId> nodes = graph.nodes();
  const ValueId z = graph.inputs()[1].value;
  fe_none none{};
  ASSERT_EQ(call(call.api->set_operand, fe_operand_args{0, nodes[0].bits, 0, 0, z.bits}, none), FE_OK)
      << call.code;
  EXPECT_EQ(graph.type(*graph.find_value("c")), f32_type({5}));
  EXPECT_TRUE(verify(graph, ops().registry()));
  auto attr = abi::sized<fe_attr>();
  attr.name = abi::string(std::string_view("alpha"));
  attr.kind = FE_ATTR_INT;
  attr.i = 3;
  ASSERT_EQ(call(call.api->set_attr, fe_attr_args{0, nodes[2].bits, attr}, none), FE_OK);
  EXPECT_EQ(graph.node(nodes[2]).find("alpha")->value, AttributeValue(3.0));

  // What cannot be inferred is undone.
  const std::string before = print(graph);
  attr.name = abi::string(std::string_view("axis"));
  attr.i = 1;
  EXPECT_EQ(call(call.api->set_attr, fe_attr_args{0, nodes[3].bits, attr}, none), FE_EINVALID);
  EXPECT_EQ(call.code, "test/shape");
  auto scalar = graph.add_input("s", f32_type({}));
  EXPECT_EQ(call(call.api->replace_uses, fe_replace_args{0, graph.find_value("a")->bits, scalar->bits}, none),
            FE_EINVALID);
  EXPECT_EQ(print(graph).size(), before.size() + std::string(", %s: f32[]").size());
}

TEST(GraphApi, SaysWhatBecomesOfTheMemoryOfAnInput) {
  Graph graph = read("%a = relu(%x)\n%b = relu(%a)\n", "%x: f32[2,3], %y: f32[2,3]", "%b \"y\"");
  Caller call(graph);
  const fe_value x = graph.inputs()[0].value.bits, y = graph.inputs()[1].value.bits;
  const fe_value a = graph.find_value("a")->bits;
  const auto set = [&](fe_value input, fe_value by, uint32_t flags) {
    fe_none none{};
    return call(call.api->set_input_memory, fe_input_memory_args{0, input, by, flags, 0}, none);
  };
  ASSERT_EQ(set(x, a, 0), FE_OK);
  ASSERT_EQ(set(y, 0, FE_INPUT_DONATED), FE_OK);
  EXPECT_NE(print(graph).find("%x: f32[2,3] mutated_by %a, %y: f32[2,3] donated)"), std::string::npos);
  ASSERT_EQ(set(x, 0, 0), FE_OK);
  EXPECT_FALSE(graph.inputs()[0].mutated_by);
  EXPECT_EQ(set(a, a, 0), FE_ESTALE);
  EXPECT_EQ(set(x, UINT64_MAX, 0), FE_ESTALE);
  EXPECT_EQ(set(x, a, 2), FE_EINVALID);
  EXPECT_EQ(call.code, "FE-G22");
}

TEST(GraphApi, BadHandlesAndStructsAreErrors) {
  Graph graph = read("%a = relu(%x)\n"), other = read("%a = relu(%x)\n");
  Caller call(graph);
  const NodeId node = graph.first();
  const fe_value x = graph.inputs()[0].value.bits;
  fe_none none{};
  fe_make_out made{};
  fe_node_view view{};
  ASSERT_EQ(call(call.api->erase, fe_node_args{0, node.bits}, none), FE_OK);
  EXPECT_EQ(call(call.api->erase, fe_node_args{0, node.bits}, none), FE_ESTALE);
  EXPECT_EQ(call.code, "FE-G03");
  EXPECT_EQ(call(call.api->node, fe_node_args{0, other.first().bits}, view), FE_ESTALE);
  EXPECT_EQ(call(call.api->node, fe_node_args{0, 0}, view), FE_ESTALE);
  EXPECT_EQ(call(call.api->node, fe_node_args{0, UINT64_MAX}, view), FE_ESTALE);
  EXPECT_EQ(call.make("relu", {other.inputs()[0].value.bits}, {}, made), FE_ESTALE);
  EXPECT_EQ(call.make("relu", {x}, {}, made, node.bits), FE_ESTALE);
  EXPECT_EQ(call.make("relu", {x}, {}, made, 0, node.bits), FE_ESTALE);
  EXPECT_EQ(call.make("nothing", {x}, {}, made), FE_EUNSUPPORTED);
  EXPECT_EQ(call.code, "FE-G13");
  EXPECT_EQ(call.make("relu", {x}, {fe_attr{}}, made), FE_EINVALID);
  EXPECT_EQ(call.code, "FE-G22");
  auto args = abi::sized<fe_make_args>();
  args.op = abi::string(std::string_view("relu"));
  args.operands = {nullptr, 3, 8};
  EXPECT_EQ(call.api->make(call.api->self, &call.call, &args, nullptr), FE_EINVALID);
  EXPECT_EQ(call.api->make(call.api->self, &call.call, nullptr, nullptr), FE_EINVALID);
  EXPECT_EQ(call.code, "FE-G23");
  EXPECT_EQ(call.api->make(nullptr, nullptr, &args, nullptr), FE_EINVALID);
  // Structs that reach into the next ones.
  const std::array<fe_attr, 2> attrs{abi::sized<fe_attr>(), abi::sized<fe_attr>()};
  args.operands = {};
  args.attrs = {attrs.data(), 2, sizeof(fe_attr) / 2};
  call.code.clear();
  EXPECT_EQ(call.api->make(call.api->self, &call.call, &args, nullptr), FE_EINVALID);
  EXPECT_EQ(call.code, "FE-G22");
  fe_handle_out handle{};
  auto type = abi::sized<fe_tensor_type>();
  type.rank = 1u << 31;
  EXPECT_EQ(call(call.api->literal, fe_literal_args{0, type, nullptr, 0}, handle), FE_EINVALID);
  EXPECT_EQ(call(call.api->evaluate, fe_value_args{0, x}, handle), FE_EUNSUPPORTED);
  // A peer with a smaller struct gets what fits.
  struct {
    fe_node_view view;
  } small{};
  small.view.size = offsetof(fe_node_view, operands);
  const NodeId again = *graph.make({"relu", {graph.inputs()[0].value}, {}, {f32_type({2, 3})}, {}, {}, {}});
  const auto node_args = fe_node_args{sizeof(fe_node_args), again.bits};
  ASSERT_EQ(call.api->node(call.api->self, &call.call, &node_args, &small.view), FE_OK);
  EXPECT_EQ(abi::view(small.view.op), "relu");
  EXPECT_EQ(small.view.operands.data, nullptr);
}

TEST(GraphApi, EvaluateGoesToTheOwner) {
  Graph graph = read("%a = relu(%x)\n");
  Caller call(graph);
  call.host.set_evaluate([](Graph& g, ValueId value) -> Result<ValueId> {
    const float one = 1;
    EXPECT_EQ(g.value(value).name, "a");
    return g.add_literal(f32_type({}), std::as_bytes(std::span(&one, 1)));
  });
  fe_handle_out handle{};
  ASSERT_EQ(call(call.api->evaluate, fe_value_args{0, graph.find_value("a")->bits}, handle), FE_OK);
  EXPECT_EQ(graph.constants()[0].bits, handle.handle);
}

}  // namespace
}  // namespace ferrite::core::graph
