// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and pooling.
#include <algorithm>

#include "window.h"

namespace ferrite::from_onnx {

namespace {
constexpr int64_t size_limit =
    int64_t{1} << 24;  // bound on pads, strides and kernels; keeps the arithmetic from wrapping
}  // namespace

Dims spatial_numbers(const Context& c, std::string_view name, size_t count, int64_t otherwise,
                     int64_t least) {
  Dims numbers = c.integers(name).value_or(Dims(count, otherwise));
  if (numbers.size() != count)
    c.bad("attribute '", name, "' has ", numbers.size(), " numbers and needs ", count);
  for (int64_t number : numbers)
    if (number < least || number > size_limit) c.bad("attribute '", name, "' holds ", number);
  return numbers;
}

Window window_of(const Context& c, const Dims& kernel, bool pooling) {
  auto x = c.type(0);
  if (x.rank() < 3) c.bad("the input ", to_string(x), " has no spatial dims");
  const size_t rank = x.rank() - 2;
  if (rank > 3) c.unsupported("more than 3 spatial dims are not supported");
  Window w;
  w.input = {x.dims.begin() + 2, x.dims.end()};
  if (kernel.empty() && !c.has_attribute("kernel_shape")) c.bad("attribute 'kernel_shape' is missing");
  w.kernel = kernel.empty() || c.has_attribute("kernel_shape")
                 ? spatial_numbers(c, "kernel_shape", rank, 1, 1)
                 : kernel;
  if (!kernel.empty() && w.kernel != kernel)
    c.bad("attribute 'kernel_shape' is ", dims_text(w.kernel), " and the weight has ", dims_text(kernel));
  w.strides = spatial_numbers(c, "strides", rank, 1, 1);
  w.dilations = spatial_numbers(c, "dilations", rank, 1, 1);
  Dims pads = spatial_numbers(c, "pads", 2 * rank, 0, 0);
  w.low = {pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank)};
  w.high = {pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end()};
  const auto automatic = c.text("auto_pad", "NOTSET");
  const bool upper = automatic == "SAME_UPPER", same = upper || automatic == "SAME_LOWER";
  if (!same && automatic != "VALID" && automatic != "NOTSET" && !automatic.empty())
    c.bad("attribute 'auto_pad' is '", automatic, "' and may be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  const bool ceil = pooling && !same && c.flag("ceil_mode", false);
  for (size_t d = 0; d < rank; ++d) {
    if (w.kernel[d] < 1) c.bad("the kernel ", dims_text(w.kernel), " is empty");
    if (same) {
      int64_t count = (w.input[d] + w.strides[d] - 1) / w.strides[d];
      int64_t total = std::max<int64_t>(0, (count - 1) * w.strides[d] + w.span(d) - w.input[d]);
      w.low[d] = upper ? total / 2 : total - total / 2;
      w.high[d] = total - w.low[d];
    } else if (automatic == "VALID") {
      w.low[d] = w.high[d] = 0;
    }
    int64_t room = w.input[d] + w.low[d] + w.high[d] - w.span(d);
    if (room < 0 || w.input[d] == 0)
      c.bad("the window ", dims_text(w.kernel), " does not fit ", to_string(x), " with its pads");
    int64_t count = room / w.strides[d] + 1;
    if (ceil && room % w.strides[d] != 0) {
      if (count * w.strides[d] >= w.input[d] + w.low[d])
        c.unsupported("ceil_mode with a window that begins in the padding at the end is not supported");
      ++count;
      w.past_end = true;
    }
    w.sizes.push_back(count);
  }
  return w;
}

Value convolve(Context& c, const Window& w, Value x, Value weight, Value bias) {
  std::vector<Value> operands{x, weight};
  if (bias) operands.push_back(bias);
  return c.graph.make("conv", operands,
                      {attr("strides", w.strides), attr("pads_low", w.low), attr("pads_high", w.high),
                       attr("dilations", w.dilations), attr("groups", c.integer("group", 1))});
}

namespace {

Dims kernel_of(const Context& c, size_t weight) {
  auto type = c.type(weight);
  if (type.rank() != c.type(0).rank() || type.rank() < 3)
    c.bad("the weight ", to_string(type), " does not go with the input ", to_string(c.type(0)));
  return {type.dims.begin() + 2, type.dims.end()};
}

void conv(Context& c) {
  Window w = window_of(c, kernel_of(c, 1), false);
  c.give(convolve(c, w, c.operand(0), c.operand(1), c.optional(2)));
}

/// The size of the result is given, or follows from the pads; if it is given, the pads follow from it.
void conv_transpose(Context& c) {
  Dims kernel = kernel_of(c, 1);
  auto x = c.type(0);
  const size_t rank = kernel.size();
  if (rank > 3) c.unsupported("more than 3 spatial dims are not supported");
  if (c.has_attribute("kernel_shape") && *c.integers("kernel_shape") != kernel)
    c.bad("attribute 'kernel_shape' is not the weight's ", dims_text(kernel));
  Dims strides = spatial_numbers(c, "strides", rank, 1, 1),
       dilations = spatial_numbers(c, "dilations", rank, 1, 1);
  Dims extra = spatial_numbers(c, "output_padding", rank, 0, 0),
       pads = spatial_numbers(c, "pads", 2 * rank, 0, 0);
  Dims low(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(rank)),
      high(pads.begin() + static_cast<std::ptrdiff_t>(rank), pads.end());
  const auto automatic = c.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER",
             given = c.has_attribute("output_shape");
  if (!same && automatic != "VALID" && automatic != "NOTSET" && !automatic.empty())
    c.bad("attribute 'auto_pad' is '", automatic, "' and may be NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  Dims wanted = given ? *c.integers("output_shape") : Dims(rank);
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.size() != rank)
    c.bad("attribute 'output_shape' has ", wanted.size(), " numbers and needs ", rank);
  for (size_t d = 0; d < rank; ++d) {
    if (kernel[d] < 1 || kernel[d] > size_limit) c.bad("the weight ", to_string(c.type(1)), " has no kernel");
    if (given && (wanted[d] < 1 || wanted[d] > size_limit))
      c.bad("attribute 'output_shape' holds ", wanted[d]);
    if (automatic == "VALID" && !given) low[d] = high[d] = 0;
    if (!given && !same) continue;
    int64_t size = given ? wanted[d] : x.dims[2 + d] * strides[d];
    int64_t total = strides[d] * (x.dims[2 + d] - 1) + extra[d] + (kernel[d] - 1) * dilations[d] + 1 - size;
    if (total < 0) extra[d] -= total, total = 0;
    low[d] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
    high[d] = total - low[d];
  }
  std::vector<Value> operands{c.operand(0), c.operand(1)};
  if (c.has(2)) operands.push_back(c.operand(2));
  c.give(c.graph.make(
      "conv_transpose", operands,
      {attr("strides", strides), attr("pads_low", low), attr("pads_high", high), attr("dilations", dilations),
       attr("groups", c.integer("group", 1)), attr("output_padding", extra)}));
}

std::vector<Attr> pool_attrs(const Window& w) {
  return {attr("kernel", w.kernel),  attr("strides", w.strides),     attr("pads_low", w.low),
          attr("pads_high", w.high), attr("dilations", w.dilations), attr("sizes", w.sizes)};
}
std::vector<Value> only_x(const Context& c) { return {c.operand(0)}; }

void max_pool(Context& c) {
  c.only_results(1, "export the model so that it needs only the largest values, not where they are");
  c.give(c.graph.make("max_pool", only_x(c), pool_attrs(window_of(c, {}, true))));
}
void average_pool(Context& c) {
  Window w = window_of(c, {}, true);
  bool counts = c.opset >= 7 && c.flag("count_include_pad", false);
  if (counts && w.past_end)
    c.unsupported("count_include_pad with windows past the padding (ceil_mode) is not supported");
  auto attrs = pool_attrs(w);
  attrs.push_back(attr("count_include_pad", counts));
  c.give(c.graph.make("avg_pool", only_x(c), attrs));
}
void lp_pool(Context& c) {
  auto attrs = pool_attrs(window_of(c, {}, true));
  attrs.push_back(attr("p", c.integer("p", 2)));
  c.give(c.graph.make("lp_pool", only_x(c), attrs));
}

void global_pool(Context& c) {
  Value x = c.operand(0);
  if (x.rank() < 3) c.bad("the input ", to_string(x.type()), " has no spatial dims");
  std::string op = c.entry.standard;
  if (op == "p_norm") {
    int64_t p = c.integer("p", 2);
    if (p != 1 && p != 2) c.unsupported("p is ", p, " and 1 and 2 are supported");
    op = p == 1 ? "reduce_l1" : "reduce_l2";
  }
  c.give(reduce_over(c, op, x, dim_range(2, x.rank())));
}

constexpr OpEntry window_entries[] = {
    {"Conv", 1, newest, conv},
    {"ConvTranspose", 1, newest, conv_transpose},
    {"MaxPool", 1, newest, max_pool},
    {"AveragePool", 1, newest, average_pool},
    {"LpPool", 2, newest, lp_pool},
    {"GlobalAveragePool", 1, newest, global_pool, "reduce_mean"},
    {"GlobalMaxPool", 1, newest, global_pool, "reduce_max"},
    {"GlobalLpPool", 2, newest, global_pool, "p_norm"},
};

}  // namespace

std::span<const OpEntry> window_ops() { return window_entries; }

}  // namespace ferrite::from_onnx
