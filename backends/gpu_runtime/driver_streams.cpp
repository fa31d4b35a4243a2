// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of devices, their recordings, and the status of their work.
#include <utility>

#include "driver_numbers.h"
#include "ferrite/error.hpp"
#include "ferrite/gpu_runtime/driver_runtime.h"

namespace ferrite::emitter {

/// The graph recorded on a stream between record_begin() and record_end(), with its launches, whose arguments
/// may change.
struct DriverRuntime::Recording {
  struct Kept {
    Handle node = nullptr;  // null: the launch has no blocks
    Handle function = nullptr;
    unsigned blocks = 0, threads = 0, shared_bytes = 0;
    std::vector<const void*> values;
  };
  uint32_t device = 0;
  const Driver::Recordings& api;
  Handle graph = nullptr, instance = nullptr;
  std::vector<Kept> launches;

  Recording(uint32_t on, const Driver::Recordings& functions) : device(on), api(functions) {}
  Recording(const Recording&) = delete;
  ~Recording() {
    if (instance) api.free_instance(instance);
    if (graph) api.free(graph);
  }
};

DriverRuntime::Stream::Stream() = default;
DriverRuntime::Stream::~Stream() = default;
DriverRuntime::DriverRuntime(Host host) : GpuRuntime(host) {}

/// The context stays open, since other parts of the process may use it. Errors are ignored: the driver may be
/// shut down already.
DriverRuntime::~DriverRuntime() {
  for (const auto& [number, device] : devices_) {
    for (auto* stream : {device.stream.native, device.aside})
      if (stream) driver_->stream_destroy(stream);
    if (device.pool) driver_->pools.destroy(device.pool);
  }
}

DriverRuntime::Stream& DriverRuntime::stream_of(OpenDevice& device, void* stream) {
  return stream ? *static_cast<Stream*>(stream) : device.stream;
}

void* DriverRuntime::stream_open(uint32_t number, void* native) {
  enter(number);
  auto stream = std::make_unique<Stream>();
  stream->native = native;
  stream->owned = !native;
  if (stream->owned) check(driver().stream_create(&stream->native, stream_beside_others), "making a stream");
  const std::lock_guard lock(streams_mutex_);
  streams_.emplace(number, stream.get());
  return stream.release();
}

void DriverRuntime::stream_close(uint32_t number, void* stream) {
  const auto& api = driver();
  const std::unique_ptr<Stream> closed(static_cast<Stream*>(stream));
  {
    const std::lock_guard lock(streams_mutex_);
    streams_.erase({number, closed.get()});
  }
  enter(number);
  api.stream_synchronise(closed->native);  // errors went to the callers that waited for the work
  if (closed->owned) check(api.stream_destroy(closed->native), "closing a stream");
}

void* DriverRuntime::native_handle(uint32_t number, void* stream, uint32_t kind) {
  auto& device = enter(number);
  switch (kind) {
    case FE_NATIVE_DEVICE: return reinterpret_cast<void*>(static_cast<intptr_t>(device.place.device));
    case FE_NATIVE_CONTEXT: return device.place.context;
    case FE_NATIVE_STREAM: return stream_of(device, stream).native;
    default: decline("the driver has no such handle");
  }
}

void DriverRuntime::stream_synchronise(uint32_t number, void* stream) {
  auto& device = enter(number);
  wait(device, stream_of(device, stream).native);
}

/// Waits for a stream of the device that the thread has entered.
void DriverRuntime::wait(OpenDevice& device, Handle stream) {
  const auto result = driver().stream_synchronise(stream);
  if (result == success) return;
  {
    const std::lock_guard lock(mutex_);
    device.fault = text_of(result);
  }
  check(result, "work on the device");
}

/// An event would join other streams to the recording.
DriverRuntime::Stream& DriverRuntime::stream_for_events(uint32_t number, void* stream) {
  auto& on = stream_of(enter(number), stream);
  if (on.recording) fail(code("record"), "an event, on a stream that is recorded");
  return on;
}

void* DriverRuntime::event_open(uint32_t number) {
  enter(number);
  Handle event = nullptr;
  check(driver().event_create(&event, event_without_time), "making an event");
  return event;
}

void DriverRuntime::event_record(uint32_t number, void* stream, void* event) {
  check(driver().event_record(event, stream_for_events(number, stream).native), "recording an event");
}

void DriverRuntime::event_wait(uint32_t number, void* stream, void* event) {
  check(driver().stream_wait(stream_for_events(number, stream).native, event, 0), "waiting for an event");
}

void DriverRuntime::event_close(uint32_t number, void* event) {
  enter(number);
  check(driver().event_destroy(event), "closing an event");
}

/// The owner of a stream may record it by other means.
bool DriverRuntime::is_recorded(const Stream& stream) {
  const auto& api = driver().recordings;
  if (stream.recording || stream.owned || !api.state) return stream.recording != nullptr;
  int state = 0;
  uint64_t id = 0;
  Handle graph = nullptr;
  const Handle* last = nullptr;
  size_t count = 0;
  return api.state(stream.native, &state, &id, &graph, &last, &count) != success || state != 0;
}

/// Waits for all work that this runtime gave to the device. Recorded streams have no work and may not be
/// waited for. Errors are reported to the callers that wait for that work.
void DriverRuntime::finish(uint32_t number, OpenDevice& device) {
  const auto& api = driver();
  const std::lock_guard lock(streams_mutex_);
  if (!device.stream.recording) api.stream_synchronise(device.stream.native);
  for (const auto& [on, stream] : streams_)
    if (on == number && !is_recorded(*stream)) api.stream_synchronise(stream->native);
}

DeviceStatus DriverRuntime::status(uint32_t number) {
  const auto& api = driver();
  const std::lock_guard lock(mutex_);
  auto& device = devices_[number];
  const auto fault = std::exchange(device.fault, {});
  if (!device.aside) return {};  // the device is unused so far
  try {
    enter(device.place.device, device.place.context);
  } catch (const Failure& failure) {
    return {FE_DEVICE_LOST, failure.what()};
  }
  const auto result = api.stream_query(device.aside);
  if (result != success && result != error_not_ready) return {FE_DEVICE_LOST, text_of(result)};
  return fault.empty() ? DeviceStatus() : DeviceStatus{FE_DEVICE_FAULT, fault};
}

void DriverRuntime::record_begin(uint32_t number, void* stream) {
  const auto& api = driver().recordings;
  if (!api.begin) decline("the driver records nothing");
  auto& on = stream_of(enter(number), stream);
  const std::lock_guard lock(streams_mutex_);
  check(api.begin(on.native, record_this_thread), "recording");
  on.recording = std::make_unique<Recording>(number, api);
}

/// Stores a launch that was just recorded: it is the last node of the stream.
void DriverRuntime::keep_launch(Stream& stream, Handle function, const DeviceCode& made,
                                std::vector<const void*> values) {
  auto& recording = *stream.recording;
  Handle node = nullptr;
  if (made.blocks > 0) {
    int state = 0;
    uint64_t id = 0;
    Handle graph = nullptr;
    const Handle* last = nullptr;
    size_t count = 0;
    check(recording.api.state(stream.native, &state, &id, &graph, &last, &count), "recording");
    if (count != 1) fail(code("record"), "a launch is not the last thing that the stream was given");
    node = last[0];
  }
  recording.launches.push_back({node, function, static_cast<unsigned>(made.blocks), made.threads,
                                made.shared_bytes, std::move(values)});
}

void* DriverRuntime::record_end(uint32_t number, void* stream) {
  auto& device = enter(number);
  auto& on = stream_of(device, stream);
  std::unique_ptr<Recording> recording;
  Result ended = success;
  {
    const std::lock_guard lock(streams_mutex_);
    if (!on.recording) fail(code("record"), "nothing is being recorded");
    ended = on.recording->api.end(on.native, &on.recording->graph);
    recording = std::move(on.recording);
    for (void* data : std::exchange(on.freed, {})) give_back(device, data, on.native);
  }
  check(ended, "recording");
  check(recording->api.instantiate(&recording->instance, recording->graph, 0), "making a launch graph");
  return recording.release();
}

void DriverRuntime::replay(void* graph, void* stream, std::span<const fe_rebinding> rebindings) {
  auto& recording = *static_cast<Recording*>(graph);
  auto& device = enter(recording.device);
  for (size_t k = 0; k < rebindings.size(); ++k) {
    const auto& wanted = rebindings[k];
    if (wanted.launch >= recording.launches.size() ||
        wanted.argument >= recording.launches[wanted.launch].values.size())
      fail(code("record"), "launch ", wanted.launch, " has no argument ", wanted.argument);
    auto& kept = recording.launches[wanted.launch];
    kept.values[wanted.argument] = wanted.data;
    // Set the arguments once per launch, after its last rebinding.
    const bool more = k + 1 < rebindings.size() && rebindings[k + 1].launch == wanted.launch;
    if (more || !kept.node) continue;
    std::vector<void*> places;
    for (auto& value : kept.values) places.push_back(&value);
    check(set_launch(recording.instance, kept.node,
                     {kept.function, kept.blocks, kept.threads, kept.shared_bytes, places.data()}),
          "giving a launch other arguments");
  }
  check(recording.api.launch(recording.instance, stream_of(device, stream).native), "replaying launches");
}

void DriverRuntime::graph_free(void* graph) {
  const std::unique_ptr<Recording> freed(static_cast<Recording*>(graph));
  enter(freed->device);
}

}  // namespace ferrite::emitter
