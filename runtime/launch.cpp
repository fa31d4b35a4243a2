// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs of an executable: contexts, launching step by step, and the errors of failed launches.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include "core/support/abi/abi.h"
#include "core/support/log.h"
#include "core/support/warning.h"
#include "ferrite/abi/error_words.h"
#include "ferrite/counted.hpp"
#include "runtime/bad_index.h"
#include "runtime/executable.h"
#include "runtime/plugin/serialised_calls.h"

namespace ferrite::core::runtime {

namespace {

/// The words in which a launch reports a bad index.
using ErrorWords = std::array<int64_t, FE_ERROR_WORDS>;

using Bytes = std::span<const std::byte>;

Bytes bytes_at(const void* data, int64_t bytes) {
  return {static_cast<const std::byte*>(data), static_cast<size_t>(bytes)};
}

bool overlap(Bytes a, Bytes b) {
  // std::less compares pointers into different allocations, which < does not allow.
  return std::less<>()(a.data(), b.data() + b.size()) && std::less<>()(b.data(), a.data() + a.size());
}

/// The position of the first byte between the parts of an arena that differs from `value`; empty if there is
/// none.
std::string first_beside(std::span<const Executable::ArenaPart> parts, Bytes arena, std::byte value) {
  for (size_t k = 0; k <= parts.size(); ++k) {
    const auto* const before = k > 0 ? &parts[k - 1] : nullptr;
    const auto* const after = k < parts.size() ? &parts[k] : nullptr;
    const int64_t begin = before ? before->offset + before->bytes : 0;
    const int64_t end = after ? after->offset : static_cast<int64_t>(arena.size());
    for (int64_t at = begin; at < end; ++at) {
      if (arena[static_cast<size_t>(at)] == value) continue;
      std::vector<std::string> places;
      if (before)
        places.push_back(fmt::format("{} after the end of {}", counted(at - begin, "byte"), before->name));
      if (after) places.push_back(fmt::format("{} before {}", counted(end - at, "byte"), after->name));
      return fmt::format("{}", fmt::join(places, " and "));
    }
  }
  return {};
}

/// False for a lowering's call and for a copy.
bool is_kernel(const Launch& launch) { return launch.copy == no_copy && !launch.call.function; }

}  // namespace

int64_t Executable::workspaces_after(uint32_t device, int64_t arena) const {
  const auto alignment = static_cast<int64_t>(devices[device]->alignment);
  return (arena + alignment - 1) / alignment * alignment;
}

int64_t Executable::run_bytes(uint32_t device, std::span<const Launch> launches, int64_t arena) const {
  int64_t bytes = arena;
  for (const auto& launch : launches) {
    if (device_of(launch) != device || !is_kernel(launch)) continue;
    // A negative offset means that the workspace is not in the memory plan: reserve the largest one after the
    // arena. Launches of a device run in order, so they can share it.
    const auto& kernel = kernels[launch.kernel];
    if (launch.workspace < 0 && kernel.workspace_bytes > 0)
      bytes = std::max(bytes, workspaces_after(device, arena) + kernel.workspace_bytes * workers_of(device));
  }
  return bytes;
}

std::optional<uint32_t> Executable::device_of(const Launch& launch) const {
  if (launch.copy != no_copy) return launch.device;
  if (launch.call.function) return std::nullopt;
  return kernels[launch.kernel].device;
}

bool Executable::may_fail(const Launch& launch) const {
  return is_kernel(launch) && kernels[launch.kernel].checks_indices;
}

bool Executable::follows_launch(std::span<const Launch> launches, size_t number) const {
  if (number == 0 || !is_kernel(launches[number - 1])) return false;
  const auto& before = kernels[launches[number - 1].kernel];
  return !before.library && before.device == kernels[launches[number].kernel].device && before.tasks > 0;
}

Executable::Context::Context(const Executable& executable, std::span<const Launch> launches,
                             std::span<const int64_t> arena_bytes, void* native_stream, ArenaPool* arenas)
    : executable_(executable), work_(executable.devices.size()), arenas_(arenas), arena_bytes_(arena_bytes) {
  for (uint32_t d = 0; d < work_.size() && opened_; ++d)
    opened_ = open(d, launches, d == 0 ? native_stream : nullptr);
}

Result<void> Executable::Context::open(uint32_t d, std::span<const Launch> launches, void* native_stream) {
  auto& work = work_[d];
  const auto& device = *executable_.devices[d];
  bool fails = false, has_peers = false;
  work.bytes = executable_.run_bytes(d, launches, arena_bytes_[d]);
  for (const auto& launch : launches) {
    const bool is_done_here = executable_.device_of(launch) == d;
    const bool is_of_peers =
        launch.copy == FE_COPY_PEER && (is_done_here || executable_.giver_of(launch) == d);
    has_peers = has_peers || is_of_peers;
    work.used = work.used || is_done_here || is_of_peers;
    fails = fails || (is_done_here && executable_.may_fail(launch));
  }
  if (!device.host_memory && (work.used || native_stream)) {
    FE_TRY(work.stream, device.open_stream(native_stream));
    work.borrowed = native_stream != nullptr;
    work.native = device.native(FE_NATIVE_STREAM, work.stream);
  }
  if (has_peers) {
    FE_TRY(work.event, device.open_event());
  }
  if (d == 0 && arenas_ && native_stream) order_ = {native_stream, work.stream};
  if (d > 0 || !arenas_) {
    FE_TRY(work.arena, executable_.alloc(d, work.bytes, work.stream));
  }
  if (!device.host_memory && fails) {
    const auto bytes = static_cast<int64_t>(launches.size() * sizeof(ErrorWords));
    FE_TRY(work.errors, executable_.alloc(d, bytes, work.stream));
    work.said = device.host_alloc(bytes);
    if (work.said) std::memset(work.said, 0, static_cast<size_t>(bytes));
    const std::vector<ErrorWords> zeros(launches.size());
    FE_CHECK(device.copy(FE_COPY_TO_DEVICE, work.errors, zeros.data(), bytes, work.stream));
    FE_CHECK(device.synchronise(work.stream));
  }
  return {};
}

Executable::Context::~Context() {
  if (opened_ && defers_checks_) {
    executable_.abandon(*this);  // waits for the last run
    if (auto checked = executable_.check_earlier_words(*this); !checked)
      log::warn(launch_channel, checked.error().message());
  }
  if (!recorded_.graphs.empty() || recorded_.staging || recorded_.stream) {
    const uint32_t d = executable_.recording_.device;
    const auto& device = *executable_.devices[d];
    // Wait before freeing: the last replay may still be running.
    (void)device.synchronise(work_[d].stream);  // its error was already reported to the caller of the run
    for (const auto& recorded : recorded_.graphs) device.free_graph(recorded.graph);
    device.host_free(recorded_.staging);
    device.close_stream(recorded_.stream);
  }
  // The pool's arena outlives the stream that orders its uses: leave no work behind that uses it.
  if (order_.native) (void)executable_.devices[0]->synchronise(order_.stream);
  for (uint32_t d = 0; d < work_.size(); ++d) {
    const auto& device = *executable_.devices[d];
    for (void* data : {work_[d].arena, work_[d].errors}) executable_.free(d, data, work_[d].stream);
    if (work_[d].said) device.host_free(work_[d].said);
    device.close_stream(work_[d].stream);
  }
  // Close events only after all streams are closed, as a stream may be waiting for another device's event.
  for (uint32_t d = 0; d < work_.size(); ++d) executable_.devices[d]->close_event(work_[d].event);
}

void Executable::Context::Work::add_source(const void* from, int64_t bytes) {
  const auto source = bytes_at(from, bytes);
  // A context whose runs return early rarely waits, and copies from the same memory in each run: record each
  // source only once.
  const bool known = std::ranges::any_of(
      sources, [&](Bytes other) { return other.data() == source.data() && other.size() == source.size(); });
  if (!known) sources.push_back(source);
}

void Executable::Context::Work::done(size_t end) {
  waited = end;
  sources.clear();
}

Result<void> Executable::Context::fill_arenas(std::byte value) {
  for (uint32_t d = 0; d < work_.size(); ++d) {
    const auto& work = work_[d];
    if (!work.arena) continue;
    const auto& device = *executable_.devices[d];
    if (device.host_memory) {
      std::memset(work.arena, static_cast<int>(value), static_cast<size_t>(work.bytes));
      continue;
    }
    const std::vector<std::byte> filled(static_cast<size_t>(work.bytes), value);
    FE_CHECK(device.copy(FE_COPY_TO_DEVICE, work.arena, filled.data(), work.bytes, work.stream));
    FE_CHECK(device.synchronise(work.stream));
  }
  return {};
}

Result<std::string> Executable::Context::written_beside(std::byte value) const {
  for (uint32_t d = 0; d < executable_.arena_parts.size(); ++d) {
    const auto& work = work_[d];
    if (!work.arena) continue;
    const auto& device = *executable_.devices[d];
    const int64_t bytes = executable_.arena_bytes[d];
    std::vector<std::byte> copied;
    Bytes arena = bytes_at(work.arena, bytes);
    if (!device.host_memory) {
      copied.resize(arena.size());
      FE_CHECK(device.copy(FE_COPY_TO_HOST, copied.data(), work.arena, bytes, work.stream));
      FE_CHECK(device.synchronise(work.stream));
      arena = copied;
    }
    if (auto place = first_beside(executable_.arena_parts[d], arena, value); !place.empty())
      return fmt::format("memory of {} outside of every buffer was written, first {}", device.place(), place);
  }
  return std::string();
}

void* Executable::address(const BufferSlot& slot, const Buffers& buffers, const Context& context) const {
  switch (slot.kind) {
    case BufferSlot::Kind::input: return const_cast<void*>(buffers.inputs[slot.number]);
    case BufferSlot::Kind::output: return buffers.outputs[slot.number];
    case BufferSlot::Kind::constant: return const_cast<std::byte*>(constants[slot.number].data);
    case BufferSlot::Kind::persistent: return persistent_[slot.number].data;
    case BufferSlot::Kind::arena: return static_cast<char*>(context.work_[slot.device].arena) + slot.offset;
  }
  return nullptr;
}

Result<void*> Executable::alloc(uint32_t device, int64_t bytes, void* stream) const {
  const Device& owner = *devices[device];
  if (!allocator || !allocator->serves(owner)) return owner.alloc(bytes, stream);
  if (bytes <= 0) return static_cast<void*>(nullptr);
  // An allocator outside Ferrite knows the driver's handle only, not the runtime's stream object.
  void* const native = owner.has_streams() ? owner.native(FE_NATIVE_STREAM, stream) : nullptr;
  void* const data = allocator->alloc(owner, static_cast<uint64_t>(bytes), native);
  const auto where = "device " + owner.place();
  if (!data)
    return at(where,
              error(FE_ENOMEM, "FE-D03",
                    "the session's allocator has no memory for {} bytes; free memory, or use smaller sizes",
                    bytes));
  // The memory may still be in use by work queued on the device's default stream, while other streams will
  // use it from now on.
  if (auto done = stream || !owner.has_streams() ? Result<void>() : owner.synchronise(nullptr); !done) {
    allocator->free(owner, data);
    return std::move(done.error());
  }
  if (reinterpret_cast<uintptr_t>(data) % owner.alignment == 0) return data;
  allocator->free(owner, data);
  return at(where, error(FE_EINVALID, "FE-X38",
                         "the session's allocator gave memory that is not aligned to the {} bytes asked for",
                         owner.alignment));
}

void Executable::free(uint32_t device, void* data, void* stream) const {
  if (!data) return;
  const Device& owner = *devices[device];
  if (allocator && allocator->serves(owner)) return allocator->free(owner, data);
  owner.free(data, stream);
}

Result<void> Executable::copy(uint32_t device, uint32_t direction, void* to, const void* from,
                              int64_t bytes) const {
  FE_CHECK(devices[device]->copy(direction, to, from, bytes, nullptr));
  return devices[device]->host_memory ? Result<void>() : devices[device]->synchronise(nullptr);
}

Error Executable::of_pending(Error failed, std::span<const Launch> launches, size_t end, uint32_t device,
                             const Context& context) const {
  if (!failed.where.empty()) return failed;
  // Queued work reports its failure at a later call, so any launch that was not waited for may be the cause.
  std::vector<std::string_view> pending;
  for (size_t k = context.work_[device].waited; k < end; ++k)
    if (is_kernel(launches[k]) && kernels[launches[k].kernel].device == device)
      pending.push_back(launches[k].provenance);
  if (pending.empty()) return failed;
  if (pending.size() == 1) return at(std::string(pending[0]), std::move(failed));
  constexpr size_t most = 4;
  const auto shown = std::span(pending).first(std::min(most, pending.size()));
  failed.text += fmt::format(
      "; the failed one is among {} launches that were not waited for: {}{}; '--log {}' waits for each",
      pending.size(), fmt::join(shown, " | "), pending.size() > most ? " | ..." : "", launch_channel);
  return failed;
}

Result<void> Executable::wait(std::span<const Launch> launches, size_t end, Context& context) const {
  for (uint32_t d = 0; d < devices.size(); ++d) {
    auto& work = context.work_[d];
    if (devices[d]->host_memory || !work.used) continue;
    auto done = devices[d]->synchronise(work.stream);
    if (!done) return of_pending(std::move(done.error()), launches, end, d, context);
    work.done(end);
  }
  return {};
}

Result<void> Executable::put_after(std::span<const Launch> launches, size_t end, uint32_t later,
                                   uint32_t earlier, Context& context) const {
  const auto& work = context.work_[earlier];
  // Without events only the host can order the work of two devices.
  if (!work.event) return wait(launches, end, context);
  auto done = devices[earlier]->record_event(work.event, work.stream);
  if (done) done = devices[later]->wait_for_event(work.event, context.work_[later].stream);
  return done ? done : of_pending(std::move(done.error()), launches, end, earlier, context);
}

void Executable::abandon(Context& context) const {
  for (uint32_t d = 0; d < devices.size(); ++d)
    if (context.work_[d].used && !devices[d]->host_memory)
      (void)devices[d]->synchronise(context.work_[d].stream);
}

Result<void> Executable::wait_for_sources(std::span<const Launch> launches, size_t number,
                                          std::span<void* const> pointers, Context& context) const {
  const auto& step = launches[number];
  const auto& slots = step.arguments;
  const auto is_read = [&](Bytes written) {
    for (uint32_t d = 0; d < devices.size(); ++d) {
      if (step.copy != no_copy && d == step.device) continue;  // the stream already orders them
      if (std::ranges::any_of(context.work_[d].sources, [&](Bytes from) { return overlap(from, written); }))
        return true;
    }
    return false;
  };
  const auto is_written = [&](size_t k) {
    if (step.copy != no_copy) return k == 1;
    if (step.call.function) return k >= step.call.reads;
    const auto& said = kernels[step.kernel].arguments;
    // If the code does not state its accesses, assume that it writes.
    return said.empty() || said[k].written != 0;
  };
  bool waits = false;
  for (size_t k = 0; k < slots.size() && !waits; ++k)
    waits = is_written(k) && is_read(bytes_at(pointers[k], slots[k].bytes));
  if (is_kernel(step) && step.workspace >= 0) {
    const auto& kernel = kernels[step.kernel];
    const auto* const arena = static_cast<const char*>(context.work_[kernel.device].arena);
    waits = waits ||
            is_read(bytes_at(arena + step.workspace, kernel.workspace_bytes * workers_of(kernel.device)));
  }
  return waits ? wait(launches, number, context) : Result<void>();
}

Result<void> Executable::read_words(std::span<const Launch> launches, Context& context) const {
  std::vector<ErrorWords> words;
  const auto bytes = static_cast<int64_t>(launches.size() * sizeof(ErrorWords));
  for (uint32_t d = 0; d < devices.size(); ++d) {
    auto& work = context.work_[d];
    if (!work.errors) continue;
    words.resize(launches.size());
    void* const to = work.said ? work.said : words.data();
    auto copied = devices[d]->copy(FE_COPY_TO_HOST, to, work.errors, bytes, work.stream);
    if (!copied) return of_pending(std::move(copied.error()), launches, launches.size(), d, context);
    if (work.said) {
      if (context.defers_checks_) continue;
      FE_CHECK(wait(launches, launches.size(), context));
    }
    work.done(launches.size());
    FE_CHECK(check_words(launches, d, to, context));
  }
  return {};
}

Error Executable::bad_index(const Launch& launch, std::span<const int64_t> words) const {
  const auto size = words[2], flags = words[3];
  if (!(flags & FE_BAD_INDEX_TOLD))
    return at(launch.provenance, error(FE_EINVALID, "FE-X10", "an index is out of range"));
  // The code does not tell which of the kernel's dims it is, and several may have this size: list all of
  // them.
  std::vector<std::string> dims;
  for (const auto& checked : kernels[launch.kernel].checked_dims) {
    if (checked.size != size || checked.argument >= launch.arguments.size()) continue;
    const auto& slot = launch.arguments[checked.argument];
    const auto* port = slot.kind == BufferSlot::Kind::input    ? &inputs[slot.number]
                       : slot.kind == BufferSlot::Kind::output ? &outputs[slot.number]
                                                               : nullptr;
    auto text =
        port && !port->indexed.empty() ? fmt::format("{} '{}'", checked.text, port->indexed) : checked.text;
    if (std::ranges::find(dims, text) == dims.end()) dims.push_back(std::move(text));
  }
  return at(launch.provenance,
            error(FE_EINVALID, "FE-X10", "{}{}{}",
                  describe_bad_index(static_cast<uint64_t>(words[1]), size, (flags & FE_BAD_INDEX_WRAPS) != 0,
                                     (flags & FE_BAD_INDEX_UNSIGNED) != 0),
                  dims.empty() ? "" : ": ", fmt::join(dims, ", or ")));
}

Result<void> Executable::check_words(std::span<const Launch> launches, uint32_t device, void* words,
                                     Context& context) const {
  auto* const of_launch = static_cast<ErrorWords*>(words);
  for (size_t k = 0; k < launches.size(); ++k) {
    if (of_launch[k][0] == 0) continue;
    auto found = bad_index(launches[k], of_launch[k]);
    std::fill_n(of_launch, launches.size(), ErrorWords{});
    const auto& work = context.work_[device];
    const auto bytes = static_cast<int64_t>(launches.size() * sizeof(ErrorWords));
    FE_CHECK(devices[device]->copy(FE_COPY_TO_DEVICE, work.errors, words, bytes, work.stream));
    FE_CHECK(devices[device]->synchronise(work.stream));
    return found;
  }
  return {};
}

Result<void> Executable::check_earlier_words(Context& context) const {
  for (uint32_t d = 0; d < devices.size(); ++d) {
    auto& work = context.work_[d];
    if (!work.said) continue;
    const auto* const words = static_cast<const ErrorWords*>(work.said);
    if (std::all_of(words, words + steps.size(), [](const ErrorWords& said) { return said[0] == 0; }))
      continue;
    FE_CHECK(devices[d]->synchronise(work.stream));  // the device may still be writing the other words
    auto found = check_words(steps, d, work.said, context);
    if (found) continue;
    found.error().text += "; an earlier run, which did not wait for its checks, read or wrote there";
    return found;
  }
  return {};
}

Result<void> Executable::launch_all(std::span<const Launch> launches, const Buffers& buffers,
                                    Context& context) const {
  if (launches.empty()) return {};
  for (auto& work : context.work_) work.waited = 0;
  // Waiting after each launch attributes times and errors to the launch that caused them.
  const bool waits = context.times_ || log::enabled(launch_channel);
  size_t released = 0;  // nothing is at load, before it is planned
  for (size_t k = 0; k < launches.size(); ++k) {
    if (!waits) {
      FE_CHECK(launch(launches, k, buffers, context));
      release_inputs(k, buffers, released);
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    FE_CHECK(launch(launches, k, buffers, context));
    FE_CHECK(wait(launches, k + 1, context));
    if (context.times_) context.times_->push_back({start, std::chrono::steady_clock::now()});
    if (const auto device = device_of(launches[k]))
      log::print(launch_channel, "{} on {}: {} {}", k, devices[*device]->place(),
                 is_kernel(launches[k]) ? kernels[launches[k].kernel].entry : "copy", launches[k].provenance);
  }
  FE_CHECK(read_words(launches, context));
  return context.early_ ? Result<void>() : wait(launches, launches.size(), context);
}

Result<void> Executable::launch(std::span<const Launch> launches, size_t number, const Buffers& buffers,
                                Context& context) const {
  const auto& step = launches[number];
  std::vector<void*> pointers(step.arguments.size());
  for (size_t k = 0; k < pointers.size(); ++k) pointers[k] = address(step.arguments[k], buffers, context);
  const auto device = device_of(step);
  // Only these steps write host memory, which an asynchronous copy may still be reading.
  if (!device || devices[*device]->host_memory || step.copy == FE_COPY_TO_HOST)
    FE_CHECK(wait_for_sources(launches, number, pointers, context));
  if (step.copy != no_copy) return launch_copy(launches, number, pointers[0], pointers[1], context);
  if (step.call.function) return call_lowering(step, pointers);
  const auto& work = context.work_[kernels[step.kernel].device];
  return launch_kernel(launches, number, pointers, context, work.stream, work.native);
}

Result<void> Executable::launch_copy(std::span<const Launch> launches, size_t number, const void* from,
                                     void* to, Context& context) const {
  const auto& step = launches[number];
  const bool of_peers = step.copy == FE_COPY_PEER;
  const auto& device = *devices[step.device];
  auto& work = context.work_[step.device];
  // A device's memory is used in the order of its own stream, by its peers too. So a copy must wait for the
  // work that produced its source, and later work of the giving device (of this run or a later one) must wait
  // for the copy.
  if (of_peers) FE_CHECK(put_after(launches, number, step.device, giver_of(step), context));
  auto copied = device.copy(step.copy, to, from, step.arguments[0].bytes, work.stream,
                            of_peers ? devices[giver_of(step)].get() : nullptr);
  if (!copied) return of_pending(std::move(copied.error()), launches, number, step.device, context);
  if (of_peers) return put_after(launches, number + 1, giver_of(step), step.device, context);
  if (step.copy == FE_COPY_TO_DEVICE && !device.host_memory) work.add_source(from, step.arguments[0].bytes);
  if (step.copy == FE_COPY_TO_HOST) work.done(number + 1);
  return {};
}

Result<void> Executable::call_lowering(const Launch& step, std::span<void* const> pointers) const {
  abi::Call call;
  auto out = abi::sized<fe_none>();
  std::vector<fe_kernel_buffer> given;
  for (size_t k = 0; k < pointers.size(); ++k) given.push_back({pointers[k], step.call_types[k]});
  auto args = abi::sized<fe_kernel_call_args>();
  args.buffers = abi::array(given);
  args.self = step.call.self;
  int32_t status = callback::call({{}, "kernel of a lowering", step.call.name}, step.call.function,
                                  step.call.self, call, &args, &out);
  if (status != FE_OK)
    return at(step.call.name, call.error(status, "FE-X11", "the kernel that a plugin gave failed"));
  return {};
}

Result<void> Executable::launch_kernel(std::span<const Launch> launches, size_t number,
                                       std::span<void* const> pointers, Context& context, void* stream,
                                       void* native_stream) const {
  const auto& launch = launches[number];
  const auto& kernel = kernels[launch.kernel];
  const uint32_t d = kernel.device;
  const auto& work = context.work_[d];
  ErrorWords error_words{};
  abi::Call call;
  auto out = abi::sized<fe_none>();
  auto args = abi::sized<fe_launch_args>();
  args.function = kernel.function;
  args.buffers = pointers.data();
  args.buffer_count = pointers.size();
  args.tasks = kernel.tasks;
  args.grain = kernel.grain;
  if (kernel.workspace_bytes > 0)
    args.workspace =
        static_cast<char*>(work.arena) + (launch.workspace < 0 ? context.arena_end(d) : launch.workspace);
  args.workspace_bytes = kernel.workspace_bytes;
  args.workers = workers_of(d);
  args.stream = stream;
  args.native_stream = native_stream;
  if (follows_launch(launches, number)) args.flags |= FE_LAUNCH_FOLLOWS;
  // Each launch has words of its own, so one copy after the last launch shows which of them failed.
  if (work.errors)
    args.error = static_cast<ErrorWords*>(work.errors)[number].data();
  else if (devices[d]->host_memory)
    args.error = error_words.data();
  const auto* library = kernel.library;
  const auto& runtime = *devices[d]->runtime;
  const int32_t status = library
                             ? plugin::invoke(*library->table, library->slots.exec_launch, call, &args, &out)
                             : plugin::invoke(runtime, devices[d]->slots.launch, call, &args, &out);
  if (status != FE_OK) {
    auto failed = devices[d]->failed(call.error(status, "FE-D04", "the launch failed"));
    // A launch on a lost device only reports the failure of earlier work.
    if (failed.code == "FE-D06") return of_pending(std::move(failed), launches, number + 1, d, context);
    return at(kernel.provenance, std::move(failed));
  }
  if (error_words[0] != 0) return bad_index(launch, error_words);
  return {};
}

Result<void> Executable::run(Context& context, std::span<const void* const> input_data,
                             std::span<void* const> output_data) const {
  FE_CHECK(context.opened_);
  const Buffers buffers{input_data, output_data};
  if (!context.arenas_) return run_in_arenas(context, buffers);
  auto& work = context.work_[0];
  const auto given = context.workspace_;
  if (context.order_.native && given.data() && static_cast<int64_t>(given.size()) >= work.bytes &&
      reinterpret_cast<uintptr_t>(given.data()) % devices[0]->alignment == 0) {
    work.arena = given.data();
    auto done = run_in_arenas(context, buffers);
    work.arena = nullptr;
    return done;
  }
  FE_TRY(const auto arena, context.arenas_->take(devices[0], work.bytes, context.order_));
  work.arena = arena.data;
  auto done = run_in_arenas(context, buffers);
  context.arenas_->give_back(devices[0], arena, context.order_);
  work.arena = nullptr;
  return done;
}

Result<void> Executable::run_in_arenas(Context& context, const Buffers& buffers) const {
  FE_CHECK(check_earlier_words(context));
  if (context.times_) context.times_->clear();
  FE_TRY(context.recorded_.replayed, replay(context, buffers));
  if (!context.recorded_.replayed)
    if (auto done = launch_all(steps, buffers, context); !done) {
      // The queued work uses the caller's memory: wait for it before returning the error.
      abandon(context);
      return done;
    }
  for (size_t k = 0; k < output_slots.size(); ++k) {
    const auto& slot = output_slots[k];
    // The kernel has already written this output to the caller's memory.
    if (slot.kind == BufferSlot::Kind::output && slot.number == k) continue;
    const void* from = address(slot, buffers, context);
    if (memory_of_ports() != host) {
      const auto& device = *devices[ports_device()];
      auto& work = context.work_[ports_device()];
      const bool from_host = host_reaches(slot);
      FE_CHECK(device.copy(from_host ? FE_COPY_TO_DEVICE : FE_COPY_ON_DEVICE, buffers.outputs[k], from,
                           slot.bytes, work.stream));
      if (from_host) work.add_source(from, slot.bytes);
      if (!context.early_) FE_CHECK(device.synchronise(work.stream));
    } else if (slot.bytes > 0) {
      std::memcpy(buffers.outputs[k], from, static_cast<size_t>(slot.bytes));
    }
  }
  return {};
}

}  // namespace ferrite::core::runtime
