// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions, arg reductions, running sums, and top-k.
#include <algorithm>

#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

/// `attribute_until`: the last opset in which the axes are an attribute.
void reduce(Context& c, int attribute_until) {
  Value x = c.operand(0);
  size_t rank = x.rank();
  std::optional<Dims> given;
  if (c.opset <= attribute_until)
    given = c.integers("axes");
  else if (c.has(1))
    given = c.constant_integers(1);
  std::string op = c.entry.standard;
  if (!given || given->empty()) {
    if (c.opset > attribute_until && c.flag("noop_with_empty_axes", false)) {
      if (op != "reduce_sum" && op != "reduce_mean" && op != "reduce_prod" && op != "reduce_max" &&
          op != "reduce_min")
        c.unsupported("no axes with noop_with_empty_axes are not supported for this op");
      return c.give(x);
    }
    given = dim_range(0, rank);
  }
  Dims axes = c.axes(*given, rank);
  std::ranges::sort(axes);
  if (x.dtype() == boolean && (op == "reduce_max" || op == "reduce_min"))
    op = op == "reduce_max" ? "reduce_any" : "reduce_all";
  c.give(reduce_over(c, op, x, axes, c.flag("keepdims", true)));
}
void reduce_sum(Context& c) { reduce(c, 12); }
void reduce_other(Context& c) { reduce(c, 17); }

void arg(Context& c) {
  c.give(c.make(c.entry.standard, {c.operand(0)},
                attr("axis", c.axis(c.integer("axis", 0), c.type(0).rank())),
                attr("keepdims", c.flag("keepdims", true)),
                attr("select_last", c.opset >= 12 && c.flag("select_last_index", false))));
}

void cumsum(Context& c) {
  int64_t axis = c.axis(c.constant_integer(1), c.type(0).rank());
  c.give(c.make("cumsum", {c.operand(0)}, attr("axis", axis), attr("exclusive", c.flag("exclusive", false)),
                attr("reverse", c.flag("reverse", false))));
}

/// The number of elements is an attribute up to opset 9.
void top_k(Context& c) {
  const int64_t k = c.opset < 10 ? c.integer("k") : c.constant_integer(1);
  const bool chosen = c.opset >= 11;
  const Value operands[] = {c.operand(0)};
  const Attr attrs[] = {attr("k", k), attr("axis", c.axis(c.integer("axis", -1), c.type(0).rank())),
                        attr("largest", !chosen || c.flag("largest", true)),
                        attr("sorted", !chosen || c.flag("sorted", true))};
  const auto results = c.graph.make_all("topk", operands, attrs);
  for (size_t r = 0; r < results.size(); ++r) c.give(r, results[r]);
}

constexpr OpEntry reduce_entries[] = {
    {"ReduceSum", 1, newest, reduce_sum, "reduce_sum"},
    {"ReduceMean", 1, newest, reduce_other, "reduce_mean"},
    {"ReduceProd", 1, newest, reduce_other, "reduce_prod"},
    {"ReduceMax", 1, newest, reduce_other, "reduce_max"},
    {"ReduceMin", 1, newest, reduce_other, "reduce_min"},
    {"ReduceL1", 1, newest, reduce_other, "reduce_l1"},
    {"ReduceL2", 1, newest, reduce_other, "reduce_l2"},
    {"ReduceLogSum", 1, newest, reduce_other, "reduce_log_sum"},
    {"ReduceLogSumExp", 1, newest, reduce_other, "reduce_log_sum_exp"},
    {"ReduceSumSquare", 1, newest, reduce_other, "reduce_sum_square"},
    {"ArgMax", 1, newest, arg, "argmax"},
    {"ArgMin", 1, newest, arg, "argmin"},
    {"CumSum", 11, newest, cumsum},
    {"TopK", 1, newest, top_k},
};

}  // namespace

std::span<const OpEntry> reduce_ops() { return reduce_entries; }

}  // namespace ferrite::from_onnx
