// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on a stream of the program that embeds Ferrite, with a driver that records its calls: each launch adds
// 1 to the first element of its first buffer and stores it in its last buffer.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/ferrite.h"

namespace {

constexpr int64_t count = 64;
constexpr DLDevice device{static_cast<DLDeviceType>(2), 0};
constexpr const char* model_text =
    "ferrite graph 0\n"
    "graph @exp(%x: f32[64]) -> (%r \"r\") {\n"
    "  %r = exp(%x)\n"
    "}\n";
constexpr const char* gather_text =
    "ferrite graph 0\n"
    "graph @gather(%x: f32[64], %i: i64[64]) -> (%r \"r\") {\n"
    "  %r = gather(%x, %i) {axis = 0}\n"
    "}\n";

/// The driver that the plugin opens, too.
struct Driver {
  void* library = dlopen(FERRITE_FAKE_DRIVER, RTLD_NOW);
  int (*stream_create)(void**, unsigned) = find<int (*)(void**, unsigned)>("cuStreamCreate");
  int (*stream_destroy)(void*) = find<int (*)(void*)>("cuStreamDestroy_v2");
  int (*alloc)(uint64_t*, size_t) = find<int (*)(uint64_t*, size_t)>("cuMemAlloc_v2");
  int (*free)(uint64_t) = find<int (*)(uint64_t)>("cuMemFree_v2");
  template <class Function>
  Function find(const char* name) {
    return reinterpret_cast<Function>(dlsym(library, name));
  }
};

/// A tensor in device memory, which is host memory in this driver.
struct Bound {
  int64_t shape[1] = {count};
  DLTensor tensor{};
  Bound(Driver& driver, uint8_t code, uint8_t bits) : driver_(driver) {
    uint64_t address = 0;
    driver_.alloc(&address, count * 8);
    tensor.data = reinterpret_cast<void*>(address);
    std::memset(tensor.data, 0, count * 8);
    tensor.device = device;
    tensor.ndim = 1;
    tensor.dtype = {code, bits, 1};
    tensor.shape = shape;
  }
  ~Bound() { driver_.free(reinterpret_cast<uint64_t>(tensor.data)); }
  Bound(const Bound&) = delete;
  float& first() { return *static_cast<float*>(tensor.data); }

 private:
  Driver& driver_;
};

class EmbedStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(driver_.library, nullptr) << dlerror();
    folder_ = std::filesystem::temp_directory_path() / ("ferrite-stream-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("FAKE_DRIVER_LOG", file("calls").c_str(), 1);
    ::setenv("FERRITE_CACHE", "off", 1);
    std::ofstream(file("exp.fe")) << model_text;
    std::ofstream(file("gather.fe")) << gather_text;
    std::ofstream(file("ferrite.toml")) << "schema = 0\n[pipeline]\ndevice = \"cuda\"\n"
                                           "[plugin.\"ferrite.cuda\"]\nconfig = { library = \""
                                        << FERRITE_FAKE_DRIVER << "\" }\n";
  }
  void TearDown() override {
    for (void* stream : streams_) driver_.stream_destroy(stream);
    std::filesystem::remove_all(folder_);
  }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  void open(const char* name, const ferrite_allocator* allocator = nullptr) {
    const auto manifest = file("ferrite.toml");
    ferrite_session_options options{};
    options.size = sizeof options;
    options.manifest = manifest.c_str();
    options.allocator = allocator;
    ASSERT_EQ(ferrite_session_open(&options, &session_), FERRITE_OK) << last();
    ASSERT_EQ(ferrite_model_load(session_, file(name).c_str(), &model_), FERRITE_OK) << last();
  }
  void close() {
    ferrite_model_free(model_);
    ferrite_session_close(session_);
  }
  static std::string last() {
    ferrite_error error{};
    error.size = sizeof error;
    ferrite_last_error(&error);
    return std::string(error.code) + " " + error.where + ": " + error.text;
  }
  /// A model whose runs need an arena: the sum of many elements is one of parts, which live between its two
  /// kernels.
  std::string sum_of(int64_t elements) const {
    const auto name = "sum" + std::to_string(elements) + ".fe";
    std::ofstream(file(name.c_str())) << "ferrite graph 0\ngraph @sum(%x: f32[" << elements
                                      << "]) -> (%r \"r\") {\n"
                                         "  %r = reduce_sum(%x) {axes = [0], keepdims = true}\n}\n";
    return name;
  }
  void* new_stream() {
    void* stream = nullptr;
    EXPECT_EQ(driver_.stream_create(&stream, 1), 0);
    streams_.push_back(stream);
    return stream;
  }
  /// The number of the stream in the log.
  static std::string number_of(const void* stream) {
    return std::to_string(*static_cast<const int*>(stream));
  }
  int32_t run(void* stream, const DLTensor& x, DLTensor& r) {
    ferrite_run_options options{};
    options.size = sizeof options;
    options.stream = stream;
    const DLTensor* inputs[] = {&x};
    DLTensor* outputs[] = {&r};
    return ferrite_run_with(model_, &options, inputs, 1, outputs, 1);
  }
  /// The calls since the last call of this function.
  std::vector<std::string> calls() {
    std::ifstream in(file("calls"));
    in.seekg(static_cast<std::streamoff>(seen_));
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) {
      seen_ += line.size() + 1;
      lines.push_back(line);
    }
    return lines;
  }
  static int counted(const std::vector<std::string>& lines, const std::string& name,
                     const std::string& ending = "") {
    return static_cast<int>(std::ranges::count_if(lines, [&](const std::string& line) {
      return line.starts_with(name + " ") && line.ends_with(ending);
    }));
  }

  Driver driver_;
  std::filesystem::path folder_;
  ferrite_session* session_ = nullptr;
  ferrite_model* model_ = nullptr;
  size_t seen_ = 0;
  std::vector<void*> streams_;  ///< streams of the program
};

TEST_F(EmbedStreamTest, GivesItsWorkToTheStreamAndReturns) {
  open("exp.fe");
  void* const stream = new_stream();
  const auto on = " stream " + number_of(stream);
  Bound x(driver_, kDLFloat, 32), r(driver_, kDLFloat, 32);
  for (int k = 0; k < 5; ++k) {
    x.first() = static_cast<float>(k);
    if (k > 0) calls();
    ASSERT_EQ(run(stream, x.tensor, r.tensor), FERRITE_OK) << last();
    const auto lines = calls();
    EXPECT_EQ(r.first(), static_cast<float>(k + 1));
    EXPECT_EQ(counted(lines, "cuLaunchKernelEx", on) + counted(lines, "cuGraphLaunch", on), 1) << k;
    EXPECT_EQ(counted(lines, "cuStreamSynchronize", " " + number_of(stream)), 0) << k;
    EXPECT_EQ(counted(lines, "cuLaunchKernelEx"), k == 0 ? 1 : 0);
  }
  close();
}

TEST_F(EmbedStreamTest, WaitsForWhatTheHostReads) {
  open("exp.fe");
  void* const stream = new_stream();
  const auto waited = " " + number_of(stream);
  Bound x(driver_, kDLFloat, 32);
  std::array<float, count> results{};
  Bound r(driver_, kDLFloat, 32);
  DLTensor on_host = r.tensor;
  on_host.data = results.data();
  on_host.device = {kDLCPU, 0};
  x.first() = 4;
  ASSERT_EQ(run(stream, x.tensor, on_host), FERRITE_OK) << last();
  EXPECT_EQ(results[0], 5);
  EXPECT_GE(counted(calls(), "cuStreamSynchronize", waited), 1);
  close();

  // A run with indices from inputs waits, so that it can report an index out of range.
  open("gather.fe");
  Bound i(driver_, kDLInt, 64);
  const DLTensor* inputs[] = {&x.tensor, &i.tensor};
  DLTensor* outputs[] = {&r.tensor};
  ferrite_run_options options{};
  options.size = sizeof options;
  options.stream = stream;
  calls();
  ASSERT_EQ(ferrite_run_with(model_, &options, inputs, 2, outputs, 1), FERRITE_OK) << last();
  EXPECT_GE(counted(calls(), "cuStreamSynchronize", waited), 1);
  close();
}

TEST_F(EmbedStreamTest, WaitsWithoutAStream) {
  open("exp.fe");
  void* const stream = new_stream();
  Bound x(driver_, kDLFloat, 32), r(driver_, kDLFloat, 32);
  calls();
  ASSERT_EQ(run(nullptr, x.tensor, r.tensor), FERRITE_OK) << last();
  const auto lines = calls();
  EXPECT_EQ(counted(lines, "cuLaunchKernelEx"), 1);
  EXPECT_EQ(counted(lines, "cuLaunchKernelEx", " stream " + number_of(stream)), 0);
  EXPECT_GE(counted(lines, "cuStreamSynchronize"), 1);
  close();
}

TEST_F(EmbedStreamTest, ThreadsHaveStreamsOfTheirOwn) {
  open("exp.fe");
  const std::array<void*, 2> streams = {new_stream(), new_stream()};
  std::array<int, 2> wrong{};
  const auto work = [&](size_t t) {
    Bound x(driver_, kDLFloat, 32), r(driver_, kDLFloat, 32);
    for (int k = 0; k < 20; ++k) {
      x.first() = static_cast<float>(100 * t) + static_cast<float>(k);
      wrong[t] += run(streams[t], x.tensor, r.tensor) != FERRITE_OK || r.first() != x.first() + 1;
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  EXPECT_EQ(wrong[0] + wrong[1], 0);
  const auto lines = calls();
  for (const void* stream : streams) {
    const auto on = " stream " + number_of(stream);
    EXPECT_EQ(counted(lines, "cuLaunchKernelEx", on) + counted(lines, "cuGraphLaunch", on), 20);
  }
  close();
}

TEST_F(EmbedStreamTest, ModelsShareAnArenaInTheOrderOfAStream) {
  constexpr int64_t small = 1 << 16, large = 1 << 22;
  const auto small_name = sum_of(small), large_name = sum_of(large);
  open(small_name.c_str());
  ferrite_model *other = nullptr, *larger = nullptr;
  ASSERT_EQ(ferrite_model_load(session_, file(small_name.c_str()).c_str(), &other), FERRITE_OK) << last();
  ASSERT_EQ(ferrite_model_load(session_, file(large_name.c_str()).c_str(), &larger), FERRITE_OK) << last();
  uint64_t memory = 0;
  ASSERT_EQ(driver_.alloc(&memory, large * sizeof(float)), 0);
  std::memset(reinterpret_cast<void*>(memory), 0, large * sizeof(float));
  Bound r(driver_, kDLFloat, 32);
  r.shape[0] = 1;
  const auto run_of = [&](ferrite_model* model, int64_t elements, void* stream) {
    calls();
    DLTensor x = r.tensor;
    x.data = reinterpret_cast<void*>(memory);
    x.shape = &elements;
    ferrite_model* const before = std::exchange(model_, model);
    EXPECT_EQ(run(stream, x, r.tensor), FERRITE_OK) << last();
    model_ = before;
    return calls();
  };
  const auto allocated = [](const std::vector<std::string>& lines) {
    return std::ranges::count_if(lines, [](const auto& line) { return line.starts_with("cuMemAlloc"); });
  };
  void* const stream = new_stream();
  EXPECT_EQ(allocated(run_of(model_, small, stream)), 1);
  EXPECT_EQ(allocated(run_of(other, small, stream)), 0) << "the arena of the first model";
  EXPECT_EQ(allocated(run_of(model_, small, new_stream())), 1) << "nothing orders the two streams";
  for (int k = 0; k < 3; ++k) run_of(model_, small, stream);
  EXPECT_EQ(counted(run_of(model_, small, stream), "cuGraphLaunch"), 1);
  EXPECT_EQ(allocated(run_of(larger, large, stream)), 1) << "a larger arena in place of the first";
  const auto lines = run_of(model_, small, stream);
  EXPECT_EQ(allocated(lines), 0);
  EXPECT_EQ(counted(lines, "cuGraphLaunch"), 0) << "the recording names an arena that is gone";
  driver_.free(memory);
  for (auto* model : {other, larger}) ferrite_model_free(model);
  close();
}

TEST_F(EmbedStreamTest, TheWorkspaceIsMemoryOfTheCaller) {
  constexpr int64_t elements = 1 << 16;
  open(sum_of(elements).c_str());
  uint64_t memory = 0, arena = 0, bytes = 0;
  ASSERT_EQ(driver_.alloc(&memory, elements * sizeof(float)), 0);
  std::memset(reinterpret_cast<void*>(memory), 0, elements * sizeof(float));
  Bound x(driver_, kDLFloat, 32), r(driver_, kDLFloat, 32);
  DLTensor given = x.tensor;
  int64_t dims[] = {elements};
  given.data = reinterpret_cast<void*>(memory);
  given.shape = dims;
  r.shape[0] = 1;
  const DLTensor* inputs[] = {&given};
  DLTensor* outputs[] = {&r.tensor};
  ASSERT_EQ(ferrite_model_workspace(model_, inputs, 1, &bytes), FERRITE_OK) << last();
  ASSERT_GT(bytes, 0u);
  ASSERT_EQ(driver_.alloc(&arena, bytes), 0);
  ferrite_run_options options{};
  options.size = sizeof options;
  options.stream = new_stream();
  options.workspace = reinterpret_cast<void*>(arena);
  const auto allocated_by_a_run = [&](uint64_t workspace_bytes) {
    options.workspace_bytes = workspace_bytes;
    calls();
    EXPECT_EQ(ferrite_run_with(model_, &options, inputs, 1, outputs, 1), FERRITE_OK) << last();
    return std::ranges::count_if(calls(), [](const auto& line) { return line.starts_with("cuMemAlloc"); });
  };
  std::memset(options.workspace, 0xff, bytes);
  EXPECT_EQ(allocated_by_a_run(bytes), 0);
  const auto* const written = static_cast<const unsigned char*>(options.workspace);
  EXPECT_TRUE(std::any_of(written, written + bytes, [](unsigned char byte) { return byte != 0xff; }));
  EXPECT_EQ(allocated_by_a_run(bytes - 1), 1) << "too little: the session's own";
  EXPECT_EQ(ferrite_model_workspace(model_, inputs, 1, nullptr), FERRITE_EINVALID);
  driver_.free(memory);
  driver_.free(arena);
  close();
}

TEST_F(EmbedStreamTest, TheAllocatorIsToldOfTheStream) {
  struct Pool {
    std::set<void*> streams;
    int blocks = 0;
  } pool;
  ferrite_allocator allocator{};
  allocator.size = sizeof allocator;
  allocator.self = &pool;
  allocator.device_type = device.device_type;
  allocator.alloc = [](void* self, DLDevice, uint64_t bytes, uint64_t alignment, void* stream) -> void* {
    static_cast<Pool*>(self)->streams.insert(stream);
    ++static_cast<Pool*>(self)->blocks;
    return std::aligned_alloc(alignment, (bytes / alignment + 1) * alignment);
  };
  allocator.free = [](void* self, DLDevice, void* data, uint64_t, void* stream) {
    EXPECT_TRUE(static_cast<Pool*>(self)->streams.contains(stream));
    --static_cast<Pool*>(self)->blocks;
    std::free(data);
  };
  open("exp.fe", &allocator);
  void* const stream = new_stream();
  Bound x(driver_, kDLFloat, 32);
  ferrite_run_options options{};
  options.size = sizeof options;
  options.stream = stream;
  options.outputs_on_device = 1;
  const DLTensor* inputs[] = {&x.tensor};
  DLManagedTensorVersioned* made = nullptr;
  x.first() = 7;
  ASSERT_EQ(ferrite_run_alloc_with(model_, &options, inputs, 1, &made, 1), FERRITE_OK) << last();
  EXPECT_TRUE(pool.streams.contains(stream));
  EXPECT_EQ(*static_cast<float*>(made->dl_tensor.data), 8);
  close();
  EXPECT_EQ(pool.blocks, 1);
  made->deleter(made);
  EXPECT_EQ(pool.blocks, 0);
}

}  // namespace
