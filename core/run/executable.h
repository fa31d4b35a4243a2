// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiling gives: loaded kernels, constants, two launch lists (init, run) and a memory plan.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/loop/program.h"
#include "core/run/device.h"
#include "core/support/error.h"

namespace ferrite::core::run {

/// Where an argument of a launch lies.
struct Place {
  enum class Kind : uint8_t { input, output, constant, persistent, arena };
  Kind kind = Kind::arena;
  uint32_t device = 0;  ///< in whose memory; constants are in the host's
  uint32_t number = 0;  ///< input, output, constant, persistent: which one
  int64_t offset = 0;   ///< arena: bytes
  int64_t bytes = 0;
};

inline constexpr uint32_t no_copy = UINT32_MAX;

/// One launch of a kernel, one call of a function that a plugin gave, or one copy between memories.
struct Launch {
  uint32_t kernel = 0;      ///< into Executable::kernels; ignored for calls and copies
  uint32_t device = 0;      ///< of a copy: whose runtime makes it
  uint32_t copy = no_copy;  ///< FE_COPY_*: from the first argument to the second one
  std::vector<Place> arguments;
  int64_t workspace = -1;  ///< offset in the arena of the kernel's device; negative: behind the arena
  std::string provenance;  ///< model nodes; of a copy: empty
  loop::CallInfo call;     ///< function != null: an opaque kernel
  std::vector<fe_tensor_type> call_types;  ///< one an argument of a call; dims point into call_dims
  std::vector<std::vector<int64_t>> call_dims;
};

struct CompiledKernel {
  std::string entry;       ///< its hash
  std::string provenance;  ///< model nodes
  std::string candidate;
  uint32_t device = 0;
  const Compiler* library = nullptr;  ///< the provider that launches it itself
  void* function = nullptr;           ///< the runtime's, or the library's exec
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1;
  bool checks_indices = true;  ///< it may find one out of range, which it says in the words of errors
  std::vector<fe_argument_needs> arguments;  ///< what its code reaches, once loaded; empty: it does not say
};

struct PortInfo {
  std::string name;
  DType dtype = DType::none;
  std::vector<int64_t> dims;
  int64_t bytes = 0;
};

/// The ports that these buffers of a program are.
std::vector<PortInfo> describe_ports(const loop::LoopProgram& program,
                                     std::span<const loop::BufferId> buffers);

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
  double load_ms = 0, init_ms = 0;  ///< what load() took: putting kernels into memory, preparing constants
  std::vector<Launch> init, steps;
  std::vector<Place>
      output_places;  ///< where each output lies after the run; another place than its own: copied
  std::vector<loop::Constant> constants;
  Devices devices;                   ///< the last one's memory is the home of buffers
  std::vector<int64_t> arena_bytes;  ///< by device, with the workspaces that lie in them
  int64_t workers = 1;
  bool ports_on_device =
      false;  ///< inputs and outputs lie in the first device's memory, else in the last one's
  std::vector<std::string> code;  ///< by kernel, where it is to be loaded elsewhere

  /// Memory that lasts as long as this, in a device.
  struct Persistent {
    uint32_t device = 0;
    int64_t bytes = 0;
    void* data = nullptr;
  };
  std::span<const Persistent> persistent() const { return persistent_; }
  /// Memory that lasts as long as this, before load(). The number.
  uint32_t add_persistent(uint32_t device, int64_t bytes);
  uint32_t home() const { return static_cast<uint32_t>(devices.size() - 1); }
  /// Memories: the host's, and each device's own, by its number.
  static constexpr uint32_t host = UINT32_MAX;
  uint32_t memory_of(uint32_t device) const { return devices[device]->host_memory ? host : device; }
  uint32_t memory_of(const Place& place) const;
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

  /// Null for no bytes. FE-D03 no memory, without asking for more than the device has, FE-P66 memory that is not aligned as the device says.
  Result<void*> alloc(uint32_t device, int64_t bytes) const;
  void free(uint32_t device, void* data) const;
  /// `direction`: FE_COPY_*. FE-D21.
  Result<void> copy(uint32_t device, uint32_t direction, void* to, const void* from, int64_t bytes) const;

  /// Arenas of runs, and the workspaces behind them; one a thread.
  class Context {
   public:
    explicit Context(const Executable& executable) : Context(executable, executable.steps) {}
    ~Context();
    Context(const Context&) = delete;

    /// Fills the arenas that the host reaches: what kernels read there and none has written shows.
    void fill_arenas(std::byte value);
    /// Keeps the times of the launches of each later run.
    void keep_times() { times_.emplace(); }
    /// Of the last run, by step; empty where they are not kept.
    std::span<const LaunchTime> times() const {
      return times_ ? std::span<const LaunchTime>(*times_) : std::span<const LaunchTime>();
    }

   private:
    friend class Executable;
    /// For these launches of the program.
    Context(const Executable& executable, std::span<const Launch> launches);

    const Executable& executable_;
    Result<void> allocated_;
    std::vector<int64_t> bytes_;  ///< by device: of the arena and the workspaces behind it
    std::vector<void*> arenas_;   ///< by device
    std::vector<void*> errors_;   ///< by device: words for each launch; null where none is needed
    std::optional<std::vector<LaunchTime>> times_;
  };

  /// `inputs` and `outputs`: contiguous elements in the memory of ports_device(), in the order of the ports. All is done when it returns.
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
  Result<void> launch(const Launch& launch, size_t number, const Buffers& buffers,
                      const Context& context) const;
  /// Whether a launch says in the words of errors that an index is out of range.
  bool may_fail(const Launch& launch) const;
  /// Waits for all work that was given to the devices.
  Result<void> synchronise() const;
  Result<void> launch_kernel(const Launch& launch, size_t number, std::span<void* const> pointers,
                             const Context& context) const;
  /// Where workspaces begin that do not lie in the arena of the device.
  int64_t behind_arena(uint32_t device) const;
  void* address(const Place& place, const Buffers& buffers, const Context& context) const;
  /// Whether the host, or the code of the device, reaches what lies there.
  bool host_reaches(const Place& place) const;
  bool device_reaches(uint32_t device, const Place& place) const;
  Result<void> check(const Launch& launch) const;
  Result<void> check_launches() const;
  void unload_code();
  Result<void> load_modules(std::span<const std::string> blobs);
  Result<void> load_libraries(std::span<const std::string> blobs);

  std::vector<Persistent> persistent_;
  std::vector<void*> modules_;  ///< by device
  std::vector<std::vector<std::byte>> aligned_constants_;
};

}  // namespace ferrite::core::run
