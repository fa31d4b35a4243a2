// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The inputs and outputs that a model file declares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::core {

/// An input or output of a model before shapes are known. A dim that is not fixed is -1, with a name ("" =
/// anonymous).
struct ModelPort {
  std::string name;
  DType dtype = DType::none;
  bool ranked = true;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
};

}  // namespace ferrite::core
