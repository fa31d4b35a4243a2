// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/launch_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/counted.hpp"

namespace ferrite::core::runtime {

namespace {

std::string too_many_or_few(const loop::Kernel& kernel, int64_t tasks) {
  int64_t points = 0;  // where they are too many to count, the greatest number
  bool computes = false;
  for (const auto& statement : kernel.statements) {
    int64_t own = 1;
    bool empty = false;
    for (const auto& var : statement.vars) {
      // A reduction over nothing has a result still.
      empty = empty || (var.extent == 0 && var.kind != loop::VarKind::reduction);
      if (__builtin_mul_overflow(own, std::max<int64_t>(var.extent, 1), &own)) own = INT64_MAX;
    }
    if (empty) continue;
    computes = true;
    if (__builtin_add_overflow(points, own, &points)) points = INT64_MAX;
  }
  // A task that nobody needs harms nothing where there is nothing to compute.
  if (computes ? tasks > 0 && tasks <= points : tasks <= 1) return {};
  return fmt::format("the kernel is said to have {}, and has {}", counted(tasks, "task"),
                     counted(points, "point"));
}

}  // namespace

std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes, const loop::Kernel* kernel) {
  constexpr int64_t most_workspace = int64_t{1} << 40;  // a worker; their sum must not overflow
  if (tasks < 0 || grain < 0 || workspace_bytes < 0 || workspace_bytes > most_workspace)
    return fmt::format("the kernel is said to have {}, a grain of {} and {} of workspace",
                       counted(tasks, "task"), grain, counted(workspace_bytes, "byte"));
  return kernel ? too_many_or_few(*kernel, tasks) : std::string();
}

}  // namespace ferrite::core::runtime
