// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/gpu_runtime/driver_runtime.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "driver_numbers.h"
#include "ferrite/error.hpp"

namespace ferrite::emitter {

namespace {

constexpr uint64_t allocation_alignment = 256;

/// The error log of a driver's compiler.
struct JitLog {
  std::array<char, 4096> text{};
  std::array<int, 2> options = {jit_error_log, jit_error_log_bytes};
  std::array<void*, 2> values = {text.data(), reinterpret_cast<void*>(text.size() - 1)};

  unsigned count() const { return static_cast<unsigned>(options.size()); }
};

}  // namespace

DriverLibrary::DriverLibrary(std::span<const std::string> files, std::string code, std::string advice)
    : library_(files), code_(std::move(code)), advice_(std::move(advice)) {
  if (!library_.is_open()) unavailable(library_.reasons());
}

void DriverLibrary::unavailable(const std::string& what) const {
  throw Failure(FE_EDEVICE, code_, what + "; " + advice_);
}

void DriverRuntime::check(Result result, const char* what) const {
  if (result != success)
    throw Failure(FE_EDEVICE, code("device"), std::string(what) + " failed: " + text_of(result));
}

int DriverRuntime::attribute(int device, int which) {
  int value = 0;
  check(driver().device_attribute(&value, which, device), "asking the device what it has");
  return value;
}

uint32_t DriverRuntime::device_count() {
  int count = 0;
  const auto result = driver().device_count(&count);
  if (result == error_no_device) return 0;
  check(result, "counting the devices");
  return static_cast<uint32_t>(count);
}

DeviceDescription DriverRuntime::describe(uint32_t number) {
  const auto& api = driver();
  int device = 0;
  check(api.device_get(&device, static_cast<int>(number)), "opening the device");
  std::array<char, 256> name{};
  check(api.device_name(name.data(), static_cast<int>(name.size()) - 1, device),
        "asking for the device's name");
  size_t bytes = 0;
  check(api.device_memory(&bytes, device), "asking for the device's memory");
  DeviceDescription result;
  result.description = emitter::describe(device_of(device));
  result.name = name.data();
  result.dlpack_device = dlpack_device();
  result.host_memory = false;
  result.alignment = allocation_alignment;
  result.capacity = bytes;
  return result;
}

GpuDescription DriverRuntime::device_of(int device) {
  const auto& which = driver().attributes;
  GpuDescription result;
  result.architecture = architecture_of(device);
  result.multiprocessors = attribute(device, which.multiprocessors);
  result.clock_khz = attribute(device, which.clock_khz);
  result.l2_bytes = attribute(device, which.l2_bytes);
  constexpr int64_t kilobits_of_gigabyte = 8'000'000;
  result.gigabytes_a_second = int64_t{attribute(device, which.memory_clock_khz)} *
                              attribute(device, which.bus_bits) * transfers_a_clock(result.architecture) /
                              kilobits_of_gigabyte;
  return result;
}

LoadedCode DriverRuntime::load(uint32_t number, const DeviceCode& made) {
  enter(number);
  const auto& api = driver();
  const std::string code = api.linker.create ? compiled(made) : made.code;
  JitLog log;
  Handle module = nullptr;
  const auto result =
      api.module_load(&module, code.c_str(), log.count(), log.options.data(), log.values.data());
  if (result != success) not_taken(made, result, log.text.data());
  Handle function = nullptr;
  if (const auto found = api.module_function(&function, module, made.entry.c_str()); found != success) {
    api.module_unload(module);
    check(found, "finding a kernel");
  }
  if (made.shared_bytes > 0)
    if (const auto set = api.set_function_attribute(function, attribute_dynamic_shared,
                                                    static_cast<int>(made.shared_bytes));
        set != success) {
      api.module_unload(module);
      check(set, "asking for shared memory");
    }
  const auto number_of = [&](int which) -> int64_t {
    int value = 0;
    return api.function_attribute(&value, which, function) == success ? value : -1;
  };
  CodeNumbers numbers{number_of(attribute_registers), number_of(attribute_local),
                      number_of(attribute_shared)};
  if (numbers.shared_bytes >= 0) numbers.shared_bytes += made.shared_bytes;
  return {module, function, numbers};
}

std::string DriverRuntime::compiled(const DeviceCode& made) {
  const auto& linker = driver().linker;
  std::string text = made.code;  // the driver's interface does not promise to leave the input unchanged
  JitLog log;
  Handle state = nullptr;
  void* code = nullptr;
  size_t bytes = 0;
  auto result = linker.create(log.count(), log.options.data(), log.values.data(), &state);
  if (result != success) not_taken(made, result, log.text.data());
  const std::unique_ptr<void, Result (*)(Handle)> ended(state, linker.destroy);
  result =
      linker.add(state, linker.input, text.data(), text.size() + 1, made.entry.c_str(), 0, nullptr, nullptr);
  if (result == success) result = linker.complete(state, &code, &bytes);
  if (result != success) not_taken(made, result, log.text.data());
  return {static_cast<const char*>(code), bytes};
}

void DriverRuntime::not_taken(const DeviceCode& made, Result result, const char* log) const {
  throw Failure(FE_EDEVICE, code("link"),
                "the driver does not take " + made.entry + ": " + text_of(result) +
                    (*log ? std::string("\n") + log : ""));
}

void DriverRuntime::unload(uint32_t number, std::span<const LoadedCode> codes) {
  const auto& api = driver();
  finish(number, enter(number));
  Result result = success;
  for (const auto& code : codes) result = std::max(result, api.module_unload(code.module));
  check(result, "unloading a module");
}

void DriverRuntime::start(uint32_t number, void* stream, void* function, const DeviceCode& code, bool follows,
                          std::span<const void* const> arguments) {
  auto& on = stream_of(enter(number), stream);
  std::vector<const void*> values(arguments.begin(), arguments.end());
  if (code.blocks > 0) {
    std::vector<void*> places;
    for (auto& value : values) places.push_back(&value);
    check(
        launch({function, static_cast<unsigned>(code.blocks), code.threads, code.shared_bytes, places.data()},
               code.overlaps && follows, on.native),
        "launching a kernel");
  }
  if (on.recording) keep_launch(on, function, code, std::move(values));
}

const Driver& DriverRuntime::driver() {
  std::lock_guard lock(mutex_);
  if (!driver_) driver_ = open();
  return *driver_;
}

/// The device, which becomes the thread's current one.
DriverRuntime::OpenDevice& DriverRuntime::enter(uint32_t number) {
  const auto& api = driver();
  std::lock_guard lock(mutex_);
  auto& opened = devices_[number];
  auto& stream = opened.stream.native;
  if (!stream) check(api.device_get(&opened.place.device, static_cast<int>(number)), "opening the device");
  enter(opened.place.device, opened.place.context);
  for (auto* made : {&stream, &opened.aside})
    if (!*made) check(api.stream_create(made, stream_beside_others), "making a stream");
  return opened;
}

}  // namespace ferrite::emitter
