// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions for the tests of backends.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel_builder.h"

namespace ferrite::kernel_test {

struct Conv {
  DType dtype = f32;
  int64_t batch = 1, channels = 3, filters = 4, height = 9, width = 11, kernel = 3, stride = 1, dilation = 1,
          pad = 1, groups = 1;
  bool channels_last = false;
  bool output_last = false;  // only the output is channels-last
  bool flipped = false;      // the kernel is traversed backwards, as in a gradient
  bool then_map = false;     // a second statement adds a residual
  uint32_t weights = FE_BUFFER_CONSTANT;
};

/// relu(convolution + bias).
inline Builder conv(const Conv& shape) {
  Builder b;
  const int64_t span = (shape.kernel - 1) * shape.dilation + 1;
  const int64_t oh = (shape.height + 2 * shape.pad - span) / shape.stride + 1,
                ow = (shape.width + 2 * shape.pad - span) / shape.stride + 1;
  const int64_t in = shape.channels / shape.groups, per_group = shape.filters / shape.groups;
  auto order = [&](bool last, auto n, auto c, auto y, auto x) {
    using T = decltype(n);
    return last ? std::vector<T>{n, y, x, c} : std::vector<T>{n, c, y, x};
  };
  const bool last = shape.channels_last, output_last = last || shape.output_last;
  auto x = b.buffer(shape.dtype, FE_BUFFER_INPUT,
                    order(last, shape.batch, shape.channels, shape.height, shape.width));
  auto w = b.buffer(shape.dtype, shape.weights, {shape.filters, in, shape.kernel, shape.kernel});
  auto bias = b.buffer(shape.dtype, FE_BUFFER_CONSTANT, {shape.filters});
  auto out = b.buffer(shape.dtype, FE_BUFFER_OUTPUT, order(output_last, shape.batch, shape.filters, oh, ow));
  auto residual =
      b.buffer(shape.dtype, FE_BUFFER_INPUT, order(output_last, shape.batch, shape.filters, oh, ow));
  const std::vector<int64_t> results = {shape.batch, shape.groups, per_group, oh, ow};
  // The local buffer holds one value at a time between the statements.
  auto local = b.buffer(shape.dtype, FE_BUFFER_LOCAL, results, std::vector<int64_t>(results.size()));
  b.kernel.shared = static_cast<uint32_t>(results.size());
  auto v = b.begin(FE_STATEMENT_CONTRACT, results, {in, shape.kernel, shape.kernel});
  auto& pool = b.kernel.pool;
  auto filter = [&](const std::vector<Expr>& vars) {
    return pool.add(pool.mul(vars[1], per_group), vars[2]);
  };
  auto position = [&](Expr o, Expr k) {
    return pool.add(pool.add(pool.mul(o, shape.stride), pool.mul(k, shape.dilation)), -shape.pad);
  };
  auto y = position(v[3], v[6]), c = position(v[4], v[7]);
  OpId mask = none, zero = none;
  if (shape.pad > 0) {
    auto inside = [&](Expr index, int64_t extent) {
      auto value = b.index_value(index);
      return b.prim(Prim::and_, b.prim(Prim::ge_, value, b.constant(i64, 0)),
                    b.prim(Prim::lt_, value, b.constant(i64, static_cast<double>(extent))));
    };
    mask = b.prim(Prim::and_, inside(y, shape.height), inside(c, shape.width));
    zero = b.constant(shape.dtype, 0);
  }
  auto image = b.load(x, order(last, v[0], pool.add(pool.mul(v[1], in), v[5]), y, c), mask, zero);
  auto tap = [&](Expr k) { return shape.flipped ? pool.sub(pool.constant(shape.kernel - 1), k) : k; };
  auto weights = b.load(w, {filter(v), v[5], tap(v[6]), tap(v[7])});
  auto sum = b.contract(image, weights, FE_CONTRACT_CONV);
  auto more = b.load(bias, {filter(v)});
  const auto type = compute_type(shape.dtype);
  if (shape.dtype != type) more = b.cast(more, type);
  auto value = b.prim(Prim::max_, b.prim(Prim::add_, sum, more), b.constant(type, 0));
  auto place = [&](const std::vector<Expr>& vars) {
    return order(output_last, vars[0], filter(vars), vars[3], vars[4]);
  };
  if (!shape.then_map) {
    b.store(out, place(v), value);
    return b;
  }
  b.store(local, {v.begin(), v.begin() + static_cast<std::ptrdiff_t>(results.size())}, value);
  auto u = b.begin(FE_STATEMENT_MAP, results);
  b.store(out, place(u), b.prim(Prim::add_, b.load(local, u), b.load(residual, place(u))));
  return b;
}

}  // namespace ferrite::kernel_test
