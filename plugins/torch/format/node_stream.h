// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads node streams: a PyTorch program as JSON, made from a graph of torch.fx by python/ferrite/torch.
//
//   {"aten": 1,
//    "inputs": [["x", "float32", [2, 3]], ...],
//    "nodes": [["aten.add.Tensor", "add_1", "model.py:12",
//               [{"v": 0}, 1.5], {"alpha": 2}, [["float32", [2, 3]]]], ...],
//    "outputs": [["y", 7], ...]}
//
// The use of an input's memory may follow its shape: {"mutated_by": number of the value that it
// holds after the run} of the same type, {"donated": true} if the program may overwrite it, or both.
//
// A node is a list of its overload, name, place in the model's source, arguments, keyword arguments and the
// types of its results (null: no tensor). Values are numbered: inputs first, then the results of each node.
// An argument is a number, bool, string, null or list, or an object: {"v": number of a value}, {"d": dtype},
// {"f": "inf", "-inf" or "nan"}.
//
// A target "ferrite:OP" is an op of Ferrite, as passes at pre_grad leave them: its arguments are the operands
// (null: absent), and keyword arguments are attributes, [kind, value] with the kind's number of FE_ATTR_*.
// "ferrite:literal" is a constant of the result's type; its argument has the bytes as hex.
#pragma once

#include "ferrite/provider.hpp"
#include "format/program.h"

namespace ferrite::from_torch {

/// Throws FE-I51 if the text is no node stream of version 1.
Program read_node_stream(Bytes bytes);

}  // namespace ferrite::from_torch
