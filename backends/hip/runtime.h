// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::hip {

/// Devices of AMD's HIP runtime. The first of the libraries that there is is opened when the devices are first asked for.
std::unique_ptr<Runtime> make_runtime(Host host, std::vector<std::string> libraries);

}  // namespace ferrite::hip
