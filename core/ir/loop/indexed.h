// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Dims that indices from data address, for what is said of an index that is out of range.
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

/// The dims whose coordinates depend on what operation `op` of the statement, an FE_OP_INDIRECT, gives, and that have its size; in
/// order of the accesses, each once. Of a scatter that became a condition (`eq` of the index and a coordinate of a store) they are
/// the dims of what is stored. None where a view stands between the index and all that it addresses.
std::vector<IndexedDim> dims_indexed_by(const StatementList& list, size_t statement, OpId op);

/// What an index into the buffer is said to address: the buffer's name; of one that begins as a copy of another and is then
/// scattered into, that one's. Empty where it begins as what has no name.
std::string indexed_name(const StatementList& list, BufferId buffer);

/// "dim 0 of f32[5,4] 'x'"; `name` may be empty.
std::string describe_dim(size_t dim, const std::string& name, const Buffer& buffer);

}  // namespace ferrite::core::loop
