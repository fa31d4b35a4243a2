// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/kernel/compiled.h"

#include <fmt/format.h>

namespace ferrite::core::kernel {

std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes) {
  constexpr int64_t most_workspace = int64_t{1} << 40;  // a worker; their sum must not overflow
  if (tasks >= 0 && grain >= 0 && workspace_bytes >= 0 && workspace_bytes <= most_workspace) return {};
  return fmt::format("the kernel is said to have {} tasks, a grain of {} and {} bytes of workspace", tasks,
                     grain, workspace_bytes);
}

}  // namespace ferrite::core::kernel
