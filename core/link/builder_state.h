// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The steps of a Builder and their common state: builder.cpp chooses and compiles kernels, plan.cpp assigns
// memory, and link.cpp makes the launches.
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

namespace ferrite::core::link {

using namespace ferrite::core::runtime;
using loop::BufferId;
using schedule::Schedule;

class Builder::State {
 public:
  State(const Schedule& schedule, const Devices& devices, const select::Placement& placement,
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
        instances_(devices_, options_, blocklist, ledger),
        compiled_(devices_, options_) {
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
  /// Before the plan, because the plan needs the sizes of workspaces.
  Result<void> load();
  void plan();
  Result<std::shared_ptr<Executable>> link();
  std::string text() const;
  std::string code() const;

 private:
  struct GroupState {
    bool init = false;
    bool linked = false;  // of an init group: its launch is listed
    bool call = false;
    std::string provenance;           // model nodes, each once
    std::vector<BufferId> arguments;  // storages
    size_t instance = 0;
  };

  uint32_t default_device() const { return executable_->default_device(); }

  // ---- builder.cpp: the kernels and their code

  /// A group that reads only constants, and results of such groups, runs once, at load.
  void find_init_groups();
  Result<void> add_group(const schedule::KernelMaker& kernels, size_t g);
  /// The groups of an instance without proposals go to another device or provider.
  Result<void> choose_candidates();
  /// Compiles all instances and moves their code into the executable, where none failed.
  Result<void> compile_instances();
  /// Moves the code of an instance into the executable; it replaces earlier code.
  void take(size_t u, Code code);
  /// Compiles those instances again whose code comes from the cache and cannot be loaded. The hash of a cache
  /// entry proves that the entry is unchanged, but not that it holds loadable code, or code that matches its
  /// numbers. Returns whether there were any.
  Result<bool> compile_unloadable_anew();
  void observe_kernel(size_t u, const cache::CompiledKernel& made);
  /// Records the resource use that the runtimes report for loaded code.
  void observe_loaded();
  /// Whether an error of loading can be tolerated: the providers of the loaded code are dropped then.
  bool forgive(const Error& failed);
  /// An error of loading, extended by the providers of the loaded code.
  Error with_makers(Error failed) const;
  /// An instance did not compile. Where its provider's failure is tolerated, nothing else is done; otherwise
  /// its groups go elsewhere.
  Result<void> refuse(size_t u, Error failed);
  /// Sends the groups of an instance that does not compile to another device or provider; returns the error
  /// where there is none.
  Result<void> send_elsewhere(size_t u, Error failed);
  /// One record for each group: which model nodes ended in which kernel.
  void record_kernels();

  // ---- plan.cpp: the memory of buffers and workspaces

  /// The contents of an arena with names for messages.
  std::vector<Executable::ArenaPart> named_parts(const ArenaPlan& arena) const;
  /// The device that runs the group.
  uint32_t device_of(size_t g) const;
  bool is_port(BufferId b) const;
  /// Numbers the operands that are packed before each launch, after the program's buffers.
  void find_packed();
  int64_t packed_bytes(const Pack& pack) const;
  /// The bytes beyond the memory limit that a group may have for operands that are packed before its launch:
  /// twice those of the operands. Execution op by op packs the weights of convolutions, too.
  int64_t packed_allowance(size_t g) const;
  /// The buffers in a device's arena during a run. All devices that can access the host's memory share the
  /// arena of the last one. A buffer in it that other devices need too stays alive while any of them needs
  /// it.
  ArenaNeeds arena_needs(uint32_t d) const;
  /// Gives buffers between kernels, in the ports' memory, that of donated inputs that no later kernel reads,
  /// and of results that no earlier kernel has written, the largest first; they need none in the arena then.
  void use_ports(ArenaNeeds& needs);
  /// The buffers whose contents must be in the host's memory after a run: results, and inputs that the model
  /// changes.
  std::set<BufferId> copied_to_primary() const;
  /// The plan that is shown to users: the largest one.
  const ArenaPlan& main_arena() const;
  /// The workspaces of a run's kernels that are in the arena, of all workers together. In code for another
  /// machine they follow the arena, because the number of workers is known only there.
  std::vector<runtime::Lifetime> planned_workspaces(uint32_t d) const;
  /// Adds the candidates of kernels to the blocklist whose workspaces exceed the memory limit.
  void refuse_workspaces(const ArenaNeeds& needs, const ArenaPlan& arena);
  BufferSlot slot_of(BufferId b) const;

  // ---- link.cpp: the launches

  void link_launches();
  void find_makers();
  void link_group(size_t g, Transfers& transfers);
  /// Lists the init launches that make the group's constant inputs and are not listed yet, in their order.
  /// Each is listed just before its first reader, so that few of their results live at a time.
  void link_constants(size_t g, Transfers& transfers);
  void link_region(size_t g, const loop::CallInfo& call, Launch& launch, Transfers& transfers);
  void link_call(size_t g, Launch& launch, Transfers& transfers);
  /// The group's call of a region; null where it is none.
  const loop::CallInfo* region_call(size_t g) const;
  /// The kernel of a region; equal regions share one.
  uint32_t region_kernel(size_t g, const loop::CallInfo& call);
  void set_workspace(Launch& launch, size_t g) const;
  BufferSlot reach(Transfers& transfers, uint32_t device, BufferId b, bool written,
                   std::vector<Launch>& steps);
  /// The slot of an argument in the layout that the instance requests, filled by a packing kernel: of a
  /// constant at load, of another one by a step before the group's launch. None where the instance requests
  /// no layout.
  std::optional<BufferSlot> packed_slot(size_t g, size_t argument, Transfers& transfers);
  /// Lists the launch of a packing kernel; its result is in `slot`.
  void link_pack(size_t g, const Pack& pack, const BufferSlot& slot, std::vector<Launch>& steps,
                 Transfers& transfers);
  void describe_ports();
  /// For each group, its compiler and the reason for its device.
  std::vector<PlacedGroup> placed_groups() const;
  /// Estimated seconds of a run: the costs of kernels' candidates, the launch costs of their devices, and the
  /// bytes of copies.
  double estimate() const;
  /// Records whether runs are recorded, or the reason why not; nothing where no device supports it.
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
  std::set<BufferId> constants_;  ///< buffers that init groups write
  std::map<BufferId, uint32_t> persistent_of_;
  std::map<BufferId, std::vector<size_t>>
      makers_;  ///< init groups that access it, up to its last writer; removed when they are linked
  KernelInstances instances_;
  CompiledKernels compiled_;
  std::optional<size_t> alone_;  // the instance of a kernel outside of a schedule
  std::map<std::pair<uint32_t, std::string>, size_t> region_kernels_;
  /// Constants, each once, by storage and packing instance.
  std::map<std::pair<BufferId, size_t>, BufferSlot> packed_constants_;
  struct Packed {
    BufferId buffer;  ///< a number after those of the program's buffers
    int64_t bytes;
  };
  /// Operands that are packed in each run, by group and argument.
  std::map<std::pair<size_t, uint32_t>, Packed> packed_in_runs_;
  std::vector<ArenaPlan> arenas_;          // by device
  std::map<BufferId, BufferId> in_ports_;  ///< buffers in the memory of inputs and results
  std::vector<std::string> blobs_;
  std::vector<std::string> kept_;  // by instance: its key, where the code is from the cache
  std::vector<std::string> code_;  // by instance: the provider's listing
};

}  // namespace ferrite::core::link
