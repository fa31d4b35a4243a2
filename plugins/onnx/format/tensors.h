// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts TensorProto to constants of a graph.
#pragma once

#include <optional>
#include <string>

#include "ferrite/graph.hpp"
#include "ferrite/provider.hpp"
#include "format/proto.h"
#include "format/wire.h"

namespace ferrite::from_onnx {

/// The file of a model. The path is absolute.
struct ModelFile {
  std::string path;
  Bytes bytes;
};

/// The largest element type number of ONNX.
inline constexpr int32_t last_element_type = 28;
/// The dtype for an ONNX type number; nullopt if it is not supported.
std::optional<DType> known_dtype(int32_t onnx_type);
/// Like known_dtype(), but throws FE-I19 (unsupported) with the type's name for strings, complex numbers and
/// types below 8 bits; `where` is the prefix of the message.
DType dtype_of(int32_t onnx_type, std::string_view where);
/// The dtype and dims of a tensor. FE-I18 for negative dims or too many elements.
TensorType type_of(const onnx::TensorProto& tensor, std::string_view where);

/// The tensor as a literal (up to 1 KiB, and typed data) or as a weight in its file. `raw` is the place of
/// its raw_data in the file if they were removed from `tensor`, else null.
/// Errors: FE-I15 external data that cannot be read, FE-I16 a location outside the model's folder, FE-I17 a
/// wrong offset or length, FE-I18 data that do not fit the dims, FE-I19 an element type that is not
/// supported.
Value constant_of(Graph& graph, const ModelFile& file, const onnx::TensorProto& tensor, const RawRange* raw);

/// The elements of an integer or float constant, converted.
std::vector<int64_t> integers_of(const Value& constant);
std::vector<double> numbers_of(const Value& constant);

}  // namespace ferrite::from_onnx
