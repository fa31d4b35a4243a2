// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constants in the layouts that emitters request.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "ferrite/emitter/gemm.h"
#include "ferrite/loop.hpp"
#include "kernel_builder.h"

namespace ferrite::kernel_test {

/// Packs a constant like a host: zero if the logical coordinate is out of range; weighted sums for layouts
/// with terms, in f32 or f64.
inline std::vector<char> pack(const emitter::OperandLayout& layout, const loop::Buffer& buffer,
                              const char* source, loop::Packing& packing, index::Pool& pool) {
  packing.dims = layout.dims;
  packing.terms = layout.terms;
  auto extents = layout.dims;
  if (layout.terms > 0) extents.push_back(layout.terms);
  for (int64_t dim : extents) packing.symbols.push_back(pool.new_symbol({0, dim > 0 ? dim - 1 : 0}));
  index::Pool local;
  for (int64_t dim : extents) local.new_symbol({0, dim > 0 ? dim - 1 : 0});
  std::vector<index::Record> records;
  for (const auto& expr : layout.exprs) {
    index::Record record;
    record.op = static_cast<uint8_t>(expr.op);
    record.value = expr.value;
    record.lhs = expr.lhs;
    record.rhs = expr.rhs;
    records.push_back(record);
  }
  std::vector<index::Expr> exprs;
  if (!local.read_records(records, exprs)) throw std::runtime_error("layout expressions");
  for (auto root : layout.unpack)
    packing.logical.push_back(pool.import(
        local, exprs[root], [&](index::Symbol symbol) { return pool.symbol(packing.symbols[symbol]); }));
  int64_t count = 1;
  for (int64_t dim : layout.dims) count *= dim;
  const auto bytes = static_cast<size_t>(bits_of(buffer.dtype)) / 8;
  std::vector<char> packed(static_cast<size_t>(count) * bytes);
  std::vector<int64_t> at(extents.size());
  /// The address of the element at the packed coordinates, null outside.
  const auto place = [&]() -> const char* {
    int64_t element = buffer.offset;
    for (size_t d = 0; d < buffer.dims.size(); ++d) {
      const int64_t coordinate = local.eval(exprs[layout.unpack[d]], at);
      if (coordinate < 0 || coordinate >= buffer.dims[d]) return nullptr;
      element += coordinate * buffer.strides[d];
    }
    return source + static_cast<size_t>(element) * bytes;
  };
  for (int64_t n = 0; n < count; ++n) {
    int64_t rest = n;
    for (size_t d = layout.dims.size(); d-- > 0; rest /= layout.dims[d]) at[d] = rest % layout.dims[d];
    char* const to = packed.data() + static_cast<size_t>(n) * bytes;
    if (layout.terms == 0) {
      if (const char* from = place()) std::copy_n(from, bytes, to);
      continue;
    }
    double sum = 0;
    for (uint32_t t = 0; t < layout.terms; ++t) {
      at.back() = t;
      const double factor = layout.factors[static_cast<size_t>(at[layout.factor_dim]) * layout.terms + t];
      if (const char* from = place()) sum += factor * read(buffer.dtype, from);
    }
    const auto narrow = static_cast<float>(sum);
    std::copy_n(
        buffer.dtype == f32 ? reinterpret_cast<const char*>(&narrow) : reinterpret_cast<const char*>(&sum),
        bytes, to);
  }
  return packed;
}

}  // namespace ferrite::kernel_test
