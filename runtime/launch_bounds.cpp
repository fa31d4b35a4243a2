// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/launch_bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/counted.hpp"

namespace ferrite::core::runtime {

namespace {

std::string too_many_or_few(const loop::Kernel& kernel, int64_t tasks) {
  int64_t points = 0;  // saturates at INT64_MAX
  bool computes = false;
  for (const auto& statement : kernel.statements) {
    int64_t own = 1;
    bool empty = false;
    for (const auto& var : statement.vars) {
      // A reduction over no points still writes its identity.
      empty = empty || (var.extent == 0 && var.kind != loop::VarKind::reduction);
      if (__builtin_mul_overflow(own, std::max<int64_t>(var.extent, 1), &own)) own = INT64_MAX;
    }
    if (empty) continue;
    computes = true;
    if (__builtin_add_overflow(points, own, &points)) points = INT64_MAX;
  }
  // A kernel without points may have one superfluous task.
  if (computes ? tasks > 0 && tasks <= points : tasks <= 1) return {};
  return fmt::format("the kernel is said to have {}, and has {}", counted(tasks, "task"),
                     counted(points, "point"));
}

}  // namespace

std::string unfit(int64_t tasks, int64_t grain, int64_t workspace_bytes, const loop::Kernel* kernel) {
  // Per worker; leaves room for the sum over all workers without overflow.
  constexpr int64_t most_workspace = int64_t{1} << 40;
  if (tasks < 0 || grain < 0 || workspace_bytes < 0 || workspace_bytes > most_workspace)
    return fmt::format("the kernel is said to have {}, a grain of {} and {} of workspace",
                       counted(tasks, "task"), grain, counted(workspace_bytes, "byte"));
  return kernel ? too_many_or_few(*kernel, tasks) : std::string();
}

}  // namespace ferrite::core::runtime
