// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on a device whose driver is a recording one: what is recorded and replayed, with which pointers, on which streams, and what is said
// of a device that is lost. A launch stores one more than the first element of its first buffer as the first one of its last buffer.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "core/run/mirrors.h"
#include "core/session.h"

namespace ferrite::core {
namespace {

using Context = run::Executable::Context;

// Two kernels: the sum is another size than what it is of.
constexpr const char* two_kernels = R"(ferrite graph 0
graph @g(%x: f32[4,300]) -> (%r "r", %s "s") {
  %r = exp(%x) from "first"
  %t = transpose(%r) {perm = [1, 0]} from "turned"
  %s = matmul(%r, %t) from "second"
}
)";
constexpr const char* one_kernel = R"(ferrite graph 0
graph @g(%x: f32[4,300]) -> (%r "r") {
  %r = exp(%x) from "first"
}
)";
constexpr const char* taken = R"(ferrite graph 0
graph @g(%x: f32[8,4], %i: i64[3]) -> (%r "r") {
  %r = gather(%x, %i) {axis = 0} from "taken"
}
)";

class DeviceRuns : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ferrite-runs-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    setenv("FAKE_DRIVER_LOG", log().c_str(), 1);
    driver_ = dlopen(FERRITE_FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(driver_, nullptr) << dlerror();
    driver<void()>("fake_driver_reset")();
    open();
    options_.device = "cuda:0";
  }
  /// A session; `library`: with cuBLASLt, for which one stands that computes products on the host.
  void open(bool library = false) {
    std::string manifest = "schema = 0\nenable = [\"ferrite.cuda\"";
    manifest += library ? ", \"ferrite.cublaslt\"]\n" : "]\n";
    manifest +=
        "[plugin.\"ferrite.cuda\"]\nconfig = { library = \"" + std::string(FERRITE_FAKE_DRIVER) + "\" }\n";
    if (library)
      manifest += "[plugin.\"ferrite.cublaslt\"]\nconfig = { library = \"" FERRITE_FAKES
                  "/fake_lt.so\", driver = \"" FERRITE_FAKE_DRIVER "\", price = 0.0 }\n";
    auto pipeline = plugin::read_pipeline_text(manifest, (folder_ / "manifest.toml").string(), {});
    ASSERT_TRUE(pipeline) << pipeline.error().message();
    auto session = Session::open(*pipeline);
    ASSERT_TRUE(session) << session.error().message();
    session_ = std::move(*session);
  }
  void TearDown() override {
    program_.reset();
    model_.reset();
    session_.reset();
    for (const char* name :
         {"FAKE_DRIVER_FAIL", "FAKE_DRIVER_LOSE", "FAKE_DRIVER_DEVICES", "FAKE_DRIVER_POOLS"})
      unsetenv(name);
    std::filesystem::remove_all(folder_);
  }

  std::string log() const { return (folder_ / "calls").string(); }
  /// From here on.
  void forget_calls() { std::filesystem::remove(log()); }
  /// What the calls of a function, as it stands at the beginning of a line, were given.
  std::vector<std::string> calls(const std::string& function) const {
    std::vector<std::string> result;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line);)
      if (line == function || line.starts_with(function + " "))
        result.push_back(line.substr(function.size()));
    return result;
  }

  void load(const std::filesystem::path& path) {
    auto model = Model::open(*session_, path.string());
    ASSERT_TRUE(model) << model.error().message();
    model_ = std::move(*model);
  }
  std::vector<std::vector<int64_t>> dims() const {
    std::vector<std::vector<int64_t>> result;
    for (const auto& input : model_->inputs()) result.push_back(input.dims);
    return result;
  }
  void make() {
    auto program = model_->program(dims(), options_);
    ASSERT_TRUE(program) << program.error().message();
    program_ = *program;
    forget_calls();
  }
  void compile(const std::string& text) {
    std::ofstream(folder_ / "model.fe") << text;
    load(folder_ / "model.fe");
    make();
  }
  /// The program of a package of the model, which is the model from here on.
  void package(const std::string& text, std::span<const TargetName> targets = {}) {
    std::ofstream(folder_ / "model.fe") << text;
    load(folder_ / "model.fe");
    const auto path = folder_ / "model.fepkg";
    const auto saved = model_->save(dims(), options_, targets, path.string());
    ASSERT_TRUE(saved) << saved.error().message();
    load(path);
    make();
  }
  /// Of the driver, as a program beside Ferrite calls it.
  template <class Function>
  Function* driver(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(driver_, name));
  }
  std::shared_ptr<run::Device> device(const std::string& name) const {
    auto opened = run::Device::open(name, session_->registry());
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message());
    return opened ? *opened : nullptr;
  }
  const run::Executable& executable() const { return *program_->compilation.executable; }

  /// Host memory for all ports, anew; the first element of the first input is given, that of the first output comes back.
  Result<float> run(Context& context, float first) const {
    std::vector<std::vector<std::byte>> memory;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& port : executable().inputs) in.push_back(memory.emplace_back(port.bytes).data());
    for (const auto& port : executable().outputs) out.push_back(memory.emplace_back(port.bytes).data());
    std::memcpy(memory[0].data(), &first, sizeof first);
    FE_CHECK(executable().run(context, in, out));
    float result = 0;
    std::memcpy(&result, out[0], sizeof result);
    return result;
  }
  std::vector<LedgerRecord> records(const std::string& kind) const {
    auto all = program_->ledger.records();
    std::erase_if(all, [&](const auto& record) { return record.kind != kind; });
    return all;
  }

  std::filesystem::path folder_;
  void* driver_ = nullptr;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Model> model_;
  std::shared_ptr<Program> program_;
  CompileOptions options_;
};

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
  EXPECT_EQ(calls("cuLaunchKernel").size(), kernels);       // of the first run
  EXPECT_EQ(calls("kept cuLaunchKernel").size(), kernels);  // of the second one
  EXPECT_EQ(calls("kept cuMemcpyHtoDAsync").size(), 1u);    // what is not the host's memory as it came
  EXPECT_EQ(calls("kept cuMemcpyDtoHAsync").size(), 2u);
  EXPECT_EQ(calls("cuGraphLaunch").size(), 4u);
  EXPECT_EQ(calls("cuGraphInstantiate").size(), 1u);
  EXPECT_EQ(calls("cuGraphExecKernelNodeSetParams").size(), 0u);  // ports are in the host's memory
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
    EXPECT_EQ(ran(1, 0), 1u);  // the one launch that reads it
    EXPECT_EQ(ran(1, 0), 0u);
    EXPECT_GE(ran(2, 1), 1u);  // and each that reads the result
    EXPECT_GE(ran(0, 2), 1u);
    EXPECT_EQ(ran(0, 2), 0u);
    EXPECT_TRUE(context.replayed());
    // Two ports may lie in one place.
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
  EXPECT_EQ(calls("kept cuMemcpyHtoDAsync").size(), 2u + 1u);
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
  // Any two serve who names none.
  options_.device_chosen = false;
  options_.device = "cpu";
  make();
  EXPECT_EQ(executable().devices[1]->place(), "cuda:1");
  // There is one CPU.
  load(folder_ / "model.fe");
  options_.device_chosen = true;
  options_.device = "cpu:0,cpu:1";
  const std::vector<TargetName> cpu = {{"cpu:", "--target"}};
  const auto refused = model_->save(dims(), options_, cpu, (folder_ / "cpu.fepkg").string());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("'cpu' has one device, number 0"), std::string::npos)
      << refused.error().message();
}

/// A step of the host's that adds 1 to what it is given to write.
int32_t add_one(void*, fe_call*, const fe_kernel_call_args* args, fe_none*) {
  *static_cast<float*>(static_cast<const fe_kernel_buffer*>(args->buffers.data)->data) += 1;
  return FE_OK;
}

TEST_F(DeviceRuns, TheHostWaitsForCopiesFromPinnedMemory) {
  run::Executable program;
  for (const char* name : {"cuda:0", "cpu"}) {
    auto device = run::Device::open(name, session_->registry());
    ASSERT_TRUE(device) << device.error().message();
    program.devices.push_back(*device);
  }
  constexpr int64_t bytes = 256;
  const run::PortInfo port{"x", DType::f32_, {bytes / 4}, bytes};
  program.inputs = {port};
  program.outputs = {port};
  program.arena_bytes = {bytes, bytes};
  const auto place = [&](run::Place::Kind kind, uint32_t device) {
    run::Place result;
    result.kind = kind;
    result.device = device;
    result.bytes = bytes;
    return result;
  };
  const auto input = place(run::Place::Kind::input, 1), output = place(run::Place::Kind::output, 1);
  const auto there = place(run::Place::Kind::arena, 0);
  // The device is given the input; the host changes it, as a cache is changed; the device gives back what it was given.
  run::Launch to, change, back;
  to.copy = FE_COPY_TO_DEVICE;
  to.arguments = {input, there};
  change.call.function = add_one;
  change.call.writes = {0};
  change.arguments = {input};
  change.call_types.resize(1);
  back.copy = FE_COPY_TO_HOST;
  back.arguments = {there, output};
  program.steps = {to, change, back};
  program.output_places = {output};
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
    // From other memory copies are done when they return, and what the host only reads may be read beside them.
    program.steps[1].call.reads = {0};
    program.steps[1].call.writes = {};
    forget_calls();
    const void* in = pinned;
    EXPECT_TRUE(program.run(context, {&in, 1}, {&out, 1}));
    EXPECT_EQ(calls("cuStreamSynchronize").size(), 2u);
  }
  driver<int(void*)>("cuMemFreeHost")(pinned);
}

TEST_F(DeviceRuns, ARunThatFailsLeavesNothingToDo) {
  compile(two_kernels);
  driver<void()>("fake_driver_reset")();
  setenv("FAKE_DRIVER_FAIL", "cuLaunchKernel:2", 1);
  Context context(executable());
  EXPECT_FALSE(run(context, 1));
  EXPECT_EQ(calls("cuStreamSynchronize").size(), 1u);
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
  ASSERT_EQ(calls("cuLaunchKernel").size(), 1u);
  EXPECT_TRUE(calls("cuLaunchKernel")[0].ends_with(" stream " + number));
  EXPECT_FALSE(calls("kept cuLaunchKernel")[0].ends_with(" stream " + number));
  for (const auto& launch : calls("cuGraphLaunch")) EXPECT_EQ(launch, " stream " + number);
  EXPECT_EQ(calls("cuStreamDestroy").size(), 1u);  // the one that was recorded
  driver<int(void*)>("cuStreamDestroy_v2")(mine);
}

TEST_F(DeviceRuns, ALostDeviceFailsAndTheProcessGoesOn) {
  compile(two_kernels);
  driver<void()>("fake_driver_reset")();
  setenv("FAKE_DRIVER_LOSE", "cuLaunchKernel:1", 1);
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
  // Compiling anew fails in the same way, and another device serves.
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

TEST_F(DeviceRuns, ADriverWithoutPoolsGivesMemoryItself) {
  setenv("FAKE_DRIVER_POOLS", "0", 1);
  setenv("FAKE_DRIVER_DEVICES", "2", 1);
  options_.device = "cuda:1";  // which no other test has opened
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
      // Asked of a device that is well, the status changes nothing of an error.
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
  // The caller records a stream as it likes.
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

TEST_F(DeviceRuns, AllIsClosedWhereverTheDeviceIsLost) {
  for (const char* call :
       {"cuMemAllocFromPoolAsync:1", "cuMemcpyHtoDAsync:1", "cuLaunchKernel:2", "cuMemcpyDtoHAsync:1",
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
          << call << " " << take;  // what loses it gives nothing
  }
}

TEST_F(DeviceRuns, APeersPoolIsReachedOnceItIsThere) {
  setenv("FAKE_DRIVER_DEVICES", "2", 1);
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
  EXPECT_EQ(copies(), 0u);  // it has no pool yet
  void* const pooled = *second->alloc(64, nullptr);
  EXPECT_EQ(copies(), 1u);
  EXPECT_EQ(copies(), 1u);
  EXPECT_EQ(calls("cuCtxEnablePeerAccess").size(), 1u);
  second->free(pooled, nullptr);
  first->free(mine, nullptr);
  driver<int(uint64_t)>("cuMemFree_v2")(given);
}

TEST_F(DeviceRuns, CodeSaysWhatItTakes) {
  compile(one_kernel);
  const auto& kernel = executable().kernels[0];
  EXPECT_EQ(kernel.registers, 42);
  EXPECT_EQ(kernel.spills, 0);
}

TEST_F(DeviceRuns, PeersCopyWithoutTheHost) {
  setenv("FAKE_DRIVER_DEVICES", "4", 1);
  run::Executable program;
  for (const char* name : {"cuda:2", "cuda:3", "cpu"}) {
    auto device = run::Device::open(name, session_->registry());
    ASSERT_TRUE(device) << device.error().message();
    program.devices.push_back(*device);
  }
  constexpr int64_t elements = 64, bytes = elements * 4;
  const run::PortInfo port{"x", DType::f32_, {elements}, bytes};
  program.inputs = {port};
  program.outputs = {port};
  run::ArenaNeeds needs;
  needs.keep(0, bytes, 0);
  const std::vector<run::ArenaPlan> arenas(3, run::ArenaPlan(needs, 256, bytes));
  program.arena_bytes = {bytes, bytes, bytes};
  run::Mirrors mirrors(program, arenas);
  run::Place home;
  home.kind = run::Place::Kind::arena;
  home.device = 2;
  home.bytes = bytes;
  // The first device has made it, the second one reads it: nothing is brought home between.
  run::Place input = home, output = home;
  input.kind = run::Place::Kind::input;
  output.kind = run::Place::Kind::output;
  const auto on_first = mirrors.reach(0, 0, home, true, program.steps);
  ASSERT_TRUE(program.steps.empty());
  run::Launch given;
  given.device = 0;
  given.copy = FE_COPY_TO_DEVICE;
  given.arguments = {input, on_first};
  program.steps.push_back(given);
  const auto on_second = mirrors.reach(1, 0, home, false, program.steps);
  ASSERT_EQ(program.steps.size(), 2u);
  EXPECT_EQ(program.steps[1].copy, FE_COPY_PEER);
  run::Launch back;
  back.device = 1;
  back.copy = FE_COPY_TO_HOST;
  back.arguments = {on_second, output};
  program.steps.push_back(back);
  program.output_places = {output};
  const auto ready = program.prepare();
  ASSERT_TRUE(ready) << ready.error().message();
  EXPECT_EQ(program.recording().category, "devices");
  std::vector<float> x(elements), y(elements);
  for (int64_t k = 0; k < elements; ++k) x[k] = static_cast<float>(k);
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

}  // namespace
}  // namespace ferrite::core
