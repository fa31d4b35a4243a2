// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The result of compiling: loaded kernels, constants, two launch lists (init, run) and a memory plan.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"
#include "runtime/allocator.h"
#include "runtime/arena_pool.h"
#include "runtime/constant.h"
#include "runtime/device.h"
#include "runtime/recording.h"

namespace ferrite::core::runtime {

/// The memory of a launch argument.
struct BufferSlot {
  enum class Kind : uint8_t { input, output, constant, persistent, arena };
  Kind kind = Kind::arena;
  uint32_t device = 0;  ///< the device whose memory it is; constants are in the host's
  uint32_t number = 0;  ///< index among inputs, outputs, constants or persistent blocks
  int64_t offset = 0;   ///< for the arena: in bytes
  int64_t bytes = 0;
};

inline constexpr uint32_t no_copy = UINT32_MAX;

/// The log channel that shows each launch. It waits after each one, so that errors appear at the launch that
/// caused them.
inline constexpr std::string_view launch_channel = "launches";

/// A function from a plugin's lowering, over contiguous buffers.
struct PluginCall {
  std::string name;
  fe_kernel_function function = nullptr;
  void* self = nullptr;
  size_t reads = 0;  ///< the first arguments are read, the others written
};

/// One launch of a kernel, one call of a plugin's function, or one copy between memories.
struct Launch {
  uint32_t kernel = 0;      ///< index into Executable::kernels; ignored for calls and copies
  uint32_t device = 0;      ///< for a copy: the device whose runtime performs it
  uint32_t copy = no_copy;  ///< FE_COPY_*: from the first argument to the second
  std::vector<BufferSlot> arguments;
  int64_t workspace = -1;  ///< offset in the arena of the kernel's device; negative: after the arena
  std::string provenance;  ///< model nodes; empty for a copy
  PluginCall call;         ///< function != null: an opaque kernel
  std::vector<fe_tensor_type> call_types;  ///< one per argument of a call; dims point into call_dims
  std::vector<std::vector<int64_t>> call_dims;
};

/// The launches that are no copies.
inline size_t count_kernels(std::span<const Launch> launches) {
  return static_cast<size_t>(std::ranges::count(launches, no_copy, &Launch::copy));
}

/// A dim of a kernel's argument that a data-dependent index addresses.
struct CheckedDim {
  uint32_t argument = 0;
  int64_t size = 0;
  std::string text;  ///< "dim 0 of f32[5,4]"
};

struct CompiledKernel {
  std::string entry;       ///< the hash of its semantics
  std::string provenance;  ///< model nodes
  std::string candidate;
  uint32_t device = 0;
  const Compiler* library = nullptr;  ///< the provider that launches it; null: the runtime
  void* function = nullptr;           ///< the runtime's handle, or the library's exec
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  /// As compiled, else as reported at load; -1: unknown.
  int64_t registers = -1, spills = -1, shared_bytes = -1;
  /// Whether launches only queue work on a stream and can therefore be recorded. For a library its exec says
  /// so.
  bool recordable = true;
  /// Whether it may find an index out of range and report it in error words. True for every kernel that is
  /// not compiled from loops.
  bool checks_indices = true;
  /// The dims that data-dependent indices address; none for a library's kernel.
  std::vector<CheckedDim> checked_dims;
  /// The accesses of its code, known after loading; empty: not stated.
  std::vector<fe_argument_needs> arguments;
};

struct PortInfo {
  std::string name;
  DType dtype = DType::none;
  std::vector<int64_t> dims;
  int64_t bytes = 0;
  bool changed = false;   ///< an input whose contents the run changes
  std::string indexed{};  ///< the text that error messages use for an index into it
  bool donated = false;   ///< an input that the run may leave with any contents
};

/// The alignment of buffers, which kernels may rely on. It does not hold for the caller's host memory.
inline constexpr uint64_t least_alignment = 64;

/// When a launch of a run began and ended.
struct LaunchTime {
  std::chrono::steady_clock::time_point start, end;
};

/// Immutable after load(). Each Context allows run() from one thread at a time.
class Executable {
 public:
  ~Executable();
  Executable() = default;
  Executable(const Executable&) = delete;

  std::vector<PortInfo> inputs, outputs;
  std::vector<CompiledKernel> kernels;
  double estimate = 0;              ///< of one run, in seconds: costs of its kernels and of copies
  double load_ms = 0, init_ms = 0;  ///< time that load() took to load kernels and to prepare constants
  std::vector<Launch> init, steps;
  std::vector<BufferSlot>
      output_slots;  ///< where each output is after the run; it is copied if that is not the caller's memory
  std::vector<Constant> constants;
  Devices devices;                   ///< buffers are in the memory of the last one by default
  std::vector<int64_t> arena_bytes;  ///< by device, including the workspaces within
  struct ArenaPart {
    std::string name;
    int64_t offset, bytes;
  };
  /// By device, if BuildOptions::red_zones is set: the used parts of the arena, by offset. The memory between
  /// them belongs to no buffer.
  std::vector<std::vector<ArenaPart>> arena_parts;
  int64_t workers = 1;
  /// Inputs and outputs are in the first device's memory, else in the last one's.
  bool ports_on_device = false;
  /// Record the second run of a context, if the device supports that, and replay it in later runs.
  bool record_runs = true;
  std::vector<std::string> code;  ///< by kernel, if it goes into a package
  /// Allocates memory of the devices that it serves; null: the runtimes do.
  std::shared_ptr<Allocator> allocator;
  /// By device: size of the arena for blocks that only init uses; it is freed after init.
  std::vector<int64_t> init_arena_bytes;

  /// Memory on a device that lives as long as the executable.
  struct Persistent {
    uint32_t device = 0;
    int64_t bytes = 0;
    void* data = nullptr;
  };
  std::span<const Persistent> persistent() const { return persistent_; }
  /// Reserves persistent memory; call before load(). Returns its number.
  uint32_t add_persistent(uint32_t device, int64_t bytes);
  /// Call when all launches are listed. Moves persistent memory that no run reads to the arena of init, with
  /// the lifetime that init needs.
  void plan_init();
  uint32_t default_device() const { return static_cast<uint32_t>(devices.size() - 1); }
  /// Numbers of memories: the host's, and each device's own number.
  static constexpr uint32_t host = UINT32_MAX;
  /// The number of workers that share a launch on the device; each needs a workspace.
  int64_t workers_of(uint32_t device) const { return devices[device]->host_memory ? workers : 1; }
  uint32_t memory_of(uint32_t device) const { return devices[device]->host_memory ? host : device; }
  uint32_t memory_of(const BufferSlot& slot) const;
  uint32_t memory_of_ports() const { return ports_on_device ? memory_of(0) : host; }
  /// The device whose memory holds inputs and outputs.
  uint32_t ports_device() const { return ports_on_device ? 0 : default_device(); }

  /// load_code() and then prepare(). FE-D codes, FE-P67.
  Result<void> load(std::span<const std::string> blobs);
  /// Loads the kernels' code. On failure nothing is loaded, and it may be called again. FE-P67 if the code
  /// needs other launches than `kernels` states.
  Result<void> load_code(std::span<const std::string> blobs);
  /// Allocates persistent memory and runs init once; call after load_code(). FE-P67 if the code accesses
  /// memory that the launches do not pass.
  /// `keep_sources`: a package will be made of the program, before release_sources() is called.
  Result<void> prepare(bool keep_sources = false);
  /// Frees the data that only packages need: the code, and constants that only init reads.
  void release_sources();

  /// As Device::alloc(), but uses the allocator if it serves the device: FE-X38 if its memory is misaligned.
  Result<void*> alloc(uint32_t device, int64_t bytes, void* stream = nullptr) const;
  void free(uint32_t device, void* data, void* stream = nullptr) const;
  /// `direction`: FE_COPY_*. The copy is complete on return. FE-D21.
  Result<void> copy(uint32_t device, uint32_t direction, void* to, const void* from, int64_t bytes) const;

  /// Bytes that a run needs on the first device for its arena and the workspaces of kernels.
  int64_t workspace_bytes() const { return run_bytes(0, steps, arena_bytes[0]); }

  /// How runs are recorded, or what prevents it. Valid after prepare().
  const RecordingPlan& recording() const { return recording_; }

  /// The state of runs: arenas with the workspaces after them, and a stream for each device that has streams.
  /// One per thread.
  class Context {
   public:
    /// `native_stream`: if not null, a stream of the first device's driver that the caller owns. Work is
    /// given to it instead of a new stream; it must outlive the context.
    explicit Context(const Executable& executable, void* native_stream = nullptr)
        : Context(executable, executable.steps, executable.arena_bytes, native_stream) {}
    /// A context that takes the arena of its first device from the pool for each run: where runs are complete
    /// when they return, as in the host's memory alone, or where the caller's stream orders them. Memory of
    /// the session's allocator stays with the context.
    Context(const Executable& executable, void* native_stream, ArenaPool& arenas)
        : Context(executable, executable.steps, executable.arena_bytes, native_stream,
                  executable.shares_arenas(native_stream) ? &arenas : nullptr) {}
    ~Context();
    Context(const Context&) = delete;

    /// Fills the arenas with a value, so that reads of uninitialised memory become visible.
    Result<void> fill_arenas(std::byte value);
    /// After a completed run: where red zones differ from the value that filled the arenas; empty: nowhere.
    Result<std::string> written_beside(std::byte value) const;
    /// Measures the launches of each later run. Such runs are neither recorded nor replayed.
    void keep_times() { times_.emplace(); }
    /// Times of the last run, by step; empty if they are not measured.
    std::span<const LaunchTime> times() const {
      return times_ ? std::span<const LaunchTime>(*times_) : std::span<const LaunchTime>();
    }
    /// Lets later runs return as soon as all work is queued; ports are then used in the order of the first
    /// device's stream. A run still waits if the host must do something afterwards: write an output of its
    /// own or, without `defer_checks`, check an index. With it, a later run of the context reports an index
    /// that was out of range (FE-X10), and an error that no later run reports is a warning when the context
    /// closes.
    void return_early(bool early, bool defer_checks = false) {
      early_ = early;
      defers_checks_ = early && defer_checks;
    }
    /// The memory of the caller that later runs use as the first device's arena, where the caller's stream
    /// orders its uses and it has Executable::workspace_bytes(); null, or too little: the pool's.
    void use_workspace(void* data, uint64_t bytes) { workspace_ = {static_cast<std::byte*>(data), bytes}; }
    /// FE-D codes for resources that it could not get.
    const Result<void>& opened() const { return opened_; }
    /// The stream that receives a device's work; null: the device's default stream.
    void* stream(uint32_t device) const { return work_[device].stream; }
    /// Whether the last run was a replay.
    bool replayed() const { return recorded_.replayed; }

   private:
    friend class Executable;
    /// The state of one device.
    struct Work {
      bool used = false;
      int64_t bytes = 0;       ///< of the arena and the workspaces after it
      void* stream = nullptr;  ///< null: the device's default stream
      bool borrowed = false;   ///< the stream belongs to the caller
      void* native = nullptr;  ///< the driver's handle of the stream, for libraries
      void* event = nullptr;   ///< peers wait for it; null: the host waits for the device
      void* arena = nullptr;
      /// Error words for each launch; null if no launch needs them. Kernels write them only if an index is
      /// bad, and they are cleared when they were reported, so that no later run hides an error.
      void* errors = nullptr;
      void* said = nullptr;  ///< the words as the host got them, in pinned memory; null: the device has none
      size_t waited = 0;     ///< launches of the current run before this one are known to be complete
      /// Host memory that copies may still be reading: copies from pinned memory are asynchronous.
      std::vector<std::span<const std::byte>> sources;

      void add_source(const void* from, int64_t bytes);
      /// Records that the host has waited for the device's work before launch `end`.
      void done(size_t end);
    };
    /// A context for these launches of the program, with arenas of these sizes by device.
    Context(const Executable& executable, std::span<const Launch> launches,
            std::span<const int64_t> arena_bytes, void* native_stream, ArenaPool* arenas = nullptr);
    Result<void> open(uint32_t device, std::span<const Launch> launches, void* native_stream);
    int64_t arena_end(uint32_t device) const {
      return executable_.workspaces_after(device, arena_bytes_[device]);
    }

    const Executable& executable_;
    Result<void> opened_;
    std::vector<Work> work_;  ///< by device
    Recorded recorded_;
    std::optional<std::vector<LaunchTime>> times_;
    bool early_ = false;
    bool defers_checks_ = false;
    std::span<std::byte> workspace_;              ///< use_workspace()
    ArenaPool* const arenas_;                     ///< of the first device; null: the context keeps its arena
    ArenaPool::Order order_;                      ///< of the first device's runs
    const std::span<const int64_t> arena_bytes_;  ///< by device
  };

  /// `inputs` and `outputs`: contiguous elements in the memory of ports_device(), in port order. On return
  /// all work is complete, unless the context returns early.
  /// FE-X10 an index was out of range, with the kernel's nodes; FE-D codes from the devices.
  Result<void> run(Context& context, std::span<const void* const> input_data,
                   std::span<void* const> output_data) const;

 private:
  friend class Context;
  struct Released {
    size_t step;
    uint32_t input;
  };
  struct Buffers {
    std::span<const void* const> inputs;
    std::span<void* const> outputs;
  };
  /// The size of a device's arena, with the workspaces of these launches after it.
  int64_t run_bytes(uint32_t device, std::span<const Launch> launches, int64_t arena) const;
  /// The offset after an arena at which workspaces outside the arena begin.
  int64_t workspaces_after(uint32_t device, int64_t arena) const;
  /// Whether runs on this stream may have the first device's arena of a pool.
  bool shares_arenas(const void* native_stream) const {
    const bool in_order = devices[0]->host_memory ? devices.size() == 1 : native_stream != nullptr;
    return in_order && !(allocator && allocator->serves(*devices[0]));
  }
  /// run() of a context that has its arenas.
  Result<void> run_in_arenas(Context& context, const Buffers& buffers) const;
  /// On a device with separate memory, the error words of all kernels are read once, after the last launch.
  Result<void> launch_all(std::span<const Launch> launches, const Buffers& buffers, Context& context) const;
  Result<void> launch(std::span<const Launch> launches, size_t number, const Buffers& buffers,
                      Context& context) const;
  Result<void> launch_copy(std::span<const Launch> launches, size_t number, const void* from, void* to,
                           Context& context) const;
  /// Makes further work of device `later`, from launch `end` on, wait for the work given to its peer
  /// `earlier`.
  Result<void> put_after(std::span<const Launch> launches, size_t end, uint32_t later, uint32_t earlier,
                         Context& context) const;
  /// Before a launch that writes to host memory: waits for copies to devices that may still be reading that
  /// memory.
  Result<void> wait_for_sources(std::span<const Launch> launches, size_t number,
                                std::span<void* const> pointers, Context& context) const;
  Result<void> call_lowering(const Launch& launch, std::span<void* const> pointers) const;
  Result<void> launch_kernel(std::span<const Launch> launches, size_t number, std::span<void* const> pointers,
                             Context& context, void* stream, void* native_stream) const;
  /// Copies the error words of all devices to the host; waits for them and checks them unless the context
  /// defers checks.
  Result<void> read_words(std::span<const Launch> launches, Context& context) const;
  /// FE-X10 if a launch reports an index out of range in its error words, which are cleared then.
  Result<void> check_words(std::span<const Launch> launches, uint32_t device, void* words,
                           Context& context) const;
  /// Checks what runs that did not wait for their words have said so far.
  Result<void> check_earlier_words(Context& context) const;
  /// The error that a launch's error words describe.
  Error bad_index(const Launch& launch, std::span<const int64_t> words) const;
  /// Waits for all work given to the devices before launch `end`.
  Result<void> wait(std::span<const Launch> launches, size_t end, Context& context) const;
  /// After a failed run: waits for the work that is still queued, as it uses the caller's memory. Its errors
  /// are ignored.
  void abandon(Context& context) const;
  /// An error reported later than its cause: names the nodes of all launches that may have failed.
  Error of_pending(Error failed, std::span<const Launch> launches, size_t end, uint32_t device,
                   const Context& context) const;
  /// Whether a launch may report an index out of range in its error words.
  bool may_fail(const Launch& launch) const;
  /// Whether the launch before it is one of the same device's runtime: FE_LAUNCH_FOLLOWS.
  bool follows_launch(std::span<const Launch> launches, size_t number) const;
  /// The device whose runtime performs a launch; none for the call of a lowering.
  std::optional<uint32_t> device_of(const Launch& launch) const;
  /// The source device of a copy between peers.
  uint32_t giver_of(const Launch& launch) const { return memory_of(launch.arguments[0]); }
  RecordingPlan plan_recording() const;
  /// The large donated inputs in the host's memory, by the step after which no other uses them.
  std::vector<Released> plan_released() const;
  /// Releases those that are done after this step. `released`: how many are so far.
  void release_inputs(size_t step, const Buffers& buffers, size_t& released) const;
  /// Replays a recording, after recording one now if possible. Returns whether the run was done by a replay.
  Result<bool> replay(Context& context, const Buffers& buffers) const;
  Result<void> record(Context& context, const Buffers& buffers) const;
  Result<void> record_steps(Context& context, const Buffers& buffers, void* stream) const;
  void* address(const BufferSlot& slot, const Buffers& buffers, const Context& context) const;
  /// Whether the host can access the slot's memory; device_reaches(): whether the device's code can.
  bool host_reaches(const BufferSlot& slot) const;
  bool device_reaches(uint32_t device, const BufferSlot& slot) const;
  Result<void> check(const Launch& launch) const;
  Result<void> check_launches() const;
  void unload_code();
  Result<void> load_modules(std::span<const std::string> blobs);
  Result<void> load_libraries(std::span<const std::string> blobs);

  std::vector<Persistent> persistent_;
  std::vector<void*> modules_;  ///< by device
  std::vector<std::vector<std::byte>> aligned_constants_;
  RecordingPlan recording_;
  std::vector<Released> released_;
};

}  // namespace ferrite::core::runtime
