// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's driver, as far as libraries need it: which device they work for, and its context.
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

/// Why a library is not used: FE-P85 it, or the driver, cannot be opened; FE-P86 it is another version; or the plugin's own code.
struct Unavailable {
  std::string code, text;
};

/// In a proposal: what fails there, and a library that is missing, is a reason to decline.
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
/// Elsewhere it is an error.
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
  /// The first of these that there is; FE-P85 with each one's reason and `advice`, which begins with a verb.
  SharedLibrary(const std::vector<std::string>& names, std::string advice);

  /// "13.1.0" of 130100; FE-P86 where the first number is not from `least` to `most`.
  std::string checked_version(size_t version, size_t least, size_t most) const;
  /// FE-P86 where it has no such function.
  template <class Function>
  void find(const char* function, Function& to) const {
    to = reinterpret_cast<Function>(address(function));
  }

 private:
  void* address(const char* function) const;
  const DynamicLibrary library_;
  std::string advice_;
};

/// Any-thread. Contexts are the devices' primary ones, which the runtime uses, too.
class Driver {
 public:
  /// Throws Unavailable.
  explicit Driver(const std::string& library);
  Driver(const Driver&) = delete;

  /// A device of this generation (90: 9.0), or none.
  std::optional<uint32_t> find(int generation) const;
  /// Of a device, 90: 9.0. Throws Unavailable.
  int generation(uint32_t device) const;
  /// The context of a device, which stays open. Throws Unavailable.
  void* context(uint32_t device);
  /// Makes a context the calling thread's. Throws Unavailable.
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
