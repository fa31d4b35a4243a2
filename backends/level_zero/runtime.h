// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::level_zero {

/// The GPUs of all drivers that Level Zero's loader finds. The loader is opened when the devices are first
/// requested.
std::unique_ptr<Runtime> make_runtime(Host host, std::string loader_library);

}  // namespace ferrite::level_zero
