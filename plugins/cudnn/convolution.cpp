// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "convolution.h"

#include <algorithm>
#include <numeric>

#include "ferrite/error.hpp"

namespace ferrite::cudnn {
namespace {

using contraction::Loop, contraction::Problem, contraction::Window;

int64_t bytes_of(DType type) { return bits_of(type) / 8; }
int64_t points(const Tensor& tensor) {
  return std::accumulate(tensor.dims.begin(), tensor.dims.end(), int64_t{1}, std::multiplies());
}

/// The loop over images, contiguous in all operands, and the loop over groups.
struct Loops {
  Loop images, groups;
};
Loops loops_of(const Problem& p) {
  Loops result;
  std::vector<Loop> images;
  for (int64_t k = 0; k < p.loop_count; ++k) {
    const auto& loop = p.loops[static_cast<size_t>(k)];
    if (loop.extent == 1) continue;
    if (loop.b == 0) {
      images.push_back(loop);
    } else if (result.groups.extent == 1) {
      result.groups = loop;
    } else {
      decline("two loops step over weights and images");
    }
  }
  std::ranges::sort(images, {}, &Loop::c);
  for (const auto& loop : images) {
    auto& inner = result.images;
    if (inner.extent == 1) {
      inner = loop;
    } else if (loop.a == inner.a * inner.extent && loop.c == inner.c * inner.extent &&
               loop.addend[0] == inner.addend[0] * inner.extent) {
      inner.extent *= loop.extent;
    } else {
      decline("its images do not lie one after the other");
    }
  }
  return result;
}

/// Gives dims of one element the strides that they would have in a dense tensor; cuDNN recognises orders by
/// them.
void settle(Tensor& tensor) {
  const bool last = tensor.dims[1] > 1 && tensor.strides[1] == 1;
  const std::array<size_t, 4> order =
      last ? std::array<size_t, 4>{1, 3, 2, 0} : std::array<size_t, 4>{3, 2, 1, 0};
  int64_t step = 1;
  for (size_t d : order) {
    if (tensor.dims[d] == 1) tensor.strides[d] = step;
    step = std::max(step, tensor.dims[d] * tensor.strides[d]);
  }
}

}  // namespace

Convolution convolution_of(const Problem& p, bool tf32) {
  if (!p.convolution) decline("it is a product");
  Convolution c;
  c.type = p.type;
  c.result = p.result;
  c.tf32 = tf32 && p.type == f32;
  c.activation = p.activation;
  const auto [images, groups] = loops_of(p);
  const int64_t channels = p.depthwise ? p.n.extent : groups.extent * p.k.extent,
                results = p.n.extent * groups.extent;
  if (groups.extent > 1 &&
      (groups.a != p.k.extent * p.k.a || groups.b != p.n.extent * p.n.b || groups.c != p.n.extent * p.n.c))
    decline("its groups do not lie one after the other");
  c.x = {{images.extent, channels, p.rows.size, p.columns.size},
         {images.a, p.depthwise ? p.n.a : p.k.a, p.m.a, p.column.a},
         p.a};
  c.w = {{results, p.depthwise ? 1 : p.k.extent, p.window_row.extent, p.window_column.extent},
         {p.n.b, p.k.b, p.window_row.b, p.window_column.b},
         p.b};
  if (p.packed) {
    const auto& [n, k, rows, columns] = c.w.dims;
    c.w.strides = {rows * columns * k, 1, columns * k, k};
    c.w.place.offset = 0;
  }
  c.y = {{images.extent, results, p.m.extent, p.column.extent}, {images.c, p.n.c, p.m.c, p.column.c}, p.c};
  c.has_bias = p.bias.argument >= 0;
  c.bias = {{1, results, 1, 1}, {results, 1, 1, 1}, p.bias};
  if (p.addend_count > 0) {
    if (groups.extent > 1 && groups.addend[0] != p.n.extent * p.n.addend[0])
      decline("the addend has its groups in another dimension");
    c.has_r = true;
    c.r = {c.y.dims, {images.addend[0], p.n.addend[0], p.m.addend[0], p.column.addend[0]}, p.addends[0]};
    settle(c.r);
  }
  for (auto* tensor : {&c.x, &c.w, &c.y}) settle(*tensor);
  const std::array<Window, 2> windows = {p.rows, p.columns};
  for (size_t d = 0; d < 2; ++d) {
    c.steps[d] = windows[d].step;
    c.dilations[d] = windows[d].dilation;
    c.low[d] = windows[d].low;
    const int64_t reach = (c.y.dims[d + 2] - 1) * c.steps[d] + (c.w.dims[d + 2] - 1) * c.dilations[d] + 1;
    c.high[d] = std::max<int64_t>(0, reach - c.low[d] - windows[d].size);
  }
  return c;
}

bool wants_packing(const contraction::ReadProblem& read) {
  const auto& p = read.problem;
  return p.convolution && !p.packed && read.constant && !read.weight_dims.empty() && p.type != f32 &&
         !p.depthwise && p.k.a == 1 && p.k.extent > 1;
}

OperandLayout packing_of(const contraction::ReadProblem& read) {
  const auto& p = read.problem;
  OperandLayout layout;
  layout.buffer = read.weight;
  layout.packed_dims = {p.n.extent, p.window_row.extent, p.window_column.extent, p.k.extent};
  constexpr uint32_t coordinate = 1;
  for (int64_t d = 0; d < 4; ++d) layout.exprs.push_back({coordinate, 0, d, 0, 0});
  layout.exprs.push_back({FE_INDEX_CONSTANT, 0, 0, 0, 0});
  for (const auto role : read.weight_dims) {
    using contraction::Role;
    layout.unpack.push_back(role == Role::n               ? 0
                            : role == Role::window_row    ? 1
                            : role == Role::window_column ? 2
                            : role == Role::k             ? 3
                                                          : 4);
  }
  return layout;
}

std::string Convolution::text() const {
  const auto list = [](const auto& dims) {
    std::string text;
    for (int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
    return text;
  };
  return "convolution of " + std::string(name_of(type)) + (tf32 ? " as tf32" : "") + ", images " +
         list(x.dims) + ", weights " + list(w.dims) + ", results " + list(y.dims) +
         (has_bias ? ", with a bias" : "") + (has_r ? ", a sum" : "") +
         (activation == contraction::Activation::none ? "" : ", an activation");
}

int64_t Convolution::alignment(const Tensor& tensor, DType of) const {
  return std::gcd(int64_t{16}, tensor.place.offset * bytes_of(of));
}

bool Convolution::is_better_alone() const {
  const bool depthwise = w.dims[1] == 1 && x.dims[1] > 1;
  return type != f32 && !depthwise && x.strides[1] != 1;
}

double Convolution::seconds(const cuda_library::Device& device) const {
  // Cost of a launch, and the attainable fractions of a device's rates, measured on an H200. Matrix
  // instructions need eight adjacent channels; otherwise the library reorders the images first, or an
  // epilogue prevents that.
  constexpr double of_launch = 6e-6, of_operations = 0.5, of_few_channels = 0.04, of_other_order = 0.015,
                   of_depthwise = 0.25, of_bandwidth = 0.7;
  const bool depthwise = w.dims[1] == 1 && x.dims[1] > 1, narrow = type != f32;
  const bool other_order = is_better_alone();
  const bool alone = !has_bias && !has_r && activation == contraction::Activation::none;
  const double operations = 2.0 * static_cast<double>(points(y) * w.dims[1] * w.dims[2] * w.dims[3]);
  // The part of the images that windows reach: steps may skip the rest.
  int64_t touched = x.dims[0] * x.dims[1];
  for (size_t d = 2; d < 4; ++d) touched *= std::min(x.dims[d], y.dims[d] * w.dims[d]);
  const auto in = static_cast<double>(bytes_of(type) * touched),
             out = static_cast<double>(bytes_of(result) * points(y));
  const double times = other_order ? 3 : 1;
  const double bytes =
      (in + out) * times + (has_r ? out : 0) + static_cast<double>(bytes_of(type) * points(w));
  const double share = depthwise                      ? of_depthwise
                       : other_order && !alone        ? of_other_order
                       : narrow && w.dims[1] % 8 != 0 ? of_few_channels
                                                      : of_operations;
  const double rate = device.operations(depthwise ? f32 : type, tf32) * share;
  return of_launch * times + std::max(operations / rate, bytes / (device.bandwidth * of_bandwidth));
}

}  // namespace ferrite::cudnn
