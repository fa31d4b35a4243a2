// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recording and replaying of runs, the pointers in replays, and the reports about a lost device.

#include "device_runs.h"

namespace ferrite::core {
namespace {

constexpr const char* taken = R"(ferrite graph 0
graph @g(%x: f32[8,4], %i: i64[3]) -> (%r "r") {
  %r = gather(%x, %i) {axis = 0} from "taken"
}
)";

TEST_F(DeviceRuns, TheSecondRunIsRecordedAndLaterOnesReplayIt) {
  compile(two_kernels);
  const auto kernels = executable().kernels.size();
  ASSERT_GE(kernels, 2u);
  {
    Context context(executable());
    for (int k = 0; k < 5; ++k) {
      const auto result = run(context, static_cast<float>(k));
      ASSERT_TRUE(result) << result.error().message();
      EXPECT_EQ(*result, static_cast<float>(k + 1));
      EXPECT_EQ(context.replayed(), k > 0);
    }
  }
  EXPECT_EQ(calls("cuLaunchKernelEx").size(), kernels);       // calls of the first run
  EXPECT_EQ(calls("kept cuLaunchKernelEx").size(), kernels);  // calls of the second one
  EXPECT_EQ(calls("kept cuMemcpyHtoDAsync").size(), 1u);      // the input
  EXPECT_EQ(calls("kept cuMemcpyDtoHAsync").size(), 2u);
  EXPECT_EQ(calls("cuGraphLaunch").size(), 4u);
  EXPECT_EQ(calls("cuGraphInstantiate").size(), 1u);
  EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams").size(), 0u);  // ports are in host memory
  for (auto [take, give] : {std::pair{"cuMemAllocFromPoolAsync", "cuMemFreeAsync"},
                            {"cuMemHostAlloc", "cuMemFreeHost"},
                            {"cuStreamCreate", "cuStreamDestroy"},
                            {"cuGraphInstantiate", "cuGraphExecDestroy"},
                            {"cuStreamEndCapture", "cuGraphDestroy"}})
    EXPECT_EQ(calls(take).size(), calls(give).size()) << take;
  const auto said = records("record");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].outcome, "recorded");
  EXPECT_EQ(said[0].object, "cuda:0");
}

TEST_F(DeviceRuns, PortsOfTheDeviceAreBoundToOthers) {
  options_.ports_on_device = true;
  compile(two_kernels);
  const auto bytes = executable().inputs[0].bytes;
  std::vector<float*> x, r;
  void* s = *executable().alloc(0, executable().outputs[1].bytes);
  for (int k = 0; k < 3; ++k) {
    x.push_back(static_cast<float*>(*executable().alloc(0, bytes)));
    r.push_back(static_cast<float*>(*executable().alloc(0, bytes)));
    *x.back() = static_cast<float>(10 * k);
    *r.back() = 0;
  }
  {
    Context context(executable());
    const auto ran = [&](size_t in, size_t out) {
      const void* input = x[in];
      void* outputs[] = {r[out], s};
      const auto done = executable().run(context, {&input, 1}, outputs);
      EXPECT_TRUE(done) << done.error().message();
      EXPECT_EQ(*r[out], *x[in] + 1);
      *r[out] = 0;
      const auto changed = calls("cuGraphExecKernelNodeSetParams").size();
      forget_calls();
      return changed;
    };
    EXPECT_EQ(ran(0, 0), 0u);
    EXPECT_EQ(ran(0, 0), 0u);
    EXPECT_TRUE(context.replayed());
    EXPECT_EQ(ran(0, 0), 0u);
    EXPECT_EQ(ran(1, 0), 1u);  // the only launch that reads it
    EXPECT_EQ(ran(1, 0), 0u);
    EXPECT_GE(ran(2, 1), 1u);  // and all launches that read the result
    EXPECT_GE(ran(0, 2), 1u);
    EXPECT_EQ(ran(0, 2), 0u);
    EXPECT_TRUE(context.replayed());
    // Two ports may share an address.
    const void* input = r[1];
    void* outputs[] = {r[1], s};
    *r[1] = 5;
    EXPECT_TRUE(executable().run(context, {&input, 1}, outputs));
    EXPECT_EQ(*r[1], 6);
    EXPECT_GE(ran(2, 0), 1u);
  }
  for (auto* data : x) executable().free(0, data);
  for (auto* data : r) executable().free(0, data);
  executable().free(0, s);
}

TEST_F(DeviceRuns, NothingIsRecordedWhereThatIsOffOrTimesAreKept) {
  options_.without.add(schedule::Feature::record);
  compile(one_kernel);
  {
    Context context(executable());
    for (int k = 0; k < 3; ++k) EXPECT_EQ(*run(context, 1), 2);
    EXPECT_FALSE(context.replayed());
  }
  EXPECT_TRUE(records("record").empty());
  options_.without.remove(schedule::Feature::record);
  compile(one_kernel);
  Context context(executable());
  context.keep_times();
  for (int k = 0; k < 3; ++k) EXPECT_EQ(*run(context, 1), 2);
  EXPECT_FALSE(context.replayed());
  EXPECT_FALSE(context.times().empty());
  EXPECT_TRUE(calls("cuStreamBeginCapture").empty());
}

TEST_F(DeviceRuns, WhatTheDriverRefusesToRecordIsLaunched) {
  for (const char* function :
       {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuMemHostAlloc"}) {
    compile(one_kernel);
    driver<void()>("fake_driver_reset")();
    setenv("FAKE_DRIVER_FAIL", (std::string(function) + ":1").c_str(), 1);
    Context context(executable());
    for (int k = 0; k < 3; ++k) EXPECT_EQ(*run(context, 3), 4) << function;
    EXPECT_FALSE(context.replayed());
    EXPECT_EQ(calls(function).size(), 1u) << "it is not tried again";
    EXPECT_TRUE(calls("cuGraphLaunch").empty());
  }
}

TEST_F(DeviceRuns, WordsOfErrorsAreRecordedToo) {
  compile(taken);
  Context context(executable());
  for (int k = 0; k < 3; ++k) EXPECT_TRUE(run(context, 1));
  EXPECT_TRUE(context.replayed());
  EXPECT_EQ(calls("kept cuMemcpyHtoDAsync").size(), 2u) << "words are cleared once, before the first run";
  EXPECT_EQ(calls("kept cuMemcpyDtoHAsync").size(), 1u + 1u);
}

TEST_F(DeviceRuns, WordsOfErrorsAreOfThoseThatCheckIndices) {
  for (const bool packaged : {false, true})
    for (const auto& [text, checks] : {std::pair{one_kernel, false}, {taken, true}}) {
      if (packaged)
        package(text);
      else
        compile(text);
      for (const auto& kernel : executable().kernels) EXPECT_EQ(kernel.checks_indices, checks) << text;
      Context context(executable());
      EXPECT_TRUE(run(context, 1));
      EXPECT_EQ(calls("cuMemcpyHtoDAsync").size(), executable().inputs.size() + (checks ? 1 : 0)) << text;
      EXPECT_EQ(calls("cuMemcpyDtoHAsync").size(), checks ? 2u : 1u) << text;
    }
}

TEST_F(DeviceRuns, ALibraryChecksNoIndicesThatItsKernelHasNot) {
  open(true);
  options_.ports_on_device = true;
  compile(
      "ferrite graph 0\ngraph @g(%x: f32[37,48], %w: f32[48,80]) -> (%y \"y\") {\n"
      "  %y = matmul(%x, %w)\n}\n");
  ASSERT_EQ(executable().kernels.size(), 1u);
  ASSERT_NE(executable().kernels[0].library, nullptr);
  std::vector<void*> memory;
  for (const auto* ports : {&executable().inputs, &executable().outputs})
    for (const auto& port : *ports) {
      memory.push_back(*executable().alloc(0, port.bytes));
      std::memset(memory.back(), 0, static_cast<size_t>(port.bytes));
    }
  {
    Context context(executable());
    context.return_early(true);
    forget_calls();
    const void* inputs[] = {memory[0], memory[1]};
    const auto ran = executable().run(context, inputs, {&memory[2], 1});
    EXPECT_TRUE(ran) << ran.error().message();
    EXPECT_TRUE(calls("cuStreamSynchronize").empty());
  }
  for (void* data : memory) executable().free(0, data);
}

/// The pointers of a library's launch stay as recorded, so each address needs a recording; the last four are
/// kept.
TEST_F(DeviceRuns, PortsOfALibraryAreRecordedForEachPlace) {
  open(true);
  options_.ports_on_device = true;
  compile(
      "ferrite graph 0\ngraph @g(%x: f32[37,48], %w: f32[48,80]) -> (%y \"y\") {\n"
      "  %y = matmul(%x, %w)\n}\n");
  ASSERT_NE(executable().kernels.at(0).library, nullptr);
  const auto said = records("record");
  ASSERT_EQ(said.size(), 4u);
  for (size_t k = 1; k < 4; ++k) EXPECT_EQ(said[k].outcome, "recorded for each address");
  EXPECT_EQ(said[1].subject, "x");
  EXPECT_EQ(said[3].subject, "y");

  std::vector<void*> x;
  const auto memory = [&](int64_t bytes) {
    void* const data = *executable().alloc(0, bytes);
    std::memset(data, 0, static_cast<size_t>(bytes));
    return data;
  };
  for (size_t k = 0; k < 6; ++k) x.push_back(memory(executable().inputs[0].bytes));
  void* const w = memory(executable().inputs[1].bytes);
  void* const y = memory(executable().outputs[0].bytes);
  {
    Context context(executable());
    const auto replays = [&](size_t k) {
      const void* inputs[] = {x[k], w};
      const auto ran = executable().run(context, inputs, {&y, 1});
      EXPECT_TRUE(ran) << ran.error().message();
      return context.replayed();
    };
    const auto recorded = [&] { return calls("cuGraphInstantiate").size(); };
    EXPECT_FALSE(replays(0));
    EXPECT_FALSE(replays(1));
    EXPECT_TRUE(replays(0));
    EXPECT_TRUE(replays(1));
    EXPECT_EQ(recorded(), 2u);
    for (int turn = 0; turn < 3; ++turn)
      for (size_t k = 0; k < 2; ++k) EXPECT_TRUE(replays(k));
    EXPECT_EQ(recorded(), 2u) << "who takes turns records nothing again";
    for (size_t k = 2; k < 5; ++k) {
      EXPECT_FALSE(replays(k));
      EXPECT_TRUE(replays(k));
    }
    EXPECT_EQ(recorded(), 5u);
    EXPECT_EQ(calls("cuGraphExecDestroy").size(), 1u) << "the one that was used longest ago is gone";
    for (size_t k = 1; k < 5; ++k) EXPECT_TRUE(replays(k));
    EXPECT_EQ(recorded(), 5u);
    // Addresses that differ in each run are no reason to record.
    EXPECT_FALSE(replays(5));
  }
  EXPECT_EQ(calls("cuGraphInstantiate").size(), calls("cuGraphExecDestroy").size());
  x.insert(x.end(), {w, y});
  for (void* data : x) executable().free(0, data);
}

TEST_F(DeviceRuns, APackageIsLoadedOnceWhereverPortsAreWanted) {
  package(one_kernel);
  const auto first = program_;
  options_.ports_on_device = true;
  make();
  EXPECT_EQ(program_, first);
}

TEST_F(DeviceRuns, SeveralDevicesOfOneTarget) {
  setenv("FAKE_DRIVER_DEVICES", "8", 1);
  options_.device_chosen = true;
  options_.device = "cuda:6,cuda:7";
  const std::vector<TargetName> targets = {{"sm_90a", "--target"}};
  package(one_kernel, targets);
  ASSERT_EQ(executable().devices.size(), 3u);
  for (const auto& [device, place] : {std::pair{0, "cuda:6"}, {1, "cuda:7"}, {2, "cpu:0"}})
    EXPECT_EQ(executable().devices[static_cast<size_t>(device)]->place(), place);
  {
    Context context(executable());
    EXPECT_EQ(*run(context, 3), 4);
  }
  // If no device is named, any two will do.
  options_.device_chosen = false;
  options_.device = "cpu";
  make();
  EXPECT_EQ(executable().devices[1]->place(), "cuda:1");
  // There is only one CPU.
  load(folder_ / "model.fe");
  options_.device_chosen = true;
  options_.device = "cpu:0,cpu:1";
  const std::vector<TargetName> cpu = {{"cpu:", "--target"}};
  const auto refused = model_->save(dims(), options_, cpu, (folder_ / "cpu.fepkg").string());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("'cpu' has one device, number 0"), std::string::npos)
      << refused.error().message();
}

TEST_F(DeviceRuns, ARunThatFailsLeavesNothingToDo) {
  compile(two_kernels);
  driver<void()>("fake_driver_reset")();
  setenv("FAKE_DRIVER_FAIL", "cuLaunchKernelEx:2", 1);
  Context context(executable());
  EXPECT_FALSE(run(context, 1));
  EXPECT_EQ(calls("cuStreamSynchronize").size(), 1u);
}

TEST_F(DeviceRuns, ALostDeviceFailsAndTheProcessGoesOn) {
  compile(two_kernels);
  driver<void()>("fake_driver_reset")();
  setenv("FAKE_DRIVER_LOSE", "cuLaunchKernelEx:1", 1);
  {
    Context context(executable());
    auto failed = run(context, 1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, "FE-D06");
    EXPECT_NE(failed.error().message().find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos);
    EXPECT_NE(failed.error().message().find("first"), std::string::npos) << failed.error().message();
    failed = run(context, 1);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, "FE-D06");
  }
  Context later(executable());
  auto failed = run(later, 1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "FE-D06");
  // Recompiling fails in the same way, and another device is used.
  const std::vector<std::vector<int64_t>> dims = {{4, 300}};
  options_.threads = 1;
  auto again = model_->program(dims, options_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, "FE-D06");
  options_.device = "cpu";
  auto program = model_->program(dims, options_);
  ASSERT_TRUE(program) << program.error().message();
}

TEST_F(DeviceRuns, AFaultOfAReplayNamesTheLaunches) {
  compile(two_kernels);
  driver<void()>("fake_driver_reset")();
  setenv("FAKE_DRIVER_LOSE", "cuGraphLaunch:2", 1);
  Context context(executable());
  EXPECT_TRUE(run(context, 1));
  EXPECT_TRUE(run(context, 1));
  const auto failed = run(context, 1);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, "FE-D06");
  EXPECT_NE(failed.error().message().find("first"), std::string::npos);
  EXPECT_NE(failed.error().message().find("second"), std::string::npos);
  EXPECT_NE(failed.error().message().find("--log launches"), std::string::npos);
}

TEST_F(DeviceRuns, AllIsClosedWhereverTheDeviceIsLost) {
  for (const char* call :
       {"cuMemAllocFromPoolAsync:1", "cuMemcpyHtoDAsync:1", "cuLaunchKernelEx:2", "cuMemcpyDtoHAsync:1",
        "cuStreamSynchronize:1", "cuStreamBeginCapture:1", "cuStreamEndCapture:1", "cuGraphInstantiate:1",
        "cuGraphLaunch:1", "cuGraphLaunch:2"}) {
    TearDown();
    SetUp();
    compile(two_kernels);
    driver<void()>("fake_driver_reset")();
    setenv("FAKE_DRIVER_LOSE", call, 1);
    {
      Context context(executable());
      bool lost = false;
      for (int k = 0; k < 4; ++k) {
        const auto done = run(context, 1);
        EXPECT_TRUE(!lost || !done) << call;
        lost = lost || !done;
        EXPECT_EQ(done ? "FE-D06" : done.error().code, "FE-D06")
            << call << (done ? "" : done.error().message());
      }
      EXPECT_TRUE(lost) << call;
    }
    program_.reset();
    model_.reset();
    EXPECT_EQ(calls("cuModuleUnload").size(), 2u) << call;
    for (auto [take, give] : {std::pair{"cuMemAllocFromPoolAsync", "cuMemFreeAsync"},
                              {"cuMemHostAlloc", "cuMemFreeHost"},
                              {"cuStreamCreate", "cuStreamDestroy"},
                              {"cuGraphInstantiate", "cuGraphExecDestroy"}})
      EXPECT_LE(calls(take).size(), calls(give).size() + 1)
          << call << " " << take;  // the failing call returns nothing
  }
}

TEST_F(DeviceRuns, CodeSaysWhatItTakes) {
  compile(one_kernel);
  const auto& kernel = executable().kernels[0];
  EXPECT_EQ(kernel.registers, 42);
  EXPECT_EQ(kernel.spills, 0);
}

}  // namespace
}  // namespace ferrite::core
