// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compiling gives: loaded kernels, constants, two launch lists (init, run) and a memory plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/loop/program.h"
#include "core/plugin/registry.h"
#include "core/support/error.h"

namespace ferrite::core::run {

/// Where an argument of a launch lies.
struct Place {
  enum class Kind : uint8_t { input, output, constant, persistent, arena };
  Kind kind = Kind::arena;
  uint32_t number = 0;  ///< input, output, constant, persistent: which one
  int64_t offset = 0;   ///< arena: bytes
  int64_t bytes = 0;
};

/// One launch of a kernel, or one call of a function that a plugin gave.
struct Launch {
  uint32_t kernel = 0;  ///< into Executable::kernels; ignored for calls
  std::vector<Place> arguments;
  loop::CallInfo call;                     ///< function != null: an opaque kernel
  std::vector<fe_tensor_type> call_types;  ///< one an argument of a call; dims point into call_dims
  std::vector<std::vector<int64_t>> call_dims;
};

struct CompiledKernel {
  std::string entry;       ///< its hash
  std::string provenance;  ///< model nodes
  std::string candidate;
  void* function = nullptr;
  int64_t tasks = 1, grain = 1, workspace_bytes = 0;
  int64_t registers = -1, spills = -1;
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

/// Immutable after load(). run() may be called from one thread at a time for each Context.
class Executable {
 public:
  ~Executable();
  Executable() = default;
  Executable(const Executable&) = delete;

  std::vector<PortInfo> inputs, outputs;
  std::vector<CompiledKernel> kernels;
  std::vector<Launch> init, steps;
  std::vector<Place>
      output_places;  ///< where each output lies after the run; another place than its own: copied
  std::vector<loop::Constant> constants;
  std::vector<int64_t> persistent_bytes;
  int64_t arena_bytes = 0;
  const fe_runtime* runtime = nullptr;
  uint32_t device = 0;
  uint64_t alignment = 1;  ///< of what the runtime allocates, a power of two
  int64_t workers = 1;
  std::shared_ptr<const void> keeps_alive;  ///< the graph that owns constants in memory

  /// Loads modules, allocates what persists, runs init once. FE-D codes.
  Result<void> load(std::span<const std::string> blobs);

  /// Arena and workspace of runs; one a thread.
  class Context {
   public:
    explicit Context(const Executable& executable);
    ~Context();
    Context(const Context&) = delete;

   private:
    friend class Executable;
    const Executable& executable_;
    Result<void> allocated_;
    void* arena_ = nullptr;
    void* workspace_ = nullptr;
  };

  /// `inputs` and `outputs`: contiguous elements in host memory that the device can reach, in the order of the ports.
  /// FE-X10 an index was out of range, with the kernel's nodes; FE-D the device's own errors.
  Result<void> run(Context& context, std::span<const void* const> input_data,
                   std::span<void* const> output_data) const;

 private:
  friend class Context;
  Result<void> launch(const Launch& launch, std::span<const void* const> inputs,
                      std::span<void* const> outputs, char* arena, char* workspace,
                      int64_t* error_words) const;
  const void* address(const Place& place, std::span<const void* const> inputs, std::span<void* const> outputs,
                      const char* arena) const;
  /// Null for no bytes. FE-D03 no memory, FE-P66 memory that is not aligned as the device says.
  Result<void*> alloc(int64_t bytes) const;
  void free(void* data) const;

  void* module_ = nullptr;
  std::vector<void*> persistent_;
  std::vector<std::vector<std::byte>> aligned_constants_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace ferrite::core::run
