// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What passes have changed, in terms of the model's nodes.
#include "core/passes/joint/changed_regions.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "core/ir/graph/infer.h"
#include "core/ir/graph/print.h"
#include "core/ir/text/parse_graph.h"
#include "driver/regions_json.h"
#include "tests/driver/validate/validate_support.h"

namespace ferrite::core::joint {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

class ChangedRegions : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = validate::open("");
    ASSERT_TRUE(session_);
    auto parsed = graph::parse(text, {"model.fe", {}, &session_->registry().ops()});
    ASSERT_TRUE(parsed) << parsed.error().message();
    before_ = std::move(*parsed);
    after_ = before_;
    for (const auto& input : before_.inputs())
      names_.emplace_back(input.value, before_.value(input.value).name);
    for (const char* name : {"a", "l", "r", "y"}) names_.emplace_back(value(name), name);
  }

  ValueId value(std::string_view name) const { return *before_.find_value(name); }
  NodeId node(std::string_view name) const { return before_.value(value(name)).producer; }
  ValueId make(std::string_view op, std::vector<ValueId> operands, NodeId before, std::string origin) {
    graph::NodeSpec spec;
    spec.op = op;
    spec.operands = std::move(operands);
    spec.before = before;
    spec.origin = std::move(origin);
    spec.made_by = "acme.pass";
    auto made = graph::make_inferred(after_, session_->registry().ops(), std::move(spec));
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    return after_.node(*made).results[0];
  }
  void replace(std::string_view name, ValueId by) {
    ASSERT_TRUE(after_.replace_uses(value(name), by));
    ASSERT_TRUE(after_.erase(node(name)));
  }
  /// "nodes -> passes: inputs -> outputs", by region, in the order of the model.
  std::vector<std::string> regions() const {
    auto found = changed_regions(before_, after_, names_);
    if (!found) return {found.error().code + " " + found.error().text};
    std::vector<std::string> list;
    for (const auto& region : *found) {
      std::vector<std::string> inputs, outputs;
      for (const auto& input : region.graph.inputs()) inputs.push_back(region.graph.value(input.value).name);
      for (const auto& output : region.graph.outputs()) outputs.push_back(output.name);
      list.push_back(fmt::format("{} by {}: {} -> {}", fmt::join(region.nodes, " "),
                                 fmt::join(region.passes, " "), fmt::join(inputs, " "),
                                 fmt::join(outputs, " ")));
    }
    return list;
  }

  // The node of the model "lin" is two nodes of the graph: what is between them has no name in the model.
  static constexpr const char* text = R"(ferrite graph 0
graph @model(%x: f32[4,4], %w: f32[4,4], %b: f32[4]) -> (%y "y") {
  %a = exp(%x) : f32[4,4] from "first"
  %m = matmul(%a, %w) : f32[4,4] from "lin"
  %l = add(%m, %b) : f32[4,4] from "lin"
  %r = relu(%l) : f32[4,4] from "act"
  %y = sub(%r, %a) : f32[4,4] from "last"
}
)";
  std::unique_ptr<Session> session_;
  Graph before_, after_;
  std::vector<NamedValue> names_;
};

using Regions = std::vector<std::string>;

TEST_F(ChangedRegions, AreNoneWhereNothingChanged) { EXPECT_EQ(regions(), Regions()); }

TEST_F(ChangedRegions, AReplacedNode) {
  replace("r", make("abs", {value("l")}, node("r"), "act"));
  EXPECT_EQ(regions(), Regions{"act by acme.pass: l -> r"});
}

TEST_F(ChangedRegions, ReplacedNeighboursStayApart) {
  replace("r", make("abs", {value("l")}, node("r"), "act"));
  replace("a", make("neg", {value("x")}, node("a"), "first"));
  EXPECT_EQ(regions(), (Regions{"first by acme.pass: x -> a", "act by acme.pass: l -> r"}));
}

TEST_F(ChangedRegions, HaveAllOfANodeOfTheModel) {
  // The pass read what is between the two nodes of "lin", so that all of "lin" belongs to it.
  replace("l", make("sub", {value("m"), value("b")}, node("l"), "lin"));
  EXPECT_EQ(regions(), Regions{"lin by acme.pass: a w b -> l"});
}

TEST_F(ChangedRegions, AFusion) {
  replace("y", make("add", {value("l"), value("a")}, node("y"), "act,last"));
  ASSERT_TRUE(after_.erase(node("r")));
  EXPECT_EQ(regions(), Regions{"act last by acme.pass: l a -> y"});
}

TEST_F(ChangedRegions, AnInsertedNodeBelongsToTheOneThatReadsIt) {
  ASSERT_TRUE(after_.set_operand(node("r"), 0, make("neg", {value("l")}, node("r"), "")));
  EXPECT_EQ(regions(), Regions{"act by acme.pass: l -> r"});
}

TEST_F(ChangedRegions, ARemovedNodeGivesItsInput) {
  replace("r", value("l"));
  EXPECT_EQ(regions(), Regions{"act by : l -> r"});
}

TEST_F(ChangedRegions, AValueMayBeReplacedByAnother) {
  ASSERT_TRUE(after_.set_operand(node("m"), 0, value("x")));
  ASSERT_TRUE(after_.set_operand(node("y"), 1, make("neg", {value("x")}, node("y"), "")));
  ASSERT_TRUE(after_.erase(node("a")));
  EXPECT_EQ(regions(), (Regions{"first by : x -> a", "last by acme.pass: x r -> y"}));
}

TEST_F(ChangedRegions, AreRefusedWhereTheModelHasNoNameForAValue) {
  replace("a", make("neg", {value("x")}, node("a"), "first"));
  std::erase_if(names_, [](const NamedValue& named) { return named.second == "x"; });
  const auto found = regions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].starts_with("FE-G59 the change of 'acme.pass' ")) << found[0];
}

TEST_F(ChangedRegions, AsJson) {
  const float one = 1;
  graph::TensorType scalar;
  scalar.dtype = DType::f32_;
  replace("r", make("clamp", {value("l"), {}, *after_.add_literal(scalar, std::as_bytes(std::span(&one, 1)))},
                    node("r"), "act"));
  const auto found = changed_regions(before_, after_, names_);
  ASSERT_TRUE(found) << found.error().message();
  const auto json = regions_json(*found);
  ASSERT_TRUE(json) << json.error().message();
  EXPECT_EQ(*json, R"([{"constants":[["f32",[],"0000803f"]],"inputs":["l"],"nodes":["act"],)"
                   R"("ops":[["clamp",[0,null,1],{},1]],"outputs":[["r",2]],"passes":["acme.pass"]}])");
}

}  // namespace
}  // namespace ferrite::core::joint
