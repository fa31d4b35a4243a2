// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Programs without writes. A graph's values never change, and plain torch.export leaves calls that write into
// tensors: "aten.add_.Tensor". Such a call becomes its functional form and gives the tensor, the tensor that
// it is a view of, and that one's other views new values.
#pragma once

#include "format/program.h"

namespace ferrite::from_torch {

/// Needs the layouts of the values, which say where `reshape` and others give a view. A written input gets
/// `mutated_by`; a written weight or buffer has its new contents in the rest of the program only. Calls whose
/// functional form nothing reads stay, and the build refuses them (FE-I50). FE-I53: writes to elements that
/// overlap in memory, or through a view that has no inverse.
Program without_writes(Program program);

}  // namespace ferrite::from_torch
