// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defines an op that the standard plugin has, behind one that is its own.
#include "ferrite/plugin.hpp"

FERRITE_PLUGIN("test.duplicate_op", "1.0.0",
               ferrite::op_def("test.own").operands("x").infer(ferrite::same_as(0)),
               ferrite::op_def("relu").operands("x").infer(ferrite::same_as(0)))
