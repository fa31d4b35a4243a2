// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From schedule to executable: select candidates, plan memory, compile kernels, link.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/link/kernel_cache.h"
#include "core/schedule/memory/kernel_order.h"
#include "core/schedule/schedule.h"
#include "core/select/claims.h"
#include "core/select/placement.h"
#include "core/support/ledger.h"
#include "runtime/executable.h"

namespace ferrite::core::observe {
class Observation;
}

namespace ferrite::core::tune {
class Decisions;
}

namespace ferrite::core::runtime {

struct BuildOptions {
  int64_t threads = 0;
  int64_t jobs = 0;                     ///< kernels that compile at a time; 0 = as many as there are workers
  bool listings = false;                ///< keep what the provider shows of the code it makes
  cache::KernelCache* cache = nullptr;  ///< where kernels are looked for and kept; null: nowhere
  observe::Observation* observation = nullptr;  ///< where not null: gets the kernels and the memory plan
  bool load = true;                             ///< else link() gives the code with the executable, for
                                                ///< another machine
  bool ports_on_device = false;                 ///< inputs and outputs lie in the first device's memory
  std::shared_ptr<Allocator> allocator{};       ///< Executable::allocator
  bool record_runs = true;                      ///< Executable::record_runs
  tune::Decisions* decisions = nullptr;         ///< where not null: decides before costs do, and is told what
                                                ///< was taken; outlives the build
  schedule::MemoryLimit memory{};               ///< of the plan; its workers are those of the build
  bool red_zones = false;                       ///< arenas are kept apart: Context::written_beside()
};

/// From schedule to executable, in steps: select, emit, load, plan, link, each once and in this order. What it is made from outlives
/// it.
class Builder {
 public:
  /// `regions`: by their numbers in calls.
  /// A provider that fails and whose plugin has on_error = "skip" goes to `blocklist`, and so does what could not be compiled where
  /// another device or provider is behind it, with ledger records: where emit(), load(), plan() or link() added any, all is to be placed again.
  Builder(const schedule::Schedule& schedule, const Devices& devices, const select::Placement& placement,
          const std::vector<select::Region>& regions, const BuildOptions& options,
          select::CandidateBlocklist& blocklist, Ledger& ledger);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// Makes the kernels of the groups and takes the cheapest candidate that is proposed for each, or the one that was decided
  /// for. FE-K20, FE-K21; FE-T42, FE-T43 where a decisions lock does not fit.
  Result<void> select();
  /// The same for one kernel that is of no group; instead of select(). Packings that it has are asked for anew.
  Result<void> select(const loop::Kernel& kernel);
  /// Compiles the kernels, in parallel. FE-K22, FE-P67.
  Result<void> emit();
  /// Puts the code into memory, where BuildOptions::load says so; behind emit(). What is from the cache and cannot be loaded, or is
  /// not the code of what the entry says, is compiled anew. FE-D codes, FE-P67.
  Result<void> load();
  /// Gives each buffer that lives between kernels its place in the arena, and the workspaces of kernels that emit() has made theirs.
  /// A candidate whose workspace takes the arena above BuildOptions::memory is refused, with a ledger record, where there is another.
  void plan();
  /// The launches, prepared where BuildOptions::load says so. FE-D codes. Null where a provider was dropped whose kernels fail there.
  Result<std::shared_ptr<Executable>> link();
  /// A listing of what was selected and planned; before link.
  std::string text() const;
  /// What the provider made of each kernel, where BuildOptions::listings asks for it; after emit.
  std::string code() const;

 private:
  class Steps;
  std::unique_ptr<Steps> steps_;
};

}  // namespace ferrite::core::runtime
