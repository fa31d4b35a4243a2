// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A parser of a model's encoding that finds the bytes of its weights, so that they are never copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::from_onnx {

/// The place of an initializer's raw_data in the file.
struct RawRange {
  bool present = false;
  uint64_t offset = 0, bytes = 0;
};

/// A model without the raw_data of the main graph's initializers.
struct SlimModel {
  std::string message;        ///< encoded ModelProto
  std::vector<RawRange> raw;  ///< one per initializer of the main graph, in order
};

/// Throws FE-I11 for an empty file, FE-I12 for a file that is no ONNX model, FE-I13 for a truncated or
/// damaged one. Never reads outside `bytes`; allocates at most that many bytes.
SlimModel slim_model(Bytes bytes);

}  // namespace ferrite::from_onnx
