// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of opset 23 and 24, without a cache of keys and values.
#include <cmath>
#include <limits>

#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

/// [batch, sequence, heads * size] as [batch, heads, sequence, size]; tensors with four dims have this form
/// already.
Value in_heads(Context& c, size_t k, std::string_view heads_attribute) {
  Value x = c.operand(k);
  const Dims dims = x.dims();
  if (dims.size() == 4) return x;
  const int64_t heads = c.integer(heads_attribute);
  if (dims.size() != 3 || heads < 1 || dims[2] % heads != 0)
    c.bad(to_string(x.type()), " has no ", heads, " heads");
  return transpose_by(c, reshape_to(c, x, {dims[0], dims[1], heads, dims[2] / heads}), {0, 2, 1, 3});
}

/// The mask, combined with the causal mask; none if there is neither.
Value mask_of(Context& c, int64_t rows, int64_t columns) {
  Value mask = c.optional(3);
  if (!c.flag("is_causal", false)) return mask;
  Value seen = c.make("ge", {counting(c, i64, rows, 0, 2), counting(c, i64, columns, 1, 2)});
  if (!mask) return seen;
  if (mask.dtype() == boolean) return c.make("logical_and", {mask, seen});
  return c.make("where", {seen, mask, number_like(c, mask, -std::numeric_limits<double>::infinity())});
}

void attention(Context& c) {
  for (size_t k = 4; k < c.operand_count(); ++k)
    if (c.has(k)) c.unsupported("a cache of keys and values, and lengths of them, are not supported");
  c.only_results(1, "export the model so that it returns the attention alone");
  if (c.number("softcap", 0) != 0) c.unsupported("attribute 'softcap' other than 0 is not supported");
  for (const char* window : {"left_window_size", "right_window_size"})
    if (c.integer(window, -1) >= 0) c.unsupported("attribute '", window, "' is not supported");
  // The softmax computes in f32 at least; 1 and 11 denote f32 and f64.
  if (int64_t precision = c.integer("softmax_precision", 1); precision == 11 && c.type(0).dtype != f64)
    c.unsupported("a softmax in f64 of values that are not is not supported");

  Value q = in_heads(c, 0, "q_num_heads"), k = in_heads(c, 1, "kv_num_heads"),
        v = in_heads(c, 2, "kv_num_heads");
  const Dims qs = q.dims(), ks = k.dims(), vs = v.dims();
  if (ks[1] < 1 || qs[1] % ks[1] != 0 || vs[1] != ks[1])
    c.bad(qs[1], " heads of queries for ", ks[1], " of keys and ", vs[1], " of values");
  // The op multiplies both sides with the root of the scale.
  const double scale = c.number("scale", 1 / std::sqrt(static_cast<double>(qs[3])));
  if (scale < 0) c.unsupported("a negative scale is not supported");
  Value root = number_like(c, q, std::sqrt(scale));
  q = c.make("mul", {q, root});
  k = c.make("mul", {k, root});
  Value mask = mask_of(c, qs[2], ks[2]);

  // If several query heads share a key head, they get a dim of their own, over which keys and values
  // broadcast.
  const int64_t group = qs[1] / ks[1];
  if (group > 1) {
    q = reshape_to(c, q, {qs[0], ks[1], group, qs[2], qs[3]});
    k = reshape_to(c, k, {ks[0], ks[1], 1, ks[2], ks[3]});
    v = reshape_to(c, v, {vs[0], vs[1], 1, vs[2], vs[3]});
    if (mask && mask.rank() > 2) {
      Dims dims = mask.dims();
      const int64_t heads = dims[dims.size() - 3];
      if (heads != 1 && heads != qs[1]) c.bad("a mask for ", heads, " heads, of which there are ", qs[1]);
      dims[dims.size() - 3] = heads == 1 ? 1 : ks[1];
      dims.insert(dims.end() - 2, heads == 1 ? 1 : group);
      mask = reshape_to(c, mask, dims);
    }
  }
  std::vector<Value> operands{q, k, v};
  if (mask) operands.push_back(mask);
  // Rows that are completely masked are zero.
  Value result = c.graph.make("attention", operands, {attr("nan_as_zero", static_cast<bool>(c.has(3)))});
  if (group > 1) result = reshape_to(c, result, {qs[0], qs[1], qs[2], vs[3]});
  if (c.type(0).rank() == 3)
    result = reshape_to(c, transpose_by(c, result, {0, 2, 1, 3}), {qs[0], qs[2], qs[1] * vs[3]});
  c.give(result);
}

constexpr OpEntry attention_entries[] = {{"Attention", 23, newest, attention}};

}  // namespace

std::span<const OpEntry> attention_ops() { return attention_entries; }

}  // namespace ferrite::from_onnx
