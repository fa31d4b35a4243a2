// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime: this machine's memory and cores, through the host's threads.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// Runtime "cpu", one device. Any-thread.
std::unique_ptr<Runtime> make_runtime(Host host);

}  // namespace ferrite::cpu
