// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A device: its runtime, and all providers that compile for it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/forks.h"
#include "runtime/plugin/backends.h"
#include "runtime/target/coverage.h"
#include "runtime/target/number_table.h"

namespace ferrite::core::runtime {

/// The name of the interpreter, which evaluates loop programs directly. It belongs to no runtime.
inline constexpr std::string_view interpreter_name = "interpreter";

/// A provider with an open target.
struct Compiler {
  const fe_provider* table = nullptr;  ///< the plugin's own table, which identifies the lock of its slots
  fe_provider slots{};                 ///< the same table at this side's size
  fe_open_target_out target{};
  std::string id;
  const plugin::LoadedPlugin* plugin = nullptr;  ///< the plugin that contributed it
  std::string target_key;      ///< runtime::target_key(); empty if the provider has no fingerprint
  runtime::Coverage coverage;  ///< as declared and measured

  bool takes_kernels() const { return slots.propose && slots.compile; }
  /// Whether it also launches the kernels that it compiles.
  bool is_library() const { return slots.exec_create && slots.exec_launch; }
};

/// A hash of everything that a provider's code depends on, apart from the kernel: its target and fingerprint,
/// its plugin's settings, the contents of the library, Ferrite's version.
std::string maker_key(const Compiler& compiler);

/// A target for cross-compilation: a device kind, and a description that its providers can open.
struct Target {
  std::string kind, description;
  friend bool operator==(const Target&, const Target&) = default;
};

/// A device with the runtime that owns it and the providers that compile for it. Their targets stay open
/// while this object lives.
class Device {
 public:
  /// Opens "cpu" or "cpu:0": a runtime's id and a number. FE-D01 if there is no such device, with a list of
  /// those that exist; FE-D05 if its devices cannot be counted, described or compiled for; FE-S20 and FE-P54
  /// for errors in what its providers declare or were measured to take.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const plugin::Backends& backends);
  /// Opens a target without a device: code for it is compiled and not loaded, and its driver may be absent.
  /// If no device can be asked, the target is assumed to have separate memory; such a program also runs on
  /// devices that share the host's memory. `number`: any for a kind with separate memory; for other kinds the
  /// number of an existing device, else FE-D01.
  static Result<std::shared_ptr<Device>> open(const Target& target, const plugin::Backends& backends,
                                              uint32_t number = 0);
  ~Device();
  Device(const Device&) = delete;

  const fe_runtime* runtime = nullptr;  ///< the plugin's own table, which identifies the lock of its slots
  fe_runtime slots{};                   ///< the same table at this side's size
  std::vector<Compiler> compilers;      ///< code generators first, the one that was
                                        ///< enabled last before the others
  uint32_t number = 0;
  uint64_t alignment = 1;   ///< of allocations, in bytes; a power of two
  uint64_t capacity = 0;    ///< bytes of memory; 0: unknown
  bool host_memory = true;  ///< it can access host pointers
  int32_t dlpack = 1;       ///< DLPack's device type
  std::string kind;         ///< the runtime's id
  std::string description;  ///< bytes that describe the device to its compilers
  std::string name;
  const uint64_t forks = runtime::forks();  ///< of the process, when the device was opened
  /// The numbers that the code generators state (the first one that states a number wins), replaced by
  /// measured ones.
  SourcedNumbers numbers;

  // Memory and work, any-thread. A stream is an object of the runtime that one thread at a time gives work
  // to; null: the device's default stream. FE-D06 if the device is lost: it does nothing any more in this
  // process.

  /// Allocates memory; null for no bytes. FE-D03 if memory is short (a size above the device's capacity is
  /// refused without asking), FE-P66 if the runtime returns misaligned memory. With a null stream, all later
  /// work of the device may use the memory.
  Result<void*> alloc(int64_t bytes, void* stream) const;
  /// Frees the memory after the stream's current work.
  void free(void* data, void* stream) const;
  /// `direction`: FE_COPY_*; FE_COPY_PEER copies from the memory of `peer`. FE-D21.
  Result<void> copy(uint32_t direction, void* to, const void* from, int64_t bytes, void* stream,
                    const Device* peer = nullptr) const;
  /// Waits for the stream's work. FE-D04 if any of it failed.
  Result<void> synchronise(void* stream) const;
  bool has_streams() const { return slots.stream_open && slots.stream_close && slots.native_handle; }
  /// Opens a new stream, or wraps the caller's `native` stream of the driver; null if the runtime has no
  /// streams. FE-D22.
  Result<void*> open_stream(void* native) const;
  void close_stream(void* stream) const;
  bool has_events() const {
    return has_streams() && slots.event_open && slots.event_record && slots.event_wait && slots.event_close;
  }
  /// Null if the runtime has no events. FE-D22.
  Result<void*> open_event() const;
  /// Call it when no stream waits for the event any more.
  void close_event(void* event) const;
  /// The event, of this device, marks the work given to the stream so far.
  Result<void> record_event(void* event, void* stream) const;
  /// Further work of the stream waits for the work that the event, of this device or a peer, marks now.
  Result<void> wait_for_event(void* event, void* stream) const;
  /// The driver's handle of a kind FE_NATIVE_*; null if the runtime provides none.
  void* native(uint32_t kind, void* stream) const;
  /// Pinned host memory, which the device can access for asynchronous copies; null if there is none.
  void* host_alloc(int64_t bytes) const;
  void host_free(void* data) const;
  /// Whether streams can be recorded; a driver may still refuse.
  bool records() const { return slots.record_begin && slots.record_end && slots.replay && slots.graph_free; }
  /// Records the work that `body` gives to `stream` and returns the graph. FE-D23, or the error of `body`;
  /// then nothing is recorded.
  Result<void*> record(void* stream, const std::function<Result<void>()>& body) const;
  Result<void> replay(void* graph, void* stream, std::span<const fe_rebinding> rebindings) const;
  void free_graph(void* graph) const;
  /// Converts an error of the runtime: FE-D06 if the device is lost, else unchanged.
  Error failed(Error error) const;
  /// "cpu:0"
  std::string place() const;
  /// FE-D07 where the process was forked since the device was opened, and the driver is no part of the
  /// child: drivers of devices with memory of their own are not.
  Result<void> check_process() const;

  /// The runtime's reason why code compiled for this target does not run on the device; empty if it does.
  std::string refusal(const std::string& target) const;
  /// The code generators, the one enabled last first; none if the device only takes whole regions. Among
  /// those that accept a kernel, the cheapest compiles it, so a specialised generator can complement a
  /// general one.
  std::span<const Compiler> generators() const;
  /// The open target of this provider; null if it has none.
  const Compiler* compiler(const fe_provider& provider) const;

 private:
  Device() = default;
  Result<void> describe();
  Result<void> open_targets(const plugin::Backends& backends);
  Result<void> find_numbers();
};

/// The devices of a program in order of preference. Work goes to the first device that accepts it; the last
/// one takes the rest.
using Devices = std::vector<std::shared_ptr<Device>>;

/// Opens "cpu", or several names separated by commas: "npu,cpu". Errors as of Device::open; a kind that is
/// among the targets is opened as that target. If the last device compiles no loops or cannot access the
/// host's memory, a device that does both is appended: the first such target, else the first such device.
/// FE-D20 if there is none.
Result<Devices> open_devices(const std::string& names, const plugin::Backends& backends,
                             std::span<const Target> targets = {});

/// Whether a device can be the last one of a program: it compiles loops and accesses the host's memory.
bool takes_the_rest(const Device& device);

/// The names in "npu,cpu".
std::vector<std::string> device_names(std::string_view names);

/// The targets that the devices compile for.
std::vector<Target> targets_of(const Devices& devices);

/// "npu (v2), cpu (x86-64-v4)"
std::string text_of(std::span<const Target> targets);

/// "cpu" for "cpu:1"; for a list such as "npu,cpu:1" all kinds, without duplicates.
std::string kind_of(const std::string& name);
std::vector<std::string> kinds_of(std::string_view names);

/// The numbers for decisions about a whole program: those of the first device that compiles loops, with two
/// exceptions. The smallest local memory of all devices counts, because statements are assigned after fusion;
/// and the first preference for an order of activations.
TargetNumbers numbers_of(const Devices& devices);

/// Checks that these are names of devices or of the interpreter: gives the errors of open_devices() without
/// opening anything. `here`: the devices must be present.
Result<void> check_devices(const std::string& names, const plugin::Backends& backends, bool here = true);

/// The kind of the last device, for which ops are lowered.
std::string last_kind(const std::string& names);

}  // namespace ferrite::core::runtime
