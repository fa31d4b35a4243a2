// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The behaviour of the runtime after failed driver calls, and the destruction of its objects.
#include "backends/level_zero/runtime.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/level_zero/driver.h"
#include "ferrite/error.hpp"

namespace ferrite::level_zero {
namespace {

constexpr uint64_t bytes = 1 << 12;

/// The driver counts its calls from the start of the process, and so does the log.
class LevelZeroRuntimeTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("ZE_ENABLE_ALT_DRIVERS", FERRITE_POCL_DRIVER, 1);
    log() = testing::TempDir() + "level_zero_runtime_" + std::to_string(getpid());
    setenv("POCL_DRIVER_LOG", log().c_str(), 1);
    setenv("POCL_DRIVER_LATE", "1", 1);
  }
  static void TearDownTestSuite() { std::remove(log().c_str()); }

  void SetUp() override { start(); }
  void TearDown() override {
    runtime_.reset();
    nothing_fails();
  }
  /// Creates a new runtime; its calls are counted from here on.
  void start() {
    nothing_fails();
    runtime_ = make_runtime(Host(&host_), loader_library);
    first_ = lines().size();
  }
  static void nothing_fails() {
    for (const char* variable : {"POCL_DRIVER_FAIL", "POCL_DRIVER_ERROR", "POCL_DRIVER_LOSE"})
      unsetenv(variable);
  }

  /// Makes the next call of the function fail with an error that leaves the device intact.
  static void fail_next(const std::string& function) {
    setenv("POCL_DRIVER_FAIL", next(function).c_str(), 1);
    setenv("POCL_DRIVER_ERROR", std::to_string(error_out_of_host_memory).c_str(), 1);
  }
  static void lose_in_next(const std::string& function) {
    setenv("POCL_DRIVER_LOSE", next(function).c_str(), 1);
  }

  void copy(uint32_t kind, void* to, const void* from) {
    auto args = sized<fe_copy_args>();
    args.kind = kind;
    args.to = to;
    args.from = from;
    args.bytes = bytes;
    runtime_->copy(args);
  }
  /// After the call, host memory belongs to the caller again.
  void store(void* data, char value) {
    source_.assign(bytes, value);
    copy(FE_COPY_TO_DEVICE, data, source_.data());
    source_.assign(bytes, '?');
  }
  std::string back_from(const void* data) {
    std::string got(bytes, '?');
    copy(FE_COPY_TO_HOST, got.data(), data);
    return got;
  }

  /// The number of successful calls of the function.
  size_t calls(const std::string& function) const {
    const auto all = lines();
    return static_cast<size_t>(std::count_if(
        all.begin() + static_cast<std::ptrdiff_t>(first_), all.end(), [&](const std::string& line) {
          return line.substr(0, line.find(' ')) == function && line.find("failed") == std::string::npos;
        }));
  }
  void expect_all_ended() const {
    for (const auto& [make, end] : {std::pair{"zeContextCreate", "zeContextDestroy"},
                                    {"zeCommandListCreateImmediate", "zeCommandListDestroy"},
                                    {"zeEventPoolCreate", "zeEventPoolDestroy"},
                                    {"zeEventCreate", "zeEventDestroy"},
                                    {"zeMemAllocDevice", "zeMemFree"}})
      EXPECT_EQ(calls(make), calls(end)) << make;
  }

  std::unique_ptr<Runtime> runtime_;

 private:
  static std::string& log() {
    static std::string path;
    return path;
  }
  static std::vector<std::string> lines() {
    std::ifstream file(log());
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }
  static std::string next(const std::string& function) {
    const auto all = lines();
    const auto before = std::ranges::count_if(
        all, [&](const std::string& line) { return line.substr(0, line.find(' ')) == function; });
    return function + ":" + std::to_string(before + 1);
  }

  fe_host host_ = sized<fe_host>();
  std::string source_;
  size_t first_ = 0;
};

TEST_F(LevelZeroRuntimeTest, AWaitBehindOneThatFailedWaits) {
  void* const data = runtime_->alloc(0, bytes);
  store(data, 'a');
  for (const char* function : {"zeEventHostSynchronize", "zeEventHostReset", "zeCommandListAppendBarrier"}) {
    fail_next(function);
    EXPECT_THROW(store(data, 'a'), Failure) << function;
    EXPECT_EQ(runtime_->status(0).status, FE_DEVICE_FAULT) << function;
    EXPECT_EQ(runtime_->status(0).status, FE_DEVICE_OK) << function;
    for (const char value : {'b', 'c'}) {
      store(data, value);
      EXPECT_EQ(back_from(data), std::string(bytes, value)) << function;
    }
  }
  runtime_->free(0, data);
  runtime_.reset();
  expect_all_ended();
}

TEST_F(LevelZeroRuntimeTest, WhatIsGivenBackThoughAWaitFailedEndsBehindTheNextOne) {
  void* data = runtime_->alloc(0, bytes);
  fail_next("zeEventHostSynchronize");
  runtime_->free(0, data);
  EXPECT_EQ(calls("zeMemFree"), 0u);  // work may still use it
  runtime_->synchronise(0);
  EXPECT_EQ(calls("zeMemFree"), 1u);
  EXPECT_EQ(calls("zeEventPoolDestroy"), 1u);
  data = runtime_->alloc(0, bytes);
  fail_next("zeEventHostSynchronize");
  runtime_->free(0, data);
  runtime_.reset();
  expect_all_ended();
}

TEST_F(LevelZeroRuntimeTest, WhatIsMadeBeforeAFailureEnds) {
  for (const char* function :
       {"zeContextCreate", "zeCommandListCreateImmediate", "zeEventPoolCreate", "zeEventCreate"}) {
    start();
    fail_next(function);
    void* data = nullptr;
    EXPECT_THROW(
        {
          data = runtime_->alloc(0, bytes);
          runtime_->synchronise(0);
        },
        Failure)
        << function;
    if (!data) data = runtime_->alloc(0, bytes);
    runtime_->synchronise(0);
    runtime_->free(0, data);
    runtime_.reset();
    expect_all_ended();
  }
}

TEST_F(LevelZeroRuntimeTest, ALostDeviceDoesNothingMoreAndAllOfItEnds) {
  for (const char* function :
       {"zeEventHostSynchronize", "zeEventHostReset", "zeCommandListAppendMemoryCopy", "zeMemAllocDevice"}) {
    start();
    void* const data = runtime_->alloc(0, bytes);
    store(data, 'a');
    EXPECT_EQ(runtime_->status(0).status, FE_DEVICE_OK);
    lose_in_next(function);
    EXPECT_THROW(
        {
          store(data, 'b');
          runtime_->alloc(0, bytes);
        },
        Failure)
        << function;
    const auto status = runtime_->status(0);
    EXPECT_EQ(status.status, FE_DEVICE_LOST) << function;
    EXPECT_NE(status.text.find("the device is lost"), std::string::npos) << status.text;
    nothing_fails();  // the device stays lost even so
    EXPECT_THROW(runtime_->alloc(0, bytes), Failure) << function;
    EXPECT_THROW(runtime_->synchronise(0), Failure) << function;
    EXPECT_EQ(runtime_->status(0).status, FE_DEVICE_LOST) << function;
    runtime_->free(0, data);
    runtime_.reset();
    expect_all_ended();
  }
}

TEST_F(LevelZeroRuntimeTest, ALossIsFoundByAsking) {
  runtime_->free(0, runtime_->alloc(0, bytes));
  lose_in_next("zeContextGetStatus");
  EXPECT_EQ(runtime_->status(0).status, FE_DEVICE_LOST);
  runtime_.reset();
  expect_all_ended();
}

}  // namespace
}  // namespace ferrite::level_zero
