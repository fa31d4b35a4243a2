// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on NVIDIA's own driver, if the machine has a device: recorded and replayed runs compute the same as
// launches, with other inputs, at other addresses, from several threads, and on a stream of the caller.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/session.h"

namespace ferrite::core {
namespace {

using Context = runtime::Executable::Context;
using Data = std::vector<float>;

constexpr const char* graph = R"(ferrite graph 0
graph @g(%x: f32[64,300], %w: f32[300,128], %i: i64[16]) -> (%r "r", %s "s") {
  %a = exp(%x)
  %p = matmul(%a, %w)
  %s = softmax(%p) {axis = 1}
  %t = gather(%s, %i) {axis = 0}
  %r = reduce_sum(%t) {axes = [1]}
}
)";

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() / ("ferrite-device-" + std::to_string(getpid()) + ".fe");
    std::ofstream(path_) << graph;
    auto pipeline =
        config::read_pipeline_text("schema = 0\nenable = [\"ferrite.cuda\"]\n", "manifest.toml", {});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
    auto model = Model::open(*session_, path_.string());
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
    const auto device = runtime::Device::open("cuda:0", session_->registry());
    if (!device) GTEST_SKIP() << device.error().message();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::shared_ptr<Program> program(bool ports_on_device, bool record) {
    CompileOptions options;
    options.device = "cuda:0";
    options.ports_on_device = ports_on_device;
    if (!record) options.without.add(schedule::Feature::record);
    std::vector<std::vector<int64_t>> dims;
    for (const auto& input : model_->inputs()) dims.push_back(input.dims);
    auto made = model_->program(dims, options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message());
    return made ? *made : nullptr;
  }

  /// The bytes of a run's inputs, derived from a seed.
  static std::vector<std::vector<std::byte>> inputs_of(const runtime::Executable& executable, int seed) {
    std::vector<std::vector<std::byte>> result;
    for (const auto& port : executable.inputs) {
      auto& bytes = result.emplace_back(port.bytes);
      for (int64_t k = 0; k < port.bytes / (port.dtype == i64 ? 8 : 4); ++k)
        if (port.dtype == i64) {
          const int64_t index = (k * 5 + seed) % 64;
          std::memcpy(bytes.data() + k * 8, &index, sizeof index);
        } else {
          const float value = static_cast<float>((k * 7 + seed * 13) % 101) / 101 - 0.4f;
          std::memcpy(bytes.data() + k * 4, &value, sizeof value);
        }
    }
    return result;
  }
  /// Runs with the given inputs; `results` receives the contents of the outputs.
  static Result<void> run(const runtime::Executable& executable, Context& context,
                          const std::vector<std::vector<std::byte>>& given, std::vector<Data>& results) {
    std::vector<const void*> in;
    for (const auto& bytes : given) in.push_back(bytes.data());
    std::vector<void*> out;
    for (const auto& port : executable.outputs) results.emplace_back(port.bytes / 4);
    for (auto& result : results) out.push_back(result.data());
    return executable.run(context, in, out);
  }
  static std::vector<Data> run(const runtime::Executable& executable, Context& context, int seed) {
    std::vector<Data> results;
    const auto done = run(executable, context, inputs_of(executable, seed), results);
    EXPECT_TRUE(done) << (done ? "" : done.error().message());
    return results;
  }
  /// The results of single launches.
  std::vector<std::vector<Data>> expected(int seeds) {
    const auto plain = program(false, false);
    Context context(*plain->compilation.executable);
    std::vector<std::vector<Data>> results;
    for (int seed = 0; seed < seeds; ++seed)
      results.push_back(run(*plain->compilation.executable, context, seed));
    EXPECT_FALSE(context.replayed());
    EXPECT_NE(results[0], results[1]);
    return results;
  }

  std::filesystem::path path_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Model> model_;
};

TEST_F(OnDevice, ReplaysAreEqualFromSeveralThreads) {
  constexpr int seeds = 20;
  const auto right = expected(seeds);
  const auto recorded = program(false, true);
  const auto& executable = *recorded->compilation.executable;
  std::vector<int> wrong(4), replayed(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      Context context(executable);
      for (int seed = 0; seed < seeds; ++seed) {
        wrong[t] += run(executable, context, seed) != right[static_cast<size_t>(seed)];
        replayed[t] += context.replayed();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
  EXPECT_EQ(replayed, std::vector<int>(4, seeds - 1));
}

TEST_F(OnDevice, PortsMayLieElsewhereInEachRun) {
  constexpr int seeds = 8;
  const auto right = expected(seeds);
  const auto recorded = program(true, true);
  const auto& executable = *recorded->compilation.executable;
  std::vector<void*> taken;
  const auto memory = [&](int64_t bytes) { return taken.emplace_back(*executable.alloc(0, bytes)); };
  {
    Context context(executable);
    std::vector<const void*> in;
    std::vector<void*> out;
    for (int seed = 0; seed < seeds; ++seed) {
      // Other addresses in some runs only.
      if (seed < 2 || seed % 3 == 0) {
        in.clear();
        out.clear();
        for (const auto& port : executable.inputs) in.push_back(memory(port.bytes));
        for (const auto& port : executable.outputs) out.push_back(memory(port.bytes));
      }
      const auto given = inputs_of(executable, seed);
      for (size_t k = 0; k < in.size(); ++k)
        EXPECT_TRUE(executable.copy(0, FE_COPY_TO_DEVICE, const_cast<void*>(in[k]), given[k].data(),
                                    executable.inputs[k].bytes));
      const auto done = executable.run(context, in, out);
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(context.replayed(), seed > 0);
      for (size_t k = 0; k < out.size(); ++k) {
        Data result(executable.outputs[k].bytes / 4);
        EXPECT_TRUE(executable.copy(0, FE_COPY_TO_HOST, result.data(), out[k], executable.outputs[k].bytes));
        EXPECT_EQ(result, right[static_cast<size_t>(seed)][k]) << "run " << seed;
      }
    }
  }
  for (void* data : taken) executable.free(0, data);
}

TEST_F(OnDevice, WrongIndicesAreFoundInReplays) {
  const auto recorded = program(false, true);
  const auto& executable = *recorded->compilation.executable;
  Context context(executable);
  for (int seed = 0; seed < 3; ++seed) run(executable, context, seed);
  EXPECT_TRUE(context.replayed());
  auto given = inputs_of(executable, 3);
  const int64_t wrong = 1 << 20;
  std::memcpy(given[2].data() + 8, &wrong, sizeof wrong);
  std::vector<Data> results;
  const auto done = run(executable, context, given, results);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, "FE-X10");
  EXPECT_NE(run(executable, context, 4), run(executable, context, 5));
}

TEST_F(OnDevice, AStreamOfTheCallersIsUsed) {
  const auto right = expected(4);
  const auto recorded = program(false, true);
  const auto& executable = *recorded->compilation.executable;
  const auto& device = *executable.devices[0];
  auto opened = device.open_stream(nullptr);
  ASSERT_TRUE(opened);
  {
    Context context(executable, device.native(FE_NATIVE_STREAM, *opened));
    for (int seed = 0; seed < 4; ++seed)
      EXPECT_EQ(run(executable, context, seed), right[static_cast<size_t>(seed)]) << seed;
    EXPECT_TRUE(context.replayed());
  }
  device.close_stream(*opened);
}

}  // namespace
}  // namespace ferrite::core
