// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler gives to the runtime: how a kernel is launched, and its PTX.
#pragma once

#include <string>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::cuda {

struct Blob {
  std::string entry;
  int64_t blocks = 0;
  unsigned threads = 1;
  std::vector<fe_argument_needs> arguments;
  std::string ptx;
};

std::string write_blob(const Blob& blob);
/// Throws Failure ferrite.cuda/link where the bytes are no blob.
Blob read_blob(Bytes bytes);

}  // namespace ferrite::cuda
