// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One executable, run from several threads at once with a context each; one model, asked for programs from
// several threads.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/session.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core {
namespace {

constexpr int64_t rows = 96, columns = 200;

class Concurrency : public testing::Test {
 protected:
  void SetUp() override {
    path_ =
        std::filesystem::temp_directory_path() / ("ferrite-concurrency-" + std::to_string(getpid()) + ".fe");
    std::ofstream(path_) << "ferrite graph 0\ngraph @softmax(%x: f32[96,200]) -> (%0 \"y\") {\n"
                            "  %0 = softmax(%x) {axis = -1} : f32[96,200]\n}\n";
    auto pipeline = config::read_pipeline({});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
    auto model = Model::open(*session_, path_.string());
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
  }
  void TearDown() override { std::filesystem::remove(path_); }

  Result<std::shared_ptr<Program>> program() {
    CompileOptions options;
    options.device = "cpu";
    options.threads = 2;
    const std::vector<std::vector<int64_t>> dims = {{rows, columns}};
    return model_->program(dims, options);
  }
  /// Runs with inputs of its own `seed`; the greatest deviation from what a plain loop gives, or NaN where a
  /// run failed.
  static float deviation_of_runs(const Program& program, int seed, int runs) {
    runtime::Executable::Context context(*program.compilation.executable);
    std::vector<float> x(rows * columns), y(x.size());
    float worst = 0;
    for (int run = 0; run < runs; ++run) {
      for (size_t k = 0; k < x.size(); ++k)
        x[k] = static_cast<float>((k * 7 + static_cast<size_t>(seed * 31 + run)) % 23) / 5;
      const void* in = x.data();
      void* out = y.data();
      if (!program.run(&context, {&in, 1}, {&out, 1})) return NAN;
      for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int64_t k = 0; k < columns; ++k) sum += std::exp(x[row * columns + k]);
        for (int64_t k = 0; k < columns; ++k)
          worst = std::max(worst, std::abs(y[row * columns + k] - std::exp(x[row * columns + k]) / sum));
      }
    }
    return worst;
  }

  std::filesystem::path path_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Model> model_;
};

TEST_F(Concurrency, OneExecutableRunsFromFourThreads) {
  auto compiled = program();
  ASSERT_TRUE(compiled) << compiled.error().message();
  std::vector<float> worst(4, NAN);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&, k] { worst[static_cast<size_t>(k)] = deviation_of_runs(**compiled, k, 20); });
  for (auto& thread : threads) thread.join();
  for (float deviation : worst) EXPECT_LE(deviation, 1e-5f);
}

TEST_F(Concurrency, FourThreadsAskForTheProgramAndGetOne) {
  std::vector<std::shared_ptr<Program>> programs(4);
  std::vector<std::thread> threads;
  for (auto& slot : programs)
    threads.emplace_back([&] {
      auto compiled = program();
      if (compiled) slot = *compiled;
    });
  for (auto& thread : threads) thread.join();
  ASSERT_NE(programs[0], nullptr);
  for (const auto& one : programs) EXPECT_EQ(one, programs[0]);
}

TEST_F(Concurrency, SessionsOpenFromFourThreads) {
  std::vector<std::string> faults(4);
  std::vector<std::thread> threads;
  for (auto& fault : faults)
    threads.emplace_back([&] {
      auto session = Session::open(session_->pipeline());
      if (!session) fault = session.error().message();
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(faults, std::vector<std::string>(4));
}

/// A table of one slot, which says how many threads were in it at once.
struct Table {
  void* self;
  uint32_t thread_model;
  fe_string id;
  int32_t (*slot)(void* self, fe_call* call, const fe_none* args, fe_none* out);
};
const char* slot_name(const Table&, const void*) { return "slot of table"; }

int most_at_once(uint32_t thread_model) {
  struct State {
    std::atomic<int> inside{0}, most{0};
  } state;
  const Table table{&state, thread_model, {}, [](void* self, fe_call*, const fe_none*, fe_none*) -> int32_t {
                      auto& seen = *static_cast<State*>(self);
                      const int inside = ++seen.inside;
                      int most = seen.most.load();
                      while (most < inside && !seen.most.compare_exchange_weak(most, inside)) {
                      }
                      std::this_thread::sleep_for(std::chrono::milliseconds(5));
                      --seen.inside;
                      return FE_OK;
                    }};
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([&table] {
      abi::Call call;
      for (int round = 0; round < 4; ++round) plugin::invoke(table, table.slot, call, nullptr, nullptr);
    });
  for (auto& thread : threads) thread.join();
  return state.most.load();
}

TEST(ThreadModel, SerialisedTablesAreEnteredByOneThreadAtATime) {
  EXPECT_EQ(most_at_once(FE_THREADS_SERIALISED), 1);
  EXPECT_GT(most_at_once(FE_THREADS_ANY), 1);
}

}  // namespace
}  // namespace ferrite::core
