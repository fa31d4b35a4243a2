// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A library that is opened when it is needed first.
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

/// Any-thread.
template <class Library>
class Opened {
 public:
  Opened(Host host, std::string plugin) : host_(host), plugin_(std::move(plugin)) {}

  /// What `open` gave the first time. Throws Unavailable each time where that failed, and says so once.
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

/// Makes the calling thread's context that of a device of the architecture that is compiled for: libraries choose their code on it. Declines
/// where there is none. The device's number.
inline uint32_t enter_like(Driver& driver, const Device& device, std::string_view library) {
  const auto number = driver.find(device.generation);
  if (!number)
    decline(library, " chooses its code on the device alone, and there is no ", device.architecture, " here");
  driver.enter(driver.context(*number));
  return *number;
}

}  // namespace ferrite::cuda_library
