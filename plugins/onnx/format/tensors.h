// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// TensorProto -> constants of a graph.
#pragma once

#include <optional>
#include <string>

#include "ferrite/graph.hpp"
#include "ferrite/provider.hpp"
#include "format/proto.h"
#include "format/wire.h"

namespace ferrite::from_onnx {

/// The file that a model was read from. The path is absolute.
struct ModelFile {
  std::string path;
  Bytes bytes;
};

/// The largest number of an element type in ONNX.
inline constexpr int32_t last_element_type = 28;
/// The element type of an ONNX type number; nothing where it is not supported.
std::optional<DType> known_dtype(int32_t onnx_type);
/// The same. FE-I19 (unsupported) for strings, complex numbers and types below 8 bits, which it names; `where` begins the message.
DType dtype_of(int32_t onnx_type, std::string_view where);
/// The dtype and dims of a tensor. FE-I18 for dims below 0 or of too many elements.
TensorType type_of(const onnx::TensorProto& tensor, std::string_view where);

/// The tensor as a literal (up to 1 KiB, and typed data) or as a weight in its file. `raw` is where its raw_data lies in
/// the file when these were left out of `tensor`, else null.
/// Errors: FE-I15 external data that cannot be read, FE-I16 a location outside the model's folder, FE-I17 a wrong offset or
/// length, FE-I18 data that do not fit the dims, FE-I19 an element type that is not supported.
Value constant_of(Graph& graph, const ModelFile& file, const onnx::TensorProto& tensor, const RawRange* raw);

/// The elements of an integer or float constant, converted.
std::vector<int64_t> integers_of(const Value& constant);
std::vector<double> numbers_of(const Value& constant);

}  // namespace ferrite::from_onnx
