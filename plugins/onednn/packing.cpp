// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "packing.h"

#include <algorithm>

namespace ferrite::onednn {
namespace {

/// Builds index expressions of packed coordinates, one after the other.
class Expressions {
 public:
  uint32_t coordinate(size_t dim) { return add({1, 0, static_cast<int64_t>(dim), 0, 0}); }
  uint32_t constant(int64_t value) { return add({FE_INDEX_CONSTANT, 0, value, 0, 0}); }
  uint32_t times(uint32_t a, int64_t factor) {
    return factor == 1 ? a : add({FE_INDEX_MUL, 0, 0, a, constant(factor)});
  }
  uint32_t sum(uint32_t a, uint32_t b) { return add({FE_INDEX_ADD, 0, 0, a, b}); }
  std::vector<fe_flat_expr> take() { return std::move(list_); }

 private:
  uint32_t add(const fe_flat_expr& expr) {
    list_.push_back(expr);
    return static_cast<uint32_t>(list_.size() - 1);
  }
  std::vector<fe_flat_expr> list_;
};

}  // namespace

std::optional<OperandLayout> packing_of(const dnnl::MemoryDesc& desc, std::span<const Role> roles,
                                        uint32_t buffer, std::span<const Role> weight, int64_t chunks) {
  if (desc.format_kind != dnnl::blocked || desc.offset != 0 || desc.extra.flags != 0) return {};
  const auto& blocking = desc.layout.blocking;
  const auto rank = static_cast<size_t>(desc.rank);
  std::vector<int64_t> block(rank, 1), factor;
  int64_t inner = 1;
  for (int k = 0; k < blocking.inner_count; ++k) inner *= blocking.inner_blocks[k];
  // The stride of a block is the product of the blocks inside it.
  factor.resize(static_cast<size_t>(blocking.inner_count));
  for (size_t k = factor.size(); k-- > 0;) {
    auto& of_dim = block[static_cast<size_t>(blocking.inner_dims[k])];
    factor[k] = of_dim;
    of_dim *= blocking.inner_blocks[k];
  }
  std::vector<size_t> order;
  for (size_t d = 0; d < rank; ++d)
    if (desc.padded_dims[d] != block[d]) order.push_back(d);
  std::ranges::stable_sort(order,
                           [&](size_t x, size_t y) { return blocking.strides[x] > blocking.strides[y]; });
  int64_t step = inner;
  for (size_t k = order.size(); k-- > 0; step *= desc.padded_dims[order[k]] / block[order[k]])
    if (blocking.strides[order[k]] != step) return {};

  Expressions exprs;
  OperandLayout layout;
  layout.buffer = buffer;
  std::vector<std::optional<uint32_t>> coordinate(rank);
  auto add = [&](size_t d, uint32_t part) {
    coordinate[d] = coordinate[d] ? exprs.sum(*coordinate[d], part) : part;
  };
  const auto columns = static_cast<size_t>(std::ranges::find(roles, Role::n) - roles.begin());
  if (chunks > 1) {
    if (desc.padded_dims[columns] != desc.dims[columns]) return {};
    layout.packed_dims.push_back(chunks);
    add(columns, exprs.times(exprs.coordinate(0), desc.dims[columns]));
  }
  for (size_t d : order) {
    add(d, exprs.times(exprs.coordinate(layout.packed_dims.size()), block[d]));
    layout.packed_dims.push_back(desc.padded_dims[d] / block[d]);
  }
  for (size_t k = 0; k < factor.size(); ++k) {
    add(static_cast<size_t>(blocking.inner_dims[k]),
        exprs.times(exprs.coordinate(layout.packed_dims.size()), factor[k]));
    layout.packed_dims.push_back(blocking.inner_blocks[k]);
  }
  const uint32_t zero = exprs.constant(0);
  for (Role role : weight) {
    const auto d = static_cast<size_t>(std::ranges::find(roles, role) - roles.begin());
    layout.unpack.push_back(role == Role::zero || d >= rank || !coordinate[d] ? zero : *coordinate[d]);
  }
  // Missing dims cannot be padded: a dim of the layout that the constant lacks is 0 except at its first
  // element.
  for (size_t d = 0; d < rank; ++d)
    if (desc.padded_dims[d] != 1 && std::ranges::find(weight, roles[d]) == weight.end()) return {};
  layout.exprs = exprs.take();
  return layout;
}

}  // namespace ferrite::onednn
