// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Children of forks, which are made while other threads compile and run models, do the same with the handles
// that they find.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/ferrite.h"

namespace {

constexpr int64_t columns = 4096;
constexpr unsigned seconds = 40;
const std::string model_text =
    "ferrite graph 0\n"
    "graph @rows(%x: f32[$n,4096]) -> (%0 \"exp\", %1 \"sum\") {\n"
    "  symbol $n in [1, 4096]\n"
    "  %0 = exp(%x)\n"
    "  %1 = reduce_sum(%0) {axes = [1], keepdims = false}\n"
    "}\n";

/// A float tensor on memory of its own.
struct Bound {
  std::vector<float> elements;
  std::vector<int64_t> shape;
  DLTensor tensor{};
  Bound(std::vector<int64_t> dims, float value) : shape(std::move(dims)) {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    elements.assign(count, value);
    tensor.data = elements.data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape.data();
  }
};

std::string last_code() {
  ferrite_error error{};
  error.size = sizeof error;
  ferrite_last_error(&error);
  return error.code;
}

/// Compiles for so many rows, unless that was done, runs, and compares the results.
bool runs(ferrite_model* model, int64_t rows) {
  Bound x({rows, columns}, 0.5f), exp({rows, columns}, 0), sum({rows}, 0);
  const std::array<const DLTensor*, 1> inputs = {&x.tensor};
  const std::array<DLTensor*, 2> outputs = {&exp.tensor, &sum.tensor};
  if (ferrite_run(model, inputs.data(), 1, outputs.data(), 2) != FERRITE_OK) return false;
  const float expected = std::exp(0.5f);
  for (const float one : exp.elements)
    if (std::abs(one - expected) > 1e-5f) return false;
  for (const float one : sum.elements)
    if (std::abs(one / (expected * columns) - 1) > 1e-4f) return false;
  return true;
}

class ForkTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ =
        std::filesystem::temp_directory_path() / ("ferrite-fork-test-" + std::to_string(::getpid()) + ".fe");
    std::ofstream(file_) << model_text;
    ferrite_session_options options{};
    options.size = sizeof options;
    options.threads = 3;
    ASSERT_EQ(ferrite_session_open(&options, &session_), FERRITE_OK);
    ASSERT_EQ(ferrite_model_load(session_, file_.c_str(), &model_), FERRITE_OK);
  }
  void TearDown() override {
    ferrite_model_free(model_);
    ferrite_session_close(session_);
    std::filesystem::remove(file_);
  }
  /// The status of a child that ends as `work` says, or by exit() once the handles are freed. A signal ends a
  /// child that hangs.
  template <class Work>
  int status_of_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(seconds);
      work();
      ferrite_model_free(model_);
      ferrite_session_close(session_);
      std::exit(EXIT_SUCCESS);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  std::filesystem::path file_;
  ferrite_session* session_ = nullptr;
  ferrite_model* model_ = nullptr;
};

TEST_F(ForkTest, AChildCompilesAndRunsWhateverOtherThreadsDid) {
  ASSERT_TRUE(runs(model_, 512));
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::thread running([&] {
    while (!done) wrong += runs(model_, 512) ? 0 : 1;
  });
  std::thread compiling([&] {
    for (int64_t rows = 1; !done; ++rows) wrong += runs(model_, rows) ? 0 : 1;
  });
  for (int turn = 0; turn < 10; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(7 * turn));
    EXPECT_EQ(status_of_child([&] {
                // Known sizes; those that a thread of the parent may just have compiled; others.
                for (const int64_t rows : {512, turn + 2, turn + 3, 3000})
                  if (!runs(model_, rows)) ::_exit(EXIT_FAILURE);
                std::ifstream status("/proc/self/status");
                for (std::string line; std::getline(status, line);)
                  if (line.starts_with("Threads:") && std::stoi(line.substr(8)) < 3) ::_exit(2);
              }),
              0)
        << turn;
  }
  done = true;
  running.join();
  compiling.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(runs(model_, 512));
}

/// What two threads do in calls at a time, until a child has ended.
struct TwoCalls {
  std::atomic<int> inside{0};
  std::atomic<bool> done{false};
  int status = -1;
  ferrite_session* session = nullptr;
  ferrite_model* model = nullptr;
};

// A thread in a call, from a plugin for one, forks without waiting for others: they may wait for it.
TEST_F(ForkTest, AChildOfAForkWithinACallRefusesWhenOthersWereInCalls) {
  TwoCalls calls;
  calls.session = session_;
  calls.model = model_;
  std::thread other([&] {
    EXPECT_EQ(ferrite_session_passes(session_, "pre_grad", &calls,
                                     [](void* context, const char*, uint64_t) {
                                       auto& both = *static_cast<TwoCalls*>(context);
                                       both.inside = 1;
                                       while (!both.done) std::this_thread::yield();
                                     }),
              FERRITE_OK);
  });
  while (calls.inside == 0) std::this_thread::yield();
  EXPECT_EQ(ferrite_session_passes(session_, "pre_grad", &calls,
                                   [](void* context, const char*, uint64_t) {
                                     auto& both = *static_cast<TwoCalls*>(context);
                                     const pid_t child = ::fork();
                                     if (child == 0) {
                                       ::alarm(seconds);
                                       const bool refused = !runs(both.model, 8) && last_code() == "FE-X42";
                                       ferrite_model_free(both.model);
                                       ferrite_session_close(both.session);
                                       std::exit(refused ? EXIT_SUCCESS : EXIT_FAILURE);
                                     }
                                     ::waitpid(child, &both.status, 0);
                                   }),
            FERRITE_OK);
  calls.done = true;
  other.join();
  EXPECT_EQ(calls.status, 0);
  EXPECT_TRUE(runs(model_, 8));
}

TEST_F(ForkTest, AChildOfAForkWithinACallMayGoOn) {
  TwoCalls calls;
  calls.model = model_;
  EXPECT_EQ(ferrite_session_passes(session_, "pre_grad", &calls,
                                   [](void* context, const char*, uint64_t) {
                                     auto& own = *static_cast<TwoCalls*>(context);
                                     const pid_t child = ::fork();
                                     if (child == 0) {
                                       ::alarm(seconds);
                                       ::_exit(runs(own.model, 8) ? EXIT_SUCCESS : EXIT_FAILURE);
                                     }
                                     ::waitpid(child, &own.status, 0);
                                   }),
            FERRITE_OK);
  EXPECT_EQ(calls.status, 0);
}

}  // namespace
