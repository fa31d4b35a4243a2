// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and its gradient. Heads, queries or keys, and their elements are the last three dims.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_torch {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The size of a dim, counted from the last.
int64_t from_last(Value x, size_t place) {
  const auto dims = x.dims();
  return dims[dims.size() - 1 - place];
}
Value transposed(Context& c, Value x) { return swap_dims(c, x, x.rank() - 2, x.rank() - 1); }
Value over_last(Context& c, std::string_view op, Value x) {
  return reduce_over(c, op, x, {static_cast<int64_t>(x.rank()) - 1});
}

/// The keys or values of each query head: with grouped queries, several share one.
Value for_each_head(Context& c, Value x, int64_t heads) {
  if (x.rank() < 3 || from_last(x, 2) == heads) return x;
  const Dims dims = x.dims();
  const size_t at = dims.size() - 3;
  if (dims[at] == 0 || heads % dims[at] != 0) c.bad(heads, " heads of queries for ", dims[at], " of keys");
  Dims apart = dims, shared = dims, all = dims;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(at) + 1, 1);
  shared.insert(shared.begin() + static_cast<std::ptrdiff_t>(at) + 1, heads / dims[at]);
  all[at] = heads;
  return reshape_to(c, expand_to(c, reshape_to(c, x, apart), shared), all);
}
/// Its gradient: the sum over the query heads that share one.
Value sum_of_heads(Context& c, Value x, int64_t shared) {
  if (x.rank() < 3 || from_last(x, 2) == shared) return x;
  Dims dims = x.dims();
  const size_t at = dims.size() - 3;
  if (shared == 0 || dims[at] % shared != 0) c.bad(dims[at], " heads of queries for ", shared, " of keys");
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1, dims[at] / shared);
  dims[at] = shared;
  return reduce_over(c, "reduce_sum", reshape_to(c, x, dims), {static_cast<int64_t>(at) + 1}, false);
}

/// Whether query i may look at key j: j <= i.
Value causal_mask(Context& c, int64_t queries, int64_t keys) {
  const Dims dims = {queries, keys};
  return binary(c, "le", counting(c, i64, dims, 1), counting(c, i64, dims, 0));
}

double scale_of(Context& c, Value q) {
  return c.number("scale", 1 / std::sqrt(static_cast<double>(from_last(q, 0))));
}

/// The arguments that forward and backward passes share.
struct Attention {
  Value q, k, v, mask;
  bool causal = false;
  double scale = 1;
};
Attention read_attention(Context& c) {
  if (c.number("dropout_p", 0) != 0) c.unsupported("attention with dropout runs in PyTorch");
  Attention a;
  a.q = c.tensor("query");
  a.k = c.tensor("key");
  a.v = c.tensor("value");
  a.mask = c.optional(c.has("attn_bias") ? "attn_bias" : "attn_mask");
  for (const auto& each : {a.q, a.k, a.v}) need_rank(c, each.rank(), 2);
  a.causal = c.flag("is_causal", false);
  a.scale = scale_of(c, a.q);
  // Flash attention counts the keys that a query sees from the last one.
  if (a.causal && c.entry.target.starts_with("aten._scaled_dot_product_flash_attention") &&
      c.entry.target.find("_for_cpu") == std::string_view::npos && from_last(a.q, 1) != from_last(a.k, 1))
    c.unsupported("a causal mask for another number of keys than of queries");
  return a;
}

/// The keys that a query may look at, as a mask of bools; nothing where it may look at all.
Value visible_keys(Context& c, const Attention& a) {
  const Value given = a.mask && a.mask.dtype() == boolean ? a.mask : Value();
  if (!a.causal) return given;
  const Value below = causal_mask(c, from_last(a.q, 1), from_last(a.k, 1));
  return given ? binary(c, "logical_and", given, below) : below;
}

/// Gives the logarithms as result `r`, which may have more queries than there are, or none.
void give_log_sum(Context& c, size_t r, Value log) {
  const auto& type = c.result(r);
  if (product(type.dims) == 0) return c.give(r, full(c, type, 0));
  log = cast_to(c, log, type.dtype);
  const Dims dims = log.dims();
  if (product(dims) == product(type.dims)) return c.give(r, reshape_to(c, log, type.dims));
  Dims rest = type.dims;
  if (rest.empty() || dims.empty()) c.bad("a logsumexp of rank ", rest.size());
  rest.back() -= dims.back();
  c.give(r, concat(c, {log, full(c, {type.dtype, rest}, infinity)}, dims.size() - 1));
}

/// The probabilities as the second result; 0 in a row that is -inf throughout.
void give_probabilities(Context& c, Value q, Value k, Value mask, double scale) {
  const DType wide = accumulated(q.dtype());
  Value s = c.make("matmul", {cast_to(c, q, wide), cast_to(c, transposed(c, k), wide)});
  s = binary(c, "mul", s, scale);
  if (mask && mask.dtype() == boolean) s = select(c, mask, s, number_like(c, s, -infinity));
  if (mask && mask.dtype() != boolean) s = binary(c, "add", s, cast_to(c, mask, s.dtype()));
  const Value dead = binary(c, "eq", over_last(c, "reduce_max", s), -infinity);
  const Value p = select(c, dead, number_like(c, s, 0), c.make("softmax", {s}));
  c.give(1, cast_to(c, p, c.result(1).dtype));
}

/// Whether the second result is the probabilities, not the logarithm of their divisor.
bool gives_probabilities(Context& c) { return c.entry.target.find("_math") != std::string_view::npos; }

void attention(Context& c) {
  auto a = read_attention(c);
  const int64_t heads = a.q.rank() < 3 ? 1 : from_last(a.q, 2);
  const Value k = for_each_head(c, a.k, heads), v = for_each_head(c, a.v, heads);
  // This form adds even a mask of bools.
  if (gives_probabilities(c) && a.mask && a.mask.dtype() == boolean) a.mask = cast_to(c, a.mask, a.q.dtype());
  const Value visible = visible_keys(c, a);
  Value mask = visible;
  if (a.mask && a.mask.dtype() != boolean) {
    mask = cast_to(c, a.mask, a.q.dtype());
    if (visible) mask = select(c, visible, mask, number_like(c, mask, -infinity));
  }
  if (c.wants(1) && gives_probabilities(c)) give_probabilities(c, a.q, k, mask, a.scale);
  const bool log_sum = c.wants(1) && !gives_probabilities(c);
  // A row without any key gives zeros.
  std::vector<Value> operands = {a.q, k, v};
  std::vector attrs = {attr("scale", a.scale)};
  if (mask) operands.push_back(mask), attrs.push_back(attr("nan_as_zero", true));
  const auto results = c.graph.make_all(log_sum ? "attention_log_sum" : "attention", operands, attrs);
  c.give(0, results[0]);
  if (log_sum) give_log_sum(c, 1, results[1]);
  // States of random numbers, and masks for debugging.
  for (size_t r = 2; r < c.result_count(); ++r)
    if (c.wants(r)) c.give(r, full(c, c.result(r), 0));
}

/// The five products of FlashAttention (Dao et al., 2022): the probabilities are recomputed from the saved
/// logsumexp. Hidden keys are exactly 0 in both matrices, so that code can leave out blocks of them. As
/// there, both are rounded to the type of the operands before they are multiplied.
void attention_backward(Context& c) {
  const auto a = read_attention(c);
  for (const auto& each : {a.q, a.k, a.v}) need_rank(c, each.rank(), 3);
  const DType wide = accumulated(a.q.dtype());
  const int64_t heads = from_last(a.q, 2), shared = from_last(a.k, 2), queries = from_last(a.q, 1);
  const auto widened = [&](Value x) { return cast_to(c, x, wide); };
  const auto rounded = [&](Value x) { return cast_to(c, x, a.q.dtype()); };
  const Value g = c.tensor(c.has("grad_out_") ? "grad_out_" : "grad_out");
  const Value k = for_each_head(c, a.k, heads), v = for_each_head(c, a.v, heads);
  Value log = widened(c.tensor("logsumexp"));
  Dims rows = a.q.dims();
  rows.back() = 1;
  if (product(log.dims()) != product(rows)) log = slice_dim(c, log, log.rank() - 1, 0, queries);
  log = reshape_to(c, log, rows);
  // Rows without any key have no probabilities.
  log = select(c, unary(c, "isinf", log), number_like(c, log, 0), log);
  const Value given = a.mask && a.mask.dtype() == boolean ? a.mask : Value();
  const auto seen = [&](Value x) {
    if (given) x = select(c, given, x, number_like(c, x, 0));
    return a.causal ? c.make("trilu", {x}, attr("upper", false)) : x;
  };
  Value score = binary(c, "mul", c.make("matmul", {widened(a.q), widened(transposed(c, k))}), a.scale);
  if (a.mask && a.mask.dtype() != boolean) score = binary(c, "add", score, widened(rounded(a.mask)));
  const Value p = seen(unary(c, "exp", binary(c, "sub", score, log)));
  const Value dv = c.make("matmul", {transposed(c, rounded(p)), g});
  const Value dp = c.make("matmul", {widened(g), widened(transposed(c, v))});
  const Value delta = over_last(c, "reduce_sum", binary(c, "mul", widened(g), widened(c.tensor("out"))));
  const Value off = binary(c, "sub", dp, delta);
  const Value ds = seen(binary(c, "mul", p, binary(c, "mul", off, a.scale)));
  c.give(0, c.make("matmul", {rounded(ds), k}));
  c.give(1, sum_of_heads(c, c.make("matmul", {transposed(c, rounded(ds)), a.q}), shared));
  c.give(2, sum_of_heads(c, dv, shared));
  if (!c.wants(3)) return;
  // The gradient of the mask is summed over the dims along which it was broadcast.
  const Value dscore = seen(binary(c, "mul", p, off));
  const auto& type = c.result(3);
  const auto dims = dscore.dims();
  if (type.rank() > dims.size()) c.unsupported("a mask of rank ", type.rank());
  const size_t first = dims.size() - type.rank();
  Dims axes;
  for (size_t d = 0; d < dims.size(); ++d)
    if (d < first || type.dims[d - first] != dims[d]) axes.push_back(static_cast<int64_t>(d));
  const Value sum = axes.empty() ? dscore : reduce_over(c, "reduce_sum", dscore, axes);
  c.give(3, cast_to(c, reshape_to(c, sum, type.dims), type.dtype));
}

constexpr OpEntry attention_entries[] = {
    {"aten.scaled_dot_product_attention.default",
     "query key value attn_mask dropout_p is_causal scale ~enable_gqa", attention},
    {"aten._scaled_dot_product_attention_math.default",
     "query key value attn_mask dropout_p is_causal dropout_mask scale ~enable_gqa", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu.default",
     "query key value dropout_p is_causal attn_mask scale", attention},
    {"aten._scaled_dot_product_flash_attention.default",
     "query key value dropout_p is_causal ~return_debug_mask scale", attention},
    {"aten._scaled_dot_product_efficient_attention.default",
     "query key value attn_bias ~compute_log_sumexp dropout_p is_causal scale", attention},
    {"aten._scaled_dot_product_cudnn_attention.default",
     "query key value attn_bias ~compute_log_sumexp dropout_p is_causal ~return_debug_mask scale", attention},
    {"aten._scaled_dot_product_fused_attention_overrideable.default",
     "query key value attn_bias dropout_p is_causal ~return_debug_mask scale", attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
     "grad_out query key value out logsumexp dropout_p is_causal attn_mask scale", attention_backward},
    {"aten._scaled_dot_product_flash_attention_backward.default",
     "grad_out query key value out logsumexp ~cum_seq_q ~cum_seq_k ~max_q ~max_k dropout_p is_causal "
     "~philox_seed ~philox_offset scale",
     attention_backward},
    {"aten._scaled_dot_product_efficient_attention_backward.default",
     "grad_out_ query key value attn_bias out logsumexp ~philox_seed ~philox_offset dropout_p "
     "~grad_input_mask is_causal scale",
     attention_backward},
    {"aten._scaled_dot_product_cudnn_attention_backward.default",
     "grad_out query key value out logsumexp ~philox_seed ~philox_offset attn_bias ~cum_seq_q ~cum_seq_k "
     "~max_q ~max_k dropout_p is_causal scale",
     attention_backward},
    {"aten._scaled_dot_product_fused_attention_overrideable_backward.default",
     "grad_out query key value attn_bias ~grad_input_mask out logsumexp ~cum_seq_q ~cum_seq_k ~max_q ~max_k "
     "dropout_p is_causal ~philox_seed ~philox_offset scale",
     attention_backward},
};

}  // namespace

std::span<const OpEntry> attention_ops() { return attention_entries; }

}  // namespace ferrite::from_torch
