// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Descriptions of GPUs: "ARCHITECTURE multiprocessors=132 clock=1980000 bandwidth=4800 l2=52428800".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ferrite::emitter {

struct GpuDescription {
  std::string architecture;
  int64_t multiprocessors = 0, clock_khz = 0, gigabytes_a_second = 0, l2_bytes = 0;
};

/// Omits numbers that are not positive.
std::string describe(const GpuDescription& device);
/// Missing numbers have the values of `usual`, whose architecture is only an example for the error text.
/// Throws Failure `code` on unknown keys and if no architecture is named.
GpuDescription parse_gpu_description(std::string_view description, const GpuDescription& usual,
                                     std::string_view code);

}  // namespace ferrite::emitter
