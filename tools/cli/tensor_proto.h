// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The TensorProto message of ONNX test data, read from protobuf's wire format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/tensor.h"

namespace ferrite::cli {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// FE-C20 where the bytes are no TensorProto or contradict themselves; FE-C21 for strings, external data and
/// unknown types. `where` is for messages.
core::Result<NamedTensor> read_tensor_proto(std::string_view bytes, const std::string& where);

/// A model's declaration of an input.
struct DeclaredInput {
  std::string name;
  bool ranked = false;
  std::vector<int64_t> dims;  ///< -1: open
};

/// The inputs that the bytes of an ONNX model declare. They are read here and not by an importer, so that a
/// test can tell a model that its data contradict from a wrong importer. Empty where the bytes are no model.
std::vector<DeclaredInput> declared_inputs(std::string_view model);

}  // namespace ferrite::cli
