// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions over 1 to 3 spatial dims, channels in dim 1. Each is one contract statement without a
// materialised im2col: padding is a masked load, the groups are a variable of their own, the bias is added in
// the finish part.
#include "window.h"

namespace ferrite::standard {
namespace {

/// x [n, groups * in, spatial..], w [groups * out, in, kernel..] (transposed: [groups * in, out, kernel..]).
struct Convolution {
  int64_t groups = 1, in = 1, out = 1;  ///< channels of one group
  Window window;
};

/// The parts that both convolutions check alike.
void check_operands(const Instance& op) {
  auto x = typed(op, 0, numeric), w = op.operand(1);
  need_rank(op, 0, x.rank(), 3, 5);
  need_rank(op, 1, w.rank(), x.rank(), x.rank());
  need_same_dtype(op, 1, x.dtype);
  for (int64_t dim : w.dims) need_fit(dim > 0, op, "the weight ", to_string(w), " is empty");
}
void check_bias(const Instance& op, const Convolution& c) {
  if (!op.has_operand(2)) return;
  need_same_dtype(op, 2, op.operand(0).dtype);
  need_fit(op.operand(2).dims == Dims{c.groups * c.out}, op, "the bias ", to_string(op.operand(2)),
           " must hold ", c.groups * c.out, " numbers");
}

Convolution convolution_of(const Instance& op) {
  check_operands(op);
  auto x = op.operand(0), w = op.operand(1);
  Convolution c;
  c.groups = op.attrs.integer("groups");
  c.in = w.dims[1];
  need_value(c.groups > 0 && w.dims[0] % c.groups == 0, op, "groups", "is ", c.groups,
             ", which does not divide the ", w.dims[0], " result channels");
  c.out = w.dims[0] / c.groups;
  need_fit(c.groups <= x.dims[1] && c.groups * c.in == x.dims[1], op, to_string(x), " has ", x.dims[1],
           " channels, and weight ", to_string(w), " in ", c.groups, " groups needs ", c.in,
           " for each group");
  c.window = window_of(op, spatial_dims(x), spatial_dims(w));
  check_bias(op, c);
  return c;
}

/// Takes n, [group,] channel, spatial.. and [summed] channel, kernel.. apart; the group is left out where
/// there is one.
struct ConvolutionIndices {
  Idx n, out, in;  ///< within the group
  Idx result_channel, input_channel, group;
  Indices at, step;  ///< spatial, kernel
};
ConvolutionIndices begin_convolution(Lowering& l, const Convolution& c, int64_t batch) {
  Dims parallel{batch}, summed{c.in};
  if (c.groups > 1) parallel.push_back(c.groups);
  parallel.push_back(c.out);
  parallel.insert(parallel.end(), c.window.output.begin(), c.window.output.end());
  summed.insert(summed.end(), c.window.kernel.begin(), c.window.kernel.end());
  auto vars = l.begin(parallel, summed);
  size_t next = 0;
  ConvolutionIndices i;
  i.n = vars[next++];
  i.group = c.groups > 1 ? vars[next++] : l.constant_index(0);
  i.out = vars[next++];
  for (size_t d = 0; d < c.window.rank(); ++d) i.at.push_back(vars[next++]);
  i.in = vars[next++];
  for (size_t d = 0; d < c.window.rank(); ++d) i.step.push_back(vars[next++]);
  i.result_channel = i.group * c.out + i.out;
  i.input_channel = i.group * c.in + i.in;
  return i;
}
void finish_convolution(Lowering& l, const ConvolutionIndices& i, Val sum) {
  if (l.op.has_operand(2)) sum = sum + widen(l.load(2, {i.result_channel}));
  Indices to{i.n, i.result_channel};
  to.insert(to.end(), i.at.begin(), i.at.end());
  l.store(l.result(), to, cast(sum, l.result().type.dtype));
  l.end();
}

void lower_conv(Lowering& l) {
  auto c = convolution_of(l.op);
  auto x = l.operand(0);
  auto i = begin_convolution(l, c, x.type.dims[0]);
  Indices input{i.n, i.input_channel}, weight{i.result_channel, i.in};
  for (size_t d = 0; d < c.window.rank(); ++d) {
    input.push_back(window_index(c.window, d, i.at[d], i.step[d]));
    weight.push_back(i.step[d]);
  }
  Val element = load_window(l, x, input, 2, c.window, [&] { return l.constant(x.type.dtype, 0); });
  finish_convolution(l, i, l.contract(widen(element), widen(l.load(1, weight)), FE_CONTRACT_CONV));
}

OpDef convolution_def(const char* name, const char* doc) {
  return op_def(name)
      .doc(doc)
      .operands("x", "w", "bias?")
      .attr(attr("strides", Dims{}), "one number a spatial dim; empty: 1")
      .attr(attr("pads_low", Dims{}), "zeros before each spatial dim; empty: 0")
      .attr(attr("pads_high", Dims{}), "zeros after each spatial dim; empty: 0")
      .attr(attr("dilations", Dims{}), "distance of kernel elements; empty: 1")
      .attr(attr("groups", 1));
}

OpDef conv_op() {
  return convolution_def(
             "conv",
             "The convolution (cross-correlation) of x [n, c, spatial..] with w [o, c / groups, kernel..].")
      .infer([](const Instance& op) {
        auto c = convolution_of(op);
        TensorType result{op.operand(0).dtype, {op.operand(0).dims[0], c.groups * c.out}};
        result.dims.insert(result.dims.end(), c.window.output.begin(), c.window.output.end());
        return std::vector{result};
      })
      .lower(lower_conv)
      .samples({sample("%x: f32[2,3,8,9], %w: f32[5,3,3,3], %b: f32[5]",
                       "conv(%x, %w, %b) {strides = [2, 1], pads_low = [1, 1], pads_high = [1, 0]}"),
                sample("%x: f32[1,6,7,7], %w: f32[6,1,3,3]", "conv(%x, %w) {groups = 6, dilations = [2, 1]}"),
                sample("%x: f32[1,4,10], %w: f32[6,2,3]", "conv(%x, %w) {groups = 2, pads_low = [2]}"),
                sample("%x: f32[1,2,4,5,4], %w: f32[3,2,1,2,3]", "conv(%x, %w)"),
                sample("%x: bf16[1,3,5,5], %w: bf16[4,3,1,1]", "conv(%x, %w)")});
}

/// The window of a transposed convolution runs over the operand: `input` and `output` are the op's own dims.
Convolution transposed_of(const Instance& op) {
  check_operands(op);
  auto x = op.operand(0), w = op.operand(1);
  Convolution c;
  c.groups = op.attrs.integer("groups");
  c.out = w.dims[1];
  need_value(c.groups > 0 && x.dims[1] % c.groups == 0, op, "groups", "is ", c.groups,
             ", which does not divide the ", x.dims[1], " channels");
  c.in = x.dims[1] / c.groups;
  need_fit(w.dims[0] == x.dims[1], op, "the weight ", to_string(w), " must have the ", x.dims[1],
           " channels of ", to_string(x), " as its first dim");
  auto& v = c.window;
  v.input = spatial_dims(x);
  v.kernel = spatial_dims(w);
  size_t rank = v.rank();
  v.strides = spatial(op, "strides", rank, 1, 1);
  v.low = spatial(op, "pads_low", rank, 0, -(large >> 16));
  v.high = spatial(op, "pads_high", rank, 0, -(large >> 16));
  v.dilations = spatial(op, "dilations", rank, 1, 1);
  auto extra = spatial(op, "output_padding", rank, 0, 0);
  for (size_t d = 0; d < rank; ++d) {
    v.output.push_back((v.input[d] - 1) * v.strides[d] + (v.kernel[d] - 1) * v.dilations[d] + 1 - v.low[d] -
                       v.high[d] + extra[d]);
    need_fit(v.input[d] > 0 && v.output[d] > 0, op, "spatial dim ", d, " of the result would have size ",
             v.output[d]);
  }
  check_bias(op, c);
  return c;
}

/// result[o] gathers the x[p] with p * stride - low + step * dilation == o: those steps for which the
/// division is exact.
void lower_conv_transpose(Lowering& l) {
  auto c = transposed_of(l.op);
  const auto& w = c.window;
  auto x = l.operand(0);
  auto i = begin_convolution(l, c, x.type.dims[0]);
  Indices input{i.n, i.input_channel}, weight{i.input_channel, i.out};
  Val mask = l.constant(boolean, 1);
  for (size_t d = 0; d < w.rank(); ++d) {
    Idx scaled = i.at[d] + w.low[d] - i.step[d] * w.dilations[d];
    Idx position = scaled / w.strides[d];
    Val at = l.value(position);
    mask = mask & (at >= 0.0) & (at < static_cast<double>(w.input[d]));
    if (w.strides[d] > 1) mask = mask & (l.value(scaled % w.strides[d]) == 0.0);
    input.push_back(position);
    weight.push_back(i.step[d]);
  }
  Val element = l.load(x, input, mask, l.constant(x.type.dtype, 0));
  finish_convolution(l, i, l.contract(widen(element), widen(l.load(1, weight)), FE_CONTRACT_GENERIC));
}

OpDef conv_transpose_op() {
  return convolution_def("conv_transpose",
                         "The transposed convolution of x [n, c, spatial..] with w [c, o / groups, "
                         "kernel..]; pads crop the result.")
      .attr(attr("output_padding", Dims{}), "elements added after each spatial dim of the result; empty: 0")
      .infer([](const Instance& op) {
        auto c = transposed_of(op);
        TensorType result{op.operand(0).dtype, {op.operand(0).dims[0], c.groups * c.out}};
        result.dims.insert(result.dims.end(), c.window.output.begin(), c.window.output.end());
        return std::vector{result};
      })
      .lower(lower_conv_transpose)
      .samples(
          {sample("%x: f32[1,2,3,3], %w: f32[2,4,3,3], %b: f32[4]",
                  "conv_transpose(%x, %w, %b) {strides = [2, 2], pads_low = [1, 1], pads_high = [1, 1]}"),
           sample("%x: f32[1,4,5], %w: f32[4,1,3]",
                  "conv_transpose(%x, %w) {groups = 2, output_padding = [1]}")});
}

}  // namespace

void add_convolution(PluginBuilder& builder, const PluginContext&) {
  builder.add(conv_op());
  builder.add(conv_transpose_op());
}

}  // namespace ferrite::standard
