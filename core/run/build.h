// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From schedule to executable: select candidates, plan memory, compile kernels, link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/plugin/registry.h"
#include "core/run/executable.h"
#include "core/schedule/schedule.h"
#include "core/support/ledger.h"

namespace ferrite::core::run {

/// The device that no runtime has: the loop programs are evaluated as they stand.
inline constexpr std::string_view interpreter_name = "interpreter";

/// A device with the runtime that owns it, the provider that compiles for it, and its target, open while this lives.
class Device {
 public:
  /// "cpu" or "cpu:0": a runtime's id and a number. FE-D01 where there is none, with what there is, FE-D05 where its
  /// devices cannot be counted, described or compiled for.
  static Result<std::shared_ptr<Device>> open(const std::string& name, const plugin::Registry& registry);
  /// Whether the name is that of a device or the interpreter's: the errors of open() without opening anything.
  static Result<void> check(const std::string& name, const plugin::Registry& registry);
  ~Device();
  Device(const Device&) = delete;

  const fe_runtime* runtime = nullptr;
  const fe_provider* provider = nullptr;
  fe_open_target_out target{};
  uint32_t number = 0;
  uint64_t alignment = 1;   ///< of allocations, a power of two
  std::string kind;         ///< the runtime's id
  std::string description;  ///< bytes
  std::string name;

 private:
  Device() = default;
};

struct BuildOptions {
  int64_t threads = 0;
  int64_t jobs = 0;       ///< kernels that compile at a time; 0 = as many as there are workers
  bool listings = false;  ///< keep what the provider shows of the code it makes
};

/// One kernel on its way from the group to code; equal groups share one.
struct Unit {
  schedule::GroupKernel group;   ///< of the first group that has it
  std::vector<std::byte> bytes;  ///< flat, operand layouts in place
  std::string entry;
  std::string provenance;
  fe_candidate candidate{};
  std::string candidate_name;
  struct Packed {
    uint32_t argument;  ///< which of group.arguments
    loop::BufferId buffer;
  };
  std::vector<Packed> packed;
};

/// From schedule to executable, in steps: select, plan, emit, link, each once and in this order. What it is made from outlives
/// it.
class Builder {
 public:
  Builder(const schedule::Schedule& schedule, const Device& device, const BuildOptions& options,
          Ledger& ledger);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// Makes the kernels of the groups and takes the cheapest candidate that the provider proposes for each. FE-K20, FE-K21.
  Result<void> select();
  /// The same for one kernel that is of no group; instead of select(). Packings that it has are asked for anew.
  Result<void> select(const loop::Kernel& kernel);
  /// Gives each buffer that lives between kernels its place in the arena.
  void plan();
  /// Compiles the kernels, in parallel. FE-K22.
  Result<void> emit();
  /// The launches, loaded. FE-D codes.
  Result<std::shared_ptr<Executable>> link();
  /// A listing of what was selected and planned; before link.
  std::string text() const;
  /// What the provider made of each kernel, where BuildOptions::listings asks for it; after emit.
  std::string code() const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

}  // namespace ferrite::core::run
