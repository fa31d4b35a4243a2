// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps of a Builder, and what they have in common: build.cpp chooses and compiles kernels, build_plan.cpp says where buffers live,
// build_link.cpp makes the launches.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/link/arena_plan.h"
#include "core/link/builder.h"
#include "core/link/compiled_kernels.h"
#include "core/link/kernel_instances.h"
#include "core/link/placement_records.h"
#include "core/link/transfers.h"
#include "runtime/pool.h"

namespace ferrite::core::runtime {
using loop::BufferId;
using schedule::Schedule;

class Builder::Steps {
 public:
  Steps(const Schedule& schedule, const Devices& devices, const select::Placement& placement,
        const std::vector<select::Region>& regions, const BuildOptions& options,
        select::CandidateBlocklist& blocklist, Ledger& ledger)
      : schedule_(schedule),
        program_(schedule.program),
        devices_(devices),
        placement_(placement),
        regions_(regions),
        options_(options),
        blocklist_(blocklist),
        ledger_(ledger),
        units_(devices_, options_, blocklist, ledger),
        codes_(devices_, options_) {
    executable_ = std::make_shared<Executable>();
    executable_->devices = devices_;
    executable_->workers = workers_for(options_.threads, options_.load);
    executable_->constants = program_.constants;
    executable_->ports_on_device = options_.ports_on_device;
    executable_->allocator = options_.allocator;
    executable_->record_runs = options_.record_runs;
  }

  Result<void> select();
  Result<void> select(const loop::Kernel& kernel);
  Result<void> emit();
  /// Before there is a plan: workspaces have their places in it.
  Result<void> load();
  void plan();
  Result<std::shared_ptr<Executable>> link();
  std::string text() const;
  std::string code() const;

 private:
  struct GroupState {
    bool init = false;
    bool linked = false;  // of init: its launch is listed
    bool call = false;
    std::string provenance;           // model nodes, each once
    std::vector<BufferId> arguments;  // storages
    size_t unit = 0;
  };

  uint32_t home() const { return executable_->home(); }

  // ---- build.cpp: which kernels there are, and their code

  /// A group that reads constants only, and what such groups make, runs once, at load.
  void find_init_groups();
  Result<void> add_group(const schedule::KernelMaker& kernels, size_t g);
  /// Where nothing is proposed for a unit, its groups go elsewhere.
  Result<void> choose_candidates();
  /// The code of every unit becomes the executable's, where none failed.
  Result<void> compile_units();
  /// The code of a unit becomes the executable's, instead of what it had.
  void take(size_t u, Code code);
  /// Compiles those units again whose code is from the cache and cannot be loaded: an entry's hash says that it is what was
  /// written, not that it is code, or that of the numbers beside it. Whether there were any.
  Result<bool> compile_unloadable_anew();
  void observe_kernel(size_t u, const cache::CompiledKernel& made);
  /// What the runtimes say of code that they loaded.
  void observe_loaded();
  /// Whether an error of loading is passed over: those who made what was loaded are asked no more.
  bool forgive(const Error& failed);
  /// An error of loading, with those who made what was loaded.
  Error with_makers(Error failed) const;
  /// A unit did not compile: where its provider's failure is passed over there is nothing to do, else its groups go elsewhere.
  Result<void> refuse(size_t u, Error failed);
  /// The groups of a unit that nobody compiles go elsewhere, where there is an elsewhere; otherwise that is the error.
  Result<void> send_elsewhere(size_t u, Error failed);
  /// A record a group: which model nodes ended in which kernel.
  void record_kernels();

  // ---- build_plan.cpp: where buffers and workspaces live

  /// What lies in an arena, as people are told of it.
  std::vector<Executable::ArenaPart> named_parts(const ArenaPlan& arena) const;
  /// Where a group runs.
  uint32_t device_of(size_t g) const;
  bool is_port(BufferId b) const;
  /// What lies in the arena of a device during a run. The arena of the last one is that of all which reach the host's memory; a buffer
  /// that other devices need there, too, lives in it while any needs it.
  ArenaNeeds arena_needs(uint32_t d) const;
  /// What the caller finds in the host's memory behind a run: results, and what the model changes of its inputs.
  std::set<BufferId> brought_home() const;
  /// The plan that people ask for: the largest one.
  const ArenaPlan& main_arena() const;
  /// The workspaces of a run's kernels that lie in the arena, of all workers together. What is loaded elsewhere has them behind
  /// its arena, because how many workers there are is known then.
  std::vector<runtime::Lifetime> planned_workspaces(uint32_t d) const;
  /// Refuses the candidates of those kernels that have too much while they run.
  void refuse_workspaces(const ArenaNeeds& needs, const ArenaPlan& arena);
  BufferSlot slot_of(BufferId b) const;

  // ---- build_link.cpp: the launches

  void link_launches();
  void find_makers();
  void link_group(size_t g, Transfers& transfers);
  /// Lists the launches of init that make what the group reads, and that are not listed yet, in their order. Each is listed when the
  /// first kernel needs it, so that few of their results have to live at a time.
  void link_constants(size_t g, Transfers& transfers);
  void link_region(size_t g, const loop::CallInfo& call, Launch& launch, Transfers& transfers);
  void link_call(size_t g, Launch& launch, Transfers& transfers);
  /// The call of a region that a group is; null where it is none.
  const loop::CallInfo* region_call(size_t g) const;
  /// The kernel of a region; equal regions are one.
  uint32_t region_kernel(size_t g, const loop::CallInfo& call);
  void set_workspace(Launch& launch, size_t g) const;
  BufferSlot reach(Transfers& transfers, uint32_t device, BufferId b, bool written,
                   std::vector<Launch>& steps);
  /// Where a constant lies in the layout that the unit wants for it, which its packing kernel brings it into at load; none where it
  /// wants none.
  std::optional<BufferSlot> packed_slot(const GroupState& state, size_t argument, uint32_t device,
                                        Transfers& transfers);
  void describe_ports();
  /// Of each group, by whom it was made and why it runs there.
  std::vector<PlacedGroup> placed_groups() const;
  /// Seconds of a run: kernels by their candidates, launches by what their devices say that one takes, copies by what they move.
  double estimate() const;
  /// Whether runs are recorded, and why not; nothing where no device does that.
  void record_recording();

  const Schedule& schedule_;
  const loop::LoopProgram& program_;
  const Devices& devices_;
  const select::Placement& placement_;
  const std::vector<select::Region>& regions_;
  const BuildOptions options_;
  select::CandidateBlocklist& blocklist_;
  Ledger& ledger_;
  std::shared_ptr<Executable> executable_;
  std::vector<GroupState> groups_;
  std::set<BufferId> constants_;  ///< what init groups write
  std::map<BufferId, uint32_t> persistent_of_;
  std::map<BufferId, std::vector<size_t>>
      makers_;  ///< init groups that touch it, to its last writer; until they are linked
  KernelInstances units_;
  CompiledKernels codes_;
  std::optional<size_t> alone_;  // the unit of a kernel of no group
  std::map<std::pair<uint32_t, std::string>, size_t> region_kernels_;
  std::map<std::pair<BufferId, size_t>, BufferSlot> packed_;
  std::vector<ArenaPlan> arenas_;  // by device
  std::vector<std::string> blobs_;
  std::vector<std::string> kept_;  // by unit: its key, where the code is from the cache
  std::vector<std::string> code_;  // as the provider shows it, by unit
};

}  // namespace ferrite::core::runtime
