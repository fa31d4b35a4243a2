// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be told of a kernel without compiling it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/loop/program.h"

namespace ferrite::core::observe {

struct Facts {
  std::string category;        ///< of its main statement: contract, else reduce, scatter or serial, else map
  std::vector<int64_t> sizes;  ///< extents of that statement's parallel loops
  std::vector<int64_t> reduced;  ///< extents of its reduction loops
  std::string reduction_hint;  ///< inner: neighbours in memory are reduced; outer: they are kept; else empty
  size_t loads = 0, stores = 0;  ///< operations on buffers that other kernels see
  size_t loops = 0;              ///< loop nests and their depths summed; shared loops count once
  size_t atomics = 0;            ///< stores that add or otherwise combine with what is there
  int64_t argument_bytes =
      0;  ///< of all buffers that other kernels see; one that is read and written counts twice
  int64_t moved_bytes = 0;  ///< the part of that which its loops can reach at most
  double operations =
      0;  ///< of scalar primitives, as often as the algorithm does them; a contraction's product and sum are two
};

Facts facts_of(const loop::Kernel& kernel);

}  // namespace ferrite::core::observe
