// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The TensorProto message of ONNX test data, read from protobuf's wire format.
#pragma once

#include <string>
#include <string_view>

#include "cli/tensor.h"

namespace ferrite::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// FE-C20 where the bytes are no TensorProto or contradict themselves; FE-C21 for strings, external data and types that are
/// not known. `where` is for messages.
core::Result<NamedTensor> read_tensor_proto(std::string_view bytes, const std::string& where);

}  // namespace ferrite::cli
