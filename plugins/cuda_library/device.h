// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device that is compiled for, in the numbers that costs are made of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrite/dtype.hpp"

namespace ferrite::cuda_library {

struct Device {
  std::string architecture;  ///< "sm_90a"
  int generation = 0;        ///< 90 of it
  double multiprocessors = 108, clock = 1.4e9 /* Hz */, bandwidth = 1.5e12 /* bytes a second */;

  /// Operations a second, a multiplication and an addition being two, by matrix instructions where the type has some. `tf32`: f32 may
  /// be rounded to it.
  double operations(DType type, bool tf32) const;
};

/// Of a description as the runtime gives it: "sm_90a multiprocessors=132 clock=1980000 bandwidth=4814 ...", where what is not known
/// is missing: kHz, GB/s.
Device parse_device(std::string_view description);

}  // namespace ferrite::cuda_library
