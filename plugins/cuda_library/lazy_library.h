// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that is opened on first use.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "cuda_library/device.h"
#include "cuda_library/driver.h"
#include "ferrite/provider.hpp"

namespace ferrite::cuda_library {

/// Callable from any thread.
template <class Library>
class LazyLibrary {
 public:
  LazyLibrary(Host host, std::string plugin) : host_(host), plugin_(std::move(plugin)) {}

  /// The result of the first call of `open`. If that failed, throws Unavailable on each call, and logs the
  /// reason once.
  template <class Open>
  std::shared_ptr<Library> get(Open&& open) {
    const std::lock_guard lock(mutex_);
    if (!library_ && !unavailable_) {
      try {
        library_ = open();
      } catch (const Unavailable& reason) {
        unavailable_ = reason;
        host_.log(FE_LOG_WARNING, "plugins", reason.code + " " + plugin_ + ": " + reason.text);
      }
    }
    if (unavailable_) throw Unavailable{unavailable_->code, unavailable_->text};
    return library_;
  }

 private:
  const Host host_;
  const std::string plugin_;
  std::mutex mutex_;
  std::shared_ptr<Library> library_;        // guarded by mutex_
  std::optional<Unavailable> unavailable_;  // guarded by mutex_
};

/// Enters the context of a device of the target architecture, on which libraries choose their code. Declines
/// if there is none. Returns the device's number.
inline uint32_t enter_like(Driver& driver, const Device& device, std::string_view library) {
  const auto number = driver.find(device.generation);
  if (!number)
    decline(library, " chooses its code on the device alone, and there is no ", device.architecture, " here");
  driver.enter(driver.context(*number));
  return *number;
}

}  // namespace ferrite::cuda_library
