// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a provider for grids gives to the runtime of its devices: how a kernel is launched, and its code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// Blocks of one launch, at most, for every driver.
inline constexpr int64_t most_blocks = 0x7fff'ffff;

struct DeviceCode {
  std::string format;  ///< of `code`, with the vendor's name: what one runtime writes no other takes
  std::string entry;
  int64_t blocks = 0;
  unsigned threads = 1;                      ///< of a block
  unsigned shared_bytes = 0;                 ///< that a launch asks for
  bool overlaps = false;                     ///< waits itself for the launches before it
  std::vector<fe_argument_needs> arguments;  ///< one a buffer
  std::string code;
};

std::string write_device_code(const DeviceCode& code);
/// Throws Failure `error_code` where the bytes are none, or of another format.
DeviceCode read_device_code(Bytes bytes, std::string_view format, std::string_view error_code);

}  // namespace ferrite::emitter
