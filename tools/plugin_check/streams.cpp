// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/plugin_check/streams.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "core/support/abi/abi.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::plugin_check {
namespace {

constexpr int64_t bytes = 1 << 16;

Error wrong(std::string what) { return Error{FE_EINVALID, "FE-P52", std::move(what), {}}; }

/// Resources of a device that a check allocated; released at its end.
class Taken {
 public:
  explicit Taken(const runtime::Device& device) : device_(device) {}
  ~Taken() {
    for (void* stream : streams_)
      (void)device_.synchronise(stream);  // the check may have ended before it waited
    for (void* data : host_) device_.host_free(data);
    for (void* data : memory_) device_.free(data, nullptr);
    for (void* stream : streams_) device_.close_stream(stream);
    for (void* event : events_) device_.close_event(event);
  }
  Taken(const Taken&) = delete;
  Result<void*> stream() {
    FE_TRY(void* const opened, device_.open_stream(nullptr));
    if (!opened) return wrong("a stream that was opened is null");
    return streams_.emplace_back(opened);
  }
  Result<void*> memory(void* stream) {
    FE_TRY(void* const data, device_.alloc(bytes, stream));
    return memory_.emplace_back(data);
  }
  /// Null where the runtime has no events.
  Result<void*> event() {
    FE_TRY(void* const opened, device_.open_event());
    return events_.emplace_back(opened);
  }
  /// Null where the runtime has no host memory.
  std::byte* host() {
    void* const data = device_.host_alloc(bytes);
    if (data) host_.push_back(data);
    return static_cast<std::byte*>(data);
  }

 private:
  const runtime::Device& device_;
  std::vector<void*> host_, memory_, streams_, events_;
};

void fill(std::byte* data, int from) {
  for (int64_t k = 0; k < bytes; ++k) data[k] = static_cast<std::byte>(from + k % 251);
}

uint32_t status_of(const runtime::Device& device) {
  abi::Call call;
  auto args = abi::sized<fe_device_args>();
  args.device = device.number;
  abi::Collector<> text;
  auto out = abi::sized<fe_device_status_out>();
  out.text = text.sink();
  return plugin::invoke(*device.runtime, device.slots.device_status, call, &args, &out) == FE_OK ? out.status
                                                                                                 : UINT32_MAX;
}

/// The second stream copies the data that the first one stored, while the first one then stores other data
/// there. Each waits for the other through one event, which is recorded twice.
Result<void> check_events(const runtime::Device& device, Taken& taken, void* first, void* second) {
  FE_TRY(void* const event, taken.event());
  FE_TRY(void* const unrecorded, taken.event());
  if (!event || !unrecorded) return {};
  FE_TRY(void* const data, taken.memory(first));
  FE_TRY(void* const copy, taken.memory(second));
  std::vector<std::byte> given(bytes), got(bytes);
  const std::vector<std::byte> other(bytes);
  fill(given.data(), 3);
  auto* const pinned = taken.host();
  if (pinned) std::memcpy(pinned, given.data(), given.size());
  FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, other.data(), bytes, first));
  FE_CHECK(device.synchronise(first));
  FE_CHECK(device.wait_for_event(unrecorded, second));
  constexpr int copies = 16;  // the device takes longer for these than the host
  for (int k = 0; k < copies; ++k)
    FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, pinned ? pinned : given.data(), bytes, first));
  FE_CHECK(device.record_event(event, first));
  FE_CHECK(device.wait_for_event(event, second));
  FE_CHECK(device.copy(FE_COPY_ON_DEVICE, copy, data, bytes, second));
  FE_CHECK(device.record_event(event, second));
  FE_CHECK(device.wait_for_event(event, first));
  FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, other.data(), bytes, first));
  FE_CHECK(device.copy(FE_COPY_TO_HOST, got.data(), copy, bytes, second));
  FE_CHECK(device.synchronise(first));
  if (given != got) return wrong("a stream continues before the work of an event that it waits for is done");
  return {};
}

}  // namespace

Verdict check_streams(const runtime::Device& device) {
  if (!device.has_streams()) return Verdict::skipped("the runtime has no streams");
  Taken taken(device);
  FE_TRY(void* const first, taken.stream());
  FE_TRY(void* const second, taken.stream());
  void *const one = device.native(FE_NATIVE_STREAM, first), *const other =
                                                                device.native(FE_NATIVE_STREAM, second);
  if (!one || one == other) return wrong("two streams have the same native handle, or none");
  FE_TRY(void* const data, taken.memory(first));
  FE_TRY(void* const copy, taken.memory(nullptr));
  std::vector<std::byte> given(bytes), got(bytes);
  fill(given.data(), 1);
  FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, given.data(), bytes, first));
  FE_CHECK(device.copy(FE_COPY_ON_DEVICE, copy, data, bytes, first));
  FE_CHECK(device.synchronise(first));
  FE_CHECK(device.copy(FE_COPY_TO_HOST, got.data(), copy, bytes, second));
  if (given != got) return wrong("a stream does not see the data that another one stored before the event");
  if (auto* const pinned = taken.host()) {
    fill(pinned, 2);
    FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, pinned, bytes, second));
    FE_CHECK(device.copy(FE_COPY_TO_HOST, pinned, data, bytes, second));
    FE_CHECK(device.synchronise(second));
    fill(got.data(), 2);
    if (std::memcmp(pinned, got.data(), got.size()) != 0)
      return wrong("a copy through the runtime's host memory returns other data");
  }
  FE_CHECK(check_events(device, taken, first, second));
  if (device.slots.device_status && status_of(device) != FE_DEVICE_OK)
    return wrong("the device reports an error, though nothing failed");
  return {};
}

Verdict check_recordings(const runtime::Device& device) {
  if (!device.records()) return Verdict::skipped("the runtime records nothing");
  Taken taken(device);
  FE_TRY(void* const stream, taken.stream());
  FE_TRY(void* const data, taken.memory(stream));
  FE_TRY(void* const copy, taken.memory(stream));
  std::byte *const from = taken.host(), *const to = taken.host();
  if (!from || !to) return Verdict::skipped("the runtime has no host memory");
  fill(from, 7);
  std::memset(to, 0, bytes);
  auto recorded = device.record(stream, [&]() -> Result<void> {
    FE_CHECK(device.copy(FE_COPY_TO_DEVICE, data, from, bytes, stream));
    FE_CHECK(device.copy(FE_COPY_ON_DEVICE, copy, data, bytes, stream));
    return device.copy(FE_COPY_TO_HOST, to, copy, bytes, stream);
  });
  if (!recorded)
    return recorded.error().status == FE_EUNSUPPORTED ? Verdict::skipped(recorded.error().text)
                                                      : Verdict(recorded.error());
  const auto replay = [&]() -> Verdict {
    FE_CHECK(device.synchronise(stream));
    if (to[1] != std::byte{}) return wrong("recorded work runs before it is replayed");
    for (int round = 1; round <= 3; ++round) {
      fill(from, round);
      FE_CHECK(device.replay(*recorded, stream, {}));
      FE_CHECK(device.synchronise(stream));
      if (std::memcmp(from, to, bytes) != 0)
        return wrong("recorded work does not run again when it is replayed");
    }
    return {};
  };
  auto verdict = replay();
  device.free_graph(*recorded);
  return verdict;
}

}  // namespace ferrite::core::plugin_check
