// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What drivers without a device have in common: memory is the host's, launches do nothing. Every call that matters is written as a line to
// the file that FAKE_DRIVER_LOG names. FAKE_DRIVER_FAIL=FUNCTION:N lets the N-th call of a function fail, other variables of that
// beginning set what the device says of itself. FAKE_DRIVER_MODULES names a folder that gets each module's code.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace fake {

using Result = int;
constexpr Result success = 0, invalid_value = 1, out_of_memory = 2, no_device = 100, invalid_image = 200,
                 not_found = 500, illegal_address = 700, unknown = 999;

inline std::mutex mutex;
inline std::map<std::string, int> calls;

inline std::string setting(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text ? text : fallback;
}
inline long number(const char* name, long fallback) {
  return std::strtol(setting(name, std::to_string(fallback).c_str()).c_str(), nullptr, 10);
}

/// Writes the line; gives the error that the call is to have.
template <class... Parts>
Result called(const char* function, Result failure, const char* format, Parts... parts) {
  const std::lock_guard lock(mutex);
  const int count = ++calls[function];
  if (const char* path = std::getenv("FAKE_DRIVER_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s", function);
      std::fprintf(file, format, parts...);
      std::fprintf(file, "\n");
      std::fclose(file);
    }
  }
  return setting("FAKE_DRIVER_FAIL", "") == std::string(function) + ":" + std::to_string(count) ? failure
                                                                                                : success;
}

/// Of an error's name without its vendor's beginning.
inline const char* text_of(Result error) {
  return error == out_of_memory     ? "out of memory"
         : error == illegal_address ? "an illegal memory access"
                                    : "a failure";
}

inline Result device_count(int* count) {
  *count = static_cast<int>(number("FAKE_DRIVER_DEVICES", 1));
  return *count == 0 ? no_device : success;
}
inline Result device_name(char* name, int length) {
  std::snprintf(name, static_cast<size_t>(length), "A Fake Device");
  return success;
}
inline Result attribute(int* value, int which, const std::map<int, int>& values) {
  const auto found = values.find(which);
  if (found == values.end()) return invalid_value;
  *value = found->second;
  return success;
}
inline Result device_memory(size_t* bytes) {
  *bytes = static_cast<size_t>(number("FAKE_DRIVER_MEMORY", 1L << 30));
  return success;
}

inline Result alloc(const char* function, void** data, size_t bytes) {
  if (const auto failed = called(function, out_of_memory, " %zu", bytes)) return failed;
  constexpr size_t page = 4096;
  *data = std::aligned_alloc(page, (bytes + page - 1) / page * page);
  return *data ? success : out_of_memory;
}
inline Result free(const char* function, void* data) {
  std::free(data);
  return called(function, illegal_address, "");
}
inline Result copy(const char* function, void* to, const void* from, size_t bytes) {
  std::memmove(to, from, bytes);
  return called(function, illegal_address, " %zu", bytes);
}
inline Result stream_create(const char* function, void** stream, unsigned flags) {
  *stream = reinterpret_cast<void*>(intptr_t{1});
  return called(function, unknown, " %u", flags);
}

/// Code with one kernel.
struct Module {
  std::string code, kernel;
};
inline Result load(const char* function, void** module, Module made, const char* extension) {
  if (const char* folder = std::getenv("FAKE_DRIVER_MODULES")) {
    const auto path = std::string(folder) + "/" + made.kernel + extension;
    if (FILE* file = std::fopen(path.c_str(), "w")) {
      std::fwrite(made.code.data(), 1, made.code.size(), file);
      std::fclose(file);
    }
  }
  if (const auto failed = called(function, invalid_image, "")) return failed;
  *module = new Module(std::move(made));
  return success;
}
inline Result unload(const char* function, void* module) {
  delete static_cast<Module*>(module);
  return called(function, unknown, "");
}
inline Result function_of(void** function, void* module, const char* name) {
  if (static_cast<Module*>(module)->kernel != name) return not_found;
  *function = module;
  return success;
}
inline Result launch(const char* name, void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                     void** arguments) {
  if (!arguments || grid_x == 0 || grid_y != 1 || grid_z != 1 || block_y != 1 || block_z != 1)
    return invalid_value;
  return called(name, illegal_address, " %s grid %u block %u shared %u",
                static_cast<Module*>(function)->kernel.c_str(), grid_x, block_x, shared);
}

}  // namespace fake
