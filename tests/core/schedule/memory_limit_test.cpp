// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory that a run may have beyond that of its values.
#include <gtest/gtest.h>

#include "core/schedule/memory/kernel_order.h"

namespace ferrite::core::schedule {
namespace {

constexpr int64_t mib = 1 << 20;

TEST(MemoryLimits, LeaveWorkspacesWhatValuesLeave) {
  const MemoryLimit host{.op_by_op = 100 * mib, .workers = 2};
  EXPECT_TRUE(host.allows(2 * mib, 100 * mib));
  EXPECT_FALSE(host.allows(3 * mib, 100 * mib));
  EXPECT_FALSE(host.allows(1, 110 * mib)) << "the limit is taken";
}

TEST(MemoryLimits, AlwaysLeaveALibraryOfADeviceItsCounters) {
  // A copy of an operand took more than the limit.
  const MemoryLimit device{.op_by_op = 100 * mib, .workers = 2, .device_workers = 132};
  EXPECT_TRUE(device.allows(1 * mib, 150 * mib));
  EXPECT_FALSE(device.allows(1 * mib + 1, 150 * mib));
}

TEST(MemoryLimits, AreNoneWhereTheModelIsUnknown) {
  EXPECT_TRUE(MemoryLimit().allows(int64_t{1} << 40, int64_t{1} << 40));
}

}  // namespace
}  // namespace ferrite::core::schedule
