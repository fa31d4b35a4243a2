// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Device memory, from pools if the driver has them; pinned host memory; copies.
#include <algorithm>
#include <utility>

#include "driver_numbers.h"
#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/driver_runtime.h"

namespace ferrite::emitter {

namespace {

// A pool keeps this fraction of the device's memory after it is freed: enough for arenas, while other
// processes get the rest.
constexpr uint64_t kept_part = 16;

}  // namespace

void DriverRuntime::open_pool(OpenDevice& device) {
  const auto& api = driver();
  const std::lock_guard lock(mutex_);
  if (std::exchange(device.pool_was_tried, true) || !api.pools.create) return;
  DriverPool properties;
  properties.location = {memory_of_device, device.place.device};
  if (api.pools.create(&device.pool, &properties) != success) {
    device.pool = nullptr;
    return;
  }
  // The driver's default threshold is good enough if this fails.
  size_t bytes = 0;
  if (api.device_memory(&bytes, device.place.device) != success) return;
  uint64_t kept = bytes / kept_part;
  api.pools.set_attribute(device.pool, attribute_release_threshold, &kept);
}

void* DriverRuntime::stream_alloc(uint32_t number, uint64_t bytes, void* stream) {
  const auto& api = driver();
  auto& device = enter(number);
  open_pool(device);
  void* data = nullptr;
  if (!device.pool) {
    check(api.alloc(&data, bytes), "taking memory");
    return data;
  }
  // Memory allocated on a recorded stream would belong to the recording, so use another stream.
  const bool aside = !stream || stream_of(device, stream).recording;
  const Handle on = aside ? device.aside : stream_of(device, stream).native;
  auto result = api.pools.alloc(&data, bytes, device.pool, on);
  if (result == error_out_of_memory) {
    // The pool's free memory may be fragmented, or waiting for work that still uses it.
    finish(number, device);
    check(api.pools.trim(device.pool, 0), "giving memory back");
    result = api.pools.alloc(&data, bytes, device.pool, on);
  }
  check(result, "taking memory");
  if (aside) wait(device, on);
  return data;
}

void DriverRuntime::stream_free(uint32_t number, void* data, void* stream) {
  auto& device = enter(number);
  auto& on = stream_of(device, stream);
  const std::lock_guard lock(streams_mutex_);
  if (on.recording)
    on.freed.push_back(data);
  else
    give_back(device, data, on.native);
}

/// Frees the memory after the stream's work.
void DriverRuntime::give_back(OpenDevice& device, void* data, Handle stream) {
  const auto& api = driver();
  if (device.pool) return check(api.pools.free(data, stream), "giving memory back");
  wait(device, stream);
  check(api.free(data), "giving memory back");
}

void* DriverRuntime::host_alloc(uint32_t number, uint64_t bytes) {
  enter(number);
  void* data = nullptr;
  check(driver().host_alloc(&data, bytes, host_of_all_devices), "taking memory of the host");
  const std::lock_guard lock(mutex_);
  pinned_[static_cast<const char*>(data)] = bytes;
  return data;
}

void DriverRuntime::host_free(uint32_t number, void* data) {
  enter(number);
  {
    const std::lock_guard lock(mutex_);
    pinned_.erase(static_cast<const char*>(data));
  }
  check(driver().host_free(data), "giving memory of the host back");
}

/// Whether the address lies in memory of host_alloc().
bool DriverRuntime::is_pinned(const void* data) {
  const auto* const place = static_cast<const char*>(data);
  const std::lock_guard lock(mutex_);
  auto above = pinned_.upper_bound(place);
  if (above == pinned_.begin()) return false;
  --above;
  return static_cast<uint64_t>(place - above->first) < above->second;
}

void DriverRuntime::copy(const fe_copy_args& args) {
  const auto& api = driver();
  auto& device = enter(args.device);
  const auto& on = stream_of(device, args.stream);
  if (args.bytes == 0) return;
  const auto refuse_to_record = [&] {
    if (on.recording)
      fail(code("record"), "a copy from or to memory of the host that the device does not reach by itself");
  };
  switch (args.kind) {
    case FE_COPY_TO_DEVICE:
      if (on.recording && !is_pinned(args.from)) refuse_to_record();
      return check(api.copy_to_device(args.to, args.from, args.bytes, on.native), "a copy to the device");
    case FE_COPY_TO_HOST: {
      const bool pinned = is_pinned(args.to);
      if (!pinned) refuse_to_record();
      check(api.copy_to_host(args.to, args.from, args.bytes, on.native), "a copy from the device");
      if (!pinned) wait(device, on.native);
      return;
    }
    case FE_COPY_PEER: return copy_from_peer(device, args);
    default:
      return check(api.copy_on_device(args.to, args.from, args.bytes, on.native), "a copy on the device");
  }
}

/// The first copy enables direct access to the peer's memory if the devices support it; otherwise the driver
/// copies through host memory.
void DriverRuntime::copy_from_peer(OpenDevice& device, const fe_copy_args& args) {
  const auto& api = driver();
  const auto& peer = enter(args.peer);
  enter(args.device);
  {
    const std::lock_guard lock(mutex_);
    auto [known, first] = device.peers.try_emplace(args.peer);
    auto& given = known->second;
    int reaches = 0;
    if (first && api.reaches_peer(&reaches, device.place.device, peer.place.device) == success && reaches) {
      reach_peer(peer.place);
      given.reached = true;
    }
    // The peer may have created its pool since the last copy.
    if (given.reached && peer.pool && !given.has_pool) {
      const DriverAccess access{{memory_of_device, device.place.device}, access_to_read_and_write};
      api.pools.set_access(peer.pool, &access, 1);
      given.has_pool = true;
    }
  }
  check(copy_peer(args.to, device.place, args.from, peer.place, args.bytes,
                  stream_of(device, args.stream).native),
        "a copy from another device");
}

}  // namespace ferrite::emitter
