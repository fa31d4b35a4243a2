// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ferrite version
#include "ferrite/abi/base.h"
#include "tools/cli/common.h"

namespace ferrite::cli {

std::string version_text() {
  return fmt::format("ferrite {} (plugin ABI {}.{})", FERRITE_VERSION, FE_ABI_MAJOR, FE_ABI_MINOR);
}

Run add_version(CLI::App&) {
  return [] {
    fmt::print("{}\n", version_text());
    return 0;
  };
}

}  // namespace ferrite::cli
