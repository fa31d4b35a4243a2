// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <memory>
#include <string>

#include "ferrite/provider.hpp"

namespace ferrite::cuda {

inline constexpr const char* driver_library = "libcuda.so.1";

/// The devices of NVIDIA's driver, which is opened when the devices are first requested.
std::unique_ptr<Runtime> make_runtime(Host host, std::string driver_library);

}  // namespace ferrite::cuda
