// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Properties of a kernel that follow from its loops, without compiling it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/ir/loop/program.h"

namespace ferrite::core::observe {

struct Facts {
  std::string category;        ///< of its main statement: contract, else reduce, scatter or serial, else map
  std::vector<int64_t> sizes;  ///< extents of that statement's parallel loops
  std::vector<int64_t> reduced;  ///< extents of its reduction loops
  /// Inner: the reduced dim is contiguous in memory; outer: a kept dim is; else empty.
  std::string reduction_hint;
  size_t loads = 0, stores = 0;  ///< number of operations on buffers that other kernels see
  size_t loops = 0;              ///< number of loop nests plus their depths; shared loops count once
  size_t atomics = 0;            ///< number of stores that add to or combine with existing contents
  int64_t argument_bytes =
      0;  ///< bytes of all buffers that other kernels see; a buffer that is read and written counts twice
  int64_t moved_bytes = 0;  ///< the part of these bytes that the loops can reach at most
  double operations =
      0;  ///< executions of scalar primitives by the algorithm; a multiply-add of a contraction counts as two
};

Facts facts_of(const loop::Kernel& kernel);

}  // namespace ferrite::core::observe
