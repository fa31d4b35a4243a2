// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax and related ops, and normalisations.
#include "helpers.h"

namespace ferrite::from_onnx {
namespace {

/// Before opset 13, the dims from the axis on count as one; from 13 on, only the axis itself counts.
template <class Body>
void along_classes(Context& c, const Body& body) {
  Value x = c.operand(0);
  Dims dims = x.dims();
  int64_t axis = c.axis(c.integer("axis", c.opset < 13 ? 1 : -1), dims.size());
  if (c.opset >= 13 || axis + 1 == static_cast<int64_t>(dims.size())) return c.give(body(x, axis));
  Dims flat{product({dims.begin(), dims.begin() + axis}), product({dims.begin() + axis, dims.end()})};
  c.give(reshape_to(c, body(reshape_to(c, x, flat), 1), dims));
}
void softmax(Context& c) {
  along_classes(c, [&](Value x, int64_t axis) { return c.make(c.entry.standard, {x}, attr("axis", axis)); });
}
/// 1 at the first maximum, 0 elsewhere.
void hardmax(Context& c) {
  along_classes(c, [&](Value x, int64_t axis) {
    Value top = c.make("argmax", {x}, attr("axis", axis), attr("keepdims", true));
    auto dim = static_cast<size_t>(axis);
    Value places = counting(c, i64, x.dims()[dim], dim, x.rank());
    return cast_to(c, c.make("eq", {places, top}), x.dtype());
  });
}

void batch_norm(Context& c) {
  if (c.opset < 9 && c.integer("spatial", 1) != 1)
    c.unsupported("statistics for each element (spatial = 0) are not supported");
  if (c.opset >= 14 && c.flag("training_mode", false))
    c.unsupported("training mode is not supported; export the model for inference");
  c.only_results(1, "it is computed in training; export the model for inference, without this output");
  c.give(c.make("batch_norm", {c.operand(0), c.operand(1), c.operand(2), c.operand(3), c.operand(4)},
                attr("epsilon", c.number("epsilon", 1e-5))));
}
void instance_norm(Context& c) {
  c.give(c.make("instance_norm", {c.operand(0), c.operand(1), c.operand(2)},
                attr("epsilon", c.number("epsilon", 1e-5))));
}

void layer_norm(Context& c) {
  Value x = c.operand(0);
  int64_t axis = c.axis(c.integer("axis", -1), x.rank());
  double epsilon = c.number("epsilon", 1e-5);
  if (c.integer("stash_type", 1) != 1) c.unsupported("attribute 'stash_type' other than 1 is not supported");
  std::vector<Value> operands{x, c.operand(1)};
  if (c.has(2)) operands.push_back(c.operand(2));
  c.give(c.graph.make("layer_norm", operands, {attr("axis", axis), attr("epsilon", epsilon)}));
  if (!c.wants(1) && !c.wants(2)) return;
  // The statistics are computed in f32.
  Value wide = cast_to(c, x, f32);
  Dims axes = dim_range(static_cast<size_t>(axis), x.rank());
  Value mean = reduce_over(c, "reduce_mean", wide, axes);
  Value centred = c.make("sub", {wide, mean});
  Value variance = reduce_over(c, "reduce_mean", c.make("mul", {centred, centred}), axes);
  c.give(1, mean);
  c.give(2, c.make("reciprocal",
                   {c.make("sqrt", {c.make("add", {variance, number_like(c, variance, epsilon)})})}));
}
void rms_norm(Context& c) {
  Value x = c.operand(0);
  if (c.integer("stash_type", 1) != 1) c.unsupported("attribute 'stash_type' other than 1 is not supported");
  c.give(c.make("rms_norm", {x, c.operand(1)}, attr("axis", c.axis(c.integer("axis", -1), x.rank())),
                attr("epsilon", c.number("epsilon", 1e-5))));
}

/// Scale and bias have one number per group before opset 21, and one per channel from 21 on.
void group_norm(Context& c) {
  Value x = c.operand(0);
  int64_t groups = c.integer("num_groups");
  if (x.rank() < 2 || groups < 1 || x.dims()[1] % groups != 0)
    c.bad(to_string(x.type()), " has no channels for ", groups, " groups");
  int64_t channels = x.dims()[1];
  auto per_channel = [&](size_t k) {
    Value v = c.operand(k);
    if (c.opset >= 21) return v;
    Value column = expand_to(c, reshape_to(c, v, {groups, 1}), {groups, channels / groups});
    return reshape_to(c, column, {channels});
  };
  c.give(c.make("group_norm", {x, per_channel(1), per_channel(2)}, attr("groups", groups),
                attr("epsilon", c.number("epsilon", 1e-5))));
}

void lp_norm(Context& c) {
  c.give(c.make("lp_norm", {c.operand(0)}, attr("axis", c.axis(c.integer("axis", -1), c.type(0).rank())),
                attr("p", c.integer("p", 2))));
}
void mean_variance_norm(Context& c) {
  Dims axes = c.axes(c.integers("axes").value_or(Dims{0, 2, 3}), c.type(0).rank());
  c.give(c.make("mean_variance_norm", {c.operand(0)}, attr("axes", axes)));
}
void lrn(Context& c) {
  c.give(c.make("lrn", {c.operand(0)}, attr("size", c.integer("size")),
                attr("alpha", c.number("alpha", 1e-4)), attr("beta", c.number("beta", 0.75)),
                attr("bias", c.number("bias", 1.0))));
}

constexpr OpEntry norm_entries[] = {
    {"Softmax", 1, newest, softmax, "softmax"},
    {"LogSoftmax", 1, newest, softmax, "log_softmax"},
    {"Hardmax", 1, newest, hardmax},
    {"BatchNormalization", 7, newest, batch_norm},
    {"InstanceNormalization", 6, newest, instance_norm},
    {"LayerNormalization", 17, newest, layer_norm},
    {"RMSNormalization", 23, newest, rms_norm},
    {"GroupNormalization", 18, newest, group_norm},
    {"LpNormalization", 1, newest, lp_norm},
    {"MeanVarianceNormalization", 9, newest, mean_variance_norm},
    {"LRN", 1, newest, lrn},
};

}  // namespace

std::span<const OpEntry> norm_ops() { return norm_entries; }

}  // namespace ferrite::from_onnx
