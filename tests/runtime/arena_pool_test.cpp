// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arenas that runs take from a pool: one after the other share memory, at a time they do not.
#include "runtime/arena_pool.h"

#include <gtest/gtest.h>

#include "driver/session.h"

namespace ferrite::core::runtime {
namespace {

class ArenaPools : public ::testing::Test {
 protected:
  void SetUp() override {
    config::Pipeline pipeline;
    auto& cpu = pipeline.plugins.emplace_back();
    cpu.library = plugin::installed_files().plugin_folder + "/ferrite_cpu.so";
    cpu.why = "test";
    auto session = Session::open(pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
    auto device = Device::open("cpu", session_->registry());
    ASSERT_TRUE(device) << device.error().message();
    device_ = *device;
  }
  ArenaPool::Arena take(int64_t bytes) {
    auto arena = pool_.take(device_, bytes, {});
    EXPECT_TRUE(arena) << arena.error().message();
    return arena ? *arena : ArenaPool::Arena();
  }

  std::unique_ptr<Session> session_;
  std::shared_ptr<const Device> device_;
  ArenaPool pool_;
};

TEST_F(ArenaPools, GiveTheSameMemoryToRunsInTurns) {
  const auto first = take(1 << 20);
  ASSERT_TRUE(first.data);
  pool_.give_back(device_, first, {});
  const auto smaller = take(1 << 10);
  EXPECT_EQ(smaller.data, first.data);
  EXPECT_EQ(smaller.bytes, 1 << 20);
  pool_.give_back(device_, smaller, {});
}

TEST_F(ArenaPools, KeepAsManyAsWereTakenAtATime) {
  const auto small = take(1 << 10), large = take(1 << 20);
  EXPECT_NE(small.data, large.data);
  pool_.give_back(device_, large, {});
  pool_.give_back(device_, small, {});
  const auto fits = take(1 << 9);
  EXPECT_EQ(fits.data, small.data) << "the smallest that is large enough";
  pool_.give_back(device_, fits, {});
  const auto larger = take(1 << 21);
  EXPECT_EQ(larger.bytes, 1 << 21);
  const auto left = take(1 << 10);
  EXPECT_EQ(left.data, small.data) << "the largest made room";
  const auto another = take(1 << 10);
  EXPECT_NE(another.data, small.data);
  for (const auto& arena : {larger, left, another}) pool_.give_back(device_, arena, {});
}

TEST_F(ArenaPools, SayThatMemoryIsShort) {
  const auto refused = pool_.take(device_, INT64_MAX / 2, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "FE-D03");
  EXPECT_EQ(take(0).data, nullptr);
}

}  // namespace
}  // namespace ferrite::core::runtime
