// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reports everything in a model that is not supported, before any of it is imported.
#pragma once

#include "readers.h"

namespace ferrite::from_onnx {

/// One message for all ops, of the nodes and of the functions that they call, that nothing reads in the
/// model's versions: FE-I20 if one is not known at all, FE-I21 if all are known in other versions. Branches
/// and bodies are included once something else is not supported; whether they are needed is known only later.
void refuse_unsupported(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                        const Opsets& opsets, ReaderTable& readers);

}  // namespace ferrite::from_onnx
