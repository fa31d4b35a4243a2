// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantised integers, and 8-bit floats with a scale.
#include <algorithm>

#include "window.h"

namespace ferrite::from_onnx {
namespace {

/// A tensor with one number as rank 0; others unchanged.
Value single(Context& c, Value x) { return x && x.type().elements() == 1 ? reshape_to(c, x, {}) : x; }

/// x, scale and zero, checked against the operators' constraints.
std::vector<Value> parameters(Context& c) {
  if (c.opset >= 21 && c.integer("block_size", 0) != 0) c.unsupported("scales for blocks are not supported");
  if (c.integer("precision", 0) != 0) c.unsupported("attribute 'precision' is not supported");
  std::vector<Value> operands{c.operand(0), single(c, c.operand(1))};
  if (operands[1].rank() > 1) c.unsupported("scales of rank ", operands[1].rank(), " are not supported");
  if (c.has(2)) operands.push_back(single(c, c.operand(2)));
  return operands;
}

/// Scale or zero, one of parameters(), in f32 and in a shape that broadcasts with x.
Value spread(Context& c, const std::vector<Value>& operands, size_t k) {
  Value x = operands[0], parameter = cast_to(c, operands[k], f32);
  return parameter.rank() == 0
             ? parameter
             : along(c, parameter, static_cast<size_t>(c.axis(c.integer("axis", 1), x.rank())), x.rank());
}

/// Whether there is a nonzero zero point; adding 0 would drop the sign of -0.
bool shifts(Context& c, const std::vector<Value>& operands) {
  if (operands.size() < 3) return false;
  const auto zero = c.known(operands[2]);
  return !zero || std::ranges::any_of(numbers_of(*zero), [](double number) { return number != 0; });
}

/// x / scale + zero as an 8-bit float.
Value to_f8(Context& c, const std::vector<Value>& operands, DType dtype) {
  Value number = c.make("div", {cast_to(c, operands[0], f32), spread(c, operands, 1)});
  if (shifts(c, operands)) number = c.make("add", {number, spread(c, operands, 2)});
  return convert_to(c, number, dtype);
}
Value from_f8(Context& c, const std::vector<Value>& operands) {
  Value number = cast_to(c, operands[0], f32);
  if (shifts(c, operands)) number = c.make("sub", {number, spread(c, operands, 2)});
  return cast_to(c, c.make("mul", {number, spread(c, operands, 1)}), operands[1].dtype());
}

void quantize(Context& c) {
  auto operands = parameters(c);
  DType dtype = c.has(2) ? operands[2].dtype() : u8;
  if (int64_t to = c.integer("output_dtype", 0); to != 0) {
    DType asked = dtype_of(static_cast<int32_t>(to), c.where());
    if (c.has(2) && dtype != asked) c.bad("attribute 'output_dtype' is not the dtype of the zero point");
    dtype = asked;
  }
  if (is_f8(dtype)) return c.give(to_f8(c, operands, dtype));
  c.give(
      c.graph.make("quantize_linear", operands, {attr("axis", c.integer("axis", 1)), attr("dtype", dtype)}));
}
void dequantize(Context& c) {
  if (c.integer("output_dtype", 0) != 0) c.unsupported("attribute 'output_dtype' is not supported");
  auto operands = parameters(c);
  if (is_f8(operands[0].dtype())) return c.give(from_f8(c, operands));
  c.give(c.graph.make("dequantize_linear", operands, {attr("axis", c.integer("axis", 1))}));
}
void dynamic_quantize(Context& c) {
  auto results = c.graph.make_all("dynamic_quantize", std::vector<Value>{c.operand(0)});
  for (size_t k = 0; k < results.size(); ++k) c.give(k, results[k]);
}

/// x - zero in i32; a zero with several numbers lies along dim `axis`.
Value centred(Context& c, Value x, Value zero, size_t axis) {
  Value wide = cast_to(c, x, i32);
  if (!zero) return wide;
  zero = single(c, zero);
  if (zero.rank() > 1) c.unsupported("zero points of rank ", zero.rank(), " are not supported");
  if (zero.rank() == 1) zero = along(c, zero, axis, x.rank());
  return c.make("sub", {wide, cast_to(c, zero, i32)});
}

/// The i32 sum in quantised form: its scale is factor / result_scale, along dim 1 if it is a vector.
Value requantize(Context& c, Value sum, Value factor, Value result_scale, Value result_zero, size_t axis) {
  Value scale = c.make("div", {factor, single(c, result_scale)});
  if (scale.rank() == 1) scale = along(c, scale, axis, sum.rank());
  Value number = c.make("round", {c.make("mul", {cast_to(c, sum, f32), scale})});
  Value shifted = c.make("add", {number, cast_to(c, single(c, result_zero), f32)});
  return cast_to(c, shifted, result_zero.dtype());  // casts from floats to integers saturate
}

void need_f32_scales(Context& c, std::initializer_list<size_t> scales) {
  for (size_t k : scales)
    if (c.type(k).dtype != f32) c.unsupported("scales of ", name_of(c.type(k).dtype), " are not supported");
}

void qlinear_matmul(Context& c) {
  need_f32_scales(c, {1, 4, 6});
  for (size_t k : {1, 2, 4, 5, 6, 7})
    if (c.type(k).elements() != 1)
      c.unsupported("scales and zero points for rows or columns are not supported");
  Value a = centred(c, c.operand(0), c.operand(2), 0), b = centred(c, c.operand(3), c.operand(5), 0);
  Value factor = c.make("mul", {single(c, c.operand(1)), single(c, c.operand(4))});
  c.give(requantize(c, c.make("matmul", {a, b}), factor, c.operand(6), c.operand(7), 0));
}

void qlinear_conv(Context& c) {
  need_f32_scales(c, {1, 4, 6});
  auto weight = c.type(3);
  if (weight.rank() != c.type(0).rank() || weight.rank() < 3)
    c.bad("the weight ", to_string(weight), " does not go with ", to_string(c.type(0)));
  Window w = window_of(c, {weight.dims.begin() + 2, weight.dims.end()}, false);
  Value x = centred(c, c.operand(0), single(c, c.operand(2)), 1),
        kernel = centred(c, c.operand(3), c.operand(5), 0);
  Value sum = convolve(c, w, x, kernel, c.optional(8));
  Value factor = c.make("mul", {single(c, c.operand(1)), single(c, c.operand(4))});
  c.give(requantize(c, sum, factor, c.operand(6), c.operand(7), 1));
}

void conv_integer(Context& c) {
  auto weight = c.type(1);
  if (weight.rank() != c.type(0).rank() || weight.rank() < 3)
    c.bad("the weight ", to_string(weight), " does not go with ", to_string(c.type(0)));
  Window w = window_of(c, {weight.dims.begin() + 2, weight.dims.end()}, false);
  Value x = centred(c, c.operand(0), c.optional(2), 1), kernel = centred(c, c.operand(1), c.optional(3), 0);
  c.give(convolve(c, w, x, kernel, {}));
}

constexpr OpEntry quantise_entries[] = {
    {"QuantizeLinear", 10, newest, quantize},
    {"DequantizeLinear", 10, newest, dequantize},
    {"DynamicQuantizeLinear", 11, newest, dynamic_quantize},
    {"QLinearMatMul", 10, newest, qlinear_matmul},
    {"QLinearConv", 10, newest, qlinear_conv},
    {"ConvInteger", 10, newest, conv_integer},
};

}  // namespace

std::span<const OpEntry> quantise_ops() { return quantise_entries; }

}  // namespace ferrite::from_onnx
