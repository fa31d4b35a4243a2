// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pool: ranges cover the whole once, whatever grain and limit; every worker comes, and no more of them
// than may; callers at once, nested calls, growth.
#include "runtime/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>

namespace ferrite::core::runtime {
namespace {

/// How often each item was visited, and which workers came.
struct Visits {
  explicit Visits(int64_t count) : items(static_cast<size_t>(count)) {}
  std::vector<std::atomic<int>> items;
  std::atomic<int64_t> shortest{INT64_MAX}, greatest_worker{0}, ranges{0};

  static void visit(void* context, int64_t begin, int64_t end, int64_t worker) {
    auto& self = *static_cast<Visits*>(context);
    for (int64_t k = begin; k < end; ++k) self.items[static_cast<size_t>(k)].fetch_add(1);
    // The last range holds what is left.
    if (end != static_cast<int64_t>(self.items.size())) lower(self.shortest, end - begin);
    raise(self.greatest_worker, worker);
    self.ranges.fetch_add(1);
  }
  static void lower(std::atomic<int64_t>& least, int64_t value) {
    for (int64_t seen = least; value < seen && !least.compare_exchange_weak(seen, value);) {
    }
  }
  static void raise(std::atomic<int64_t>& most, int64_t value) {
    for (int64_t seen = most; value > seen && !most.compare_exchange_weak(seen, value);) {
    }
  }
  bool each_once() const {
    for (const auto& item : items)
      if (item != 1) return false;
    return true;
  }
};

TEST(Pool, CoversEveryItemOnceWithinGrainAndLimit) {
  Pool pool(3);
  for (int64_t count : {1, 2, 7, 64, 1000})
    for (int64_t grain : {1, 3, 64, 5000})
      for (int64_t limit : {0, 1, 2, 100}) {
        Visits visits(count);
        pool.parallel_for(count, grain, limit, &visits, Visits::visit);
        EXPECT_TRUE(visits.each_once()) << count << " " << grain << " " << limit;
        EXPECT_GE(visits.shortest, std::min(grain, count)) << count << " " << grain << " " << limit;
        EXPECT_LT(visits.greatest_worker, limit == 0 ? 3 : std::min<int64_t>(limit, 3));
      }
}

/// Items that are begun and not done before all of them are begun: each has to have a worker of its own.
struct Meeting {
  explicit Meeting(int64_t count) : missing(count) {}
  std::mutex mutex;
  std::condition_variable changed;
  int64_t missing;
  std::set<int64_t> workers;
  bool met = true;

  static void visit(void* context, int64_t begin, int64_t end, int64_t worker) {
    auto& self = *static_cast<Meeting*>(context);
    std::unique_lock lock(self.mutex);
    self.workers.insert(worker);
    self.missing -= end - begin;
    self.changed.notify_all();
    // Only where somebody never comes it is as long; nobody waits for them again.
    if (!self.changed.wait_for(lock, std::chrono::seconds(15),
                               [&] { return self.missing == 0 || !self.met; }))
      self.met = false;
  }
};

TEST(Pool, GivesEveryWorkerARangeWhereEachHasTo) {
  for (int64_t workers : {2, 4, 7}) {
    Pool pool(workers);
    // All of them, then two; awake, then parked.
    for (int64_t count : {workers, int64_t{2}, workers}) {
      Meeting meeting(count);
      pool.parallel_for(count, 1, count, &meeting, Meeting::visit);
      EXPECT_TRUE(meeting.met) << count << " of " << workers;
      EXPECT_EQ(meeting.workers.size(), static_cast<size_t>(count)) << "of " << workers;
      EXPECT_EQ(*meeting.workers.rbegin(), count - 1) << "of " << workers;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

TEST(Pool, DoesNothingForNothing) {
  Pool pool(2);
  Visits visits(1);
  pool.parallel_for(0, 1, 0, &visits, Visits::visit);
  EXPECT_EQ(visits.ranges, 0);
}

TEST(Pool, ServesCallersAtOnceOneAfterTheOther) {
  Pool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&, caller] {
      for (int64_t run = 0; run < 200; ++run) {
        Visits visits(50 + caller * 13 + run % 7);
        pool.parallel_for(static_cast<int64_t>(visits.items.size()), 1, 0, &visits, Visits::visit);
        if (!visits.each_once()) wrong.fetch_add(1);
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

/// Threads that work for a pool, of all calls together.
struct Crowd {
  std::atomic<int64_t> now{0}, most{0};
};

/// A meeting that counts who is there among those of other calls.
struct CrowdedMeeting {
  Meeting meeting;
  Crowd& crowd;

  static void visit(void* context, int64_t begin, int64_t end, int64_t worker) {
    auto& self = *static_cast<CrowdedMeeting*>(context);
    Visits::raise(self.crowd.most, ++self.crowd.now);
    Meeting::visit(&self.meeting, begin, end, worker);
    --self.crowd.now;
  }
};

// Callers are threads of the program, of a pool of its own for one; each of them is worker 0 of its call. All
// workers of a call are there at one time, so that a second call beside it would be seen.
TEST(Pool, HasNoMoreThreadsAtWorkThanTheLimitWhereSeveralCall) {
  Pool pool(6);
  for (const int64_t limit : {2, 3}) {
    Crowd crowd;
    std::atomic<int> missed{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller)
      callers.emplace_back([&] {
        for (int run = 0; run < 25; ++run) {
          CrowdedMeeting crowded{Meeting(limit), crowd};
          pool.parallel_for(limit, 1, limit, &crowded, CrowdedMeeting::visit);
          if (!crowded.meeting.met) missed.fetch_add(1);
        }
      });
    for (auto& caller : callers) caller.join();
    EXPECT_EQ(missed, 0) << limit;
    EXPECT_EQ(crowd.most, limit);
  }
}

TEST(Pool, RunsANestedCallOnItsCallerAlone) {
  struct Outer {
    Pool pool{3};
    std::atomic<int64_t> inner_items{0}, inner_ranges{0};
  } outer;
  outer.pool.parallel_for(8, 1, 0, &outer, [](void* context, int64_t begin, int64_t end, int64_t) {
    for (int64_t k = begin; k < end; ++k)
      static_cast<Outer*>(context)->pool.parallel_for(
          100, 1, 0, context, [](void* inner, int64_t first, int64_t last, int64_t worker) {
            static_cast<Outer*>(inner)->inner_items.fetch_add(last - first);
            static_cast<Outer*>(inner)->inner_ranges.fetch_add(worker == 0 ? 1 : 1000);
          });
  });
  EXPECT_EQ(outer.inner_items, 800);
  EXPECT_EQ(outer.inner_ranges, 8);
}

TEST(Pool, GrowsAndNeverShrinks) {
  Pool pool(1);
  EXPECT_EQ(pool.workers(), 1);
  for (int64_t workers : {2, 4, 3}) {
    pool.grow(workers);
    EXPECT_EQ(pool.workers(), std::max<int64_t>(workers, workers == 3 ? 4 : workers));
    Visits visits(500);
    pool.parallel_for(500, 1, 0, &visits, Visits::visit);
    EXPECT_TRUE(visits.each_once());
  }
}

TEST(Pool, WakesWorkersThatParked) {
  Pool pool(2);
  for (int run = 0; run < 20; ++run) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    Visits visits(64);
    pool.parallel_for(64, 1, 0, &visits, Visits::visit);
    EXPECT_TRUE(visits.each_once());
  }
}

}  // namespace
}  // namespace ferrite::core::runtime
