// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the layers of transformers are made of, whole. Composites: what they decompose into is fused as if it had been written.
#include "common.h"

namespace ferrite::standard {
namespace {

/// The two halves of the last dim.
std::pair<Value, Value> halves(Graph& g, Value x) {
  Dims starts(x.rank(), 0), strides(x.rank(), 1), sizes = x.dims();
  sizes.back() /= 2;
  auto part = [&] {
    return g.make("slice", {x}, {attr("starts", starts), attr("sizes", sizes), attr("strides", strides)});
  };
  Value low = part();
  starts.back() = sizes.back();
  return {low, part()};
}

OpDef rotary_embedding_op() {
  return op_def("rotary_embedding")
      .doc(
          "x * cos + rotated(x) * sin, where rotated(x) has the halves of the last dim swapped and the first "
          "of them "
          "negated then (Su et al., 2021). cos and sin broadcast to x.")
      .operands("x", "cos", "sin")
      .infer([](const Instance& op) {
        auto x = typed(op, 0, FE_PRIM_FLOAT);
        need_rank(op, 0, x.rank(), 1, 64);
        need_fit(x.dims.back() % 2 == 0, op, "the last dim of ", to_string(x), " has no halves");
        for (size_t k = 1; k < 3; ++k) {
          need_same_dtype(op, k, x.dtype);
          need_broadcast_to(op, k, x.dims);
        }
        return std::vector{x};
      })
      .decompose([](Graph& g, const Instance&, std::span<const Value> operands) {
        Value x = operands[0];
        auto [low, high] = halves(g, x);
        Value rotated = g.make("concat", {g.make("neg", {high}), low},
                               {attr("axis", static_cast<int64_t>(x.rank()) - 1)});
        return std::vector{
            g.make("add", {g.make("mul", {x, operands[1]}), g.make("mul", {rotated, operands[2]})})};
      })
      .samples({sample("%x: f32[2,3,8], %c: f32[3,8], %s: f32[3,8]", "rotary_embedding(%x, %c, %s)"),
                sample("%x: bf16[2,4], %c: bf16[4], %s: bf16[4]", "rotary_embedding(%x, %c, %s)")});
}

OpDef attention_op() {
  return op_def("attention")
      .doc(
          "softmax(scale * q * transposed(k) + mask) * v over the last two dims, the others being batches "
          "that broadcast: "
          "the scaled dot product (Vaswani et al., 2017).")
      .operands("q", "k", "v", "mask?")
      .attr(attr("scale", 1.0))
      .infer([](const Instance& op) {
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
          need_same_dtype(op, 3, q.dtype);
          need_broadcast_to(op, 3, scores);
        }
        result.insert(result.end(), {q.dims[q.rank() - 2], v.back()});
        return std::vector{TensorType{q.dtype, result}};
      })
      .decompose([](Graph& g, const Instance& op, std::span<const Value> operands) {
        Dims perm(operands[1].rank());
        for (size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<int64_t>(d);
        std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
        Value scores =
            g.make("matmul", {operands[0], g.make("transpose", {operands[1]}, {attr("perm", perm)})});
        if (double scale = op.attrs.number("scale"); scale != 1)
          scores = g.make("mul", {scores, g.scalar(scores.dtype(), scale)});
        if (op.has_operand(3)) scores = g.make("add", {scores, operands[3]});
        return std::vector{g.make("matmul", {g.make("softmax", {scores}), operands[2]})};
      })
      .samples(
          {sample("%q: f32[2,3,4], %k: f32[2,5,4], %v: f32[2,5,6]", "attention(%q, %k, %v) {scale = 0.5}"),
           sample("%q: f32[2,2,3,4], %k: f32[2,1,5,4], %v: f32[2,1,5,4], %m: f32[3,5]",
                  "attention(%q, %k, %v, %m) {scale = 0.5}")});
}

}  // namespace

void add_attention(PluginBuilder& builder, const PluginContext&) {
  builder.add(rotary_embedding_op());
  builder.add(attention_op());
}

}  // namespace ferrite::standard
