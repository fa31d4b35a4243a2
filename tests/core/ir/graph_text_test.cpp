// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text form of the graph: round trips, inference, errors with their places; symbols.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

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
Result<Graph> read(const std::string& text, bool with_ops = true) {
  return parse(text, {"t.fe", "", with_ops ? &ops().registry() : nullptr});
}
std::string body(const std::string& statements, const std::string& inputs = "%x: f32[2,3]",
                 const std::string& outputs = "") {
  return "ferrite graph 0\ngraph @main(" + inputs + ") -> (" + outputs + ") {\n" + statements + "}\n";
}

class Canonical : public testing::TestWithParam<std::string> {};

TEST_P(Canonical, ReadsAndPrintsBackTheSame) {
  auto graph = read(GetParam());
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(print(*graph), GetParam());
  const auto verified = verify(*graph, ops().registry());
  EXPECT_TRUE(verified) << verified.error().message();
  auto again = read(print(*graph), false);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_TRUE(equal(*graph, *again));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Canonical,
    testing::Values(
        body(""), body("", ""), body("  %0 = relu(%x) : f32[2,3]\n", "%x: f32[2,3]", "%0 \"y\""),
        body("  %0 = relu(%x) : f32[2,3] from \"Relu_0, Relu_1\" by \"passes.\\\"quoted\\\"\\n\\x01\"\n"),
        body("  symbol $n in [8, 4096] divisible 8 hint 128\n  symbol $m in [0, 9]\n  guard $n <= 64 by "
             "\"acme.pass\"\n"
             "  guard $n + $m != 7\n  %0, %1 = split(%x) {axis = 0, sizes = [1, 1]} : (f32[1,$n], "
             "f32[1,$n])\n",
             "%x: f32[2,$n], %mask: bool[2,2*$n + 1] donated, %k: i64[]", "%0 \"a\", %1 \"b\""),
        body("  symbol $n in [1, 4096]\n",
             "%a: f32[$n div 4], %b: f32[$n mod 4,min($n, 8)], %c: f32[3*(($n + 1) div 2) - 1]"),
        body(
            "  #w0 = weight(\"model.onnx\", 1024, 400) : f32[10,10]\n  %c = literal f32[3] {1, 2.5, 0.1875}\n"
            "  #\"layer.0/w b\" = parameter weight(\"/a/b\", 0, 8) : f64[1]\n  #0 = data f32[2] {inf, -inf}\n"
            "  #m = memory : f32[100000]\n  %1 = clamp(%c, _, %c) : f32[3]\n  %2 = add(%1, %c) : f32[3]\n"),
        body("  %0 = literal bool[3] {true, false, 0x2}\n  %1 = literal i8[2] {-128, 127}\n"
             "  %2 = literal u64[1] {18446744073709551615}\n  %3 = literal i64[1] {-9223372036854775808}\n"
             "  %4 = literal i4[3] {-8, 7, -1}\n  %5 = literal u2[5] {0, 1, 2, 3, 1}\n  %6 = literal f16[3] "
             "{0.1, 65504, -0}\n"
             "  %7 = literal bf16[2] {3.39e+38, nan}\n  %8 = literal c64[2] {(1, -2), (0.1, "
             "nan(0x7fc00001))}\n"
             "  %9 = literal f8e4m3[3] {448, -0, nan}\n  %10 = literal f64[3] {0.1, 5e-324, "
             "nan(0xfff8000000000000)}\n"
             "  %11 = literal f8e5m2[3] {-inf, nan, nan(0x7d)}\n  %12 = literal f8e5m2fnuz[3] {57344, 1.5, "
             "nan}\n"
             "  %13 = literal f32[] {1e-45}\n  %14 = literal f32[0,3] {}\n  %15 = literal f4e2m1[2] {0x1, "
             "0xf}\n",
             ""),
        body(
            "  %y = relu(%x) : f32[2,3]<strides [1, 2] offset 4 align 64 device 1>\n",
            "%x: f32[2,3]<strides [3, 1]> mutated_by %y donated, %\"0\": f32[1,64]<blocks [0:1, 1:0, 1:16]>, "
            "%o: f32[2]<opaque \"acme.tiles\">, %d: f32[2]<device 3>, %t: dtype(300)[2]",
            "%y \"out\" alias_of %x strides [3, 1], %x \"same\""),
        body("  %0 = acme.leaky(%x) {alpha = 1e-05} : f32[2,3]\n  %1 = concat(%x, %0, %x) {axis = -1} : "
             "f32[2,3]\n"
             "  print(%1) : ()\n"),
        "ferrite graph 0\ngraph @\"a b\"(%x: f32[2]) -> (%x \"f\", %x \"g\") joint(forward_outputs = 1) "
        "{\n}\n"));

TEST(GraphText, AttributesOfEveryKind) {
  const std::string text = body(
      "  %0 = acme.any(%x) {\"1 b\" = true, a = -3, b = -0.0, c = nan, d = \"s\", e = bf16, f = [], g = [1, "
      "-2], h = floats [], "
      "i = [1.0, inf], j = strings [], k = [\"a\", \"\"], l = dtype(99), m = nan(0x7ff8000000000001)} : "
      "f32[2,3]\n");
  auto graph = read(text, false);
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(print(*graph), text);
  auto again = read(print(*graph), false);
  ASSERT_TRUE(again);
  EXPECT_TRUE(equal(*graph, *again));
}

TEST(GraphText, TypesAndDefaultsMayBeLeftOut) {
  auto graph =
      read(body("%a = relu(%x) // a comment\n%b = acme.leaky(%a)\n%c = acme.leaky(%b) {alpha = 2}\n"
                "%s = literal i64[1] {6}\n%d = reshape(%c, %s)\n",
                "%x: f32[2,3]", "%d \"y\""));
  ASSERT_TRUE(graph) << graph.error().message();
  EXPECT_EQ(
      print(*graph),
      body("  %s = literal i64[1] {6}\n  %a = relu(%x) : f32[2,3]\n"
           "  %b = acme.leaky(%a) {alpha = 0.5} : f32[2,3]\n  %c = acme.leaky(%b) {alpha = 2.0} : f32[2,3]\n"
           "  %d = reshape(%c, %s) : f32[6]\n",
           "%x: f32[2,3]", "%d \"y\""));
}

TEST(GraphText, RandomFloatsReadBackToTheirBits) {
  std::mt19937_64 random(1);
  for (const DType dtype : {f8e4m3, f8e5m2, f8e4m3fnuz, f8e5m2fnuz, f16, bf16, f32, f64}) {
    Graph graph;
    for (int k = 0; k < 200; ++k) {
      const auto bytes = static_cast<size_t>(bytes_of(dtype, 16));
      std::vector<uint64_t> bits(16);
      for (uint64_t& b : bits) b = random();
      ASSERT_TRUE(graph.add_literal({dtype, {16}, {}, 0}, std::as_bytes(std::span(bits)).first(bytes)));
    }
    auto again = read(print(graph), false);
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_TRUE(equal(graph, *again));
    EXPECT_EQ(print(*again), print(graph));
  }
}

struct Bad {
  std::string text, code, where;
};
class Refused : public testing::TestWithParam<Bad> {};

TEST_P(Refused, WithCodeAndPlace) {
  auto graph = read(GetParam().text);
  ASSERT_FALSE(graph) << print(*graph);
  EXPECT_EQ(graph.error().code, GetParam().code) << graph.error().message();
  EXPECT_EQ(graph.error().where.substr(0, GetParam().where.size()), GetParam().where)
      << graph.error().message();
  EXPECT_FALSE(graph.error().text.empty());
}

std::string deep() {
  std::string text = "%x: f32[";
  for (int k = 0; k < 100'000; ++k) text += '(';
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Texts, Refused,
    testing::Values(Bad{"", "FE-G02", "t.fe:1:1"}, Bad{"ferrite loops 0", "FE-G02", "t.fe:1:9"},
                    Bad{"ferrite graph 1", "FE-G02", "t.fe:1:15"},
                    Bad{body("  %0 = relu(%y)\n"), "FE-G17", "t.fe:3:13"},
                    Bad{body("  %x = relu(%x)\n"), "FE-G17", "t.fe:3:3"},
                    Bad{body("  %0 = nothing(%x)\n"), "FE-G13", "t.fe:3:8"},
                    Bad{body("  %0 = relu(%x, %x)\n"), "FE-G14", "t.fe:3:8"},
                    Bad{body("  %0 = relu(_)\n"), "FE-G14", "t.fe:3:8"},
                    Bad{body("  %0 = clamp(_, %x)\n"), "FE-G14", "t.fe:3:8"},
                    Bad{body("  %0 = relu(%x) {k = 1}\n"), "FE-G15", "t.fe:3:8"},
                    Bad{body("  %0 = concat(%x)\n"), "FE-G15", "t.fe:3:8"},
                    Bad{body("  %0 = concat(%x) {axis = \"a\"}\n"), "FE-G15", "t.fe:3:8"},
                    Bad{body("  %0 = broken(%x)\n"), "FE-G16", "t.fe:3:8"},
                    Bad{body("  %0 = add(%x, %y)\n", "%x: f32[1], %y: f32[2]"), "test/shape", "t.fe:3:8"},
                    Bad{body("  %0 = relu(%x) : f32[3,2]\n"), "FE-G19", "t.fe:3:17"},
                    Bad{body("  %0, %1 = relu(%x)\n"), "FE-G19", "t.fe:3:12"},
                    Bad{body("  %0 = relu(%x) : ()\n"), "FE-G19", "t.fe:3:17"},
                    Bad{body("", "%x: f33[2]"), "FE-G02", "t.fe:2:17"},
                    Bad{body("", "%x: f32[$n]"), "FE-G17", "t.fe:2:21"},
                    Bad{body("", "%x: f32[-1]"), "FE-G11", "t.fe:2:21"},
                    Bad{body("", "%x: f32[1 div 0]"), "FE-G02", "t.fe:2:27"},
                    Bad{body("", "%x: f32[2], %x: f32[2]"), "FE-G17", "t.fe:2:25"},
                    Bad{body("  symbol $n in [4, 1]\n"), "FE-G10", "t.fe:3:10"},
                    Bad{body("  symbol $n in [1, 3] divisible 4\n"), "FE-G10", "t.fe:3:10"},
                    Bad{body("  symbol $n in [1, 2]\n  symbol $n in [1, 2]\n"), "FE-G10", "t.fe:4:10"},
                    Bad{body("  symbol $n\n"), "FE-G02", "t.fe:4:1"},
                    Bad{body("  %c = literal f32[2] {1}\n"), "FE-G18", "t.fe:3:23"},
                    Bad{body("  %c = literal u8[1] {256}\n"), "FE-G18", "t.fe:3:23"},
                    Bad{body("  %c = literal f16[1] {1e9}\n"), "FE-G18", "t.fe:3:24"},
                    Bad{body("  %c = literal f32[1] {1e999}\n"), "FE-G01", "t.fe:3:24"},
                    Bad{body("  #w = weight(\"a\", 0, 5) : f32[2]\n"), "FE-G06", "t.fe:3:3"},
                    Bad{body("  %s = \"abc\n"), "FE-G01", "t.fe:3:8"},
                    Bad{body("  #w = relu(%x)\n"), "FE-G02", "t.fe:3:8"},
                    Bad{body("  `\n"), "FE-G01", "t.fe:3:3"},
                    Bad{body("  %0 = relu(%x) : f32[2,3]<strides [1]>\n"), "FE-G02", "t.fe:3:36"},
                    Bad{body("", "%x: f32[2]", "%y \"o\""), "FE-G17", "t.fe:2:29"},
                    Bad{body("", "%x: f32[2]", "%x \"o\", %x \"o\""), "FE-G05", "t.fe:2:37"},
                    Bad{body("", "%x: f32[2] mutated_by %q"), "FE-G17", "t.fe:2:35"},
                    Bad{body("") + "more", "FE-G02", "t.fe:4:1"}, Bad{body("", deep()), "FE-G02", "t.fe:2:"},
                    Bad{body("  %0 = relu(%x\n"), "FE-G02", "t.fe:4:1"}));

TEST(GraphText, TruncatedAnywhereIsAnErrorOrAGraph) {
  const std::string text = body(
      "  symbol $n in [1, 4096] divisible 8 hint 128\n  %c = literal f32[3] {1, 2.5, nan(0x7fc00001)}\n"
      "  %0, %1 = split(%x) {axis = 0, sizes = [1, 1]} : (f32[1,3], f32[1,3]) from \"a\\x41\"\n",
      "%x: f32[2,3], %y: f32[$n]", "%0 \"out\"");
  ASSERT_TRUE(read(text)) << read(text).error().message();
  for (size_t k = 0; k < text.size() - 2; ++k) {
    auto graph = read(text.substr(0, k));
    ASSERT_FALSE(graph);
    EXPECT_EQ(graph.error().where.substr(0, 5), "t.fe:");
  }
}

TEST(GraphSymbols, Specialise) {
  auto graph =
      read(body("  symbol $n in [1, 4096] divisible 4\n  symbol $m in [1, 9]\n  guard $n <= 64 by \"p\"\n"
                "  guard $m < $n\n  %0 = relu(%x) : f32[2*$n,$m]\n",
                "%x: f32[2*$n,$m], %y: f32[$n div 4]", "%0 \"y\""));
  ASSERT_TRUE(graph) << graph.error().message();
  const std::vector<std::pair<std::string, int64_t>> n{{"n", 8}}, both{{"n", 8}, {"m", 2}};
  auto some = specialise(*graph, n);
  ASSERT_TRUE(some) << some.error().message();
  EXPECT_EQ(print(*some), body("  symbol $m in [1, 9]\n  guard $m < 8\n  %0 = relu(%x) : f32[16,$m]\n",
                               "%x: f32[16,$m], %y: f32[2]", "%0 \"y\""));
  auto all = specialise(*graph, both);
  ASSERT_TRUE(all) << all.error().message();
  EXPECT_EQ(print(*all), body("  %0 = relu(%x) : f32[16,2]\n", "%x: f32[16,2], %y: f32[2]", "%0 \"y\""));
  for (const auto& wrong : std::vector<std::vector<std::pair<std::string, int64_t>>>{
           {{"k", 1}}, {{"n", 0}}, {{"n", 6}}, {{"n", 8192}}, {{"n", 128}}, {{"n", 4}, {"m", 5}}}) {
    auto refused = specialise(*graph, wrong);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "FE-G12") << refused.error().message();
  }
}

}  // namespace
}  // namespace ferrite::core::graph
