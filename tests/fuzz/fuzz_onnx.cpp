// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arbitrary bytes as an ONNX model: opening one throws a coded error or gives a signature, and touches
// nothing else.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "plugins/onnx/model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    ferrite::from_onnx::OnnxImporter importer;
    auto model = importer.open("fuzz.onnx", {reinterpret_cast<const std::byte*>(data), size});
    if (model->outputs().empty()) std::abort();
  } catch (const ferrite::Failure& failure) {
    if (failure.code().empty()) std::abort();
  }
  return 0;
}
