// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The streams on which runs work, and the memory that they copy from and to.
#include <thread>

#include "device_runs.h"

namespace ferrite::core {
namespace {

/// A host step that adds 1 to its output.
int32_t add_one(void*, fe_call*, const fe_kernel_call_args* args, fe_none*) {
  *static_cast<float*>(static_cast<const fe_kernel_buffer*>(args->buffers.data)->data) += 1;
  return FE_OK;
}

TEST_F(DeviceRuns, TheHostWaitsForCopiesFromPinnedMemory) {
  runtime::Executable program;
  for (const char* name : {"cuda:0", "cpu"}) {
    auto device = runtime::Device::open(name, session_->registry());
    ASSERT_TRUE(device) << device.error().message();
    program.devices.push_back(*device);
  }
  constexpr int64_t bytes = 256;
  const runtime::PortInfo port{"x", DType::f32_, {bytes / 4}, bytes};
  program.inputs = {port};
  program.outputs = {port};
  program.arena_bytes = {bytes, bytes};
  const auto slot = [&](runtime::BufferSlot::Kind kind, uint32_t device) {
    runtime::BufferSlot result;
    result.kind = kind;
    result.device = device;
    result.bytes = bytes;
    return result;
  };
  const auto input = slot(runtime::BufferSlot::Kind::input, 1),
             output = slot(runtime::BufferSlot::Kind::output, 1);
  const auto there = slot(runtime::BufferSlot::Kind::arena, 0);
  // The device receives the input, the host changes it, as a cache is changed, and the device returns the
  // original.
  runtime::Launch to, change, back;
  to.copy = FE_COPY_TO_DEVICE;
  to.arguments = {input, there};
  change.call.function = add_one;
  change.call.reads = 0;  // its argument is written
  change.arguments = {input};
  change.call_types.resize(1);
  back.copy = FE_COPY_TO_HOST;
  back.arguments = {there, output};
  program.steps = {to, change, back};
  program.output_slots = {output};
  const auto ready = program.prepare();
  ASSERT_TRUE(ready) << ready.error().message();
  void* pinned = nullptr;
  driver<int(void**, size_t, unsigned)>("cuMemHostAlloc")(&pinned, bytes, 0);
  auto& first = *static_cast<float*>(pinned);
  std::vector<float> y(bytes / 4);
  void* out = y.data();
  {
    Context context(program);
    for (const float given : {1.0f, 5.0f}) {
      first = given;
      const void* in = pinned;
      const auto ran = program.run(context, {&in, 1}, {&out, 1});
      ASSERT_TRUE(ran) << ran.error().message();
      EXPECT_EQ(y[0], given);
      EXPECT_EQ(first, given + 1);
    }
    // Copies from pageable memory are complete on return, and memory that the host only reads can be read
    // during a copy.
    program.steps[1].call.reads = 1;
    forget_calls();
    const void* in = pinned;
    EXPECT_TRUE(program.run(context, {&in, 1}, {&out, 1}));
    EXPECT_EQ(calls("cuStreamSynchronize").size(), 2u);
  }
  driver<int(void*)>("cuMemFreeHost")(pinned);
}

TEST_F(DeviceRuns, ContextsHaveStreamsOfTheirOwn) {
  compile(two_kernels);
  std::vector<std::string> faults(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < faults.size(); ++t)
    threads.emplace_back([&, t] {
      Context context(executable());
      for (int k = 0; k < 12; ++k) {
        const float first = static_cast<float>(100 * t) + static_cast<float>(k);
        const auto result = run(context, first);
        if (!result)
          faults[t] = result.error().message();
        else if (*result != first + 1)
          faults[t] = std::to_string(*result) + " of " + std::to_string(first);
      }
      if (!context.replayed()) faults[t] += " not replayed";
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(faults, std::vector<std::string>(faults.size()));
  std::set<std::string> streams;
  for (const auto& launch : calls("cuGraphLaunch")) streams.insert(launch);
  EXPECT_EQ(streams.size(), faults.size());
  EXPECT_EQ(calls("cuStreamCreate").size(), calls("cuStreamDestroy").size());
}

TEST_F(DeviceRuns, AStreamOfTheCallersIsUsedAndKept) {
  compile(one_kernel);
  void* mine = nullptr;
  driver<int(void**, unsigned)>("cuStreamCreate")(&mine, 0);
  const auto number = std::to_string(*static_cast<int*>(mine));
  {
    Context context(executable(), mine);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(*run(context, 3), 4);
    EXPECT_TRUE(context.replayed());
  }
  ASSERT_EQ(calls("cuLaunchKernelEx").size(), 1u);
  EXPECT_TRUE(calls("cuLaunchKernelEx")[0].ends_with(" stream " + number));
  EXPECT_FALSE(calls("kept cuLaunchKernelEx")[0].ends_with(" stream " + number));
  for (const auto& launch : calls("cuGraphLaunch")) EXPECT_EQ(launch, " stream " + number);
  EXPECT_EQ(calls("cuStreamDestroy").size(), 1u);  // the recorded stream
  driver<int(void*)>("cuStreamDestroy_v2")(mine);
}

TEST_F(DeviceRuns, ADriverWithoutPoolsGivesMemoryItself) {
  setenv("FAKE_DRIVER_POOLS", "0", 1);
  setenv("FAKE_DRIVER_DEVICES", "2", 1);
  options_.device = "cuda:1";  // not opened by any other test
  compile(one_kernel);
  {
    Context context(executable());
    for (int k = 0; k < 3; ++k) EXPECT_EQ(*run(context, 3), 4);
  }
  EXPECT_TRUE(calls("cuMemAllocFromPoolAsync").empty());
  EXPECT_EQ(calls("cuMemAlloc").size(), calls("cuMemFree").size());
}

TEST_F(DeviceRuns, APoolIsTriedOnce) {
  setenv("FAKE_DRIVER_FAIL", "cuMemPoolCreate:1", 1);
  const auto device = this->device("cuda:0");
  for (int k = 0; k < 3; ++k) device->free(*device->alloc(64, nullptr), nullptr);
  EXPECT_EQ(calls("cuMemPoolCreate").size(), 1u);
  EXPECT_TRUE(calls("cuMemAllocFromPoolAsync").empty());
  EXPECT_EQ(calls("cuMemAlloc").size(), 3u);
}

TEST_F(DeviceRuns, MemoryIsTakenAndGivenBackBesideARecording) {
  const auto device = this->device("cuda:0");
  void* const opened = *device->open_stream(nullptr);
  for (void* stream : {static_cast<void*>(nullptr), opened}) {
    void* const before = *device->alloc(64, stream);
    void* taken = nullptr;
    forget_calls();
    const auto graph = device->record(stream, [&]() -> Result<void> {
      FE_TRY(taken, device->alloc(64, stream));
      device->free(before, stream);
      // The status of a healthy device does not change an error.
      EXPECT_EQ(device->failed(error(FE_EDEVICE, "FE-D04", "a failure")).code, "FE-D04");
      EXPECT_TRUE(calls("cuMemFreeAsync").empty()) << "the stream may have work for it from before";
      return {};
    });
    ASSERT_TRUE(graph) << graph.error().message();
    EXPECT_EQ(calls("cuMemFreeAsync").size(), 1u);
    device->free_graph(*graph);
    device->free(taken, stream);
    EXPECT_EQ(calls("cuMemFreeAsync").size(), 2u);
  }
  device->close_stream(opened);
}

TEST_F(DeviceRuns, CodeIsUnloadedBehindTheWorkOfAllStreams) {
  compile(one_kernel);
  const auto device = executable().devices[0];
  void *mine = nullptr, *recorded = nullptr;
  for (auto** stream : {&mine, &recorded}) driver<int(void**, unsigned)>("cuStreamCreate")(stream, 0);
  std::vector<void*> opened;
  for (void* native : {static_cast<void*>(nullptr), mine, recorded})
    opened.push_back(*device->open_stream(native));
  const auto number = [&](void* stream) {
    return " " + std::to_string(*static_cast<const int*>(device->native(FE_NATIVE_STREAM, stream)));
  };
  // The caller may record a stream by any means.
  driver<int(void*, int)>("cuStreamBeginCapture_v2")(recorded, 0);
  std::set<std::string> expected = {number(nullptr), number(opened[0]), number(opened[1])};
  program_.reset();
  model_.reset();
  const auto unloads = calls("cuModuleUnload");
  ASSERT_EQ(unloads.size(), 1u);
  std::set<std::string> waited;
  for (const auto& stream : calls("cuStreamSynchronize")) waited.insert(stream);
  EXPECT_EQ(waited, expected);
  void* graph = nullptr;
  EXPECT_EQ(driver<int(void*, void**)>("cuStreamEndCapture")(recorded, &graph), 0);
  driver<int(void*)>("cuGraphDestroy")(graph);
  for (void* stream : opened) device->close_stream(stream);
  for (void* stream : {mine, recorded}) driver<int(void*)>("cuStreamDestroy_v2")(stream);
}

}  // namespace
}  // namespace ferrite::core
