// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong rules of many kinds, each of which the trial must refuse, and right ones beside them, which must pass
// on evidence that is not thin.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/ir/graph/print.h"
#include "core/passes/rewrite/apply.h"
#include "core/support/abi/abi.h"
#include "tests/driver/validate/validate_support.h"

namespace ferrite::core::validate {
namespace {

using Kind = Verdict::Kind;

struct Case {
  const char *name, *match, *yield, *where;
};

// What each forgets, or gets wrong.
constexpr Case wrong_rules[] = {
    // The op normalises the last axis.
    {"axis of an RMS norm",
     "%p = pow(%x, 2) once  %m = reduce_mean(%p) {axes = $axes, keepdims = true} once  %a = add(%m, 1e-5) "
     "once  "
     "%s = sqrt(%a) once  %i = reciprocal(%s) once  %n = mul(%x, %i) once  %r = mul(%n, %w)",
     "%r = rms_norm(%x, %w) {axis = -1, epsilon = 1e-5}", "elements(%w) == dim(%x, -1), rank(%w) == 1"},
    {"axis of a softmax", "%e = exp(%x)  %s = reduce_sum(%e) {axes = $a, keepdims = true}  %r = div(%e, %s)",
     "%r = softmax(%x) {axis = -1}", ""},
    {"axis off by one", "%r = softmax(%x) {axis = 1}", "%r = softmax(%x) {axis = -1}", ""},
    // Type-checks where all sizes are equal only.
    {"dropped dims of a mean", "%m = reduce_mean(%x) {axes = [-1]}  %r = sub(%x, %m)",
     "%n = reduce_mean(%x) {axes = [-1], keepdims = true}  %r = sub(%x, %n)", "rank(%x) >= 1"},
    {"transposed factor of equal sizes", "%t = transpose(%x) {perm = [1, 0]}  %r = matmul(%t, %y)",
     "%r = matmul(%x, %y)", ""},
    {"factors exchanged", "%r = matmul(%x, %y)", "%r = matmul(%y, %x)", "shape(%x) == shape(%y)"},
    {"operands of a difference", "%n = neg(%x)  %r = add(%n, %y)", "%r = sub(%x, %y)", ""},
    {"alpha", "%m = gemm(%a, %b) once  %r = add(%m, %c)", "%r = gemm(%a, %b, %c)", "shape(%c) == shape(%r)"},
    {"transposition flags", "%r = gemm(%a, %b) {alpha = 1.0}", "%r = matmul(%a, %b)", ""},
    {"permutation right for rank 2 only", "%t = transpose(%x) {perm = $p}  %r = transpose(%t) {perm = $p}",
     "%r = %x", ""},
    {"broadcasting", "%s = add(%x, %y)  %r = reduce_sum(%s) {axes = [-1], keepdims = true}",
     "%a = reduce_sum(%x) {axes = [-1], keepdims = true}  %b = reduce_sum(%y) {axes = [-1], keepdims = true} "
     " "
     "%r = add(%a, %b)",
     "dtype(%x) == f64, rank(%x) >= 1, rank(%y) >= 1"},
    {"narrow dtype between", "%c = cast(%x) {dtype = $d}  %r = cast(%c) {dtype = f32}", "%r = %x",
     "dtype(%x) == f32"},
    {"integers truncate", "%d = div(%x, 2)  %r = mul(%d, 2)", "%r = %x", "shape(%x) == shape(%r)"},
    {"negative numbers", "%s = mul(%x, %x)  %r = sqrt(%s)", "%r = %x", ""},
    {"epsilon outside of the root", "%a = add(%x, 1e-5)  %r = sqrt(%a)", "%s = sqrt(%x)  %r = add(%s, 1e-5)",
     "dtype(%x) == f32, shape(%x) == shape(%r)"},
    {"epsilon of a norm",
     "%q = mul(%x, %x)  %m = reduce_mean(%q) {axes = [-1], keepdims = true}  %a = add(%m, 1e-5)  %s = "
     "sqrt(%a)  "
     "%r = div(%x, %s)",
     "%q2 = mul(%x, %x)  %m2 = reduce_mean(%q2) {axes = [-1], keepdims = true}  %s2 = sqrt(%m2)  "
     "%t = add(%s2, 1e-5)  %r = div(%x, %t)",
     "dtype(%x) == f32, shape(%r) == shape(%x), rank(%x) >= 1"},
    {"size 1 only", "%r = reduce_sum(%x) {axes = [0], keepdims = true}",
     "%r = slice(%x) {starts = [0], sizes = [1], strides = [1]}", "rank(%x) == 1"},
    {"large sizes", "%r = argmax(%x) {axis = -1, keepdims = true}",
     "%i = argmax(%x) {axis = -1, keepdims = true}  %b = cast(%i) {dtype = u8}  %r = cast(%b) {dtype = i64}",
     "dtype(%x) == f32, rank(%x) == 1"},
    {"ties", "%r = round(%x)", "%h = add(%x, 0.5)  %r = floor(%h)", ""},
    {"a choice of the op", "%r = gelu(%x)", "%r = gelu(%x) {approximate = \"none\"}", ""},
    {"which of equal elements", "%n = neg(%x)  %r = argmax(%n) {axis = $a, keepdims = $k}",
     "%r = argmin(%x) {axis = $a, keepdims = $k}", "dtype(%x) == f32"},
    {"NaN", "%m = maximum(%x, 0)  %r = minimum(%m, 0)", "%r = sub(%x, %x)", "dtype(%x) == f32"},
    {"a flag", "%r = cumsum(%x) {axis = $a, reverse = $v}",
     "%r = cumsum(%x) {axis = $a, reverse = $v, exclusive = false}", ""},
    {"one of several alternatives", "%q = mul(%x, %x) | pow(%x, 2) | abs(%x)  %r = add(%q, 1)",
     "%t = mul(%x, %x)  %r = sub(%t, -1)", "dtype(%x) == f32"},
    {"an alternative's axis",
     "%m = reduce_max(%x) {axes = $a, keepdims = true} | reduce_max(%x) {axes = [-1], keepdims = true}  "
     "%r = sub(%x, %m)",
     "%n = reduce_max(%x) {axes = [-1], keepdims = true}  %k = neg(%n)  %r = add(%x, %k)", "rank(%x) >= 1"},
};

// Wrong only where sizes meet, or where slices keep elements behind their starts: other graphs show nothing.
constexpr Case rarely_wrong_rules[] = {
    {"a slice of a slice",
     "%s = slice(%x) {starts = $a, sizes = $z, strides = $t}  "
     "%r = slice(%s) {starts = $b, sizes = $y, strides = $u}",
     "%r = slice(%x) {starts = $b, sizes = $y, strides = $u}", ""},
    {"a slice beyond a relu",
     "%s = slice(%x) {starts = $a, sizes = $z, strides = $t}  "
     "%r = slice(relu(%s)) {starts = $b, sizes = $y, strides = $u}",
     "%q = slice(%x) {starts = $a, sizes = $y, strides = $u}  %r = relu(%q)", ""},
    {"a row taken for the bias of channels",
     "%r = add(conv(%x, %w) {strides = $s, pads_low = $l, pads_high = $h, dilations = $d, groups = $g}, %b)",
     "%f = reshape(%b) {shape = [dim(%w, 0)]}  "
     "%r = conv(%x, %w, %f) {strides = $s, pads_low = $l, pads_high = $h, dilations = $d, groups = $g}",
     "constant(%b), elements(%b) == dim(%w, 0)"},
    {"a column taken for the scale of a norm",
     "%m = reduce_mean(mul(%x, %x)) {axes = [rank(%x) - 1], keepdims = true}  "
     "%n = div(%x, sqrt(add(%m, %e)))  %r = mul(%n, reshape(%w))",
     "%r = rms_norm(%x, %w) {axis = -1, epsilon = value(%e)}", "rank(%w) == 1, dim(%w, 0) == dim(%x, -1)"},
};

constexpr Case right_rules[] = {
    {"axes", "%s = reduce_sum(%x) {axes = $a, keepdims = $k} once  %r = neg(%s)",
     "%n = neg(%x)  %r = reduce_sum(%n) {axes = $a, keepdims = $k}", ""},
    {"an RMS norm",
     "%p = pow(%x, 2) once  %m = reduce_mean(%p) {axes = [-1], keepdims = true} once  %a = add(%m, 1e-5) "
     "once  "
     "%s = sqrt(%a) once  %i = reciprocal(%s) once  %n = mul(%x, %i) once  %r = mul(%n, %w)",
     "%r = rms_norm(%x, %w) {axis = -1, epsilon = 1e-5}", "elements(%w) == dim(%x, -1), rank(%w) == 1"},
    {"a quotient", "%s = sigmoid(%x) once  %r = mul(%x, %s)", "%r = silu(%x)", ""},
    {"a difference", "%n = neg(%x)  %r = add(%y, %n)", "%r = sub(%y, %x)", ""},
    {"a negated product", "%r = matmul(%x, %y)  %s = neg(%r)", "%n = neg(%x)  %s = matmul(%n, %y)", ""},
    {"a product and a sum", "%m = matmul(%a, %b) once  %r = add(%m, %c)", "%r = gemm(%a, %b, %c)",
     "rank(%a) == 2, rank(%b) == 2, shape(%m) == shape(%r), dtype(%a) == f32"},
    {"transpositions", "%t = transpose(%x) {perm = [1, 0]}  %r = transpose(%t) {perm = [1, 0]}", "%r = %x",
     ""},
    {"casts that widen", "%c = cast(%x) {dtype = f64}  %r = cast(%c) {dtype = f32}",
     "%r = cast(%x) {dtype = f32}", "dtype(%x) == f16 or dtype(%x) == bf16 or dtype(%x) == f32"},
    {"a maximum", "%r = maximum(%x, 0)", "%r = relu(%x)", "shape(%x) == shape(%r)"},
    {"the root of a square", "%s = mul(%x, %x)  %r = sqrt(%s)", "%r = abs(%x)", "dtype(%x) == f32"},
    {"the index of the least", "%n = neg(%x)  %r = argmax(%n) {axis = $a, keepdims = $k, select_last = $l}",
     "%r = argmin(%x) {axis = $a, keepdims = $k, select_last = $l}", "dtype(%x) == f32"},
    {"a slice of a sum", "%s = add(%x, %y) once  %r = slice(%s) {starts = $a, sizes = $b, strides = $c}",
     "%p = slice(%x) {starts = $a, sizes = $b, strides = $c}  %q = slice(%y) {starts = $a, sizes = $b, "
     "strides = $c}  "
     "%r = add(%p, %q)",
     "shape(%x) == shape(%y)"},
    {"a reshape", "%s = reshape(%x) {shape = $s} once  %r = relu(%s)",
     "%p = relu(%x)  %r = reshape(%p) {shape = $s}", ""},
    {"a choice", "%n = logical_not(%c)  %r = where(%n, %x, %y)", "%r = where(%c, %y, %x)", ""},
    {"integers wrap", "%a = add(%x, %b) once  %r = sub(%a, %b)", "%r = %x",
     "dtype(%x) == i32, shape(%x) == shape(%r)"},
    {"concatenated copies",
     "%c = concat(%x, %x) {axis = 0}  %r = reduce_sum(%c) {axes = [0], keepdims = true}",
     "%s = reduce_sum(%x) {axes = [0], keepdims = true}  %r = add(%s, %s)", "rank(%x) >= 1"},
    {"a number between bounds",
     "%m = reduce_mean(mul(%x, %x)) {axes = [rank(%x) - 1], keepdims = true}  %r = mul(%x, rsqrt(add(%m, "
     "%e)))",
     "%r = rms_norm(%x) {axis = -1, epsilon = value(%e)}", "value(%e) > 0, value(%e) < 0.1"},
    {"alternatives", "%q = mul(%x, %x) | pow(%x, 2)  %r = sqrt(%q) | pow(%q, 0.5)", "%r = abs(%x)",
     "dtype(%x) == f32, shape(%q) == shape(%x), shape(%r) == shape(%q)"},
};

std::string told(const Verdict& verdict) {
  return fmt::format("{}\n{}\ncovered: {}", verdict.reason, fmt::join(verdict.thin, "\n"),
                     verdict.covered.text());
}

TEST(Trials, RefuseWrongRules) {
  for (const Case& each : wrong_rules) {
    const Verdict verdict = try_text(rule(each.match, each.yield, each.where));
    EXPECT_EQ(verdict.kind, Kind::wrong) << each.name << ": " << told(verdict);
    if (!verdict.counterexample) continue;
    EXPECT_LE(verdict.counterexample->node_count(), 8u) << graph::print(*verdict.counterexample);
  }
}

TEST(Trials, RefuseRarelyWrongRulesWhateverTheSeed) {
  for (const Case& each : rarely_wrong_rules) {
    size_t refused = 0;
    for (uint64_t seed = 1; seed <= 10; ++seed) {
      const Verdict verdict = try_text(rule(each.match, each.yield, each.where), seed);
      refused += verdict.kind == Kind::wrong;
      if (seed == TryOptions().seed) {
        EXPECT_EQ(verdict.kind, Kind::wrong) << each.name << ": " << told(verdict);
      }
    }
    EXPECT_GE(refused, 9u) << each.name;
  }
}

TEST(Trials, CountWhereADifferenceCouldShow) {
  // All that meets the condition has one element.
  const Verdict flat = try_text(rule("%n = neg(%x)  %r = neg(%n)", "%r = %x", "elements(%x) == 1"));
  ASSERT_EQ(flat.kind, Kind::passed) << told(flat);
  EXPECT_EQ(flat.covered.telling(), 0u);
  EXPECT_LE(flat.samples, 8u);
  ASSERT_FALSE(flat.thin.empty());
  EXPECT_EQ(flat.thin[0], "it was tried on 0 graphs only that could show a difference");
  // The last axis of a sum is taken for the channels of a bias; where the bias has one element, it makes no
  // difference.
  const Verdict bias = try_text(rule(
      "%r = add(conv(%x, %w) {strides = [1, 1], pads_low = [0, 0], pads_high = [0, 0], dilations = [1, 1], "
      "groups = 1}, %b)",
      "%r = conv(%x, %w, %b)", "rank(%b) == 1"));
  EXPECT_TRUE(bias.kind == Kind::wrong || !bias.thin.empty()) << told(bias);
  // Nothing of them is compared at all.
  const Verdict none = try_text(rule("%n = neg(%x)  %r = neg(%n)", "%r = %x", "dim(%x, 0) == 0"));
  EXPECT_EQ(none.kind, Kind::untested) << told(none);
  EXPECT_EQ(none.reason, "no sample had a result with elements");
}

TEST(Trials, PassRightRulesOnEvidenceThatIsNotThin) {
  for (const Case& each : right_rules) {
    const Verdict verdict = try_text(rule(each.match, each.yield, each.where));
    EXPECT_EQ(verdict.kind, Kind::passed)
        << each.name << ": " << told(verdict)
        << (verdict.counterexample ? graph::print(*verdict.counterexample) : "");
    EXPECT_TRUE(verdict.thin.empty()) << each.name << ": " << told(verdict);
    EXPECT_GE(verdict.samples, 20u) << each.name;
  }
}

TEST(Trials, TheRulesOfTheExamplesPass) {
  const auto root = std::filesystem::path(FERRITE_SOURCE);
  for (const char* name : {"sdk/examples/rule_text/softsign.fe", "sdk/examples/rule_region/cut_first.fe",
                           "docs/examples/add_pass/silu.rules", "docs/examples/from_nothing/hard_swish.rules",
                           "docs/examples/from_nothing/rms_norm.rules"}) {
    std::stringstream text;
    text << std::ifstream(root / name).rdbuf();
    const auto session = open(text.str());
    ASSERT_TRUE(session) << name;
    const auto& rules = session->registry().compiled_rules(0);
    for (size_t k = 0; k < rules.rules.size(); ++k) {
      const Verdict verdict = try_rule(rules, k, session->registry());
      EXPECT_EQ(verdict.kind, Kind::passed) << name << ": " << told(verdict);
      EXPECT_TRUE(verdict.thin.empty()) << name << ": " << told(verdict);
    }
  }
}

TEST(Trials, SayWhatTheyCovered) {
  const Verdict verdict = try_text(rule(
      "%m = reduce_max(%x) {axes = $a, keepdims = true}  %r = sub(%x, %m)",
      "%n = reduce_max(%x) {axes = $a, keepdims = true}  %k = neg(%n)  %r = add(%x, %k)", "rank(%x) >= 1"));
  ASSERT_EQ(verdict.kind, Kind::passed) << told(verdict);
  const std::string text = verdict.covered.text();
  for (const char* part :
       {"rank of %x: 1 (", "; dtype of %x: ", "f16 (", "; sizes of %x: ", "equal (", "unequal (",
        "; axes of %m = reduce_max: ", "%x: constant of the result's sizes ("})
    EXPECT_NE((", " + text).find(part), std::string::npos) << part << " in " << text;
  for (const char* part : {" 2 (", " 3 (", " 4 ("}) EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Trials, SayWhereEvidenceIsThin) {
  Coverage few;
  for (int k = 0; k < 3; ++k) few.add({});
  const auto reasons = few.thin(rewrite::Rule(), few, {});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_EQ(reasons[0], "it was tried on 3 graphs only that could show a difference");
  const Verdict flat = try_text(rule("%n = neg(%x)  %r = neg(%n)", "%r = %x", "rank(%x) == 2"));
  ASSERT_EQ(flat.kind, Kind::passed) << told(flat);
  EXPECT_TRUE(flat.thin.empty()) << told(flat);
  EXPECT_NE(flat.unreached.find("rank of %x: 0, 1, 3, 4"), std::string::npos) << flat.unreached;
  // A condition keeps one of the alternatives out.
  const Verdict way =
      try_text(rule("%q = abs(%x) | reduce_sum(%x) {axes = [0], keepdims = true}  %r = neg(%q)",
                    "%r = mul(%q, -1)", "dim(%x, 0) == 3, shape(%q) == shape(%x), dtype(%x) == f32"));
  ASSERT_EQ(way.kind, Kind::passed) << told(way);
  EXPECT_NE(fmt::format("{}", fmt::join(way.thin, "; ")).find("alternative 2, reduce_sum as %q"),
            std::string::npos)
      << told(way);
}

Coverage of(std::initializer_list<std::pair<Seen::What, const char*>> values, int count) {
  Coverage coverage;
  for (int k = 0; k < count; ++k)
    for (const auto& [what, value] : values) coverage.add({{what, 0, "it", value}}, true);
  return coverage;
}

TEST(Trials, AreThinWhereASizeNeverVaried) {
  using What = Seen::What;
  const rewrite::Rule rule;
  const auto reasons = [&](const Coverage& covered, const Coverage& offered, const Coverage& declined = {}) {
    return fmt::format("{}", fmt::join(covered.thin(rule, offered, declined), "; "));
  };
  // Sizes of a value that were never unequal, where dims that are mistaken for each other show nothing.
  const Coverage sizes = of({{What::sizes, "equal"}, {What::sizes, "unequal"}}, 10);
  EXPECT_EQ(reasons(of({{What::sizes, "equal"}}, 10), sizes), "it were equal in all graphs");
  EXPECT_EQ(reasons(of({{What::sizes, "with ones"}, {What::sizes, "equal"}}, 10), sizes), "");
  EXPECT_EQ(reasons(of({{What::sizes, "one dim"}}, 10), sizes), "");
  // Slices of everything; those that are never anything else are no slices.
  const Coverage parts = of({{What::part, as_large}, {What::part, of_other_sizes}}, 10);
  EXPECT_EQ(reasons(of({{What::part, as_large}}, 10), parts), "it was as large as its operand in all graphs");
  EXPECT_EQ(reasons(of({{What::part, of_other_sizes}}, 10), parts), "");
  EXPECT_EQ(reasons(of({{What::part, as_large}}, 10), of({{What::part, as_large}}, 10)), "");
  // The size that a region names.
  EXPECT_EQ(reasons(of({{What::dim, "2"}}, 10), of({{What::dim, "2"}, {What::dim, "3"}}, 10)),
            "it was 2 in all graphs");
  // Ranks that a predicate refuses, or types, are no gap; those that it never saw are one.
  const Coverage ranks = of({{What::rank, "1"}, {What::rank, "2"}}, 10);
  EXPECT_EQ(reasons(of({{What::rank, "2"}}, 10), ranks, of({{What::rank, "1"}}, 3)), "");
  EXPECT_EQ(reasons(of({{What::rank, "2"}}, 10), ranks, of({{What::rank, "2"}}, 3)),
            "it was 2 in all graphs");
}

/// The verdict on a rule that applies where `accepts` is true of the rank of the first value that it
/// captures.
Verdict with_predicate(const char* match, const char* yield, bool (*accepts)(size_t rank)) {
  auto predicate = abi::sized<fe_predicate>();
  predicate.self = &accepts;
  predicate.name = abi::string(std::string_view("acme.rank"));
  predicate.accept = [](void* self, fe_call* call, const fe_match_args* args,
                        fe_predicate_out* out) -> int32_t {
    auto view = abi::sized<fe_value_view>();
    auto which = abi::sized<fe_value_args>();
    which.value = abi::element<fe_value>(args->values, 0);
    if (const auto status = args->graph->value(args->graph->self, call, &which, &view); status != FE_OK)
      return status;
    out->accepted = (*static_cast<decltype(accepts)*>(self))(view.type.rank);
    return FE_OK;
  };
  const auto session = open("");
  const auto rules = rewrite::compile_rules(rule(match, yield, "predicate(\"acme.rank\")"), "acme.rules",
                                            {&predicate, 1}, session->registry().ops());
  EXPECT_TRUE(rules) << rules.error().message();
  return rules ? try_rule(*rules, 0, session->registry()) : Verdict();
}

TEST(Trials, ThatPredicatesGuard) {
  const auto matrices = [](size_t rank) { return rank == 2; };
  // What the predicate was asked about, and refused, is no gap.
  const Verdict right = with_predicate("%n = neg(%x)  %r = neg(%n)", "%r = %x", matrices);
  EXPECT_EQ(right.kind, Kind::passed) << told(right);
  EXPECT_TRUE(right.thin.empty()) << told(right);
  EXPECT_EQ(with_predicate("%n = neg(%x)  %r = neg(%n)", "%r = %x", [](size_t) { return false; }).kind,
            Kind::untested);
  // One that asks for too little guards nothing.
  const Verdict wrong = with_predicate("%r = softmax(%x) {axis = 1}", "%r = softmax(%x) {axis = -1}",
                                       [](size_t rank) { return rank >= 2; });
  EXPECT_EQ(wrong.kind, Kind::wrong) << told(wrong);
}

}  // namespace
}  // namespace ferrite::core::validate
