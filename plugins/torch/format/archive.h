// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads archives of torch.export.save (.pt2): a zip file, not compressed, with the program as JSON and the
// bytes of the weights. The weights are not copied: the graph refers to their ranges of the file.
#pragma once

#include <string_view>

#include "ferrite/provider.hpp"
#include "format/program.h"

namespace ferrite::from_torch {

/// Errors: FE-I51 for damage or an unknown version of the format, FE-I53 for symbolic sizes, weights that are
/// pickled, compressed or not dense, and arguments that are no tensors or numbers; FE-I19 for dtypes.
Program read_archive(std::string_view path, Bytes bytes);

}  // namespace ferrite::from_torch
