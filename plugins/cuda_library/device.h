// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The target device, in the numbers that cost models need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/dtype.hpp"

namespace ferrite::cuda_library {

struct Device {
  std::string architecture;  ///< "sm_90a"
  int generation = 0;        ///< e.g. 90
  double multiprocessors = 108, clock = 1.4e9 /* Hz */, bandwidth = 1.5e12 /* bytes a second */;

  /// Operations per second, where a multiply-add counts as two; with matrix instructions if the type has
  /// them. `tf32`: f32 may be rounded to it.
  double operations(DType type, bool tf32) const;
};

/// Parses a description of the runtime: "sm_90a multiprocessors=132 clock=1980000 bandwidth=4814 ...", in kHz
/// and GB/s; unknown values are missing.
Device parse_device(std::string_view description);

}  // namespace ferrite::cuda_library
