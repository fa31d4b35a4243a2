// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file that fixes the candidates of a compilation's kernels, so that another compilation gets the same.
#pragma once

#include <span>
#include <string>

#include "core/select/decisions.h"

namespace ferrite::core::tune {

/// Errors are those of reading a TOML file by its keys: FE-M01 to FE-M04, FE-M08, FE-M14.
Result<select::DecisionLock> read_lock(const std::string& path);

/// Writes the choices of a compilation, and the numbers of its devices by which groups were formed. Equal
/// decisions give equal files. FE-C10 where the file cannot be written.
Result<void> write_lock(const std::string& path, std::span<const select::Taken> taken,
                        const runtime::Devices& devices);

}  // namespace ferrite::core::tune
