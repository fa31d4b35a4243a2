// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of a model is not supported, said all at once before any of it is imported.
#pragma once

#include "readers.h"

namespace ferrite::from_onnx {

/// One message for all ops of the nodes, and of the functions that they call, that nothing reads in the model's versions: FE-I20 where one
/// is not known at all, FE-I21 where all are known in other versions. Branches and bodies count once something else is not supported:
/// which of them are needed is known later.
void refuse_unsupported(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                        const Opsets& opsets, ReaderTable& readers);

}  // namespace ferrite::from_onnx
