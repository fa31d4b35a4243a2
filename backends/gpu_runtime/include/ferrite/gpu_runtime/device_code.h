// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled kernel as a GPU provider passes it to the runtime: the code and its launch parameters.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrite/provider.hpp"

namespace ferrite::emitter {

/// Maximum number of blocks per launch, over all drivers.
inline constexpr int64_t most_blocks = 0x7fff'ffff;

struct DeviceCode {
  std::string format;  ///< format of `code`, named after the vendor; a runtime accepts only its own format
  std::string entry;
  int64_t blocks = 0;
  unsigned threads = 1;                      ///< threads of a block
  unsigned shared_bytes = 0;                 ///< dynamic shared memory that a launch requests
  bool overlaps = false;                     ///< the kernel itself waits for earlier launches
  std::vector<fe_argument_needs> arguments;  ///< one per buffer
  std::string code;
};

std::string write_device_code(const DeviceCode& code);
/// Throws Failure `error_code` if the bytes are no DeviceCode, or of another format.
DeviceCode read_device_code(Bytes bytes, std::string_view format, std::string_view error_code);

}  // namespace ferrite::emitter
