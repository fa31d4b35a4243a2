// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiling gives: loaded kernels, constants, two launch lists (init, run) and a memory plan.
#pragma once

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
#include "runtime/constant.h"
#include "runtime/device.h"
#include "runtime/recording.h"

namespace ferrite::core::runtime {

/// Where an argument of a launch lies.
struct BufferSlot {
  enum class Kind : uint8_t { input, output, constant, persistent, arena };
  Kind kind = Kind::arena;
  uint32_t device = 0;  ///< in whose memory; constants are in the host's
  uint32_t number = 0;  ///< input, output, constant, persistent: which one
  int64_t offset = 0;   ///< arena: bytes
  int64_t bytes = 0;
};

inline constexpr uint32_t no_copy = UINT32_MAX;

/// Of the log: shows each launch, and waits behind it, so that an error is told of where it is.
inline constexpr std::string_view launch_channel = "launches";

/// A function that a plugin's lowering gave, over contiguous buffers.
struct PluginCall {
  std::string name;
  fe_kernel_function function = nullptr;
  void* self = nullptr;
  size_t reads = 0;  ///< of the arguments, the first ones; the others are written
};

/// One launch of a kernel, one call of a function that a plugin gave, or one copy between memories.
struct Launch {
  uint32_t kernel = 0;      ///< into Executable::kernels; ignored for calls and copies
  uint32_t device = 0;      ///< of a copy: whose runtime makes it
  uint32_t copy = no_copy;  ///< FE_COPY_*: from the first argument to the second one
  std::vector<BufferSlot> arguments;
  int64_t workspace = -1;  ///< offset in the arena of the kernel's device; negative: behind the arena
  std::string provenance;  ///< model nodes; of a copy: empty
  PluginCall call;         ///< function != null: an opaque kernel
  std::vector<fe_tensor_type> call_types;  ///< one an argument of a call; dims point into call_dims
  std::vector<std::vector<int64_t>> call_dims;
};

/// A dim that an index from data addresses, of a kernel's argument.
struct CheckedDim {
  uint32_t argument = 0;
  int64_t size = 0;
  std::string text;  ///< "dim 0 of f32[5,4]"
};

struct CompiledKernel {
  std::string entry;       ///< its hash
  std::string provenance;  ///< model nodes
  std::string candidate;
  uint32_t device = 0;
  const Compiler* library = nullptr;  ///< the provider that launches it itself
  void* function = nullptr;           ///< the runtime's, or the library's exec
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1, shared_bytes = -1;  ///< as compiled, else as loaded; -1: unknown
  /// Its launches only give work to a stream. Of a library's, where its exec says so.
  bool recordable = true;
  /// It may find one out of range, which it says in the words of errors. So it is of all that is not made of loops.
  bool checks_indices = true;
  std::vector<CheckedDim> checked_dims;      ///< what indices from data address; of a library's kernel none
  std::vector<fe_argument_needs> arguments;  ///< what its code reaches, once loaded; empty: it does not say
};

struct PortInfo {
  std::string name;
  DType dtype = DType::none;
  std::vector<int64_t> dims;
  int64_t bytes = 0;
  bool changed = false;   ///< an input whose contents are others behind the run
  std::string indexed{};  ///< what an index into it is said to address, as its text names it
};

/// Where buffers begin at multiples of: kernels may assume it. Of the caller's host memory they may not.
inline constexpr uint64_t least_alignment = 64;

/// When a launch of a run began and was done.
struct LaunchTime {
  std::chrono::steady_clock::time_point start, end;
};

/// Immutable after load(). run() may be called from one thread at a time for each Context.
class Executable {
 public:
  ~Executable();
  Executable() = default;
  Executable(const Executable&) = delete;

  std::vector<PortInfo> inputs, outputs;
  std::vector<CompiledKernel> kernels;
  double estimate = 0;              ///< seconds of a run by the costs of its kernels, with what copies take
  double load_ms = 0, init_ms = 0;  ///< what load() took: putting kernels into memory, preparing constants
  std::vector<Launch> init, steps;
  std::vector<BufferSlot>
      output_slots;  ///< where each output lies after the run; another place than its own: copied
  std::vector<Constant> constants;
  Devices devices;                   ///< the last one's memory is the home of buffers
  std::vector<int64_t> arena_bytes;  ///< by device, with the workspaces that lie in them
  struct ArenaPart {
    std::string name;
    int64_t offset, bytes;
  };
  /// By device, where BuildOptions::red_zones asks for it: what lies in the arena, by offsets; the memory between is nobody's.
  std::vector<std::vector<ArenaPart>> arena_parts;
  int64_t workers = 1;
  /// Inputs and outputs lie in the first device's memory, else in the last one's.
  bool ports_on_device = false;
  /// A device that records the second run of a context replays it in those behind it.
  bool record_runs = true;
  std::vector<std::string> code;  ///< by kernel, where it is to be loaded elsewhere
  /// Of the memory of the devices that it serves; null: their runtimes.
  std::shared_ptr<Allocator> allocator;
  /// By device: of what only the launches of init touch, freed behind them.
  std::vector<int64_t> init_arena_bytes;

  /// Memory that lasts as long as this, in a device.
  struct Persistent {
    uint32_t device = 0;
    int64_t bytes = 0;
    void* data = nullptr;
  };
  std::span<const Persistent> persistent() const { return persistent_; }
  /// Memory that lasts as long as this, before load(). The number.
  uint32_t add_persistent(uint32_t device, int64_t bytes);
  /// Once all launches are listed: memory that no run reads becomes a part of the arena of init, as long as launches there need it.
  void plan_init();
  uint32_t home() const { return static_cast<uint32_t>(devices.size() - 1); }
  /// Memories: the host's, and each device's own, by its number.
  static constexpr uint32_t host = UINT32_MAX;
  /// How many workers a launch on the device is spread over, each of which has a workspace.
  int64_t workers_of(uint32_t device) const { return devices[device]->host_memory ? workers : 1; }
  uint32_t memory_of(uint32_t device) const { return devices[device]->host_memory ? host : device; }
  uint32_t memory_of(const BufferSlot& place) const;
  uint32_t memory_of_ports() const { return ports_on_device ? memory_of(0) : host; }
  /// In whose memory inputs and outputs lie.
  uint32_t ports_device() const { return ports_on_device ? 0 : home(); }

  /// load_code(), then prepare(). FE-D codes, FE-P67.
  Result<void> load(std::span<const std::string> blobs);
  /// Puts the kernels' code into memory; where it fails nothing is loaded, and it may be called again. FE-P67 where the code needs
  /// other launches than `kernels` say.
  Result<void> load_code(std::span<const std::string> blobs);
  /// Allocates what persists and runs init once; behind load_code(). FE-P67 where the code reaches what the launches do not give it.
  Result<void> prepare();

  /// As Device::alloc(), by the allocator where there is one for the device: FE-X38 where what that gives is not aligned.
  Result<void*> alloc(uint32_t device, int64_t bytes, void* stream = nullptr) const;
  void free(uint32_t device, void* data, void* stream = nullptr) const;
  /// `direction`: FE_COPY_*. The copy is done when it returns. FE-D21.
  Result<void> copy(uint32_t device, uint32_t direction, void* to, const void* from, int64_t bytes) const;

  /// How runs are recorded, or what prevents it; behind prepare().
  const RecordingPlan& recording() const { return recording_; }

  /// Arenas of runs, the workspaces behind them, and a stream of each device that has streams; one a thread.
  class Context {
   public:
    /// `native_stream`, where not null: of the first device's driver, the caller's, given the work instead of a stream of its own; it is
    /// kept as long as this.
    explicit Context(const Executable& executable, void* native_stream = nullptr)
        : Context(executable, executable.steps, executable.arena_bytes, native_stream) {}
    ~Context();
    Context(const Context&) = delete;

    /// Fills the arenas: what kernels read there and none has written shows.
    Result<void> fill_arenas(std::byte value);
    /// Says where red zones have changed since the arenas were filled with the value; empty: nowhere. Behind a run that is done.
    Result<std::string> written_beside(std::byte value) const;
    /// Keeps the times of the launches of each later run, none of which is recorded or replayed.
    void keep_times() { times_.emplace(); }
    /// Of the last run, by step; empty where they are not kept.
    std::span<const LaunchTime> times() const {
      return times_ ? std::span<const LaunchTime>(*times_) : std::span<const LaunchTime>();
    }
    /// Later runs return when all is given to the devices, in whose work ports have the order of the first one's stream, where nothing
    /// is left for the host to do: no output of its own, and no index to check.
    void return_early(bool early) { early_ = early; }
    /// FE-D codes of what it needed and could not get.
    const Result<void>& opened() const { return opened_; }
    /// That a device's work is given to; null: the device's own.
    void* stream(uint32_t device) const { return work_[device].stream; }
    /// Whether the last run was a replay.
    bool replayed() const { return recorded_.replayed; }

   private:
    friend class Executable;
    /// What is kept of a device.
    struct Work {
      bool used = false;
      int64_t bytes = 0;       ///< of the arena and the workspaces behind it
      void* stream = nullptr;  ///< null: the device's own
      bool borrowed = false;   ///< the stream is one of the caller's
      void* native = nullptr;  ///< the stream as its driver knows it, for libraries
      void* event = nullptr;   ///< for which peers wait; null: the host waits for the device
      void* arena = nullptr;
      void* errors = nullptr;  ///< words for each launch; null where none is needed
      size_t waited = 0;       ///< the launches of the run before this one are known to be done
      /// Memory of the host that copies may still read: from pinned memory they do so behind the call.
      std::vector<std::span<const std::byte>> sources;

      void add_source(const void* from, int64_t bytes);
      /// What was given to the device before launch `end` was waited for.
      void done(size_t end);
    };
    /// For these launches of the program, with arenas of so many bytes by device.
    Context(const Executable& executable, std::span<const Launch> launches,
            std::span<const int64_t> arena_bytes, void* native_stream);
    Result<void> open(uint32_t device, std::span<const Launch> launches, void* native_stream);
    /// Where workspaces begin that do not lie in the arena of the device.
    int64_t behind_arena(uint32_t device) const;

    const Executable& executable_;
    Result<void> opened_;
    std::vector<Work> work_;  ///< by device
    Recorded recorded_;
    std::optional<std::vector<LaunchTime>> times_;
    bool early_ = false;
    const std::span<const int64_t> arena_bytes_;  ///< by device
  };

  /// `inputs` and `outputs`: contiguous elements in the memory of ports_device(), in the order of the ports. All is done when it returns, unless
  /// the context returns early.
  /// FE-X10 an index was out of range, with the kernel's nodes; FE-D the device's own errors.
  Result<void> run(Context& context, std::span<const void* const> input_data,
                   std::span<void* const> output_data) const;

 private:
  friend class Context;
  struct Buffers {
    std::span<const void* const> inputs;
    std::span<void* const> outputs;
  };
  /// Where a device has memory of its own, what its kernels say of indices is read once, behind the last launch.
  Result<void> launch_all(std::span<const Launch> launches, const Buffers& buffers, Context& context) const;
  Result<void> launch(std::span<const Launch> launches, size_t number, const Buffers& buffers,
                      Context& context) const;
  Result<void> launch_copy(std::span<const Launch> launches, size_t number, const void* from, void* to,
                           Context& context) const;
  /// Makes what `later` is given from here on, behind launch `end`, wait for what `earlier`, its peer, was given.
  Result<void> put_behind(std::span<const Launch> launches, size_t end, uint32_t later, uint32_t earlier,
                          Context& context) const;
  /// Before a launch writes to the host's memory: waits where a copy to a device may still read what is there.
  Result<void> wait_for_sources(std::span<const Launch> launches, size_t number,
                                std::span<void* const> pointers, Context& context) const;
  Result<void> call_lowering(const Launch& launch, std::span<void* const> pointers) const;
  Result<void> launch_kernel(std::span<const Launch> launches, size_t number, std::span<void* const> pointers,
                             Context& context, void* stream, void* native_stream) const;
  /// Moves the words of errors of a device, from or to its memory.
  Result<void> move_words(std::span<const Launch> launches, uint32_t direction, Context& context) const;
  /// FE-X10 where a launch says that an index was out of range, in its error words.
  Result<void> check_words(std::span<const Launch> launches, const void* words) const;
  /// What the error words of a launch say.
  Error bad_index(const Launch& launch, std::span<const int64_t> words) const;
  /// Waits for all work that was given to the devices before launch `end`.
  Result<void> wait(std::span<const Launch> launches, size_t end, Context& context) const;
  /// Waits for what a run that failed has given to the devices, which is of the caller's memory; what fails of it is not told.
  void abandon(Context& context) const;
  /// An error of work that is told of later than it was given: with the nodes of all launches that may have failed.
  Error of_pending(Error failed, std::span<const Launch> launches, size_t end, uint32_t device,
                   const Context& context) const;
  /// Whether a launch says in the words of errors that an index is out of range.
  bool may_fail(const Launch& launch) const;
  /// The device whose runtime a launch goes to; none: a call of a lowering.
  std::optional<uint32_t> device_of(const Launch& launch) const;
  /// Of a copy between peers: the device that gives.
  uint32_t giver_of(const Launch& launch) const { return memory_of(launch.arguments[0]); }
  RecordingPlan plan_recording() const;
  /// Whether the run was one, of what is recorded now where it can be.
  Result<bool> replay(Context& context, const Buffers& buffers) const;
  Result<void> record(Context& context, const Buffers& buffers) const;
  Result<void> record_steps(Context& context, const Buffers& buffers, void* stream) const;
  void* address(const BufferSlot& place, const Buffers& buffers, const Context& context) const;
  /// Whether the host, or the code of the device, reaches what lies there.
  bool host_reaches(const BufferSlot& place) const;
  bool device_reaches(uint32_t device, const BufferSlot& place) const;
  Result<void> check(const Launch& launch) const;
  Result<void> check_launches() const;
  void unload_code();
  Result<void> load_modules(std::span<const std::string> blobs);
  Result<void> load_libraries(std::span<const std::string> blobs);

  std::vector<Persistent> persistent_;
  std::vector<void*> modules_;  ///< by device
  std::vector<std::vector<std::byte>> aligned_constants_;
  RecordingPlan recording_;
};

}  // namespace ferrite::core::runtime
