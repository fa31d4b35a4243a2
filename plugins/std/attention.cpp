// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The building blocks of transformer layers. They are composites: their decompositions are fused as if they
// had been written out.
#include <limits>

#include "common.h"

namespace ferrite::standard {
namespace {

/// The two parts of the last dim that are rotated against each other: its halves or, if interleaved, the
/// first and the second numbers of its pairs.
std::pair<Value, Value> parts(Graph& g, Value x, bool interleaved) {
  Dims starts(x.rank(), 0), strides(x.rank(), 1), sizes = x.dims();
  sizes.back() /= 2;
  if (interleaved) strides.back() = 2;
  auto part = [&] {
    return g.make("slice", {x}, {attr("starts", starts), attr("sizes", sizes), attr("strides", strides)});
  };
  Value first = part();
  starts.back() = interleaved ? 1 : sizes.back();
  return {first, part()};
}
/// The inverse of parts().
Value together(Graph& g, Value first, Value second, bool interleaved) {
  const auto rank = static_cast<int64_t>(first.rank());
  if (!interleaved) return g.make("concat", {first, second}, {attr("axis", rank - 1)});
  Dims dims = first.dims(), apart = dims;
  apart.push_back(1);
  dims.back() *= 2;
  Value pairs =
      g.make("concat", {reshape_to(g, first, apart), reshape_to(g, second, apart)}, {attr("axis", rank)});
  return reshape_to(g, pairs, dims);
}
/// Whether cos or sin has one number per pair of numbers of x, instead of one per number.
bool for_each_pair(const TensorType& x, const TensorType& factor) {
  return x.dims.back() > 2 && factor.rank() > 0 && factor.dims.back() * 2 == x.dims.back();
}

OpDef rotary_embedding_op() {
  return op_def("rotary_embedding")
      .doc(
          "x * cos + rotated(x) * sin, where rotated(x) has the halves of the last dim swapped and the first "
          "of them negated then (Su et al., 2021); interleaved: so each pair of numbers that lie side by "
          "side, "
          "and not the halves. cos and sin broadcast to x, or have half of its last dim: the same number for "
          "both of a pair.")
      .operands("x", "cos", "sin")
      .attr(attr("interleaved", false))
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_rank(op, 0, x.rank(), 1, 64);
        need_fit(x.dims.back() % 2 == 0, op, "the last dim of ", to_string(x), " has no halves");
        Dims dims = x.dims;
        if (for_each_pair(x, op.operand(1)) || for_each_pair(x, op.operand(2))) dims.back() /= 2;
        for (size_t k = 1; k < 3; ++k) {
          need_same_dtype(op, k, x.dtype);
          need_broadcast_to(op, k, dims);
        }
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance& op, std::span<const Value> operands) {
        Value x = operands[0], cos = operands[1], sin = operands[2];
        auto mul = [&](Value a, Value b) { return g.make("mul", {a, b}); };
        const bool interleaved = op.attrs.boolean("interleaved");
        auto [first, second] = parts(g, x, interleaved);
        if (for_each_pair(op.operand(0), op.operand(1)) || for_each_pair(op.operand(0), op.operand(2))) {
          Value low = g.make("sub", {mul(first, cos), mul(second, sin)});
          Value high = g.make("add", {mul(second, cos), mul(first, sin)});
          return std::vector{together(g, low, high, interleaved)};
        }
        Value rotated = together(g, g.make("neg", {second}), first, interleaved);
        return std::vector{g.make("add", {mul(x, cos), mul(rotated, sin)})};
      })
      .samples({sample("%x: f32[2,3,8], %c: f32[3,8], %s: f32[3,8]", "rotary_embedding(%x, %c, %s)"),
                sample("%x: f32[2,3,8], %c: f32[3,4], %s: f32[3,4]", "rotary_embedding(%x, %c, %s)"),
                sample("%x: f32[2,3,8], %c: f32[3,8], %s: f32[8]",
                       "rotary_embedding(%x, %c, %s) {interleaved = true}"),
                sample("%x: f32[2,3,8], %c: f32[3,4], %s: f32[3,4]",
                       "rotary_embedding(%x, %c, %s) {interleaved = true}"),
                sample("%x: bf16[2,4], %c: bf16[4], %s: bf16[4]", "rotary_embedding(%x, %c, %s)")});
}

/// The logarithm of the sum of exp of each row, and 0 for a row that is -inf throughout. Maximum and
/// exponentials are those of the op softmax.
Value log_sum_of(Graph& g, Value scores) {
  const Dims axes = {static_cast<int64_t>(scores.rank()) - 1};
  const auto reduce = [&](std::string_view op, Value x) {
    return g.make(op, {x}, {attr("axes", axes), attr("keepdims", true)});
  };
  const Value most = reduce("reduce_max", scores);
  const Value sum = reduce("reduce_sum", g.make("exp", {g.make("sub", {scores, most})}));
  const Value log = g.make("add", {g.make("log", {sum}), most});
  const auto scalar = [&](double value) { return g.scalar(scores.dtype(), value); };
  const Value none = g.make("eq", {most, scalar(-std::numeric_limits<double>::infinity())});
  Dims rows = scores.dims();
  rows.pop_back();
  return reshape_to(g, g.make("where", {none, scalar(0), log}), rows);
}

/// With `log_sum`, the op also gives the logarithms of the sums.
OpDef attention_like(std::string name, std::string doc, bool log_sum) {
  return op_def(std::move(name))
      .doc(std::move(doc))
      .operands("q", "k", "v", "mask?")
      .attr(attr("scale", 1.0))
      .attr(attr("masked", -std::numeric_limits<double>::infinity()))
      .attr(attr("nan_as_zero", false))
      .results(log_sum ? 2 : 1)
      .infer([log_sum](const Instance& op) {
        auto q = typed(op, 0, FE_PRIM_FLOAT);
        for (size_t k = 0; k < 3; ++k) {
          need_same_dtype(op, k, q.dtype);
          need_rank(op, k, op.operand(k).rank(), 2, 64);
        }
        const Dims k = op.operand(1).dims, v = op.operand(2).dims;
        need_fit(q.dims.back() == k.back() && k[k.size() - 2] == v[v.size() - 2], op, to_string(q), ", ",
                 to_string(op.operand(1)), " and ", to_string(op.operand(2)), " do not fit");
        auto batch = [](const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); };
        Dims scores = broadcast_dims(op.op(), batch(q.dims), batch(k));
        Dims result = broadcast_dims(op.op(), scores, batch(v));
        scores.insert(scores.end(), {q.dims[q.rank() - 2], k[k.size() - 2]});
        if (op.has_operand(3)) {
          if (op.operand(3).dtype != boolean) need_same_dtype(op, 3, q.dtype);
          need_broadcast_to(op, 3, scores);
        }
        result.insert(result.end(), {q.dims[q.rank() - 2], v.back()});
        std::vector results = {TensorType{q.dtype, result}};
        scores.pop_back();
        if (log_sum) results.push_back({compute_type(q.dtype), scores});
        return results;
      })
      .decompose([log_sum](Graph& g, const Instance& op, std::span<const Value> operands) {
        Dims perm(operands[1].rank());
        for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        // A product of operands of 16 bits is exact in f32, and so are matrix instructions. Scores of 16 bits
        // would not be: softmax makes their absolute error the relative one of its results.
        const auto transposed = g.make("transpose", {operands[1]}, {attr("perm", perm)});
        Value scores = g.make("matmul", {widen(g, operands[0]), widen(g, transposed)});
        if (double scale = op.attrs.number("scale"); scale != 1)
          scores = g.make("mul", {scores, g.scalar(scores.dtype(), scale)});
        if (op.has_operand(3))
          scores = op.operand(3).dtype == boolean
                       ? g.make("where",
                                {operands[3], scores, g.scalar(scores.dtype(), op.attrs.number("masked"))})
                       : g.make("add", {scores, widen(g, operands[3])});
        Value weights = g.make("softmax", {scores});
        if (op.attrs.boolean("nan_as_zero")) weights = g.make("nan_to_zero", {weights});
        std::vector results = {g.make("matmul", {cast_to(g, weights, operands[2].dtype()), operands[2]})};
        if (log_sum) results.push_back(log_sum_of(g, scores));
        return results;
      });
}

OpDef attention_op() {
  return attention_like(
             "attention",
             "softmax(scale * q * transposed(k) + mask) * v over the last two dims, the others being batches "
             "that broadcast: the scaled dot product (Vaswani et al., 2017). A mask of bool is not added: "
             "where it is false, the scaled product becomes `masked`. nan_as_zero: results of the softmax "
             "that are NaN, as of a row that is -inf throughout, count as 0.",
             false)
      .samples(
          {sample("%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6]", "attention(%q, %k, %v) {scale = 0.5}"),
           sample("%q: f32[2,2,3,4], %k: f32[2,1,5,4], %v: f32[2,1,5,4], %m: f32[3,5]",
                  "attention(%q, %k, %v, %m) {scale = 0.5}"),
           sample("%q: bf16[2,3,4], %k: bf16[2,5,4], %v: bf16[2,5,6], %m: bf16[3,5]",
                  "attention(%q, %k, %v, %m) {scale = 0.5}"),
           sample("%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6], %m: bool[3,5]",
                  "attention(%q, %k, %v, %m) {scale = 0.5, masked = -10000, nan_as_zero = true}")});
}

OpDef attention_log_sum_op() {
  return attention_like(
             "attention_log_sum",
             "The result of `attention`, and for each row the logarithm of the sum of exp(score), of which "
             "the gradient of attention computes the softmax again (Dao et al., FlashAttention, 2022). The "
             "logarithm of a row that is -inf throughout is 0. f16 and bf16 give logarithms in f32.",
             true)
      .samples({sample("%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6]",
                       "attention_log_sum(%q, %k, %v) {scale = 0.5}", {"r", "log"}),
                sample("%q: bf16[2,3,4], %k: bf16[2,5,4], %v: bf16[2,5,6], %m: bf16[3,5]",
                       "attention_log_sum(%q, %k, %v, %m) {scale = 0.5}", {"r", "log"}),
                sample("%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6], %m: bool[3,5]",
                       "attention_log_sum(%q, %k, %v, %m) {scale = 0.5, nan_as_zero = true}", {"r", "log"})});
}

}  // namespace

void add_attention(PluginBuilder& builder, const PluginContext&) {
  builder.add(rotary_embedding_op());
  builder.add(attention_op());
  builder.add(attention_log_sum_op());
}

}  // namespace ferrite::standard
