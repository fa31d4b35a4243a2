// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Transposition with shuffles of two vectors that are single instructions on machines with 16-byte register
// parts, such as x86: first interleave inside these parts, then move whole parts.
#include "backends/llvm/ir/transpose.h"

#include <llvm/IR/DerivedTypes.h>

#include <algorithm>
#include <vector>

namespace ferrite::emitter {
namespace {

constexpr unsigned part_bits = 128;

/// Transposes each part of as many rows as it has elements. Each stage interleaves rows i and i + n/2 into
/// rows 2i and 2i + 1; log2(n) stages are a transposition.
void transpose_parts(llvm::IRBuilder<>& builder, std::span<llvm::Value*> rows, unsigned lanes) {
  const auto size = static_cast<unsigned>(rows.size());
  std::vector<int> low(lanes), high(lanes);
  for (unsigned l = 0; l < lanes; ++l) {
    const unsigned source = l / size * size + l % size / 2 + (l % 2) * lanes;
    low[l] = static_cast<int>(source);
    high[l] = static_cast<int>(source + size / 2);
  }
  std::vector<llvm::Value*> next(size);
  for (unsigned stage = 1; stage < size; stage *= 2) {
    for (unsigned i = 0; i < size / 2; ++i) {
      next[2 * i] = builder.CreateShuffleVector(rows[i], rows[i + size / 2], low);
      next[2 * i + 1] = builder.CreateShuffleVector(rows[i], rows[i + size / 2], high);
    }
    std::ranges::copy(next, rows.begin());
  }
}

/// Transposes parts of `size` elements as units. Each stage moves the even parts of rows 2i and 2i + 1 to row
/// i and the odd ones to row i + n/2; log2(n) stages are a transposition.
void transpose_of_parts(llvm::IRBuilder<>& builder, std::span<llvm::Value*> rows, unsigned lanes,
                        unsigned size) {
  const auto count = static_cast<unsigned>(rows.size());
  std::vector<int> even(lanes), odd(lanes);
  for (unsigned l = 0; l < lanes; ++l) {
    const unsigned part = l / size * 2;
    even[l] = static_cast<int>(part * size + l % size);
    odd[l] = static_cast<int>((part + 1) * size + l % size);
  }
  std::vector<llvm::Value*> next(count);
  for (unsigned stage = 1; stage < count; stage *= 2) {
    for (unsigned i = 0; i < count / 2; ++i) {
      next[i] = builder.CreateShuffleVector(rows[2 * i], rows[2 * i + 1], even);
      next[i + count / 2] = builder.CreateShuffleVector(rows[2 * i], rows[2 * i + 1], odd);
    }
    std::ranges::copy(next, rows.begin());
  }
}

}  // namespace

void transpose_square(llvm::IRBuilder<>& builder, std::span<llvm::Value*> rows) {
  const auto lanes = static_cast<unsigned>(rows.size());
  const unsigned bits = rows[0]->getType()->getScalarSizeInBits();
  const unsigned size = std::min(lanes, std::max(1U, part_bits / bits)), parts = lanes / size;
  for (unsigned part = 0; part < parts; ++part)
    transpose_parts(builder, rows.subspan(part * size, size), lanes);
  std::vector<llvm::Value*> same(parts);
  for (unsigned k = 0; k < size; ++k) {
    for (unsigned part = 0; part < parts; ++part) same[part] = rows[part * size + k];
    transpose_of_parts(builder, same, lanes, size);
    for (unsigned part = 0; part < parts; ++part) rows[part * size + k] = same[part];
  }
}

}  // namespace ferrite::emitter
