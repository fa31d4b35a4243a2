// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Devices: a runtime's, with everything that compiles for it.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/plugin/backends.h"
#include "runtime/target/coverage.h"
#include "runtime/target/number_table.h"

namespace ferrite::core::runtime {

/// The device that no runtime has: the loop programs are evaluated as they stand.
inline constexpr std::string_view interpreter_name = "interpreter";

/// A provider with its target open.
struct Compiler {
  const fe_provider* table = nullptr;  ///< the plugin's own, whose lock its slots take
  fe_provider slots{};                 ///< the same at this side's size
  fe_open_target_out target{};
  std::string id;
  const plugin::LoadedPlugin* plugin = nullptr;  ///< whose it is
  std::string target_key;                        ///< runtime::target_key(); empty: it has no fingerprint
  runtime::Coverage coverage;                     ///< declared and measured

  bool takes_kernels() const { return slots.propose && slots.compile; }
  /// What it compiles it launches itself.
  bool is_library() const { return slots.exec_create && slots.exec_launch; }
};

/// A hash of all that a provider's code depends on beside the kernel: its target and fingerprint, its plugin's settings, the
/// contents of the library, Ferrite's version.
std::string maker_key(const Compiler& compiler);

/// What is compiled for instead of devices that are here: a kind of device and a description that its providers open.
struct Target {
  std::string kind, description;
  friend bool operator==(const Target&, const Target&) = default;
};

/// A device with the runtime that owns it and the providers that compile for it, their targets open while this lives.
class Device {
 public:
  /// "cpu" or "cpu:0": a runtime's id and a number. FE-D01 where there is none, with what there is, FE-D05 where its
  /// devices cannot be counted, described or compiled for, FE-S20 and FE-P54 for what is said of what its providers take.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const plugin::Backends& backends);
  /// A device that is not here: code for it is compiled and not loaded. Its driver need not be there either. Where nothing can be asked,
  /// its memory is taken for its own, which holds for what runs on devices that reach the host's, too.
  /// `number`: of a kind with memory of its own any; of others one that is here, else FE-D01.
  static Result<std::shared_ptr<Device>> open(const Target& target, const plugin::Backends& backends,
                                              uint32_t number = 0);
  ~Device();
  Device(const Device&) = delete;

  const fe_runtime* runtime = nullptr;  ///< the plugin's own, whose lock its slots take
  fe_runtime slots{};                   ///< the same at this side's size
  std::vector<Compiler> compilers;      ///< code generators first, the one that was
                                        ///< enabled last before the others
  uint32_t number = 0;
  uint64_t alignment = 1;   ///< of allocations, a power of two
  uint64_t capacity = 0;    ///< bytes of memory; 0: not known
  bool host_memory = true;  ///< it reads and writes host pointers
  int32_t dlpack = 1;       ///< DLPack's number of its kind
  std::string kind;         ///< the runtime's id
  std::string description;  ///< bytes: what is compiled for
  std::string name;
  /// What the code generators state, over that what was measured; of the first that states it.
  SourcedNumbers numbers;

  // Memory and work, any-thread. A stream is the runtime's object, given work by one thread at a time; null: the one that the device has
  // of its own. FE-D06 where the device is lost: it does nothing any more in this process.

  /// Null for no bytes. FE-D03 no memory, without asking for more than the device has, FE-P66 memory that is not aligned as the device
  /// says. Null as the stream: whatever is given to the device later may use it.
  Result<void*> alloc(int64_t bytes, void* stream) const;
  /// Behind the stream's work.
  void free(void* data, void* stream) const;
  /// `direction`: FE_COPY_*, of FE_COPY_PEER from the memory of `peer`. FE-D21.
  Result<void> copy(uint32_t direction, void* to, const void* from, int64_t bytes, void* stream,
                    const Device* peer = nullptr) const;
  /// Waits for the stream's work. FE-D04 where any of it failed.
  Result<void> synchronise(void* stream) const;
  bool has_streams() const { return slots.stream_open && slots.stream_close && slots.native_handle; }
  /// A stream of its own, or one of the driver's that the caller owns; null where the runtime has none. FE-D22.
  Result<void*> open_stream(void* native) const;
  void close_stream(void* stream) const;
  bool has_events() const {
    return has_streams() && slots.event_open && slots.event_record && slots.event_wait && slots.event_close;
  }
  /// Null where the runtime has none. FE-D22.
  Result<void*> open_event() const;
  /// When no stream waits for it any more.
  void close_event(void* event) const;
  /// The event, of this device, stands for what the stream was given until now.
  Result<void> record_event(void* event, void* stream) const;
  /// What the stream is given from here on is done behind what the event, of this device or a peer, stands for now.
  Result<void> wait_for_event(void* event, void* stream) const;
  /// The driver's handle of a kind FE_NATIVE_*; null where the runtime gives none.
  void* native(uint32_t kind, void* stream) const;
  /// Memory of the host that the device copies from and to by itself; null where there is none.
  void* host_alloc(int64_t bytes) const;
  void host_free(void* data) const;
  /// Whether streams can be recorded; a driver may still decline.
  bool records() const { return slots.record_begin && slots.record_end && slots.replay && slots.graph_free; }
  /// `stream` is given work by `body`, which is kept. FE-D23, and what `body` fails with; then nothing is kept.
  Result<void*> record(void* stream, const std::function<Result<void>()>& body) const;
  Result<void> replay(void* graph, void* stream, std::span<const fe_rebinding> rebindings) const;
  void free_graph(void* graph) const;
  /// What a failure of its runtime's becomes where the device is lost: FE-D06.
  Error failed(Error error) const;
  /// "cpu:0"
  std::string place() const;

  /// Why code that was compiled for this target does not run on the device, as the runtime says; empty where it does.
  std::string refusal(const std::string& target) const;
  /// The code generators, the one that was enabled last first; none where only whole regions are taken. The first that takes a kernel for
  /// least compiles it, so one that knows little stands beside one that knows all.
  std::span<const Compiler> generators() const;
  /// What this provider opened, or null.
  const Compiler* compiler(const fe_provider& provider) const;

 private:
  Device() = default;
  Result<void> describe();
  Result<void> open_targets(const plugin::Backends& backends);
  Result<void> find_numbers();
};

/// The devices of a program, the preferred one first. Work goes to the first one that takes it; the last one takes the rest.
using Devices = std::vector<std::shared_ptr<Device>>;

/// "cpu", or several with commas between: "npu,cpu". As Device::open; those of the targets' kinds are opened as these. Where the last one
/// compiles no loops or cannot reach the host's memory, the first target that does both comes behind it, else the first device; FE-D20
/// where there is none.
Result<Devices> open_devices(const std::string& names, const plugin::Backends& backends,
                             std::span<const Target> targets = {});

/// Whether a device can be the last one of a program: it compiles loops and reaches the host's memory.
bool takes_the_rest(const Device& device);

/// The names in "npu,cpu".
std::vector<std::string> device_names(std::string_view names);

/// What is compiled for.
std::vector<Target> targets_of(const Devices& devices);

/// "npu (v2), cpu (x86-64-v4)"
std::string text_of(std::span<const Target> targets);

/// "cpu" of "cpu:1", and of all names in "npu,cpu:1", each kind once.
std::string kind_of(const std::string& name);
std::vector<std::string> kinds_of(std::string_view names);

/// The numbers by which decisions about a whole program are made: those of the first device that compiles loops. The least budget
/// for local buffers of all holds, because statements are placed behind fusion, and the first wish for an order of activations.
TargetNumbers numbers_of(const Devices& devices);

/// Whether these are names of devices or the interpreter's: the errors of open_devices() without opening anything. `here`: the devices
/// have to be.
Result<void> check_devices(const std::string& names, const plugin::Backends& backends, bool here = true);

/// The kind of the last device, for which ops are lowered.
std::string last_kind(const std::string& names);

}  // namespace ferrite::core::runtime
