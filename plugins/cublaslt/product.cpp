// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "product.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ferrite/error.hpp"
#include "lt.h"

namespace ferrite::cublaslt {
namespace {

using contraction::Activation, contraction::Loop, contraction::Problem;

/// A matrix [rows, columns] with these strides, one of which must be 1.
Matrix matrix(int64_t rows, int64_t row, int64_t columns, int64_t column, const char* name) {
  Matrix result;
  if (row == 1 || rows == 1) {
    result.rows = rows;
    result.columns = columns;
    result.leading = columns == 1 ? rows : column;
  } else if (column == 1 || columns == 1) {
    result.transposed = true;
    result.rows = columns;
    result.columns = rows;
    result.leading = row;
  } else {
    decline(name, " has no dim whose elements lie side by side");
  }
  if (result.leading < result.rows) decline(name, "'s rows overlap");
  return result;
}

/// The loops around a product, longest first; loops that are contiguous in all operands are merged.
std::vector<Loop> loops_of(const Problem& p) {
  std::vector<Loop> loops;
  for (int64_t k = 0; k < p.loop_count; ++k)
    if (const auto& loop = p.loops[static_cast<size_t>(k)]; loop.extent > 1) loops.push_back(loop);
  const auto follows = [](const Loop& outer, const Loop& inner) {
    return outer.a == inner.a * inner.extent && outer.b == inner.b * inner.extent &&
           outer.c == inner.c * inner.extent && outer.bias == inner.bias * inner.extent &&
           outer.addend[0] == inner.addend[0] * inner.extent;
  };
  for (size_t inner = 0; inner < loops.size();) {
    const auto outer =
        std::ranges::find_if(loops, [&](const Loop& loop) { return follows(loop, loops[inner]); });
    if (outer == loops.end()) {
      ++inner;
      continue;
    }
    loops[inner].extent *= outer->extent;
    loops.erase(outer);
    inner = 0;
  }
  std::ranges::stable_sort(loops, std::ranges::greater(), &Loop::extent);
  return loops;
}

int bytes_of(DType type) { return bits_of(type) / 8; }

constexpr int64_t vector_bytes = 16;

int64_t vector_of(const Product& product) { return vector_bytes / bytes_of(product.type); }

/// Whether the rows of all operands that have several start at multiples of a vector.
bool rows_begin_at_vectors(const Product& p) {
  const auto does = [](const Matrix& matrix, DType of) {
    return matrix.columns == 1 || matrix.leading * bytes_of(of) % vector_bytes == 0;
  };
  return does(p.a, p.type) && does(p.b, p.type) && does(p.c, p.result) && does(p.d, p.result);
}

/// Restricts a matrix to `count` columns, or rows, from `first` on.
void cut(Matrix& matrix, bool columns, int64_t first, int64_t count) {
  (columns ? matrix.columns : matrix.rows) = count;
  matrix.operand.offset += first * (columns ? matrix.leading : 1);
}

Product part_of_m(Product p, int64_t first, int64_t count) {
  p.m = count;
  cut(p.a, p.a.transposed, first, count);
  cut(p.c, false, first, count);
  cut(p.d, false, first, count);
  p.bias.offset += first;
  return p;
}

Product part_of_n(Product p, int64_t first, int64_t count) {
  p.n = count;
  cut(p.b, !p.b.transposed, first, count);
  cut(p.c, true, first, count);
  cut(p.d, true, first, count);
  return p;
}

Product part_of_k(Product p, int64_t first, int64_t count) {
  p.k = count;
  cut(p.a, !p.a.transposed, first, count);
  cut(p.b, p.b.transposed, first, count);
  return p;
}

}  // namespace

Product product_of(const Problem& p, bool tf32) {
  constexpr int64_t most_launches = 32;
  if (p.convolution) decline("it is a convolution");
  Product result;
  result.type = p.type;
  result.result = p.result;
  result.tf32 = tf32 && p.type == f32;
  result.m = p.n.extent;
  result.n = p.m.extent;
  result.k = p.k.extent;
  result.a = matrix(p.n.extent, p.n.b, p.k.extent, p.k.b, "an operand");
  // cuBLASLt is column-major: the row-major c[m, n] = a b is its d[n, m] = b a, so the operands are
  // exchanged.
  result.b = matrix(p.k.extent, p.k.a, p.m.extent, p.m.a, "an operand");
  result.d = matrix(p.n.extent, 1, p.m.extent, p.m.c, "the result");
  result.a.operand = p.b;
  result.b.operand = p.a;
  result.d.operand = p.c;
  if (p.addend_count > 0) {
    if (p.n.extent > 1 && p.n.addend[0] != 1) decline("the addend has another layout than the result");
    result.has_c = true;
    result.c = matrix(p.n.extent, 1, p.m.extent, p.m.addend[0], "the addend");
    result.c.operand = p.addends[0];
  } else {
    result.c = result.d;
  }
  result.bias = p.bias;
  if (p.activation == Activation::relu) result.epilogue = lt::epilogue_relu;
  if (p.activation == Activation::gelu_tanh) result.epilogue = lt::epilogue_gelu;
  if (p.bias.argument >= 0)
    result.epilogue = lt::epilogue_bias | (result.epilogue == lt::epilogue_none ? 0 : result.epilogue);
  auto loops = loops_of(p);
  if (!loops.empty()) {
    const auto& batch = loops[0];
    result.batches = batch.extent;
    result.a.batch = batch.b;
    result.b.batch = batch.a;
    result.d.batch = batch.c;
    result.c.batch = result.has_c ? batch.addend[0] : batch.c;
    result.bias_batch = batch.bias;
    result.around.assign(loops.begin() + 1, loops.end());
  }
  constexpr int64_t most = INT32_MAX;
  if (std::max({result.m, result.n, result.k, result.batches}) > most) decline("a dim is too long");
  if (result.launches() > most_launches) decline("it is ", result.launches(), " batches of products");
  return result;
}

std::vector<Product> in_whole_vectors(const Product& product) {
  // The remainder of the depth is rounded once more to the result's type; it has at most 7 products. From
  // this depth on, that error is smaller than the rounding error of an f32 sum of so many products, by the
  // bounds of both.
  constexpr int64_t least_depth = 1024;
  if (bytes_of(product.type) != 2 || !rows_begin_at_vectors(product)) return {};
  const int64_t vector = vector_of(product);
  const auto left = [&](int64_t extent) { return extent > vector ? extent % vector : 0; };
  const int64_t m = left(product.m), n = left(product.n), k = left(product.k);
  if (k > 0 && (product.has_c || product.k < least_depth)) return {};
  std::vector<Product> parts;
  auto main = product;
  if (m > 0) {
    parts.push_back(part_of_m(main, main.m - m, m));
    main = part_of_m(main, 0, main.m - m);
  }
  if (n > 0) {
    parts.push_back(part_of_n(main, main.n - n, n));
    main = part_of_n(main, 0, main.n - n);
  }
  // The remainder is stored without an epilogue; the main part reads it as c and adds it.
  if (k > 0) {
    auto rest = part_of_k(main, main.k - k, k);
    rest.bias = {};
    rest.epilogue = lt::epilogue_none;
    parts.push_back(rest);
    main = part_of_k(main, 0, main.k - k);
    main.has_c = true;
    for (auto& loop : main.around) loop.addend[0] = loop.c;
  }
  if (!parts.empty()) parts.push_back(main);
  return parts;
}

int64_t Product::launches() const {
  int64_t count = 1;
  for (const auto& loop : around) count *= loop.extent;
  return count;
}

Product::Offsets Product::offsets(int64_t launch) const {
  Offsets at{a.operand.offset, b.operand.offset, c.operand.offset, d.operand.offset, bias.offset};
  for (const auto& loop : around) {
    const int64_t step = launch % loop.extent;
    launch /= loop.extent;
    at.a += step * loop.b;
    at.b += step * loop.a;
    at.c += step * (has_c ? loop.addend[0] : loop.c);
    at.d += step * loop.c;
    at.bias += step * loop.bias;
  }
  return at;
}

int64_t Product::alignment(int64_t Offsets::* operand, DType of) const {
  int64_t result = 16;
  for (int64_t launch = 0; launch < launches(); ++launch)
    result = std::gcd(result, offsets(launch).*operand * bytes_of(of));
  return result;
}

std::string Product::text() const {
  const auto number = [](const char* name, int64_t value) {
    return value == 1 ? std::string() : std::string(" ") + name + " " + std::to_string(value);
  };
  return "product of " + std::string(name_of(type)) + (tf32 ? " as tf32" : "") + ", m " + std::to_string(m) +
         " n " + std::to_string(n) + " k " + std::to_string(k) + number("batches", batches) +
         number("launches", launches()) + (a.transposed ? ", a transposed" : "") +
         (b.transposed ? ", b transposed" : "") + (has_c ? ", added to" : "");
}

double Product::seconds(const cuda_library::Device& device) const {
  // Cost of a launch, and the attainable fractions of a device's rates, measured on an H200. The fraction is
  // low if rows do not start at vectors or do not fill them.
  constexpr double of_launch = 5e-6, of_operations = 0.77, of_odd_columns = 0.55, of_odd = 0.12,
                   of_bandwidth = 0.8;
  // A block computes a tile of the result, and the blocks of one multiprocessor run in turn; long sums are
  // split, too.
  constexpr double tile_rows = 128, tile_columns = 128, of_block = 512;
  const auto x = static_cast<double>(m), y = static_cast<double>(n), z = static_cast<double>(k),
             count = static_cast<double>(batches);
  const double tiles = count * std::ceil(x / tile_rows) * std::ceil(y / tile_columns);
  const double parts = std::max(1.0, std::min(device.multiprocessors / tiles, z / of_block));
  const double rounds = std::ceil(tiles * parts / device.multiprocessors);
  const double work = rounds * (tile_rows * tile_columns * z / parts) * 2 * device.multiprocessors;
  const double bytes =
      count * (bytes_of(type) * (x * z + y * z) + bytes_of(result) * x * y * (has_c ? 2 : 1));
  const auto is_odd = [&](int64_t extent) {
    return extent > vector_of(*this) && extent % vector_of(*this) != 0;
  };
  const double reached = bytes_of(type) != 2                                       ? of_operations
                         : !rows_begin_at_vectors(*this) || is_odd(m) || is_odd(k) ? of_odd
                         : is_odd(n)                                               ? of_odd_columns
                                                                                   : of_operations;
  const double rate = device.operations(type, tf32) * reached;
  return static_cast<double>(launches()) *
         (of_launch + std::max(work / rate, bytes / (device.bandwidth * of_bandwidth)));
}

}  // namespace ferrite::cublaslt
