// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The signatures of all ONNX operators: the numbers of inputs and outputs of a node, and its attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/proto.h"

namespace ferrite::from_onnx {

/// An operator from the operator set `since` on, until the next signature with the same name.
struct Signature {
  std::string_view domain, name;  ///< "" = ai.onnx
  int since;
  bool removed;  ///< the operator does not exist from here on; the other fields are empty
  int least_inputs, most_inputs, least_outputs, most_outputs;  ///< most: -1 for any number
  std::string_view attributes;                                 ///< "alpha:f axis:i!", as in schemas.def
  std::string_view inputs, outputs;                            ///< "data indices"
};
/// "input 1 (indices)": the op's name of an input, the last one for all further ones; without a name if the
/// op is not known.
std::string input_text(const Signature* signature, size_t k);
std::string output_text(const Signature* signature, size_t k);

/// All signatures, sorted by domain, name and version.
std::span<const Signature> signatures();
/// The signature in an operator set; null if the op does not exist there.
const Signature* signature_of(std::string_view domain, std::string_view name, int64_t opset);

/// FE-I23 if the node has a wrong number of inputs or outputs, lacks a required attribute, or has an
/// attribute that is undefined or of another type. `where` is the prefix of the message.
void check_node(const onnx::NodeProto& node, const Signature& signature, std::string_view where);

}  // namespace ferrite::from_onnx
