// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions over 1 to 3 spatial dims, with channels in dim 1. Each is one contract statement without a
// materialised im2col: padding is a masked load, the groups have their own variable, and the bias is added in
// the finish part.
#include <optional>

#include "window.h"

namespace ferrite::standard {
namespace {

/// x [n, groups * in, spatial..], w [groups * out, in, kernel..] (transposed: [groups * in, out, kernel..]).
struct Convolution {
  int64_t groups = 1, in = 1, out = 1;  ///< channels per group
  Window window;
};

/// The checks that both convolutions share.
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

/// Splits the indices into n, [group,] channel, spatial.. and [summed] channel, kernel..; the group is
/// omitted if there is only one. A spatial dim may be split into phases: at = phases * place + phase, and
/// each phase has every phases-th element of the kernel.
struct ConvolutionIndices {
  Idx n, out, in;  ///< within the group
  Idx result_channel, input_channel, group;
  Indices at, step;      ///< spatial, kernel
  Indices place, phase;  ///< spatial; for a dim that is not split: at, 0
};
ConvolutionIndices begin_convolution(Lowering& l, const Convolution& c, int64_t batch, const Dims& phases) {
  Dims parallel{batch}, summed{c.in};
  if (c.groups > 1) parallel.push_back(c.groups);
  parallel.push_back(c.out);
  for (size_t d = 0; d < c.window.rank(); ++d) {
    parallel.push_back(c.window.output[d] / phases[d]);
    if (phases[d] > 1) parallel.push_back(phases[d]);
    summed.push_back(c.window.kernel[d] / phases[d]);
  }
  auto vars = l.begin(parallel, summed);
  size_t next = 0;
  ConvolutionIndices i;
  i.n = vars[next++];
  i.group = c.groups > 1 ? vars[next++] : l.constant_index(0);
  i.out = vars[next++];
  for (size_t d = 0; d < c.window.rank(); ++d) {
    i.place.push_back(vars[next++]);
    i.phase.push_back(phases[d] > 1 ? vars[next++] : l.constant_index(0));
    i.at.push_back(phases[d] > 1 ? i.place[d] * phases[d] + i.phase[d] : i.place[d]);
  }
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
  auto i = begin_convolution(l, c, x.type.dims[0], Dims(c.window.rank(), 1));
  Indices input{i.n, i.input_channel}, weight{i.result_channel, i.in};
  for (size_t d = 0; d < c.window.rank(); ++d) {
    input.push_back(window_index(c.window, d, i.at[d], i.step[d]));
    weight.push_back(i.step[d]);
  }
  Val element = load_window(l, x, input, 2, c.window, [&] { return l.constant(x.type.dtype, 0); });
  // In this order, which that of arguments would leave to the compiler.
  const Val right = widen(l.load(1, weight)), left = widen(element);
  finish_convolution(l, i, l.contract(left, right, FE_CONTRACT_CONV));
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

/// The window of a transposed convolution moves over the operand; `input` and `output` are the op's own dims.
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

/// A dim of a transposed convolution as `phases` convolutions of step 1, one for each o modulo the stride (W.
/// Shi et al., "Is the deconvolution layer the same as a convolutional layer?", 2016). The p that contribute
/// to phase a are o / stride + first + carry * a - j, with the kernel's element stride * j + (a, or stride -
/// 1 - a if the phases run backwards). No products with zeros remain.
struct Phases {
  int64_t count = 1;
  int64_t first = 0, carry = 0;
};

/// nullopt if phases have different numbers of elements, or are no sums of loop variables.
std::optional<Phases> phases_of(const Window& w, size_t d) {
  const int64_t stride = w.strides[d];
  if (stride == 1 || w.dilations[d] != 1 || w.kernel[d] % stride != 0 || w.output[d] % stride != 0)
    return std::nullopt;
  const int64_t rest = ((w.low[d] % stride) + stride) % stride;
  if (rest != 0 && stride != 2) return std::nullopt;
  return Phases{stride, (w.low[d] - rest) / stride, rest};
}

/// result[o] gathers the x[p] with p * stride - low + step * dilation == o, for those steps for which the
/// division is exact.
void lower_conv_transpose(Lowering& l) {
  auto c = transposed_of(l.op);
  const auto& w = c.window;
  auto x = l.operand(0);
  std::vector<std::optional<Phases>> phases;
  Dims counts;
  uint32_t kind = FE_CONTRACT_CONV;
  for (size_t d = 0; d < w.rank(); ++d) {
    phases.push_back(phases_of(w, d));
    counts.push_back(phases[d] ? phases[d]->count : 1);
    if (!phases[d] && w.strides[d] > 1) kind = FE_CONTRACT_GENERIC;
  }
  auto i = begin_convolution(l, c, x.type.dims[0], counts);
  Indices input{i.n, i.input_channel}, weight{i.input_channel, i.out};
  Val mask;
  const auto require = [&](Val condition) { mask = mask.lowering() ? mask & condition : condition; };
  for (size_t d = 0; d < w.rank(); ++d) {
    // Count elements from the last, so that successive elements read successive positions.
    const int64_t steps = w.kernel[d] / counts[d];
    const Idx step = l.constant_index(steps - 1) - i.step[d];
    if (phases[d]) {
      const auto& [count, first, carry] = *phases[d];
      const Idx element = carry != 0 ? l.constant_index(1) - i.phase[d] : i.phase[d];
      input.push_back(i.place[d] + i.phase[d] * carry + i.step[d] + (first - (steps - 1)));
      weight.push_back(step * count + element);
      const int64_t last = w.output[d] / count - 1 + first + carry;
      if (first < steps - 1) require(l.value(input.back()) >= 0.0);
      if (last >= w.input[d]) require(l.value(input.back()) < static_cast<double>(w.input[d]));
      continue;
    }
    const Idx scaled = i.at[d] + w.low[d] - step * w.dilations[d];
    const Idx position = w.strides[d] > 1 ? scaled / w.strides[d] : scaled;
    const Val at = l.value(position);
    require(at >= 0.0);
    require(at < static_cast<double>(w.input[d]));
    if (w.strides[d] > 1) require(l.value(scaled % w.strides[d]) == 0.0);
    input.push_back(position);
    weight.push_back(step);
  }
  Val element = mask.lowering() ? l.load(x, input, mask, l.constant(x.type.dtype, 0)) : l.load(x, input);
  const Val right = widen(l.load(1, weight)), left = widen(element);
  finish_convolution(l, i, l.contract(left, right, kind));
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
                  "conv_transpose(%x, %w) {groups = 2, output_padding = [1]}"),
           sample("%x: f32[2,3,4,5], %w: f32[3,2,2,3], %b: f32[2]",
                  "conv_transpose(%x, %w, %b) {strides = [2, 3]}"),
           sample("%x: f32[1,4,5,4], %w: f32[4,3,4,4]",
                  "conv_transpose(%x, %w) {strides = [2, 2], pads_low = [1, 3], pads_high = [1, 1]}"),
           sample("%x: f32[1,2,5,6], %w: f32[2,2,6,4]",
                  "conv_transpose(%x, %w) {groups = 2, strides = [3, 2], pads_low = [0, 1], output_padding = "
                  "[0, 1]}"),
           sample("%x: f32[1,2,4,4], %w: f32[2,2,3,4]",
                  "conv_transpose(%x, %w) {strides = [1, 4], pads_low = [1, 1], pads_high = [1, 3]}")});
}

/// The windows of a convolution of x [n, groups * in, spatial..] whose gradient is g [n, groups * out,
/// spatial..].
Convolution weight_gradient_of(const Instance& op) {
  auto x = typed(op, 0, FE_PRIM_FLOAT), g = op.operand(1);
  need_rank(op, 0, x.rank(), 3, 5);
  need_rank(op, 1, g.rank(), x.rank(), x.rank());
  need_same_dtype(op, 1, x.dtype);
  need_fit(x.dims[0] == g.dims[0], op, to_string(x), " and ", to_string(g), " have different batches");
  Convolution c;
  c.groups = op.attrs.integer("groups");
  need_value(c.groups > 0 && x.dims[1] % c.groups == 0 && g.dims[1] % c.groups == 0, op, "groups", "is ",
             c.groups, ", which does not divide the ", x.dims[1], " and ", g.dims[1], " channels");
  c.in = x.dims[1] / c.groups;
  c.out = g.dims[1] / c.groups;
  auto& w = c.window;
  w.input = spatial_dims(x);
  w.output = spatial_dims(g);
  const size_t rank = w.input.size();
  w.kernel = integers(op, "kernel", rank, 1, large >> 16);
  w.strides = spatial(op, "strides", rank, 1, 1);
  w.low = spatial(op, "pads_low", rank, 0, -(large >> 16));
  w.high = Dims(rank, 0);
  w.dilations = spatial(op, "dilations", rank, 1, 1);
  return c;
}

/// One contraction over the batch and all places of the windows.
void lower_conv_weight_gradient(Lowering& l) {
  auto c = weight_gradient_of(l.op);
  auto x = l.operand(0);
  Dims parallel, summed{x.type.dims[0]};
  if (c.groups > 1) parallel.push_back(c.groups);
  parallel.insert(parallel.end(), {c.out, c.in});
  parallel.insert(parallel.end(), c.window.kernel.begin(), c.window.kernel.end());
  summed.insert(summed.end(), c.window.output.begin(), c.window.output.end());
  auto vars = l.begin(parallel, summed);
  size_t next = 0;
  const Idx group = c.groups > 1 ? vars[next++] : l.constant_index(0);
  const Idx out = vars[next++], in = vars[next++];
  const size_t first_step = next, n = first_step + c.window.rank(), first_place = n + 1;
  Indices input{vars[n], group * c.in + in}, gradient{vars[n], group * c.out + out},
      to{group * c.out + out, in};
  for (size_t d = 0; d < c.window.rank(); ++d) {
    input.push_back(window_index(c.window, d, vars[first_place + d], vars[first_step + d]));
    gradient.push_back(vars[first_place + d]);
    to.push_back(vars[first_step + d]);
  }
  Val element = load_window(l, x, input, 2, c.window, [&] { return l.constant(x.type.dtype, 0); });
  const Val right = widen(element), left = widen(l.load(1, gradient));
  Val sum = l.contract(left, right, FE_CONTRACT_GEMM);
  l.store(l.result(), to, cast(sum, l.result().type.dtype));
  l.end();
}

OpDef conv_weight_gradient_op() {
  return op_def("conv_weight_gradient")
      .doc(
          "The gradient [o, c / groups, kernel..] of the weights of a convolution of x [n, c, spatial..], "
          "given the "
          "gradient g [n, o, spatial..] of its result: the sum over the batch and all places.")
      .operands("x", "g")
      .required(attr("kernel", Dims{}), "the weights' spatial dims")
      .attr(attr("strides", Dims{}), "one number a spatial dim; empty: 1")
      .attr(attr("pads_low", Dims{}), "zeros before each spatial dim; empty: 0")
      .attr(attr("dilations", Dims{}), "distance of kernel elements; empty: 1")
      .attr(attr("groups", 1))
      .infer([](const Instance& op) {
        auto c = weight_gradient_of(op);
        TensorType result{op.operand(0).dtype, {c.groups * c.out, c.in}};
        result.dims.insert(result.dims.end(), c.window.kernel.begin(), c.window.kernel.end());
        return std::vector{result};
      })
      .lower(lower_conv_weight_gradient)
      .samples(
          {sample("%x: f32[2,3,8,9], %g: f32[2,5,4,8]",
                  "conv_weight_gradient(%x, %g) {kernel = [3, 3], strides = [2, 1], pads_low = [1, 1]}"),
           sample("%x: f32[2,6,7,7], %g: f32[2,6,5,6]",
                  "conv_weight_gradient(%x, %g) {kernel = [2, 2], groups = 6, dilations = [2, 1]}"),
           sample("%x: f32[1,4,10], %g: f32[1,6,12]",
                  "conv_weight_gradient(%x, %g) {kernel = [3], groups = 2, pads_low = [2]}"),
           sample("%x: bf16[2,3,5,5], %g: bf16[2,4,5,5]", "conv_weight_gradient(%x, %g) {kernel = [1, 1]}")});
}

}  // namespace

void add_convolution(PluginBuilder& builder, const PluginContext&) {
  builder.add(conv_op());
  builder.add(conv_transpose_op());
  builder.add(conv_weight_gradient_op());
}

}  // namespace ferrite::standard
