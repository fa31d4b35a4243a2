// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite version
#include "cli/common.h"
#include "ferrite/abi/base.h"

namespace ferrite::cli {

Run add_version(CLI::App&) {
  return [] {
    fmt::print("ferrite {} (plugin ABI {}.{})\n", FERRITE_VERSION, FE_ABI_MAJOR, FE_ABI_MINOR);
    return 0;
  };
}

}  // namespace ferrite::cli
