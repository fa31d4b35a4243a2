// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two devices of one driver: the copies between them, and the synchronisation of their streams.
#include <algorithm>
#include <span>

#include "core/link/transfers.h"
#include "device_runs.h"
#include "tools/plugin_check/streams.h"

namespace ferrite::core {
namespace {

using runtime::BufferSlot;
using runtime::Launch;

constexpr int64_t elements = 64, bytes = elements * 4;

class Peers : public DeviceRuns {
 protected:
  void SetUp() override {
    DeviceRuns::SetUp();
    setenv("FAKE_DRIVER_DEVICES", "4", 1);
  }
  /// Gives a program two devices of the driver, and the host.
  void open_devices(runtime::Executable& program) const {
    for (const char* name : {"cuda:2", "cuda:3", "cpu"}) program.devices.push_back(device(name));
    program.arena_bytes.assign(program.devices.size(), 2 * bytes);
  }
  static BufferSlot arena(uint32_t device, int64_t offset = 0) {
    BufferSlot slot;
    slot.device = device;
    slot.offset = offset;
    slot.bytes = bytes;
    return slot;
  }
  static BufferSlot port(BufferSlot::Kind kind, uint32_t number, uint32_t device) {
    BufferSlot slot = arena(device);
    slot.kind = kind;
    slot.number = number;
    return slot;
  }
  static Launch copy(uint32_t direction, uint32_t device, const BufferSlot& from, const BufferSlot& to) {
    Launch result;
    result.copy = direction;
    result.device = device;
    result.arguments = {from, to};
    return result;
  }
  static void set_ports(runtime::Executable& program, size_t count) {
    program.inputs.assign(count, {"x", DType::f32_, {elements}, bytes});
    program.outputs = program.inputs;
  }
  /// The first device receives two inputs in one buffer, one after the other, and passes each to the second
  /// device, which passes the first one back.
  static void list_exchange(runtime::Executable& program) {
    set_ports(program, 2);
    const auto input = [](uint32_t k) { return port(BufferSlot::Kind::input, k, 2); };
    const auto output = [](uint32_t k) { return port(BufferSlot::Kind::output, k, 2); };
    program.steps = {copy(FE_COPY_TO_DEVICE, 0, input(0), arena(0)),
                     copy(FE_COPY_PEER, 1, arena(0), arena(1)),
                     copy(FE_COPY_TO_DEVICE, 0, input(1), arena(0)),
                     copy(FE_COPY_PEER, 1, arena(0), arena(1, bytes)),
                     copy(FE_COPY_PEER, 0, arena(1), arena(0, bytes)),
                     copy(FE_COPY_TO_HOST, 0, arena(0, bytes), output(0)),
                     copy(FE_COPY_TO_HOST, 1, arena(1, bytes), output(1))};
    program.output_slots = {output(0), output(1)};
    const auto ready = program.prepare();
    ASSERT_TRUE(ready) << ready.error().message();
  }
  static Result<void> run_exchange(const runtime::Executable& program, Context& context, const float* first,
                                   const float* second) {
    std::vector<std::vector<float>> out(2, std::vector<float>(elements));
    const void* in[] = {first, second};
    void* to[] = {out[0].data(), out[1].data()};
    FE_CHECK(program.run(context, in, to));
    for (int k = 0; k < 2; ++k)
      EXPECT_TRUE(std::equal(out[k].begin(), out[k].end(), static_cast<const float*>(in[k]))) << k;
    return {};
  }
  /// The number of calls of a function before the first call of another one.
  size_t calls_before(const std::string& function, const std::string& other) const {
    size_t result = 0;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line) && !line.starts_with(other + " ");)
      result += line.starts_with(function + " ");
    return result;
  }
};

std::vector<float> counted(float from) {
  std::vector<float> result(elements);
  for (int64_t k = 0; k < elements; ++k) result[k] = from + static_cast<float>(k);
  return result;
}

TEST_F(Peers, APoolIsReachedOnceItIsThere) {
  const auto first = device("cuda:0"), second = device("cuda:1");
  uint64_t given = 0;
  driver<int(uint64_t*, size_t)>("cuMemAlloc_v2")(&given, 64);
  auto* const theirs = reinterpret_cast<void*>(given);
  void* const mine = *first->alloc(64, nullptr);
  const auto copies = [&] {
    const auto done = first->copy(FE_COPY_PEER, mine, theirs, 64, nullptr, second.get());
    EXPECT_TRUE(done) << done.error().message();
    return calls("cuMemPoolSetAccess").size();
  };
  EXPECT_EQ(copies(), 0u);  // there is no pool yet
  void* const pooled = *second->alloc(64, nullptr);
  EXPECT_EQ(copies(), 1u);
  EXPECT_EQ(copies(), 1u);
  EXPECT_EQ(calls("cuCtxEnablePeerAccess").size(), 1u);
  second->free(pooled, nullptr);
  first->free(mine, nullptr);
  driver<int(uint64_t)>("cuMemFree_v2")(given);
}

TEST_F(Peers, CopyWithoutTheHost) {
  runtime::Executable program;
  open_devices(program);
  set_ports(program, 1);
  link::ArenaNeeds needs;
  needs.keep(0, bytes, 0);
  const std::vector<link::ArenaPlan> arenas(3, link::ArenaPlan(needs, 256, bytes));
  link::Transfers transfers(program, arenas);
  const auto primary = arena(2);
  // The first device has made it, the second one reads it: no copy goes through the primary slot.
  const auto input = port(BufferSlot::Kind::input, 0, 2), output = port(BufferSlot::Kind::output, 0, 2);
  const auto on_first = transfers.reach(0, 0, primary, true, program.steps);
  ASSERT_TRUE(program.steps.empty());
  program.steps.push_back(copy(FE_COPY_TO_DEVICE, 0, input, on_first));
  const auto on_second = transfers.reach(1, 0, primary, false, program.steps);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[1].copy, FE_COPY_PEER);
  program.steps.push_back(copy(FE_COPY_TO_HOST, 1, on_second, output));
  program.output_slots = {output};
  const auto ready = program.prepare();
  ASSERT_TRUE(ready) << ready.error().message();
  EXPECT_EQ(program.recording().category, "devices");
  const auto x = counted(0);
  std::vector<float> y(elements);
  const void* in = x.data();
  void* out = y.data();
  forget_calls();
  {
    Context context(program);
    for (int k = 0; k < 2; ++k) {
      const auto ran = program.run(context, {&in, 1}, {&out, 1});
      ASSERT_TRUE(ran) << ran.error().message();
    }
  }
  EXPECT_EQ(x, y);
  EXPECT_EQ(calls("cuMemcpyPeerAsync"), std::vector<std::string>(2, " " + std::to_string(bytes)));
  EXPECT_EQ(calls("cuCtxEnablePeerAccess"), std::vector<std::string>(1, " 2"));  // once
}

TEST_F(Peers, WaitForEachOtherWithoutTheHost) {
  runtime::Executable program;
  open_devices(program);
  list_exchange(program);
  void* pinned = nullptr;
  driver<int(void**, size_t, unsigned)>("cuMemHostAlloc")(&pinned, 2 * bytes, 0);
  auto* const first = static_cast<float*>(pinned);
  forget_calls();
  {
    Context context(program);
    EXPECT_EQ(calls("cuEventCreate").size(), 2u);
    // Copies from pinned memory are made as late as possible.
    std::ranges::copy(counted(1), first);
    std::ranges::copy(counted(100), first + elements);
    for (const auto& [one, other] : {std::pair{counted(1000), counted(2000)}, {counted(5), counted(6)}}) {
      for (const auto& [in, next] : {std::pair{one.data(), other.data()}, {first, first + elements}}) {
        forget_calls();
        const auto ran = run_exchange(program, context, in, next);
        ASSERT_TRUE(ran) << ran.error().message();
        EXPECT_EQ(calls("cuMemcpyPeerAsync").size(), 3u);
        EXPECT_EQ(calls("cuEventRecord").size(), 6u);
        EXPECT_EQ(calls("cuStreamWaitEvent").size(), 6u);
        EXPECT_EQ(calls_before("cuStreamSynchronize", "cuMemcpyDtoHAsync"), 0u);
        EXPECT_TRUE(calls("cuEventCreate").empty());
      }
    }
    forget_calls();
  }
  EXPECT_EQ(calls("cuEventDestroy").size(), 2u);
  driver<int(void*)>("cuMemFreeHost")(pinned);
}

TEST_F(Peers, WhatOneGaveIsNotChangedByALaterRunBeforeTheOtherHasIt) {
  runtime::Executable program;
  open_devices(program);
  set_ports(program, 1);
  program.ports_on_device = true;
  const auto input = port(BufferSlot::Kind::input, 0, 0), output = port(BufferSlot::Kind::output, 0, 0);
  // The first device gets what the second one was given in the run before, and does nothing else.
  program.steps = {copy(FE_COPY_PEER, 0, arena(1), output), copy(FE_COPY_PEER, 1, input, arena(1))};
  program.output_slots = {output};
  const auto ready = program.prepare();
  ASSERT_TRUE(ready) << ready.error().message();
  const auto& giver = *program.devices[0];
  constexpr int runs = 4;
  std::vector<void*> memory;
  for (int k = 0; k < runs + 1; ++k) memory.push_back(*giver.alloc(bytes, nullptr));
  {
    Context context(program);
    context.return_early(true);
    forget_calls();
    // The caller's next input reuses the buffer, in stream order.
    for (int k = 0; k < runs; ++k) {
      const auto x = counted(static_cast<float>(10 * k));
      ASSERT_TRUE(giver.copy(FE_COPY_TO_DEVICE, memory[runs], x.data(), bytes, context.stream(0)));
      const void* in = memory[runs];
      void* out = memory[static_cast<size_t>(k)];
      const auto ran = program.run(context, {&in, 1}, {&out, 1});
      ASSERT_TRUE(ran) << ran.error().message();
    }
    EXPECT_TRUE(calls("cuStreamSynchronize").empty());
    ASSERT_TRUE(giver.synchronise(context.stream(0)));
    for (int k = 1; k < runs; ++k) {
      const auto x = counted(static_cast<float>(10 * (k - 1)));
      EXPECT_TRUE(std::ranges::equal(
          std::span(static_cast<const float*>(memory[static_cast<size_t>(k)]), x.size()), x))
          << k;
    }
  }
  for (void* data : memory) giver.free(data, nullptr);
}

TEST_F(Peers, TheHostWaitsForARuntimeWithoutEvents) {
  runtime::Executable program;
  open_devices(program);
  for (const auto& device : program.devices) device->slots.event_wait = nullptr;
  list_exchange(program);
  Context context(program);
  forget_calls();
  const auto x = counted(1), y = counted(2);
  for (int k = 0; k < 2; ++k) {
    const auto ran = run_exchange(program, context, x.data(), y.data());
    ASSERT_TRUE(ran) << ran.error().message();
  }
  EXPECT_EQ(calls("cuMemcpyPeerAsync").size(), 6u);
  EXPECT_GT(calls_before("cuStreamSynchronize", "cuMemcpyDtoHAsync"), 0u);
  EXPECT_TRUE(calls("cuEventCreate").empty());
}

TEST_F(Peers, EventsThatFailFailTheRun) {
  for (const char* function :
       {"cuEventCreate:1", "cuEventCreate:2", "cuEventRecord:3", "cuStreamWaitEvent:4"}) {
    runtime::Executable program;
    open_devices(program);
    list_exchange(program);
    {
      const Context before(program);
    }  // opens the streams that each device keeps for itself
    driver<void()>("fake_driver_reset")();
    setenv("FAKE_DRIVER_FAIL", function, 1);
    forget_calls();
    {
      Context context(program);
      const auto x = counted(1), y = counted(2);
      const auto ran = run_exchange(program, context, x.data(), y.data());
      ASSERT_FALSE(ran) << function;
      EXPECT_EQ(ran.error().code, "ferrite.cuda/device") << function;
      EXPECT_NE(ran.error().text.find("event"), std::string::npos) << ran.error().message();
    }
    EXPECT_EQ(calls("cuStreamCreate").size(), calls("cuStreamDestroy").size()) << function;
    const bool one_failed = std::string_view(function).starts_with("cuEventCreate");
    EXPECT_EQ(calls("cuEventCreate").size(), calls("cuEventDestroy").size() + (one_failed ? 1 : 0))
        << function;
    unsetenv("FAKE_DRIVER_FAIL");
  }
}

TEST_F(Peers, AStreamThatIsRecordedTakesNoEvents) {
  const auto device = this->device("cuda:2");
  void* const stream = *device->open_stream(nullptr);
  void* const event = *device->open_event();
  const auto graph = device->record(stream, [&]() -> Result<void> {
    EXPECT_FALSE(device->record_event(event, stream));
    EXPECT_FALSE(device->wait_for_event(event, stream));
    return {};
  });
  ASSERT_TRUE(graph) << graph.error().message();
  device->free_graph(*graph);
  EXPECT_TRUE(device->record_event(event, stream));
  device->close_stream(stream);
  device->close_event(event);
}

TEST_F(Peers, TheCheckOfStreamsFindsWaitsThatDoNot) {
  const auto device = this->device("cuda:2");
  const auto good = plugin_check::check_streams(*device);
  EXPECT_EQ(good.outcome, plugin_check::Outcome::passed) << good.text;
  EXPECT_FALSE(calls("cuStreamWaitEvent").empty());
  setenv("FAKE_DRIVER_WAITS", "0", 1);
  const auto bad = plugin_check::check_streams(*device);
  EXPECT_EQ(bad.code, "FE-P52");
  EXPECT_NE(bad.text.find("an event that it waits for"), std::string::npos) << bad.text;
}

}  // namespace
}  // namespace ferrite::core
