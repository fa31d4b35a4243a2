// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work on a device through its runtime: memory, copies, streams and recordings.
#include <algorithm>

#include "core/support/abi/abi.h"
#include "runtime/device.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::runtime {

namespace {

fe_device_args device_args(const Device& device, void* stream) {
  auto args = abi::sized<fe_device_args>();
  args.device = device.number;
  args.stream = stream;
  return args;
}

fe_event_args event_args(const Device& device, void* event, void* stream) {
  auto args = abi::sized<fe_event_args>();
  args.device = device.number;
  args.event = event;
  args.stream = stream;
  return args;
}

/// Calls a slot without results. `code` and `what` apply if the plugin sets no error of its own.
template <typename Slot, typename Args>
Result<void> invoke(const Device& device, Slot slot, const Args& args, const char* code, const char* what) {
  abi::Call call;
  auto out = abi::sized<fe_none>();
  const int32_t status = plugin::invoke(*device.runtime, slot, call, &args, &out);
  if (status == FE_OK) return {};
  return device.failed(call.error(status, code, what));
}

}  // namespace

std::string Device::place() const { return fmt::format("{}:{}", kind, number); }

Result<void> Device::check_process() const {
  if (host_memory || forks == runtime::forks()) return {};
  return at("device " + place(),
            error(FE_EDEVICE, "FE-D07",
                  "it was opened before this process was forked, and its driver does not work in the child: "
                  "use the device in the parent only, or start a new program, as multiprocessing's 'spawn' "
                  "does"));
}

Error Device::failed(Error error) const {
  // A driver reports a lost device as an ordinary failure of some call. Ask for the status, so that the error
  // says that a retry is useless.
  if (!slots.device_status || error.code == "FE-D06") return error;
  abi::Call call;
  const auto args = device_args(*this, nullptr);
  abi::Collector<> text;
  auto out = abi::sized<fe_device_status_out>();
  out.text = text.sink();
  if (plugin::invoke(*runtime, slots.device_status, call, &args, &out) != FE_OK ||
      out.status != FE_DEVICE_LOST)
    return error;
  const bool said = error.text.find(text.bytes()) != std::string::npos;
  return Error{FE_EDEVICE, "FE-D06",
               fmt::format("{}; the device {} is lost{}{}, and does nothing any more in this process: start "
                           "it again, or use another device",
                           error.text, place(), said ? "" : ": ", said ? "" : text.bytes()),
               std::move(error.where)};
}

Result<void*> Device::alloc(int64_t bytes, void* stream) const {
  if (bytes <= 0) return static_cast<void*>(nullptr);
  const auto where = "device " + place();
  // Refuse without asking: a driver that overcommits would fail only at the first access.
  if (capacity != 0 && static_cast<uint64_t>(bytes) > capacity)
    return at(where, error(FE_ENOMEM, "FE-D03",
                           "no memory for {} bytes, it has {}; use smaller sizes, or fewer threads", bytes,
                           capacity));
  abi::Call call;
  auto args = abi::sized<fe_alloc_args>();
  args.device = number;
  args.bytes = static_cast<uint64_t>(bytes);
  args.stream = stream;
  auto out = abi::sized<fe_alloc_out>();
  const int32_t status = plugin::invoke(*runtime, slots.alloc, call, &args, &out);
  if (status != FE_OK || !out.data) {
    const auto said = status == FE_OK ? "" : call.error(status, "FE-D03", "").text;
    return at(where, failed(error(FE_ENOMEM, "FE-D03",
                                  "no memory for {} bytes{}{}; free memory, or use smaller sizes", bytes,
                                  said.empty() ? "" : ": ", said)));
  }
  if (reinterpret_cast<uintptr_t>(out.data) % alignment == 0) return out.data;
  free(out.data, stream);
  return at(where,
            error(FE_EDEVICE, "FE-P66", "its memory is not aligned to {} bytes, as it says", alignment));
}

void Device::free(void* data, void* stream) const {
  if (!data || !slots.free) return;
  abi::Call call;
  auto args = abi::sized<fe_free_args>();
  args.device = number;
  args.data = data;
  args.stream = stream;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, slots.free, call, &args, &out);
}

Result<void> Device::copy(uint32_t direction, void* to, const void* from, int64_t bytes, void* stream,
                          const Device* peer) const {
  if (bytes <= 0) return {};
  if (!slots.copy) return error(FE_EUNSUPPORTED, "FE-D21", "the runtime '{}' copies nothing", kind);
  auto args = abi::sized<fe_copy_args>();
  args.device = number;
  args.kind = direction;
  args.to = to;
  args.from = from;
  args.bytes = static_cast<uint64_t>(bytes);
  args.stream = stream;
  if (peer) args.peer = peer->number;
  return invoke(*this, slots.copy, args, "FE-D21",
                "a copy between the host's memory and the device's failed");
}

Result<void> Device::synchronise(void* stream) const {
  if (!slots.synchronise) return {};
  return invoke(*this, slots.synchronise, device_args(*this, stream), "FE-D04", "work on the device failed");
}

Result<void*> Device::open_stream(void* native) const {
  void* const none = nullptr;
  if (!has_streams()) return none;
  abi::Call call;
  auto args = abi::sized<fe_stream_args>();
  args.device = number;
  args.native = native;
  auto out = abi::sized<fe_stream_out>();
  const int32_t status = plugin::invoke(*runtime, slots.stream_open, call, &args, &out);
  // The default stream can replace a new one, but not the caller's.
  if (status == FE_EUNSUPPORTED && !native) return none;
  if (status == FE_OK) return out.stream;
  return at("device " + place(), failed(call.error(status, "FE-D22", "a stream could not be opened")));
}

void Device::close_stream(void* stream) const {
  if (!stream) return;
  abi::Call call;
  const auto args = device_args(*this, stream);
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, slots.stream_close, call, &args, &out);
}

Result<void*> Device::open_event() const {
  void* const none = nullptr;
  if (!has_events()) return none;
  abi::Call call;
  const auto args = device_args(*this, nullptr);
  auto out = abi::sized<fe_event_out>();
  const int32_t status = plugin::invoke(*runtime, slots.event_open, call, &args, &out);
  if (status == FE_EUNSUPPORTED) return none;
  if (status == FE_OK) return out.event;
  return at("device " + place(), failed(call.error(status, "FE-D22", "an event could not be opened")));
}

void Device::close_event(void* event) const {
  if (!event) return;
  abi::Call call;
  const auto args = event_args(*this, event, nullptr);
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, slots.event_close, call, &args, &out);
}

Result<void> Device::record_event(void* event, void* stream) const {
  return invoke(*this, slots.event_record, event_args(*this, event, stream), "FE-D04",
                "an event of the device's work could not be recorded");
}

Result<void> Device::wait_for_event(void* event, void* stream) const {
  return invoke(*this, slots.event_wait, event_args(*this, event, stream), "FE-D04",
                "the device could not be told to wait for other work");
}

void* Device::native(uint32_t which, void* stream) const {
  if (!slots.native_handle) return nullptr;
  abi::Call call;
  auto args = abi::sized<fe_native_args>();
  args.device = number;
  args.kind = which;
  args.stream = stream;
  auto out = abi::sized<fe_native_out>();
  return plugin::invoke(*runtime, slots.native_handle, call, &args, &out) == FE_OK ? out.handle : nullptr;
}

void* Device::host_alloc(int64_t bytes) const {
  if (!slots.host_alloc || !slots.host_free) return nullptr;
  abi::Call call;
  auto args = abi::sized<fe_alloc_args>();
  args.device = number;
  args.bytes = static_cast<uint64_t>(bytes);
  auto out = abi::sized<fe_alloc_out>();
  return plugin::invoke(*runtime, slots.host_alloc, call, &args, &out) == FE_OK ? out.data : nullptr;
}

void Device::host_free(void* data) const {
  if (!data) return;
  abi::Call call;
  auto args = abi::sized<fe_free_args>();
  args.device = number;
  args.data = data;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, slots.host_free, call, &args, &out);
}

Result<void*> Device::record(void* stream, const std::function<Result<void>()>& body) const {
  const auto args = device_args(*this, stream);
  const char* const what = "the device's work could not be recorded";
  {
    abi::Call call;
    auto out = abi::sized<fe_none>();
    const int32_t status = plugin::invoke(*runtime, slots.record_begin, call, &args, &out);
    if (status != FE_OK) return failed(call.error(status, "FE-D23", what));
  }
  // Call record_end even if `body` fails: it returns the stream to its normal state.
  auto done = body();
  abi::Call call;
  auto out = abi::sized<fe_graph_out>();
  const int32_t status = plugin::invoke(*runtime, slots.record_end, call, &args, &out);
  if (done && status == FE_OK) return out.graph;
  if (status == FE_OK) free_graph(out.graph);
  return failed(done ? call.error(status, "FE-D23", what) : std::move(done.error()));
}

Result<void> Device::replay(void* graph, void* stream, std::span<const fe_rebinding> rebindings) const {
  auto args = abi::sized<fe_replay_args>();
  args.graph = graph;
  args.stream = stream;
  args.rebindings = abi::array(rebindings.data(), rebindings.size());
  return invoke(*this, slots.replay, args, "FE-D04", "recorded work could not be given to the device");
}

void Device::free_graph(void* graph) const {
  if (!graph) return;
  abi::Call call;
  auto args = abi::sized<fe_graph_out>();
  args.graph = graph;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*runtime, slots.graph_free, call, &args, &out);
}

}  // namespace ferrite::core::runtime
