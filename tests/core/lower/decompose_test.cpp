// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Composite ops, decomposed until all that is left has a lowering; ops that are never folded.
#include <gtest/gtest.h>

#include <deque>
#include <optional>

#include "core/ir/graph/print.h"
#include "core/ir/graph/verify.h"
#include "core/ir/text/parse_graph.h"
#include "core/lower/lower.h"
#include "tests/core/ir/graph_ops.h"

namespace ferrite::core::lower {
namespace {

using Names = std::vector<std::string>;

/// An op on tensors of one type.
struct Op {
  std::string name;
  bool lowered = false;
  /// Ops that are applied one after the other; empty: the decomposition gives nothing; none: there is none.
  std::optional<Names> made_of = std::nullopt;
  uint32_t flags = 0;
};

int32_t decompose_op(void* self, fe_call* call, const fe_decompose_args* args, fe_decompose_out* out) {
  const auto& op = *static_cast<const Op*>(self);
  if (op.made_of->empty()) return FE_OK;
  auto value = abi::element<fe_value_view>(args->op->operands, 0).handle;
  for (const auto& name : *op.made_of) {
    if (name == "refuse") return graph::test::fail(call, "not this one");
    auto make = abi::sized<fe_make_args>();
    make.op = abi::string(std::string_view(name));
    const fe_value operands[] = {value, value};
    make.operands = abi::array(operands, name == "sum" ? 2 : 1);
    make.before = make.like = args->node;
    auto made = abi::sized<fe_make_out>();
    made.results = &value;
    made.capacity = 1;
    if (const int32_t status = args->graph->make(args->graph->self, call, &make, &made)) return status;
  }
  out->results[0] = value;
  return FE_OK;
}
int32_t lower_op(void*, fe_call*, const fe_lowering_args*, fe_none*) { return FE_EINTERNAL; }
int32_t infer_row(void*, fe_call*, const fe_infer_args* args, fe_infer_out* out) {
  auto type = graph::test::operand(args, 0).type;
  type.rank = 1;
  return out->add(out->host, &type);
}

class Decompose : public testing::Test {
 protected:
  void SetUp() override {
    add({"sum", true});
    add({"twice", false, Names{"sum"}});
    add({"four_times", false, Names{"twice", "twice"}});
    add({"lowered_too", true, Names{"sum"}});
    add({"early", true, Names{"sum"}, FE_OP_DECOMPOSE_EARLY});
    add({"endless", false, Names{"endless"}});
    add({"bare"});
    add({"nothing", false, Names{}});
    add({"refuses", false, Names{"sum", "refuse"}});
    add({"row", true}, infer_row);
    add({"mistyped", false, Names{"row"}});
    add({"noise", true, std::nullopt, FE_OP_RANDOM});
    add({"print", true, std::nullopt, FE_OP_EFFECT});
  }
  void add(Op op, decltype(fe_op_def::infer) infer = graph::test::infer_same) {
    Op& kept = ops_.emplace_back(std::move(op));
    auto& operands = operands_.emplace_back(kept.name == "sum" ? 2 : 1, abi::sized<fe_operand_def>());
    for (auto& operand : operands) operand.name = abi::string(std::string_view("x"));
    auto& def = defs_.emplace_back(abi::sized<fe_op_def>());
    def.flags = kept.flags;
    def.self = &kept;
    def.name = abi::string(std::string_view(kept.name));
    def.operands = abi::array(operands);
    def.results = 1;
    def.infer = infer;
    if (kept.made_of) def.decompose = decompose_op;
    if (kept.lowered) def.lower = lower_op;
    ASSERT_TRUE(registry_.add_core_op(def));
  }

  /// The graph after decomposition as text, or the error.
  std::string decomposed(const std::string& nodes, bool only_early = false) {
    const std::string text = "ferrite graph 0\ngraph @g(%x: f32[2,3]) -> (%r \"y\") {\n" + nodes + "}\n";
    auto graph = graph::parse(text, {"g.fe", "", &registry_.ops()});
    if (!graph) return graph.error().message();
    if (auto done = decompose(*graph, registry_, "interpreter", only_early, ledger_); !done)
      return done.error().message();
    EXPECT_TRUE(graph::verify(*graph, registry_.ops()));
    return graph::print(*graph);
  }
  static std::string printed(const std::string& nodes, const std::string& result) {
    return "ferrite graph 0\ngraph @g(%x: f32[2,3]) -> (" + result + " \"y\") {\n" + nodes + "}\n";
  }

  std::deque<Op> ops_;
  std::deque<std::vector<fe_operand_def>> operands_;
  std::deque<fe_op_def> defs_;
  fe_host host_ = abi::sized<fe_host>();
  plugin::Registry registry_{host_};
  Ledger ledger_;
};

TEST_F(Decompose, GoesOnUntilEveryOpHasALowering) {
  EXPECT_EQ(decomposed("  %r = four_times(%x) from \"Four_0\"\n"),
            printed("  %0 = sum(%x, %x) : f32[2,3] from \"Four_0\" by \"twice\"\n"
                    "  %1 = sum(%0, %0) : f32[2,3] from \"Four_0\" by \"twice\"\n",
                    "%1"));
  Names made_by;
  for (const auto& record : ledger_.records()) {
    EXPECT_EQ(record.kind + " " + record.outcome, "lowering decomposed");
    made_by.push_back(record.object);
  }
  EXPECT_EQ(made_by, (Names{"four_times", "twice", "twice"}));
}

TEST_F(Decompose, LeavesOpsThatHaveALowering) {
  EXPECT_EQ(decomposed("  %r = lowered_too(%x)\n"), printed("  %r = lowered_too(%x) : f32[2,3]\n", "%r"));
  EXPECT_TRUE(ledger_.records().empty());
}

TEST_F(Decompose, OfEarlyOpsIgnoresLoweringsAndLeavesTheOthers) {
  EXPECT_EQ(decomposed("  %a = twice(%x)\n  %r = early(%a)\n", true),
            printed("  %a = twice(%x) : f32[2,3]\n  %0 = sum(%a, %a) : f32[2,3] by \"early\"\n", "%0"));
}

TEST_F(Decompose, NamesTheNodeThatCannotBeDecomposed) {
  EXPECT_EQ(decomposed("  %a = twice(%x)\n  %r = bare(%a) from \"Bare_1\"\n"),
            "FE-G25 %r = 'bare' from \"Bare_1\": the op has no lowering for device 'interpreter' and no "
            "decomposition");
  EXPECT_EQ(decomposed("  %r = nothing(%x)\n"),
            "FE-G25 %r = 'nothing': its decomposition gave no value for result 0");
  EXPECT_EQ(decomposed("  %r = mistyped(%x)\n"),
            "FE-G25 %r = 'mistyped': its decomposition gave a value of another type for result 0");
  EXPECT_EQ(decomposed("  %r = refuses(%x)\n"), "test/shape %r = 'refuses': not this one");
}

TEST_F(Decompose, EndsWhereOpsAreMadeOfThemselves) {
  EXPECT_EQ(decomposed("  %r = endless(%x)\n"),
            "FE-G25 ops are still decomposing into each other after 64 rounds");
  EXPECT_EQ(ledger_.records().size(), 64u);
}

TEST_F(Decompose, RefusesOpsThatNobodyDefines) {
  graph::Graph graph;
  const auto x = graph.add_input("x", graph::test::f32_type({2}));
  ASSERT_TRUE(x);
  graph::NodeSpec spec;
  spec.op = "unheard.of";
  spec.operands = {*x};
  spec.types = {graph::test::f32_type({2})};
  ASSERT_TRUE(graph.make(spec));
  const auto refused = decompose(graph, registry_, "interpreter", false, ledger_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-G13");
}

using Evaluate = Decompose;

TEST_F(Evaluate, NeverRunsOpsThatAreRandomOrHaveEffects) {
  for (const std::string& op : {std::string("noise"), std::string("print")}) {
    auto graph =
        graph::parse("ferrite graph 0\ngraph @g() -> () {\n%c = literal f32[1] {1}\n%r = " + op + "(%c)\n}\n",
                     {"g.fe", "", &registry_.ops()});
    ASSERT_TRUE(graph) << graph.error().message();
    const auto refused = Evaluator(registry_).evaluate(*graph, *graph->find_value("r"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message(),
              "FE-G26 the value cannot be folded: an op is random or has an effect");
  }
}

}  // namespace
}  // namespace ferrite::core::lower
