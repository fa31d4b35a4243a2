// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A reduction that is divided uses the whole machine: each worker that a program may use has tasks of its
// launch. There are no more of them, whoever else runs the program.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "core/schedule/features.h"
#include "plugin_support.h"
#include "runtime/host.h"
#include "runtime/pool.h"

namespace ferrite::core::plugin::test {
namespace {

/// The services of a host whose workers wait for each other: who takes a range of a launch begins with it
/// once each worker that the launch may use has one. So none is left out because the others were sooner done,
/// however busy the machine is, and a launch that does not reach all of them is seen.
class MeetingHost {
 public:
  struct Launch {
    int64_t tasks = 0;
    std::vector<int64_t> of_worker;  ///< tasks
    bool met = true;                 ///< each worker came
  };

  MeetingHost() : services(*make_host()) {
    services.self = this;
    services.parallel_for = [](void* self, fe_call*, const fe_parallel_args* args, fe_none*) -> int32_t {
      static_cast<MeetingHost*>(self)->launch(*args);
      return FE_OK;
    };
  }
  MeetingHost(const MeetingHost&) = delete;

  fe_host services;
  std::vector<Launch> launches;
  std::set<std::thread::id> threads;  ///< that had tasks
  int64_t most_at_work = 0;           ///< threads at a time, of all launches together

 private:
  struct Meeting {
    MeetingHost& host;
    const fe_parallel_args& args;
    Launch launch;
    size_t missing = launch.of_worker.size();
    std::mutex mutex{};
    std::condition_variable changed{};

    static void work(void* self, int64_t begin, int64_t end, int64_t worker) {
      auto& meeting = *static_cast<Meeting*>(self);
      meeting.host.begin();
      meeting.wait(end - begin, static_cast<size_t>(worker));
      meeting.args.fn(meeting.args.context, begin, end, worker);
      meeting.host.end();
    }
    void wait(int64_t tasks, size_t worker) {
      std::unique_lock lock(mutex);
      if (launch.of_worker[worker] == 0) --missing;
      launch.of_worker[worker] += tasks;
      changed.notify_all();
      // Only where somebody never comes it is as long; nobody waits for them again.
      if (!changed.wait_for(lock, std::chrono::seconds(15), [&] { return missing == 0 || !launch.met; }))
        launch.met = false;
    }
  };

  void launch(const fe_parallel_args& args) {
    auto& pool = core::runtime::Pool::process();
    const auto workers = static_cast<size_t>(args.workers > 0 ? args.workers : pool.workers());
    Meeting meeting{*this, args, {args.count, std::vector<int64_t>(workers)}};
    pool.parallel_for(args.count, args.grain, args.workers, &meeting, Meeting::work);
    const std::lock_guard lock(mutex_);
    launches.push_back(std::move(meeting.launch));
  }
  void begin() {
    const std::lock_guard lock(mutex_);
    threads.insert(std::this_thread::get_id());
    most_at_work = std::max(most_at_work, ++at_work_);
  }
  void end() {
    const std::lock_guard lock(mutex_);
    --at_work_;
  }

  std::mutex mutex_;  // guards what several launches at once change
  int64_t at_work_ = 0;
};

const std::string sum_text = R"(ferrite graph 0
graph @full(%x: f32[4194304]) -> (%s "s") {
  %s = reduce_sum(%x) {axes = [0], keepdims = false}
}
)";

class SplitReduction : public testing::Test {
 protected:
  void SetUp() override {
    auto cpu = standard_ops();
    cpu.library = installed_files().plugin_folder + "/ferrite_cpu.so";
    for (const auto& one : {standard_ops(), cpu}) {
      const auto loaded = registry_.load(one);
      ASSERT_TRUE(loaded) << loaded.error().message();
    }
    const auto rules = registry_.compile_rules();
    ASSERT_TRUE(rules) << rules.error().message();
    // Small whole numbers: their sum is exact in any order.
    for (size_t k = 0; k < x_.size(); ++k) x_[k] = static_cast<float>(k % 7);
    sum_ = std::accumulate(x_.begin(), x_.end(), 0.0);
  }

  /// A full sum that may use so many workers.
  Result<Compilation> compile(int64_t threads, schedule::Features without = {}) {
    graph::ParseOptions parsing;
    parsing.registry = &registry_.ops();
    FE_TRY(auto parsed, graph::parse(sum_text, parsing));
    CompileOptions options;
    options.device = "cpu";
    options.threads = threads;
    options.without = without;
    Ledger ledger;
    return core::compile(std::move(parsed), registry_, options, ledger);
  }

  void expect_sum(const core::runtime::Executable& executable) {
    core::runtime::Executable::Context context(executable);
    float sum = 0;
    const void* in = x_.data();
    void* out = &sum;
    const auto ran = executable.run(context, {&in, 1}, {&out, 1});
    ASSERT_TRUE(ran) << ran.error().message();
    EXPECT_EQ(sum, sum_);
  }

  /// Compiles and runs one; leaves the launches that were given to more than one worker.
  void run(int64_t threads, schedule::Features without, size_t steps) {
    const auto compiled = compile(threads, without);
    ASSERT_TRUE(compiled) << compiled.error().message();
    EXPECT_EQ(compiled->executable->steps.size(), steps);
    host_.launches.clear();
    expect_sum(*compiled->executable);
  }

  MeetingHost host_;
  Registry registry_{host_.services};
  std::vector<float> x_ = std::vector<float>(4194304);
  double sum_ = 0;
};

TEST_F(SplitReduction, HasTasksForEachWorker) {
  for (const int64_t threads : {2, 4}) {
    SCOPED_TRACE(threads);
    run(threads, {}, 2);
    // The parts; what they give is summed by one worker.
    ASSERT_EQ(host_.launches.size(), 1u);
    const auto& launch = host_.launches[0];
    EXPECT_TRUE(launch.met);
    EXPECT_GE(launch.tasks, threads);
    ASSERT_EQ(launch.of_worker.size(), static_cast<size_t>(threads));
    for (const int64_t tasks : launch.of_worker) EXPECT_GE(tasks, 1);
    EXPECT_EQ(std::accumulate(launch.of_worker.begin(), launch.of_worker.end(), int64_t{0}), launch.tasks);
  }
}

// What the launches above are compared with: a sum that is not divided keeps one worker busy.
TEST_F(SplitReduction, IsWhatSpreadsAFullSum) {
  schedule::Features without;
  without.add(schedule::Feature::split);
  run(4, without, 1);
  EXPECT_EQ(host_.launches.size(), 0u);
}

size_t threads_of_process() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(tasks), end(tasks)));
}

// The callers are threads of the program, of a pool of its own for one. All workers of a launch are at work
// at one time, so that a second launch beside it would be seen; workers that only other programs may use get
// none of it.
TEST_F(SplitReduction, HasNoMoreThreadsAtWorkThanItMayUseWhereSeveralRunIt) {
  constexpr size_t runs = 5;
  core::runtime::Pool::process().grow(6);
  for (const int64_t threads : {2, 3})
    for (const size_t callers : {1, 2, 4}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, " << callers << " callers");
      const auto compiled = compile(threads);
      ASSERT_TRUE(compiled) << compiled.error().message();
      host_.launches.clear();
      host_.threads.clear();
      host_.most_at_work = 0;
      const auto threads_before = threads_of_process();
      std::vector<std::thread> at_once;
      for (size_t caller = 0; caller < callers; ++caller)
        at_once.emplace_back([&] {
          for (size_t run = 0; run < runs; ++run) expect_sum(*compiled->executable);
          EXPECT_LE(threads_of_process(), threads_before + callers);
        });
      for (auto& caller : at_once) caller.join();
      EXPECT_EQ(host_.launches.size(), callers * runs);
      EXPECT_TRUE(std::ranges::all_of(host_.launches, &MeetingHost::Launch::met));
      EXPECT_EQ(host_.most_at_work, threads);
      EXPECT_LE(host_.threads.size(), callers + static_cast<size_t>(threads) - 1);
    }
}

}  // namespace
}  // namespace ferrite::core::plugin::test
