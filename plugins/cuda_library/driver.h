// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of NVIDIA's driver that libraries need: the choice of a device, and its context.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/dynamic_library.hpp"
#include "ferrite/error.hpp"

namespace ferrite::cuda_library {

/// The reason why a library is not used: FE-P85 it or the driver cannot be opened, FE-P86 its version does
/// not fit, or a code of the plugin.
struct Unavailable {
  std::string code, text;
};

/// For proposals: failures and a missing library are reasons to decline.
template <class Body>
auto or_decline(Body&& body) {
  try {
    return body();
  } catch (const Unavailable& reason) {
    decline(reason.code, " ", reason.text);
  } catch (const Failure& failure) {
    if (failure.status() == FE_EUNSUPPORTED) throw;
    decline(failure.code(), " ", failure.what());
  }
}
/// For other calls: they are errors.
template <class Body>
auto or_fail(Body&& body) {
  try {
    return body();
  } catch (const Unavailable& reason) {
    throw Failure(FE_EUNSUPPORTED, reason.code, reason.text);
  }
}

/// A shared library that stays loaded.
class SharedLibrary {
 public:
  /// Opens the first existing library. FE-P85 with the reason for each one, and `advice`, which begins with a
  /// verb.
  SharedLibrary(const std::vector<std::string>& names, std::string advice);

  /// "13.1.0" for 130100. FE-P86 if the first number is not between `least` and `most`.
  std::string checked_version(size_t version, size_t least, size_t most) const;
  /// FE-P86 if there is no such function.
  template <class Function>
  void find(const char* function, Function& to) const {
    to = reinterpret_cast<Function>(address(function));
  }

 private:
  void* address(const char* function) const;
  const DynamicLibrary library_;
  std::string advice_;
};

/// Callable from any thread. Contexts are the devices' primary ones, which the runtime uses, too.
class Driver {
 public:
  /// Throws Unavailable.
  explicit Driver(const std::string& library);
  Driver(const Driver&) = delete;

  /// A device of this generation (90: 9.0), or nullopt.
  std::optional<uint32_t> find(int generation) const;
  /// The generation of a device (90: 9.0). Throws Unavailable.
  int generation(uint32_t device) const;
  /// The primary context of a device, which stays open. Throws Unavailable.
  void* context(uint32_t device);
  /// Makes a context current for the calling thread. Throws Unavailable.
  void enter(void* context) const;

 private:
  void check(int result, const char* what) const;

  int (*device_count_)(int*) = nullptr;
  int (*device_get_)(int*, int) = nullptr;
  int (*attribute_)(int*, int, int) = nullptr;
  int (*retain_)(void**, int) = nullptr;
  int (*set_current_)(void*) = nullptr;
  std::mutex mutex_;
  std::map<uint32_t, void*> contexts_;  // guarded by mutex_
};

}  // namespace ferrite::cuda_library
