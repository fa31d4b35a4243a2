// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime of this machine: its memory, and its cores through the host's threads.
#pragma once

#include <memory>

#include "ferrite/provider.hpp"

namespace ferrite::cpu {

/// Runtime "cpu" with one device. Callable from any thread.
std::unique_ptr<Runtime> make_runtime(Host host);

}  // namespace ferrite::cpu
