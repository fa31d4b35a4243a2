// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and its gradient.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

/// The keys or values of each query head: with grouped queries, several share one.
Value for_each_head(Context& c, Value x, int64_t heads) {
  const Dims d = x.dims();
  if (d[1] == heads) return x;
  const Value apart = reshape_to(c, x, {d[0], d[1], 1, d[2], d[3]});
  return reshape_to(c, expand_to(c, apart, {d[0], d[1], heads / d[1], d[2], d[3]}),
                    {d[0], heads, d[2], d[3]});
}

/// Whether query i may look at key j: j <= i.
Value causal_mask(Context& c, int64_t queries, int64_t keys) {
  const Dims dims = {queries, keys};
  return binary(c, "le", counting(c, i64, dims, 1), counting(c, i64, dims, 0));
}

double scale_of(Context& c, Value q) {
  return c.number("scale", 1 / std::sqrt(static_cast<double>(q.dims().back())));
}

/// The scores, scaled and masked: what softmax takes. -inf where a key is hidden.
Value scores(Context& c, Value q, Value k, Value mask, bool causal, double scale) {
  Value s = c.make("matmul", {q, swap_dims(c, k, k.rank() - 2, k.rank() - 1)});
  s = binary(c, "mul", s, scale);
  const Value hidden = number_like(c, s, -std::numeric_limits<double>::infinity());
  if (mask)
    s = mask.dtype() == boolean ? select(c, mask, s, hidden)
                                : binary(c, "add", s, cast_to(c, mask, s.dtype()));
  if (causal) s = select(c, causal_mask(c, q.dims()[q.rank() - 2], k.dims()[k.rank() - 2]), s, hidden);
  return s;
}

void check_no_dropout(Context& c) {
  if (c.number("dropout_p", 0) != 0) c.unsupported("attention with dropout runs in PyTorch");
}

void attention(Context& c) {
  check_no_dropout(c);
  const Value q = c.tensor("query");
  const int64_t heads = q.dims()[1];
  const Value k = for_each_head(c, c.tensor("key"), heads), v = for_each_head(c, c.tensor("value"), heads);
  const bool causal = c.flag("is_causal", false);
  Value mask = c.optional(c.has("attn_bias") ? "attn_bias" : "attn_mask");
  const double scale = scale_of(c, q);
  if (c.wants(1)) {
    const DType wide = accumulated(q.dtype());
    const Value s = scores(c, cast_to(c, q, wide), cast_to(c, k, wide), mask, causal, scale);
    const Value top = reduce_over(c, "reduce_max", s, {3});
    const Value safe = select(c, unary(c, "isinf", top), number_like(c, top, 0), top);
    const Value sum = reduce_over(c, "reduce_sum", unary(c, "exp", binary(c, "sub", s, safe)), {3});
    const Value lse = binary(c, "add", unary(c, "log", sum), safe);
    c.give(1, cast_to(c, reshape_to(c, lse, c.result(1).dims), c.result(1).dtype));
  }
  if (causal) {
    const Value below = causal_mask(c, q.dims()[2], k.dims()[2]);
    const Value hidden = number_like(c, q, -std::numeric_limits<double>::infinity());
    if (!mask)
      mask = below;
    else if (mask.dtype() == boolean)
      mask = binary(c, "logical_and", mask, below);
    else
      mask = select(c, below, mask, hidden);
  }
  // A row without any key gives zeros.
  c.give(0, mask ? c.make("attention", {q, k, v, mask}, attr("scale", scale), attr("nan_as_zero", true))
                 : c.make("attention", {q, k, v}, attr("scale", scale)));
  for (size_t r = 2; r < c.result_count(); ++r)
    if (c.wants(r)) c.give(r, full(c, c.result(r), 0));
}

/// Of the five products of the flash form; the probabilities are recomputed from the saved logsumexp.
void attention_backward(Context& c) {
  check_no_dropout(c);
  const Value given = c.tensor("grad_out"), q0 = c.tensor("query"), k0 = c.tensor("key"),
              v0 = c.tensor("value");
  const DType wide = accumulated(q0.dtype());
  const Dims qd = q0.dims(), kd = k0.dims();
  const int64_t b = qd[0], heads = qd[1], queries = qd[2], shared = kd[1];
  const Value g = cast_to(c, given, wide), q = cast_to(c, q0, wide);
  const Value k = for_each_head(c, cast_to(c, k0, wide), heads),
              v = for_each_head(c, cast_to(c, v0, wide), heads);
  const bool causal = c.flag("is_causal", false);
  const double scale = scale_of(c, q0);
  const Value mask = c.optional("attn_mask");
  const Value out = cast_to(c, c.tensor("out"), wide);
  const Value lse = reshape_to(c, cast_to(c, c.tensor("logsumexp"), wide), {b, heads, queries, 1});
  const auto t = [&](Value x) { return swap_dims(c, x, 2, 3); };
  const Value s = scores(c, q, k, mask, causal, scale);
  const Value p = unary(c, "exp", binary(c, "sub", s, lse));
  const Value dv = c.make("matmul", {t(p), g});
  const Value dp = c.make("matmul", {g, t(v)});
  const Value delta = reduce_over(c, "reduce_sum", binary(c, "mul", g, out), {3});
  const Value ds = binary(c, "mul", binary(c, "mul", p, binary(c, "sub", dp, delta)), scale);
  const Value dq = c.make("matmul", {ds, k}), dk = c.make("matmul", {t(ds), q});
  const auto of_shared = [&](Value x) {
    if (shared == heads) return x;
    const Dims d = x.dims();
    return reduce_over(c, "reduce_sum", reshape_to(c, x, {b, shared, heads / shared, d[2], d[3]}), {2},
                       false);
  };
  c.give(0, cast_to(c, dq, q0.dtype()));
  c.give(1, cast_to(c, of_shared(dk), k0.dtype()));
  c.give(2, cast_to(c, of_shared(dv), v0.dtype()));
}

constexpr OpEntry entries[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "query key value dropout_p is_causal attn_mask scale", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     "grad_out query key value out logsumexp dropout_p is_causal attn_mask scale", attention_backward},
    {"aten._scaled_dot_product_efficient_attention.default",
     "query key value attn_bias ~compute_log_sumexp dropout_p is_causal scale", attention},
    {"aten.scaled_dot_product_attention.default",
     "query key value attn_mask dropout_p is_causal scale ~enable_gqa", attention},
};

}  // namespace

std::span<const OpEntry> attention_ops() { return entries; }

}  // namespace ferrite::from_torch
