// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors in a device's memory, and a program's allocator, through the embedding API. The device is the
// accelerator of the stubs: an address in its memory is none of the host's, so that whoever reads there
// without a copy is found out.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/ferrite.h"
#include "ferrite/ferrite.hpp"
#include "tests/plugins/stubs/accelerator.h"

namespace {

constexpr int64_t rows = 4, columns = 24;
// The device takes all but the sum, which is computed on the host between.
constexpr const char* model_text =
    "ferrite graph 0\n"
    "graph @mixed(%x: f32[4,24], %y: f32[4,24]) -> (%out \"out\", %total \"total\") {\n"
    "  %sum = add(%x, %y)\n"
    "  %clip = relu(%sum)\n"
    "  %total = reduce_sum(%clip) {axes = [1], keepdims = true}\n"
    "  %twice = add(%clip, %clip)\n"
    "  %out = mul(%twice, %sum)\n"
    "}\n";
constexpr const char* cache_text =
    "ferrite graph 0\n"
    "graph @cache(%c: f32[4,24] mutated_by %0, %u: f32[4,24]) -> (%1 \"sum\") {\n"
    "  %0 = add(%c, %u)\n"
    "  %1 = reduce_sum(%0) {axes = [0, 1], keepdims = false}\n"
    "}\n";
constexpr DLDevice accelerator{static_cast<DLDeviceType>(acme::dlpack_device), 0}, host{kDLCPU, 0};

char* shifted(void* address) {
  return reinterpret_cast<char*>(reinterpret_cast<uintptr_t>(address) ^ acme::device_bit);
}

/// Floats in the memory of the host or of the accelerator, `offset` bytes behind an aligned address.
struct Bound {
  std::vector<int64_t> shape, strides;
  DLTensor tensor{};
  Bound(std::vector<int64_t> dims, DLDevice device, const std::vector<float>& elements, uint64_t offset = 0)
      : shape(std::move(dims)), memory_(std::aligned_alloc(4096, 8192), std::free) {
    std::memset(memory_.get(), 0xff, 8192);
    std::memcpy(static_cast<char*>(memory_.get()) + offset, elements.data(), elements.size() * sizeof(float));
    tensor.data = device.device_type == kDLCPU ? memory_.get() : shifted(memory_.get());
    tensor.device = device;
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shape.data();
    tensor.byte_offset = offset;
    count_ = elements.size();
  }
  std::vector<float> elements() const {
    std::vector<float> result(count_);
    std::memcpy(result.data(), static_cast<char*>(memory_.get()) + tensor.byte_offset,
                count_ * sizeof(float));
    return result;
  }

 private:
  std::shared_ptr<void> memory_;
  size_t count_ = 0;
};

/// A pool that counts, and fails once when it is asked to.
struct Pool {
  std::mutex mutex;
  std::map<void*, uint64_t> blocks;
  std::map<int32_t, int> by_kind;
  int calls = 0, fails_at = 0;
  uint64_t skew = 0;
  bool wrong = false;

  ferrite_allocator table(int32_t kind) {
    ferrite_allocator result{};
    result.size = sizeof result;
    result.self = this;
    result.device_type = kind;
    result.alloc = [](void* self, DLDevice device, uint64_t bytes, uint64_t alignment, void*) {
      return static_cast<Pool*>(self)->alloc(device, bytes, alignment);
    };
    result.free = [](void* self, DLDevice device, void* data, uint64_t bytes, void*) {
      static_cast<Pool*>(self)->free(device, data, bytes);
    };
    return result;
  }
  void* alloc(DLDevice device, uint64_t bytes, uint64_t alignment) {
    std::lock_guard lock(mutex);
    if (++calls == fails_at) return nullptr;
    ++by_kind[device.device_type];
    void* data = std::aligned_alloc(4096, (bytes + skew) / 4096 * 4096 + 4096);
    wrong |= bytes == 0 || (alignment & (alignment - 1)) != 0 || device.device_id != 0;
    char* given = (device.device_type == kDLCPU ? static_cast<char*>(data) : shifted(data)) + skew;
    blocks[given] = bytes;
    return given;
  }
  void free(DLDevice device, void* data, uint64_t bytes) {
    std::lock_guard lock(mutex);
    const auto found = blocks.find(data);
    wrong |= found == blocks.end() || found->second != bytes;
    blocks.erase(data);
    char* given = static_cast<char*>(data) - skew;
    std::free(device.device_type == kDLCPU ? given : shifted(given));
  }
};

struct Closed {
  void operator()(ferrite_session* session) const { ferrite_session_close(session); }
  void operator()(ferrite_model* model) const { ferrite_model_free(model); }
};
using SessionHandle = std::unique_ptr<ferrite_session, Closed>;
using ModelHandle = std::unique_ptr<ferrite_model, Closed>;

class EmbedDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("ferrite-embed-device-test-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    std::ofstream(file("mixed.fe")) << model_text;
    std::ofstream(file("cache.fe")) << cache_text;
    for (int64_t k = 0; k < rows * columns; ++k) {
      x_.push_back(static_cast<float>(k % 7) - 3);
      y_.push_back(static_cast<float>(k % 5) - 2);
    }
    total_.resize(rows);
    for (size_t k = 0; k < x_.size(); ++k) {
      const float sum = x_[k] + y_[k], clip = std::max(sum, 0.0f);
      out_.push_back(2 * clip * sum);
      total_[k / columns] += clip;
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const char* name) const { return (folder_ / name).string(); }

  SessionHandle open(const char* device = "npu", const ferrite_allocator* allocator = nullptr) {
    static const char* const plugins[] = {FERRITE_STUBS "/acme.npu.plugin.toml",
                                          FERRITE_STUBS "/acme.npu.runtime.plugin.toml"};
    ferrite_session_options options{};
    options.size = sizeof options;
    options.plugins = plugins;
    options.plugin_count = 2;
    options.device = device;
    options.allocator = allocator;
    ferrite_session* session = nullptr;
    EXPECT_EQ(ferrite_session_open(&options, &session), FERRITE_OK) << last();
    return SessionHandle(session);
  }
  ModelHandle load(const SessionHandle& session, const char* name = "mixed.fe") {
    ferrite_model* model = nullptr;
    EXPECT_EQ(ferrite_model_load(session.get(), file(name).c_str(), &model), FERRITE_OK) << last();
    return ModelHandle(model);
  }
  static std::string last() {
    ferrite_error error{};
    error.size = sizeof error;
    ferrite_last_error(&error);
    return std::string(error.code) + " " + error.where + ": " + error.text;
  }
  static int32_t run(const ModelHandle& model, const Bound& x, const Bound& y, Bound& out, Bound& total) {
    const std::array<const DLTensor*, 2> inputs = {&x.tensor, &y.tensor};
    const std::array<DLTensor*, 2> outputs = {&out.tensor, &total.tensor};
    return ferrite_run(model.get(), inputs.data(), 2, outputs.data(), 2);
  }
  Bound input(const std::vector<float>& elements, DLDevice device, uint64_t offset = 0) const {
    return Bound({rows, columns}, device, elements, offset);
  }
  Bound out(DLDevice device, uint64_t offset = 0) const {
    return Bound({rows, columns}, device, std::vector<float>(rows * columns), offset);
  }
  Bound total(DLDevice device, uint64_t offset = 0) const {
    return Bound({rows, 1}, device, std::vector<float>(rows), offset);
  }
  void refused(int32_t status, int32_t expected, const std::string& code, const std::string& what) const {
    EXPECT_EQ(status, expected) << last();
    EXPECT_EQ(last().substr(0, code.size()), code) << last();
    EXPECT_NE(last().find(what), std::string::npos) << last();
  }

  std::filesystem::path folder_;
  std::vector<float> x_, y_, out_, total_;
};

TEST_F(EmbedDeviceTest, NamesTheDevice) {
  DLDevice device{};
  for (const char* name : {"cpu", "interpreter", "cpu,npu"}) {
    device.device_type = static_cast<DLDeviceType>(99);
    ASSERT_EQ(ferrite_session_device(open(name).get(), &device), FERRITE_OK) << last();
    EXPECT_EQ(device.device_type, kDLCPU) << name;
  }
  const auto session = open();
  for (int k = 0; k < 2; ++k) {
    ASSERT_EQ(ferrite_session_device(session.get(), &device), FERRITE_OK) << last();
    EXPECT_EQ(device.device_type, acme::dlpack_device);
    EXPECT_EQ(device.device_id, 0);
  }
  refused(ferrite_session_device(open("nothing").get(), &device), FERRITE_EINVALID, "FE-D01", "nothing");
  refused(ferrite_session_device(nullptr, &device), FERRITE_EINVALID, "FE-X30", "session");
  refused(ferrite_session_device(session.get(), nullptr), FERRITE_EINVALID, "FE-X30", "out");
}

TEST_F(EmbedDeviceTest, TakesTensorsWhereverTheyAre) {
  const auto session = open();
  const auto model = load(session);
  for (unsigned where = 0; where < 16; ++where)
    for (const uint64_t offset : {0, 64, 4}) {
      const auto device = [&](unsigned k) { return where >> k & 1 ? accelerator : host; };
      const auto x = input(x_, device(0), offset), y = input(y_, device(1));
      auto out = this->out(device(2), offset), total = this->total(device(3), offset);
      ASSERT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
      EXPECT_EQ(out.elements(), out_) << where << " " << offset;
      EXPECT_EQ(total.elements(), total_) << where << " " << offset;
    }
}

TEST_F(EmbedDeviceTest, TakesTensorsOfTheDeviceForPackages) {
  const std::string command =
      "'" FERRITE_PROGRAM "' compile '" + file("mixed.fe") + "' -o '" + file("mixed.fepkg") +
      "' --device npu --plugin '" FERRITE_STUBS "/acme.npu.plugin.toml' --plugin '" FERRITE_STUBS
      "/acme.npu.runtime.plugin.toml' > /dev/null";
  // A fixed command of this test, without words from outside.
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(bugprone-command-processor)
  const auto session = open();
  const auto model = load(session, "mixed.fepkg");
  for (const auto& device : {host, accelerator}) {
    const auto x = input(x_, device), y = input(y_, accelerator, 4);
    auto out = this->out(device), total = this->total(accelerator, 4);
    ASSERT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
    EXPECT_EQ(out.elements(), out_);
    EXPECT_EQ(total.elements(), total_);
  }
}

TEST_F(EmbedDeviceTest, MakesOutputsThere) {
  ferrite_run_options options{};
  options.size = sizeof options;
  options.outputs_on_device = 1;
  std::array<DLManagedTensorVersioned*, 2> made{};
  Pool pool;
  const auto allocator = pool.table(acme::dlpack_device);
  {
    const auto session = open("npu", &allocator);
    const auto model = load(session);
    const auto x = input(x_, host), y = input(y_, accelerator);
    const std::array<const DLTensor*, 2> inputs = {&x.tensor, &y.tensor};
    ASSERT_EQ(ferrite_run_alloc_with(model.get(), &options, inputs.data(), 2, made.data(), 2), FERRITE_OK)
        << last();
  }
  // They outlive the session.
  ASSERT_EQ(pool.blocks.size(), 2u);
  for (size_t k = 0; k < 2; ++k) {
    const auto& tensor = made[k]->dl_tensor;
    EXPECT_EQ(tensor.device.device_type, acme::dlpack_device);
    ASSERT_TRUE(pool.blocks.contains(tensor.data));
    const auto& expected = k == 0 ? out_ : total_;
    EXPECT_EQ(std::memcmp(shifted(tensor.data), expected.data(), expected.size() * sizeof(float)), 0);
    made[k]->deleter(made[k]);
  }
  EXPECT_TRUE(pool.blocks.empty());
  EXPECT_FALSE(pool.wrong);

  // Where the device works on the host's memory, that is where they are; so they are where nothing is asked
  // for.
  for (const char* device : {"cpu", "npu"}) {
    const auto session = open(device);
    const auto model = load(session);
    const auto x = input(x_, host), y = input(y_, host);
    const std::array<const DLTensor*, 2> inputs = {&x.tensor, &y.tensor};
    const auto* asked = std::string(device) == "cpu" ? &options : nullptr;
    ASSERT_EQ(ferrite_run_alloc_with(model.get(), asked, inputs.data(), 2, made.data(), 2), FERRITE_OK)
        << last();
    for (auto* tensor : made) {
      EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCPU);
      tensor->deleter(tensor);
    }
  }
}

TEST_F(EmbedDeviceTest, ChangesInputsWhereTheyAre) {
  const auto session = open();
  const auto model = load(session, "cache.fe");
  for (const auto& device : {host, accelerator})
    for (const auto& other : {host, accelerator})
      for (const uint64_t offset : {0, 4}) {
        auto cache = input(std::vector<float>(rows * columns, 1.0f), device, offset);
        const auto update = input(std::vector<float>(rows * columns, 1.0f), other);
        Bound sum({}, other, {0});
        const std::array<const DLTensor*, 2> inputs = {&cache.tensor, &update.tensor};
        const std::array<DLTensor*, 1> outputs = {&sum.tensor};
        for (const float step : {2.0f, 3.0f}) {
          ASSERT_EQ(ferrite_run(model.get(), inputs.data(), 2, outputs.data(), 1), FERRITE_OK) << last();
          EXPECT_EQ(sum.elements()[0], rows * columns * step);
          EXPECT_EQ(cache.elements(), std::vector<float>(rows * columns, step));
        }
      }
}

TEST_F(EmbedDeviceTest, ChangesStridedInputs) {
  for (const char* name : {"cpu", "npu", "interpreter"}) {
    const auto session = open(name);
    const auto model = load(session, "cache.fe");
    // Every other row of twice as many.
    auto cache = input(std::vector<float>(2 * rows * columns, 1.0f), host);
    cache.strides = {2 * columns, 1};
    cache.tensor.strides = cache.strides.data();
    const bool apart = std::string(name) == "npu";
    const auto update = input(std::vector<float>(rows * columns, 1.0f), apart ? accelerator : host);
    Bound sum({}, host, {0});
    const std::array<const DLTensor*, 2> inputs = {&cache.tensor, &update.tensor};
    const std::array<DLTensor*, 1> outputs = {&sum.tensor};
    ASSERT_EQ(ferrite_run(model.get(), inputs.data(), 2, outputs.data(), 1), FERRITE_OK) << last();
    for (size_t k = 0; k < 2 * rows * columns; ++k)
      EXPECT_EQ(cache.elements()[k], k / columns % 2 == 0 ? 2 : 1) << name << " " << k;
  }
}

TEST_F(EmbedDeviceTest, RefusesToRunInAForkedProcess) {
  const auto session = open(), cpu = open("cpu");
  const auto model = load(session), other = load(cpu);
  const auto x = input(x_, host), y = input(y_, host);
  auto out = this->out(host), total = this->total(host);
  ASSERT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    if (run(model, x, y, out, total) == FERRITE_OK || !last().starts_with("FE-D07 device npu:0: "))
      ::_exit(1);
    ::_exit(run(other, x, y, out, total) == FERRITE_OK ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
}

TEST_F(EmbedDeviceTest, RefusesTensorsThatItCannotReach) {
  const auto session = open();
  const auto model = load(session);
  const auto y = input(y_, host);
  auto out = this->out(host), total = this->total(host);
  auto x = input(x_, {accelerator.device_type, 1});
  refused(run(model, x, y, out, total), FERRITE_EUNSUPPORTED, "FE-X33",
          "input 'x': the tensor is on DLPack's device 12:1, and the program runs on 'npu:0', DLPack's "
          "device 12:0");
  x = input(x_, {static_cast<DLDeviceType>(2), 0});
  refused(run(model, x, y, out, total), FERRITE_EUNSUPPORTED, "FE-X33", "DLPack's device 2:0");
  x = input(x_, accelerator);
  x.strides = {1, rows};
  x.tensor.strides = x.strides.data();
  refused(run(model, x, y, out, total), FERRITE_EINVALID, "FE-X35", "input 'x': the tensor is strided");
  x = input(x_, accelerator);
  auto elsewhere = this->out({accelerator.device_type, 3});
  refused(run(model, x, y, elsewhere, total), FERRITE_EUNSUPPORTED, "FE-X33", "output 'out'");
  auto odd = this->out(accelerator, 2);
  refused(run(model, x, y, odd, total), FERRITE_EINVALID, "FE-X35", "output 'out'");
  auto none = this->out(accelerator);
  none.tensor.data = nullptr;
  refused(run(model, x, y, none, total), FERRITE_EINVALID, "FE-X30", "output 'out'");
  EXPECT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();

  ferrite_run_options options{};
  options.size = sizeof options;
  options.stream = &options;
  const std::array<const DLTensor*, 2> inputs = {&x.tensor, &y.tensor};
  const std::array<DLTensor*, 2> outputs = {&out.tensor, &total.tensor};
  refused(ferrite_run_with(model.get(), &options, inputs.data(), 2, outputs.data(), 2), FERRITE_EUNSUPPORTED,
          "FE-X39", "'npu:0' has no streams");

  const auto on_host = open("cpu");
  refused(run(load(on_host), x, y, out, total), FERRITE_EUNSUPPORTED, "FE-X33",
          "the program runs on 'cpu:0', DLPack's device 1:0");
}

TEST_F(EmbedDeviceTest, TakesMemoryFromTheProgram) {
  for (const int32_t kind : {0, static_cast<int32_t>(kDLCPU), acme::dlpack_device}) {
    Pool pool;
    const auto allocator = pool.table(kind);
    {
      const auto session = open("npu", &allocator);
      const auto model = load(session);
      const auto x = input(x_, host), y = input(y_, accelerator);
      auto out = this->out(host), total = this->total(accelerator, 4);
      for (int k = 0; k < 3; ++k) ASSERT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
      EXPECT_EQ(out.elements(), out_);
      EXPECT_EQ(total.elements(), total_);
    }
    EXPECT_TRUE(pool.blocks.empty()) << pool.blocks.size() << " blocks did not come back";
    EXPECT_FALSE(pool.wrong);
    EXPECT_EQ(pool.by_kind.contains(kDLCPU), kind != acme::dlpack_device);
    EXPECT_EQ(pool.by_kind.contains(acme::dlpack_device), kind != kDLCPU);
  }
}

TEST_F(EmbedDeviceTest, SaysWhenTheProgramHasNoMemory) {
  bool done = false;
  int failures = 0;
  for (int k = 1; !done; ++k) {
    ASSERT_LT(k, 100);
    Pool pool;
    pool.fails_at = k;
    const auto allocator = pool.table(0);
    {
      const auto session = open("npu", &allocator);
      const auto model = load(session);
      const auto x = input(x_, host), y = input(y_, accelerator);
      auto out = this->out(host), total = this->total(accelerator, 4);
      const int32_t status = run(model, x, y, out, total);
      done = pool.calls < k;
      if (!done) {
        refused(status, FERRITE_ENOMEM, "FE-D03", "the session's allocator has no memory for");
        ++failures;
      }
      // It was once, and the next run has what it needs.
      EXPECT_EQ(run(model, x, y, out, total), FERRITE_OK) << last();
      EXPECT_EQ(out.elements(), out_);
    }
    EXPECT_TRUE(pool.blocks.empty()) << pool.blocks.size() << " blocks did not come back";
    EXPECT_FALSE(pool.wrong);
  }
  EXPECT_GT(failures, 2);
}

TEST_F(EmbedDeviceTest, RefusesAllocators) {
  Pool pool;
  pool.skew = 4;
  auto allocator = pool.table(0);
  const auto x = input(x_, host), y = input(y_, host);
  auto out = this->out(host), total = this->total(host);
  {
    const auto session = open("npu", &allocator);
    refused(run(load(session), x, y, out, total), FERRITE_EINVALID, "FE-X38", "not aligned to the");
  }
  EXPECT_TRUE(pool.blocks.empty());

  ferrite_session_options options{};
  options.size = sizeof options;
  options.allocator = &allocator;
  ferrite_session* session = nullptr;
  allocator.alloc = nullptr;
  refused(ferrite_session_open(&options, &session), FERRITE_EINVALID, "FE-X30", "'alloc'");
  allocator = pool.table(0);
  allocator.size = offsetof(ferrite_allocator, free);
  refused(ferrite_session_open(&options, &session), FERRITE_EINVALID, "FE-X30", "'free'");
  EXPECT_EQ(session, nullptr);
}

TEST_F(EmbedDeviceTest, WrapperHasDevices) {
  ferrite::SessionOptions options;
  options.device = "npu";
  options.plugins = {FERRITE_STUBS "/acme.npu.plugin.toml", FERRITE_STUBS "/acme.npu.runtime.plugin.toml"};
  const ferrite::Session session(options);
  EXPECT_EQ(session.device().device_type, acme::dlpack_device);
  ferrite::Model model(session, file("mixed.fe"));
  const auto x = input(x_, accelerator);
  auto* data = static_cast<const float*>(x.tensor.data);
  const auto first = ferrite::Tensor::view<const float>({rows, columns}, data, session.device());
  const auto second = ferrite::Tensor::of<float>({rows, columns}, std::span<const float>(y_));
  const auto results = model.run({first, second}, {.outputs_on_device = true});
  EXPECT_EQ(results[0].device().device_type, acme::dlpack_device);
  EXPECT_EQ(std::memcmp(shifted(results[0].data()), out_.data(), out_.size() * sizeof(float)), 0);
  try {
    results[0].elements<float>();
    FAIL() << "memory of the device was read as the host's";
  } catch (const ferrite::Error& fault) {
    EXPECT_EQ(fault.code(), "FE-X33");
  }
  const auto there = model.run({first, second});
  EXPECT_EQ(there[1].elements<float>()[2], total_[2]);
}

}  // namespace
