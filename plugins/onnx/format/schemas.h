// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The signatures of all ONNX operators: how many inputs and outputs a node has, and which attributes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/proto.h"

namespace ferrite::from_onnx {

/// An operator from the operator set `since` on, until the next signature of that name.
struct Signature {
  std::string_view domain, name;  ///< "" = ai.onnx
  int since;
  bool removed;  ///< these operator sets lack it; the rest is empty
  int least_inputs, most_inputs, least_outputs, most_outputs;  ///< most: -1 for any number
  std::string_view attributes;                                 ///< "alpha:f axis:i!", as schemas.def says
  std::string_view inputs, outputs;                            ///< "data indices"
};
/// "input 1 (indices)": what an op calls it, the last name for all that follow; without the name where the op is not known.
std::string input_text(const Signature* signature, size_t k);
std::string output_text(const Signature* signature, size_t k);

/// Sorted by domain, name and version.
std::span<const Signature> signatures();
/// The signature in an operator set; null where ONNX has no such op there.
const Signature* signature_of(std::string_view domain, std::string_view name, int64_t opset);

/// FE-I23 where the node has another number of inputs or outputs than the op, or lacks an attribute that the op needs, or has
/// one that the op does not define or of another type. `where` begins the message.
void check_node(const onnx::NodeProto& node, const Signature& signature, std::string_view where);

}  // namespace ferrite::from_onnx
