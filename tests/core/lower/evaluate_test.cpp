// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that depend on constants only, computed while a model is compiled.
#include <cstring>

#include "core/ir/graph/infer.h"
#include "core/ir/text/parse_graph.h"
#include "core/lower/lower.h"
#include "tests/driver/validate/validate_support.h"

namespace ferrite::core::lower {
namespace {

class Evaluate : public testing::Test {
 protected:
  static void SetUpTestSuite() { session_ = validate::open(""); }
  static void TearDownTestSuite() { session_.reset(); }
  void SetUp() override { ASSERT_TRUE(session_); }

  static graph::Graph parse(const std::string& statements) {
    auto graph = graph::parse("ferrite graph 0\ngraph @g(%x: i64[2]) -> () {\n" + statements + "}\n",
                              {"g.fe", "", &session_->registry().ops()});
    EXPECT_TRUE(graph) << graph.error().message();
    return graph ? std::move(*graph) : graph::Graph();
  }
  /// The elements of a constant.
  template <class T>
  static std::vector<T> elements(const graph::Graph& graph, const Result<graph::ValueId>& value) {
    if (!value) {
      ADD_FAILURE() << value.error().message();
      return {};
    }
    const auto bytes = graph.constant_bytes(*value);
    EXPECT_TRUE(bytes) << bytes.error().message();
    std::vector<T> result(bytes ? bytes->size() / sizeof(T) : 0);
    if (!result.empty()) std::memcpy(result.data(), bytes->data(), bytes->size());
    return result;
  }
  /// The error for a value of the graph.
  static std::string refusal(graph::Graph& graph, graph::ValueId value) {
    const auto done = Evaluator(session_->registry()).evaluate(graph, value);
    if (done) return "no error";
    EXPECT_EQ(done.error().status, FE_EUNSUPPORTED);
    return done.error().code + " " + done.error().text;
  }
  static std::string refusal(const std::string& statements) {
    auto graph = parse(statements);
    return refusal(graph, *graph.find_value("r"));
  }
  static graph::ValueId apply(graph::Graph& graph, const std::string& op,
                              std::vector<graph::ValueId> operands) {
    graph::NodeSpec spec;
    spec.op = op;
    spec.operands = std::move(operands);
    auto made = graph::make_inferred(graph, session_->registry().ops(), std::move(spec));
    EXPECT_TRUE(made) << made.error().message();
    return graph.node(*made).results[0];
  }
  static graph::ValueId literal(graph::Graph& graph, const std::vector<int64_t>& values) {
    return *graph.add_literal({i64, {static_cast<int64_t>(values.size())}, {}, 0},
                              std::as_bytes(std::span(values)));
  }
  /// The values of a chain of `count` nodes, each of which adds one to the one before.
  static std::vector<graph::ValueId> counted_up(graph::Graph& graph, size_t count) {
    const auto one = literal(graph, {1});
    std::vector<graph::ValueId> values = {literal(graph, {0})};
    while (values.size() <= count) values.push_back(apply(graph, "add", {values.back(), one}));
    return values;
  }

  static std::unique_ptr<Session> session_;
};
std::unique_ptr<Session> Evaluate::session_;

TEST_F(Evaluate, ComputesWhatConstantsDecide) {
  auto graph = parse(
      "%a = literal i64[2] {2, -3}\n%b = literal i64[2] {5, 7}\n%c = literal f32[2] {1, 1}\n"
      "%s = add(%a, %b)\n%r = mul(%s, %b)\n%h = softmax(%c) {axis = 0}\n");
  Evaluator evaluator(session_->registry());
  const auto r = evaluator.evaluate(graph, *graph.find_value("r"));
  EXPECT_EQ(elements<int64_t>(graph, r), (std::vector<int64_t>{35, 28}));
  EXPECT_EQ(graph.type(*r).dims, std::vector<graph::Dim>{2});
  EXPECT_EQ(elements<float>(graph, evaluator.evaluate(graph, *graph.find_value("h"))),
            (std::vector<float>{0.5, 0.5}))
      << "softmax is decomposed";
  const auto constants = graph.constants().size();
  const auto again = evaluator.evaluate(graph, *graph.find_value("r"));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *r);
  const auto a = *graph.find_value("a");
  const auto same = evaluator.evaluate(graph, a);
  ASSERT_TRUE(same);
  EXPECT_EQ(*same, a) << "a constant is its own value";
  EXPECT_EQ(graph.constants().size(), constants);
}

TEST_F(Evaluate, RefusesWhatARunMayChange) {
  EXPECT_EQ(refusal("%c = literal i64[2] {1, 2}\n%s = add(%c, %x)\n%r = neg(%s)\n"),
            "FE-G26 the value cannot be folded: it depends on an input");
  EXPECT_EQ(refusal("#r = parameter weight(\"none\", 0, 16) : i64[2]\n"),
            "FE-G26 the value cannot be folded: it is a parameter");
  EXPECT_EQ(refusal("#p = parameter weight(\"none\", 0, 16) : i64[2]\n%r = neg(#p)\n").substr(0, 6),
            "FE-G26");
  auto graph = parse("");
  EXPECT_EQ(refusal(graph, graph.inputs()[0].value).substr(0, 6), "FE-G26");
}

TEST_F(Evaluate, LeavesAFailureToTheRun) {
  const auto text =
      refusal("%x3 = literal i64[3] {1, 2, 3}\n%i = literal i64[1] {7}\n%r = gather(%x3, %i)\n");
  EXPECT_EQ(text.substr(0, 6), "FE-G26");
  EXPECT_NE(text.find("FE-X21"), std::string::npos) << text;
}

TEST_F(Evaluate, LimitsTheBytesOfResults) {
  constexpr int64_t most = Evaluator::most_bytes / 8;
  graph::Graph graph;
  Evaluator evaluator(session_->registry());
  const auto fits = apply(graph, "neg", {literal(graph, std::vector<int64_t>(most, 4))});
  EXPECT_EQ(elements<int64_t>(graph, evaluator.evaluate(graph, fits)), std::vector<int64_t>(most, -4));
  const auto large = apply(graph, "neg", {literal(graph, std::vector<int64_t>(most + 1, 4))});
  EXPECT_EQ(refusal(graph, large),
            "FE-G26 the value cannot be folded: it is too large, or its size is not known");
}

TEST_F(Evaluate, LimitsTheNodesAndRemembersResults) {
  graph::Graph graph;
  const auto values = counted_up(graph, Evaluator::most_nodes + 1);
  EXPECT_EQ(refusal(graph, values.back()), "FE-G26 the value cannot be folded: it depends on too many nodes");
  Evaluator evaluator(session_->registry());
  EXPECT_EQ(elements<int64_t>(graph, evaluator.evaluate(graph, values[1])), std::vector<int64_t>{1});
  EXPECT_EQ(elements<int64_t>(graph, evaluator.evaluate(graph, values.back())),
            std::vector<int64_t>{static_cast<int64_t>(Evaluator::most_nodes) + 1})
      << "the first node is known, and the others are few enough";
}

TEST_F(Evaluate, ForgetsResultsThatARollbackErased) {
  auto graph = parse("%a = literal i64[1] {20}\n%r = add(%a, %a)\n");
  const auto r = *graph.find_value("r");
  Evaluator evaluator(session_->registry());
  const auto mark = graph.mark();
  const auto first = evaluator.evaluate(graph, r);
  ASSERT_TRUE(first);
  ASSERT_TRUE(graph.rollback(mark));
  EXPECT_FALSE(graph.find(*first));
  EXPECT_EQ(elements<int64_t>(graph, evaluator.evaluate(graph, r)), std::vector<int64_t>{40});
  const auto stale = evaluator.evaluate(graph, *first);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, "FE-G03");
}

}  // namespace
}  // namespace ferrite::core::lower
