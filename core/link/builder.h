// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From schedule to executable: select candidates, compile kernels, plan memory, link.
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

namespace ferrite::core::select {
class Decisions;
}

namespace ferrite::core::link {

using namespace ferrite::core::runtime;

struct BuildOptions {
  int64_t threads = 0;
  int64_t jobs = 0;                     ///< kernels that compile at a time; 0: as many as there are workers
  bool listings = false;                ///< keep the provider's listing of the code that it makes
  cache::KernelCache* cache = nullptr;  ///< where kernels are looked up and stored; null: nowhere
  observe::Observation* observation = nullptr;  ///< receives the kernels and the memory plan; may be null
  bool load = true;                             ///< else link() gives the code with the executable, for
                                                ///< another machine
  bool ports_on_device = false;                 ///< inputs and outputs are in the first device's memory
  std::shared_ptr<Allocator> allocator{};       ///< Executable::allocator
  bool record_runs = true;                      ///< Executable::record_runs
  select::Decisions* decisions = nullptr;       ///< where not null: decides before costs do, and is told what
                                                ///< was taken; outlives the build
  schedule::MemoryLimit memory{};               ///< of the plan; its workers are those of the build
  bool red_zones = false;                       ///< arenas are kept apart: Context::written_beside()
  std::vector<bool> donated{};                  ///< by input: the program may overwrite its memory
  bool keep_code = false;                       ///< link() gives the code with a loaded executable, too
};

/// Builds an executable from a schedule in steps: select, emit, load, plan, link, each once and in this
/// order. All inputs must outlive it.
class Builder {
 public:
  /// `regions`: by their numbers in calls.
  /// A provider that fails and whose plugin has on_error = "skip" is added to `blocklist`. So is a kernel
  /// that could not be compiled while another device or provider remains for it. Both leave ledger records.
  /// Where emit(), load(), plan() or link() added any entry, all groups have to be placed again.
  Builder(const schedule::Schedule& schedule, const Devices& devices, const select::Placement& placement,
          const std::vector<select::Region>& regions, const BuildOptions& options,
          select::CandidateBlocklist& blocklist, Ledger& ledger);
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// Makes the kernels of the groups and chooses a candidate for each: the decided one, else the cheapest
  /// proposed one. FE-K20, FE-K21; FE-T42, FE-T43 where a decisions lock does not fit.
  Result<void> select();
  /// The same for a single kernel outside of a schedule; instead of select(). Its packings are requested
  /// again.
  Result<void> select(const loop::Kernel& kernel);
  /// Compiles the kernels, in parallel. FE-K22, FE-P67.
  Result<void> emit();
  /// Loads the code, where BuildOptions::load says so; after emit(). A kernel from the cache that cannot be
  /// loaded, or that does not match its cache entry, is compiled again. FE-D codes, FE-P67.
  Result<void> load();
  /// Assigns arena offsets to buffers that live between kernels and to the workspaces of the compiled
  /// kernels. A candidate whose workspace takes the arena above BuildOptions::memory is added to the
  /// blocklist, with a ledger record, where there is another candidate.
  void plan();
  /// Makes the launches, and prepares them where BuildOptions::load says so. FE-D codes. Null where a
  /// provider was dropped because its kernels failed there.
  Result<std::shared_ptr<Executable>> link();
  /// A listing of the selection and the plan; before link().
  std::string text() const;
  /// The provider's listing of each kernel, where BuildOptions::listings asks for it; after emit().
  std::string code() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace ferrite::core::link
