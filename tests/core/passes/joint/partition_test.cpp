// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joint graphs, divided into a forward and a backward part.
#include "core/passes/joint/partition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/loop/interpreter.h"
#include "core/ir/text/parse_graph.h"
#include "core/passes/joint/min_cut.h"
#include "tests/driver/validate/validate_support.h"

namespace ferrite::core::joint {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

class Partitions : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = validate::open("");
    ASSERT_TRUE(session_);
  }

  graph::Graph parse(const std::string& text) const {
    auto graph = graph::parse("ferrite graph 0\n" + text, {"joint.fe", {}, &session_->registry().ops()});
    EXPECT_TRUE(graph) << graph.error().message();
    return graph ? std::move(*graph) : graph::Graph();
  }
  Result<Partition> divide(const graph::Graph& joint, const PartitionOptions& options) {
    Ledger ledger;
    auto parts = partition(joint, session_->registry(), "interpreter", options, ledger);
    records_ = ledger.records();
    return parts;
  }
  /// By output; inputs are f32 and taken by name.
  Tensors run(const graph::Graph& graph, const Tensors& given) const {
    EXPECT_TRUE(graph::verify(graph, session_->registry().ops())) << graph::print(graph);
    CompileOptions options;
    options.device = "interpreter";
    Ledger ledger;
    auto compiled = core::compile(graph, session_->registry(), options, ledger);
    if (!compiled) {
      ADD_FAILURE() << compiled.error().message();
      return {};
    }
    const auto& program = *compiled->program;
    std::vector<loop::ConstMemory> in;
    for (const auto& input : graph.inputs())
      in.push_back(std::as_bytes(std::span(given.at(graph.value(input.value).name))));
    std::vector<std::vector<float>> results;
    for (const auto id : program.outputs)
      results.emplace_back(static_cast<size_t>(program.buffers[id].bytes()) / sizeof(float));
    std::vector<loop::Memory> out;
    for (auto& result : results) out.push_back(std::as_writable_bytes(std::span(result)));
    EXPECT_TRUE(loop::evaluate(program, in, out));
    Tensors named;
    for (size_t k = 0; k < results.size(); ++k) named[graph.outputs()[k].name] = results[k];
    return named;
  }
  /// Both parts give what the joint graph gives.
  void expect_equal(const graph::Graph& joint, const Partition& parts) const {
    Tensors values;
    for (const auto& input : joint.inputs()) {
      auto& tensor = values[joint.value(input.value).name];
      for (int64_t k = 0; k < *joint.type(input.value).elements(); ++k)
        tensor.push_back(std::sin(static_cast<float>(k + static_cast<int64_t>(values.size()))));
    }
    const auto expected = run(joint, values);
    values.merge(run(parts.forward, values));
    values.merge(run(parts.backward, values));
    for (const auto& [name, tensor] : expected)
      for (size_t k = 0; k < tensor.size(); ++k) EXPECT_NEAR(values.at(name)[k], tensor[k], 1e-4) << name;
  }
  /// "saved.0: f32[8,8]": what the backward part takes from the forward part.
  std::vector<std::string> saved() const {
    std::vector<std::string> list;
    for (const auto& record : records_)
      if (record.outcome == "saved") list.push_back(record.object + ": " + record.text);
    return list;
  }
  int64_t bytes() const {
    for (const auto& record : records_)
      if (record.outcome == "divided") return static_cast<int64_t>(record.score);
    return -1;
  }

  std::unique_ptr<Session> session_;
  std::vector<LedgerRecord> records_;  ///< of the last division
};

constexpr auto held = InputKind::held, transient = InputKind::transient, tangent = InputKind::tangent;

// Two layers with an activation; the gradients of both weights.
const std::string layers = R"(
graph @layers(%x: f32[8,4], %w: f32[4,8], %v: f32[8,2], %g: f32[8,2]) -> (%y "y", %gv "gv", %gw "gw") joint(forward_outputs = 1) {
  %h = matmul(%x, %w) : f32[8,8] from "first"
  %a = exp(%h) : f32[8,8] from "act"
  %y = matmul(%a, %v) : f32[8,2] from "second"
  %at = transpose(%a) {perm = [1, 0]} : f32[8,8]
  %gv = matmul(%at, %g) : f32[8,2]
  %vt = transpose(%v) {perm = [1, 0]} : f32[2,8]
  %ga = matmul(%g, %vt) : f32[8,8]
  %s = sin(%h) : f32[8,8]
  %gh = mul(%ga, %s) : f32[8,8]
  %xt = transpose(%x) {perm = [1, 0]} : f32[4,8]
  %gw = matmul(%xt, %gh) : f32[4,8]
}
)";

TEST_F(Partitions, KeepWhatIsExpensiveAndComputeMapsAgain) {
  const auto joint = parse(layers);
  const auto parts = divide(joint, {{transient, held, held, tangent}, 1, {}, {}});
  ASSERT_TRUE(parts) << parts.error().message();
  // The product is kept; what maps make of it is computed again, and inputs are kept as they are.
  EXPECT_EQ(saved(), (std::vector<std::string>{"x: f32[8,4]", "v: f32[8,2]", "saved.0: f32[8,8]"}));
  EXPECT_EQ(bytes(), 8 * 4 * 4 + 8 * 8 * 4);
  expect_equal(joint, *parts);
}

TEST_F(Partitions, TheBudgetDecidesWhatIsComputedAgain) {
  const auto joint = parse(layers);
  int64_t before = 0;
  for (const double budget : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const auto parts = divide(joint, {{transient, held, held, tangent}, budget, {}, {}});
    ASSERT_TRUE(parts) << parts.error().message();
    EXPECT_GE(bytes(), before) << budget;
    before = bytes();
    expect_equal(joint, *parts);
    if (budget == 0) {
      EXPECT_EQ(saved(), (std::vector<std::string>{"x: f32[8,4]", "w: f32[4,8]", "v: f32[8,2]"}));
    }
  }
}

TEST_F(Partitions, SaveValuesInAnotherOrder) {
  const auto joint = parse(R"(
graph @batches(%x: f32[2,3,4], %w: f32[2,4,5], %g: f32[2,3,5]) -> (%y "y", %gh "gh") joint(forward_outputs = 1) {
  %h = matmul(%x, %w) : f32[2,3,5] from "first"
  %y = exp(%h) : f32[2,3,5]
  %s = sin(%h) : f32[2,3,5]
  %gh = mul(%g, %s) : f32[2,3,5]
}
)");
  PartitionOptions options{{transient, held, tangent}, 1, {}, {}};
  options.orders = {{{2, 3, 5}, {1, 2, 0}}, {{7, 7}, {0, 1}}};
  options.reorder_op = "transpose";
  const auto parts = divide(joint, options);
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(saved(), (std::vector<std::string>{"saved.0: f32[2,3,5], stored in the order 1, 2, 0"}));
  EXPECT_EQ(parts->forward.type(parts->forward.outputs()[1].value).dims, (std::vector<int64_t>{3, 5, 2}));
  EXPECT_EQ(parts->backward.type(parts->backward.inputs()[0].value).dims, (std::vector<int64_t>{3, 5, 2}));
  expect_equal(joint, *parts);
  for (const auto& wrong : {std::vector<int64_t>{0, 1}, {0, 1, 1}, {0, 1, 3}, {-1, 0, 1}}) {
    options.orders[0].order = wrong;
    const auto refused = divide(joint, options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, "FE-G58");
  }
  options.orders[0].order = {0, 1, 2};
  options.reorder_op = "no_such_op";
  const auto refused = divide(joint, options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-G58");
}

TEST_F(Partitions, HonourWhatTheModelAsksFor) {
  const auto joint = parse(layers);
  auto parts = divide(joint, {{transient, held, held, tangent}, 1, {}, {"first"}});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(bytes(), 8 * 4 * 4) << "the first product is computed again";
  expect_equal(joint, *parts);
  parts = divide(joint, {{transient, held, held, tangent}, 0, {"act"}, {}});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(bytes(), 8 * 4 * 4 + 8 * 8 * 4) << "the activation is kept";
  expect_equal(joint, *parts);
}

TEST_F(Partitions, KeepSmallResultsOfReductions) {
  const auto joint = parse(R"(
graph @norm(%x: f32[8,64], %g: f32[8,64]) -> (%y "y", %gx "gx") joint(forward_outputs = 1) {
  %m = reduce_max(%x) {axes = [1], keepdims = true} : f32[8,1]
  %y = sub(%x, %m) : f32[8,64]
  %e = exp(%y) : f32[8,64]
  %gx = mul(%g, %e) : f32[8,64]
}
)");
  const auto parts = divide(joint, {{held, tangent}, 1, {}, {}});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(bytes(), 8 * 4);
  expect_equal(joint, *parts);
}

TEST_F(Partitions, AForwardOutputIsKeptUnderItsName) {
  const auto joint = parse(R"(
graph @exp(%x: f32[16], %g: f32[16]) -> (%y "y", %gx "gx") joint(forward_outputs = 1) {
  %y = exp(%x) : f32[16]
  %gx = mul(%g, %y) : f32[16]
}
)");
  const auto parts = divide(joint, {{transient, tangent}, 1, {}, {}});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(saved(), std::vector<std::string>{"y: f32[16]"});
  EXPECT_EQ(parts->forward.outputs().size(), 1u);
  expect_equal(joint, *parts);
}

TEST_F(Partitions, DonateWhatIsKeptForTheBackwardPartAlone) {
  const auto joint = parse(R"(
graph @products(%x: f32[4,4], %w: f32[4,4], %g: f32[4,4]) -> (%y "y", %gx "gx") joint(forward_outputs = 1) {
  %a = matmul(%x, %w) : f32[4,4]
  %b = matmul(%a, %w) : f32[4,4]
  %y = exp(%b) : f32[4,4]
  %c = mul(%g, %y) : f32[4,4]
  %gx = mul(%c, %a) : f32[4,4]
}
)");
  for (const bool donates : {false, true}) {
    PartitionOptions options{{transient, held, tangent}, 1, {}, {}};
    options.donate_saved = donates;
    const auto parts = divide(joint, options);
    ASSERT_TRUE(parts) << parts.error().message();
    const auto& inputs = parts->backward.inputs();
    ASSERT_EQ(inputs.size(), 3u);  // y, saved.0 and g
    for (const auto& input : inputs)
      EXPECT_EQ(input.donated, donates && parts->backward.value(input.value).name == "saved.0");
    expect_equal(joint, *parts);
  }
}

TEST_F(Partitions, AGradientMayBeAnInput) {
  const auto joint = parse(R"(
graph @mul(%x: f32[16], %g: f32[16]) -> (%y "y", %x "gx", %g "gy") joint(forward_outputs = 1) {
  %y = exp(%x) : f32[16]
}
)");
  const auto parts = divide(joint, {{transient, tangent}, 1, {}, {}});
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_EQ(saved(), std::vector<std::string>{"x: f32[16]"});
  expect_equal(joint, *parts);
}

TEST_F(Partitions, AreRefusedWithTheReason) {
  const auto joint = parse(layers);
  const auto refused = [&](const graph::Graph& graph, const PartitionOptions& options,
                           std::string_view text) {
    const auto parts = divide(graph, options);
    ASSERT_FALSE(parts);
    EXPECT_EQ(parts.error().code, "FE-G58");
    EXPECT_NE(parts.error().text.find(text), std::string::npos) << parts.error().text;
  };
  const std::vector<InputKind> kinds{transient, held, held, tangent};
  refused(joint, {{transient}, 1, {}, {}}, "kinds were given");
  refused(joint, {kinds, 1.5, {}, {}}, "memory budget");
  refused(joint, {kinds, std::nan(""), {}, {}}, "memory budget");
  refused(joint, {{transient, held, tangent, tangent}, 1, {}, {}}, "depends on a tangent");
  auto plain = joint;
  plain.set_forward_outputs(std::nullopt);
  refused(plain, {kinds, 1, {}, {}}, "not joint");
  auto changed = joint;
  ASSERT_TRUE(changed.set_mutated_by(0, changed.inputs()[0].value));
  refused(changed, {kinds, 1, {}, {}}, "is changed");
}

TEST(MinCut, IsTheOneNextToTheSink) {
  // A chain of equal capacities, and a second way that costs less at its beginning.
  MinCut cut(6);
  cut.add_edge(MinCut::source, 2, 3);
  cut.add_edge(2, 3, 3);
  cut.add_edge(3, MinCut::sink, 3);
  cut.add_edge(MinCut::source, 4, 1);
  cut.add_edge(4, 5, 2);
  cut.add_edge(5, MinCut::sink, MinCut::infinite);
  const auto side = cut.sink_side();
  EXPECT_EQ(side, (std::vector<bool>{false, true, false, false, true, true}));
}

TEST(MinCut, FindsFlowsThatMustTurnBack) {
  // The first shortest path takes the middle edge, and the largest flow does not use it.
  MinCut cut(6);
  for (const auto& [from, to] : {std::pair{0, 2}, {0, 3}, {2, 4}, {2, 5}, {3, 5}, {4, 1}, {5, 1}})
    cut.add_edge(static_cast<size_t>(from), static_cast<size_t>(to), 1);
  const auto side = cut.sink_side();
  EXPECT_FALSE(side[MinCut::source]);
  EXPECT_TRUE(side[MinCut::sink]);
  EXPECT_EQ(side, (std::vector<bool>{false, true, false, false, false, false}));
}

}  // namespace
}  // namespace ferrite::core::joint
