// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the dims that a data-dependent index addresses, for error messages about an index out of range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::loop {

struct IndexedDim {
  BufferId buffer = none;
  size_t dim = 0;
  friend bool operator==(const IndexedDim&, const IndexedDim&) = default;
};

/// The dims whose coordinates depend on the result of operation `op`, an FE_OP_INDIRECT, and that have its
/// extent; in the order of the accesses, without duplicates. For a scatter that became a condition (`eq` of
/// the index and a coordinate of a store) they are the dims of the stored buffer. Empty if there is a view
/// between the index and every buffer it addresses.
std::vector<IndexedDim> dims_indexed_by(const StatementList& list, size_t statement, OpId op);

/// The name under which messages mention a buffer that is indexed: its own name, or, if it begins as a copy
/// of another buffer and is then scattered into, that buffer's name. Empty if that buffer has no name.
std::string indexed_name(const StatementList& list, BufferId buffer);

/// "dim 0 of f32[5,4] 'x'"; `name` may be empty.
std::string describe_dim(size_t dim, const std::string& name, const Buffer& buffer);

}  // namespace ferrite::core::loop
