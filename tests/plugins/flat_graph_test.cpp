// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The flat graph: every graph of the text tests there and back, parts of graphs, hostile bytes.
#include "core/ir/flat/flat_graph.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/verify.h"
#include "ferrite/flat_graph.hpp"
#include "plugin_support.h"

namespace ferrite::core::plugin::test {
namespace {

using graph::FlatOptions;
using graph::read_flat;
using graph::write_flat;

const std::string everything_text = R"(ferrite graph 0
graph @everything(%x: f32[$n,4] mutated_by %later, %y: f32[2,3]<strides [3,1] offset 2 align 64> donated) -> (%0 "first", %y "same" alias_of %y strides [3,1]) joint(forward_outputs = 1) {
  symbol $n in [2, 64] divisible 2 hint 8
  guard $n <= 32 by "test.hooks"
  %half = literal f32[2] {0.5, -0x0p+0}
  #w = weight("weights.bin", 16, 24) : f32[2,3]<opaque "tag" device 1>
  #p = parameter memory : f32[3]
  #d = data i64[2] {1, -2}
  %0 = relu(%x) : f32[$n,4] from "Relu_0,Relu_1" by "a pass"
  %later = neg(%x) : f32[$n,4]
  %t = transpose(%y) {perm = [1, 0]} : f32[3,2]<blocks [0:0, 1:2]>
}
)";

/// A session with the standard ops; opened once, because that takes longest.
const Session& standard() {
  static const auto session = open({});
  EXPECT_TRUE(session) << session.error().message();
  return **session;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::byte> everything() {
  auto written = write_flat(parse(standard(), everything_text));
  EXPECT_TRUE(written) << written.error().message();
  return written->bytes;
}

TEST(FlatGraph, EveryGraphOfTheTextTestsComesBack) {
  size_t graphs = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(FERRITE_TESTS)) {
    if (entry.path().extension() != ".fe") continue;
    graph::ParseOptions options;
    options.registry = &standard().registry().ops();
    const auto parsed = graph::parse(read_file(entry.path()), options);
    if (!parsed) continue;  // of another stage, or wrong on purpose
    ++graphs;
    const auto written = write_flat(*parsed);
    ASSERT_TRUE(written) << entry.path() << written.error().message();
    const auto read = read_flat(written->bytes, "");
    ASSERT_TRUE(read) << entry.path() << read.error().message();
    EXPECT_EQ(graph::print(read->graph), graph::print(*parsed)) << entry.path();
    EXPECT_TRUE(graph::equal(read->graph, *parsed)) << entry.path();
    EXPECT_EQ(read->nodes.size(), written->nodes.size());
    EXPECT_EQ(read->values.size(), written->values.size());
    const auto again = write_flat(read->graph);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->bytes, written->bytes) << entry.path();
  }
  EXPECT_GE(graphs, 60u);
}

TEST(FlatGraph, KeepsEveryPartOfAGraph) {
  const auto graph = parse(standard(), everything_text);
  const auto written = write_flat(graph);
  ASSERT_TRUE(written) << written.error().message();
  const auto read = read_flat(written->bytes, "");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(graph::print(read->graph), graph::print(graph));
  EXPECT_TRUE(graph::equal(read->graph, graph));
  EXPECT_TRUE(graph::verify(read->graph, standard().registry().ops()));
  for (size_t k = 0; k < written->values.size(); ++k)
    EXPECT_EQ(graph.value(written->values[k]).name, read->graph.value(read->values[k]).name);
}

TEST(FlatGraph, PluginsReadItFromTheSdkAlone) {
  const auto bytes = everything();
  std::string error;
  const auto flat = read_graph(bytes, &error);
  ASSERT_TRUE(flat) << error;
  EXPECT_EQ(flat->name(), "everything");
  EXPECT_EQ(flat->forward_outputs(), 1u);
  ASSERT_EQ(flat->inputs().size(), 2u);
  EXPECT_FALSE(flat->values()[0].is_static());
  EXPECT_TRUE(flat->values()[1].is_static());
  EXPECT_TRUE(flat->inputs()[1].donated);
  const auto* half = flat->constant(2);
  ASSERT_NE(half, nullptr);
  EXPECT_EQ(half->data.size(), 8u);
  EXPECT_EQ(flat->constant(3)->file, "weights.bin");
  EXPECT_EQ(flat->constant(1), nullptr);
  ASSERT_EQ(flat->nodes().size(), 3u);
  const auto& transpose = flat->nodes()[2];
  EXPECT_EQ(transpose.op, "transpose");
  ASSERT_NE(transpose.find("perm"), nullptr);
  EXPECT_EQ(transpose.find("perm")->list[0], 1);
  EXPECT_EQ(transpose.find("absent"), nullptr);
  EXPECT_EQ(flat->values()[transpose.first_result].producer, 2u);
  EXPECT_EQ(flat->outputs()[1].alias_of, 1u);
}

TEST(FlatGraph, OfSomeNodesHasTheirBordersAsSignature) {
  const auto graph = parse(standard(), R"(ferrite graph 0
graph @whole(%x: f32[4], %y: f32[4]) -> (%sum "out") {
  %one = literal f32[] {1}
  %a = relu(%x) : f32[4]
  %b = add(%a, %one) : f32[4]
  %1 = neg(%b) : f32[4]
  %sum = add(%1, %y) : f32[4]
}
)");
  auto nodes = graph.nodes();
  const std::vector<graph::NodeId> part = {nodes[2], nodes[1], nodes[2]};
  const auto written = write_flat(graph, part);
  ASSERT_TRUE(written) << written.error().message();
  EXPECT_EQ(written->nodes, (std::vector<graph::NodeId>{nodes[1], nodes[2]}));
  const auto read = read_flat(written->bytes, "");
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(graph::print(read->graph), R"(ferrite graph 0
graph @whole(%a: f32[4]) -> (%0 "neg.3") {
  %one = literal f32[] {1}
  %b = add(%a, %one) : f32[4]
  %0 = neg(%b) : f32[4]
}
)");
  EXPECT_TRUE(graph::verify(read->graph, standard().registry().ops()));
  const std::vector<graph::NodeId> stale = {graph::NodeId{1}};
  const auto refused = write_flat(graph, stale);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-G03");
}

TEST(FlatGraph, LeavesOutWhatIsTooLarge) {
  const auto graph = parse(standard(), everything_text);
  const auto written = write_flat(graph, FlatOptions{.max_data = 8, .keep = {}});
  ASSERT_TRUE(written);
  const auto read = read_flat(written->bytes, "");
  ASSERT_TRUE(read);
  EXPECT_NE(graph::print(read->graph).find("#d = memory : i64[2]"), std::string::npos);
}

TEST(FlatGraph, OneThatReadsWhatComesLaterIsNotWritten) {
  auto graph = parse(standard(), relu_text);
  const auto relu = graph.first();
  auto made = graph::make_inferred(graph, standard().registry().ops(),
                                   {"neg", {graph.inputs()[0].value}, {}, {}, {}, {}, {}});
  ASSERT_TRUE(made);
  ASSERT_TRUE(graph.set_operand(relu, 0, graph.node(*made).results[0]));
  const auto written = write_flat(graph);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, "FE-P33");
}

TEST(FlatGraph, HostileBytesAreRefusedOrReadAsAGraph) {
  const auto bytes = everything();
  size_t refused = 0, read = 0;
  auto look = [&](std::span<const std::byte> hostile) {
    const auto result = read_flat(hostile, "");
    ++(result ? read : refused);
    if (!result) {
      EXPECT_FALSE(result.error().code.empty());
      return;
    }
    EXPECT_FALSE(graph::print(result->graph).empty());
    EXPECT_TRUE(write_flat(result->graph, FlatOptions{.max_data = UINT64_MAX, .keep = {}}));
  };
  for (size_t length = 0; length < bytes.size(); length += 7) look(std::span(bytes).first(length));
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int value : {0, 1, 0x7f, 0xff}) {
      auto hostile = bytes;
      if (hostile[at] == static_cast<std::byte>(value)) continue;
      hostile[at] = static_cast<std::byte>(value);
      look(hostile);
    }
  }
  EXPECT_GT(refused, bytes.size() / 2);
  EXPECT_GT(read, 0u);
  const auto nothing = read_flat({}, "");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, "FE-P34");
}

}  // namespace
}  // namespace ferrite::core::plugin::test
