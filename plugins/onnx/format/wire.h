// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A walk over the encoding of a model that finds the bytes of its weights, so that they are never copied.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::from_onnx {

/// Where the raw_data of an initializer lies in the file.
struct RawRange {
  bool present = false;
  uint64_t offset = 0, bytes = 0;
};

/// A model without the raw_data of the main graph's initializers.
struct SlimModel {
  std::string message;        ///< the encoded ModelProto
  std::vector<RawRange> raw;  ///< one for each initializer of the main graph, in order
};

/// Throws FE-I11 for an empty file, FE-I12 for one that is no ONNX model, FE-I13 for a truncated or damaged one. Never
/// reads outside `bytes`; allocates no more than their number.
SlimModel slim_model(Bytes bytes);

}  // namespace ferrite::from_onnx
