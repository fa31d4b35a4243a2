// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::hip {

/// The devices of AMD's HIP runtime. The first existing library is opened when the devices are first
/// requested.
std::unique_ptr<Runtime> make_runtime(Host host, std::vector<std::string> libraries);

}  // namespace ferrite::hip
