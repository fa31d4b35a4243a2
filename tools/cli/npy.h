// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NumPy's .npy files: versions 1 to 3, little-endian.
#pragma once

#include <string>

#include "tools/cli/tensor.h"

namespace ferrite::cli {

/// FE-C10 where the file cannot be read, FE-C11 where it is no .npy file or is damaged, FE-C12 for an
/// unsupported dtype. Arrays in Fortran order are transposed.
core::Result<Tensor> read_npy(const std::string& path);

/// Types that NumPy lacks are written as unsigned integers of their width, those below 8 bits as a flat array
/// of bytes.
core::Result<void> write_npy(const std::string& path, const Tensor& tensor);

}  // namespace ferrite::cli
