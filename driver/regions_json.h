// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text in which programs in other languages get the changed regions of a graph.
#pragma once

#include <string>
#include <vector>

#include "core/passes/joint/changed_regions.h"

namespace ferrite::core {

/// As JSON: [{"nodes": [name...], "passes": [name...], "inputs": [name...],
///   "constants": [[dtype, dims, bytes as hex]...],
///   "ops": [[op, [number of a value or null...], {attribute: [kind, value]}, number of results]...],
///   "outputs": [[name, number of a value]...]}]
/// Values are numbered: inputs, then constants, then the results of each op. Kinds are those of FE_ATTR_*;
/// floats that JSON does not have are {"f": "inf", "-inf" or "nan"}.
Result<std::string> regions_json(const std::vector<joint::ChangedRegion>& regions);

}  // namespace ferrite::core
