// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arenas: which buffers share memory, how large an arena is, and where the workspaces of kernels lie.
#include "core/link/arena_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace ferrite::core::link {
namespace {

constexpr int64_t no_limit = INT64_MAX;

int64_t rounded(int64_t bytes, int64_t alignment) {
  return (std::max<int64_t>(bytes, 1) + alignment - 1) / alignment * alignment;
}

ArenaNeeds needs_of(const std::vector<runtime::Lifetime>& lifetimes) {
  ArenaNeeds needs;
  for (loop::BufferId id = 0; id < lifetimes.size(); ++id)
    for (size_t group = lifetimes[id].first; group <= lifetimes[id].last; ++group)
      needs.keep(id, lifetimes[id].bytes, group);
  return needs;
}
int64_t bytes_of(const std::vector<runtime::Lifetime>& lifetimes, int64_t alignment) {
  return ArenaPlan(needs_of(lifetimes), alignment, no_limit).bytes();
}

TEST(ArenaNeeds, CountTheBuffersThatLive) {
  const ArenaNeeds needs = needs_of({{100, 0, 1}, {50, 1, 3}, {7, 3, 3}});
  EXPECT_EQ(needs.bytes_at(0), 100);
  EXPECT_EQ(needs.bytes_at(1), 150);
  EXPECT_EQ(needs.bytes_at(2), 50);
  EXPECT_EQ(needs.bytes_at(3), 57);
  EXPECT_EQ(needs.bytes_at(4), 0);
}

TEST(ArenaNeeds, ReachFromTheFirstGroupToTheLastInAnyOrder) {
  ArenaNeeds needs;
  for (const size_t group : {3, 1, 2}) needs.keep(0, 8, group);
  EXPECT_EQ(needs.bytes_at(0), 0);
  for (const size_t group : {1, 2, 3}) EXPECT_EQ(needs.bytes_at(group), 8) << group;
  EXPECT_EQ(needs.bytes_at(4), 0);
}

TEST(ArenaNeeds, ForgetABufferThatIsDropped) {
  ArenaNeeds needs;
  for (const loop::BufferId id : {5u, 3u, 9u}) needs.keep(id, 10 * id, 0);
  needs.drop(3);
  needs.drop(4);
  // The lifetimes behind the dropped one have moved.
  needs.keep(9, 90, 2);
  EXPECT_EQ(needs.buffers, (std::vector<loop::BufferId>{5, 9}));
  EXPECT_EQ(needs.bytes_at(0), 140);
  EXPECT_EQ(needs.bytes_at(2), 90);
  needs.keep(3, 30, 2);
  EXPECT_EQ(needs.bytes_at(0), 140);
  EXPECT_EQ(needs.bytes_at(2), 120);
}

TEST(ArenaPlan, IsTheBestForFewBuffers) {
  EXPECT_EQ(bytes_of({}, 64), 0);
  EXPECT_EQ(bytes_of({{1, 0, 0}}, 64), 64);
  EXPECT_EQ(bytes_of({{1000, 0, 0}, {10, 1, 1}}, 8), 1000) << "one after the other";
  EXPECT_EQ(bytes_of({{256, 0, 1}, {256, 1, 2}, {256, 2, 3}}, 64), 512) << "a chain needs two at a time";
  EXPECT_EQ(bytes_of({{100, 0, 1}, {50, 1, 2}, {100, 2, 3}}, 1), 150);
  EXPECT_EQ(bytes_of({{100, 0, 5}, {100, 2, 3}, {100, 3, 9}}, 128), 384) << "all live in group 3";
  EXPECT_EQ(bytes_of({{0, 0, 0}, {0, 0, 0}}, 16), 32)
      << "buffers without elements have addresses of their own";
  // A buffer of the whole run, and pairs beside it that fill the same gap.
  EXPECT_EQ(bytes_of({{40, 0, 3}, {20, 0, 1}, {20, 0, 1}, {40, 2, 3}}, 1), 80);
}

/// Whether two parts of an arena overlap.
bool overlap(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

TEST(ArenaPlan, NeverLetsLiveBuffersOverlap) {
  std::mt19937 random(3);
  const auto below = [&](uint32_t count) { return random() % count; };
  for (int round = 0; round < 300; ++round) {
    const int64_t alignment = int64_t{1} << below(9);
    std::vector<runtime::Lifetime> lifetimes(1 + below(20));
    for (auto& life : lifetimes) {
      life.bytes = below(4) == 0 ? below(3) : below(5000);
      life.first = below(10);
      life.last = life.first + below(6);
    }
    const ArenaPlan plan(needs_of(lifetimes), alignment, no_limit);
    int64_t sum = 0;
    std::vector<int64_t> live(16);
    for (const auto& life : lifetimes) {
      sum += rounded(life.bytes, alignment);
      for (size_t group = life.first; group <= life.last; ++group)
        live[group] += rounded(life.bytes, alignment);
    }
    EXPECT_LE(plan.bytes(), sum) << round;
    EXPECT_GE(plan.bytes(), *std::ranges::max_element(live)) << round;
    ASSERT_EQ(plan.offsets().size(), lifetimes.size());
    for (const auto& [a, offset] : plan.offsets()) {
      EXPECT_EQ(offset % alignment, 0);
      EXPECT_GE(offset, 0);
      EXPECT_LE(offset + lifetimes[a].bytes, plan.bytes());
      for (loop::BufferId b = 0; b < a; ++b) {
        if (lifetimes[a].last < lifetimes[b].first || lifetimes[b].last < lifetimes[a].first) continue;
        EXPECT_FALSE(overlap(offset, lifetimes[a].bytes, plan.offsets().at(b), lifetimes[b].bytes))
            << round << ": " << a << " and " << b;
      }
    }
  }
}

TEST(ArenaPlan, GivesAllWorkspacesOneSlotIfThatFits) {
  // The buffer lives while no kernel has a workspace.
  ArenaNeeds needs = needs_of({{1000, 1, 1}});
  needs.workspaces = {{600, 0, 0}, {1000, 2, 2}};
  const ArenaPlan shared(needs, 8, 2000);
  EXPECT_EQ(shared.bytes(), 2000);
  EXPECT_EQ(shared.parts().size(), 2u);
  EXPECT_EQ(shared.workspaces().at(0), shared.workspaces().at(2));
  EXPECT_FALSE(shared.workspaces().contains(1));
  EXPECT_FALSE(overlap(shared.offsets().at(0), 1000, shared.workspaces().at(0), 1000));
  const ArenaPlan apart(needs, 8, 1999);
  EXPECT_EQ(apart.bytes(), 1000) << "each slot is free while no kernel uses it";
  EXPECT_EQ(apart.parts().size(), 3u);
  EXPECT_EQ(apart.workspaces().size(), 2u);
}

TEST(ArenaPlan, KeepsWorkspacesFromBuffersOfTheirKernels) {
  ArenaNeeds needs = needs_of({{500, 0, 1}, {500, 1, 2}});
  needs.workspaces = {{100, 0, 0}, {300, 1, 1}, {200, 2, 2}};
  for (const int64_t most : {no_limit, int64_t{0}}) {
    const ArenaPlan plan(needs, 4, most);
    EXPECT_EQ(plan.bytes(), 1300) << "both buffers and a workspace live in group 1";
    for (const auto& want : needs.workspaces)
      for (loop::BufferId id = 0; id < 2; ++id)
        if (needs.lifetimes[id].first <= want.first && want.first <= needs.lifetimes[id].last) {
          EXPECT_FALSE(overlap(plan.offsets().at(id), 500, plan.workspaces().at(want.first), want.bytes));
        }
  }
}

TEST(ArenaPlan, IsPrintedALineForEachPart) {
  ArenaNeeds needs;
  needs.keep(7, 100, 0);
  needs.keep(7, 100, 1);
  needs.keep_packed(8, 40, 0);
  needs.workspaces = {{100, 1, 1}};
  needs.workers = 2;
  EXPECT_EQ(ArenaPlan(needs, 128, no_limit).text(),
            "  @7 offset 0 bytes 100 groups 0 to 1\n"
            "  packed offset 128 bytes 40 groups 0 to 0\n"
            "  workspace offset 128 bytes 50 workers 2 groups 1 to 1\n");
  ArenaPlan empty(ArenaNeeds(), 64, no_limit);
  empty.keep_apart();
  EXPECT_EQ(empty.bytes(), 0) << "nothing needs a red zone";
  EXPECT_EQ(empty.text(), "");
}

}  // namespace
}  // namespace ferrite::core::link
