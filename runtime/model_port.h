// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs and outputs of models as files declare them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::core {

/// An input or output of a model before shapes are known: -1 and a name ("" = anonymous) for a dim that is not fixed.
struct ModelPort {
  std::string name;
  DType dtype = DType::none;
  bool ranked = true;
  std::vector<int64_t> dims;
  std::vector<std::string> dim_names;
};

}  // namespace ferrite::core
