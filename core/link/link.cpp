// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <utility>

#include "core/link/builder_state.h"
#include "core/link/ports.h"
#include "core/support/abi/abi.h"

namespace ferrite::core::link {

Result<std::shared_ptr<Executable>> Builder::State::link() {
  link_launches();
  describe_ports();
  executable_->plan_init();
  if (!options_.load) {
    executable_->code = std::move(blobs_);
    return std::move(executable_);
  }
  if (options_.keep_code) executable_->code = blobs_;
  if (auto prepared = executable_->prepare(options_.keep_code); !prepared) {
    if (forgive(prepared.error())) return std::shared_ptr<Executable>();
    // An out-of-range index of the model itself is not the fault of a provider.
    if (prepared.error().code == "FE-X10") return std::move(prepared.error());
    return with_makers(std::move(prepared.error()));
  }
  record_recording();
  return std::move(executable_);
}

void Builder::State::record_recording() {
  const auto& plan = executable_->recording();
  const auto& device = *devices_[plan.device];
  if (!plan.reason.empty())
    ledger_.add({"record", plan.subject, device.place(), "refused", plan.category, plan.reason, 0});
  if (!plan.is_possible) return;
  ledger_.add({"record",
               {},
               device.place(),
               "recorded",
               {},
               "launches and copies, recorded in the second run of a context and replayed in later ones",
               static_cast<double>(executable_->steps.size())});
  const auto &inputs = executable_->inputs, &outputs = executable_->outputs;
  for (const size_t port : plan.fixed)
    ledger_.add({"record", port < inputs.size() ? inputs[port].name : outputs[port - inputs.size()].name,
                 device.place(), "recorded for each address", "address",
                 fmt::format("a library's launch or a copy uses it, and recorded pointers cannot change; "
                             "recordings for {} addresses are kept",
                             most_recordings),
                 0});
}

void Builder::State::link_launches() {
  Transfers transfers(*executable_, arenas_);
  find_makers();
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].init) continue;
    link_constants(g, transfers);
    link_group(g, transfers);
  }
  for (BufferId b : copied_to_primary()) transfers.copy_to_primary(b, slot_of(b), executable_->steps);
  executable_->estimate = estimate();
  if (const auto copies = transfers.listed(); !copies.empty())
    ledger_.add({"placement",
                 {},
                 {},
                 "transfers",
                 {},
                 "copies between memories, at load and in each run",
                 static_cast<double>(copies.size())});
  if (devices_.size() > 1)
    record_placement(schedule_, placed_groups(), transfers.listed(), devices_, ledger_);
}

void Builder::State::find_makers() {
  for (size_t g = 0; g < groups_.size(); ++g)
    for (BufferId b : groups_[g].arguments)
      if (groups_[g].init && constants_.count(b)) makers_[b].push_back(g);
  const auto writes = [&](size_t g, BufferId b) {
    return std::ranges::any_of(schedule_.groups[g].statements, [&](uint32_t s) {
      return std::ranges::any_of(program_.statements[s].stores,
                                 [&](const auto& store) { return program_.storage(store.buffer) == b; });
    });
  };
  // Init groups after the last writer only read the buffer; its readers need not wait for them.
  for (auto& [b, groups] : makers_)
    while (!groups.empty() && !writes(groups.back(), b)) groups.pop_back();
}

void Builder::State::link_constants(size_t g, Transfers& transfers) {
  std::set<size_t> wanted;
  std::vector<size_t> pending = {g};
  while (!pending.empty()) {
    const size_t reader = pending.back();
    pending.pop_back();
    for (BufferId b : groups_[reader].arguments) {
      const auto found = makers_.find(b);
      if (found == makers_.end()) continue;
      for (size_t maker : found->second)
        if (wanted.insert(maker).second) pending.push_back(maker);
      // Later groups need not visit these makers again.
      makers_.erase(found);
    }
  }
  for (size_t maker : wanted)
    if (!std::exchange(groups_[maker].linked, true)) link_group(maker, transfers);
}

void Builder::State::link_group(size_t g, Transfers& transfers) {
  const auto& state = groups_[g];
  auto& steps = state.init ? executable_->init : executable_->steps;
  Launch launch;
  launch.provenance = state.provenance;
  if (state.call) {
    if (const auto* call = region_call(g))
      link_region(g, *call, launch, transfers);
    else
      link_call(g, launch, transfers);
    steps.push_back(std::move(launch));
    return;
  }
  const auto& instance = instances_[state.instance];
  launch.kernel = static_cast<uint32_t>(state.instance);
  set_workspace(launch, g);
  for (size_t k = 0, b = 0; k < state.arguments.size(); ++k, ++b) {
    while (instance.group.kernel.buffers[b].kind == FE_BUFFER_LOCAL) ++b;
    const bool written = instance.group.kernel.buffers[b].kind == FE_BUFFER_OUTPUT;
    const auto packed = packed_slot(g, k, transfers);
    launch.arguments.push_back(
        packed ? *packed : reach(transfers, instance.device, state.arguments[k], written, steps));
  }
  steps.push_back(std::move(launch));
}

std::vector<PlacedGroup> Builder::State::placed_groups() const {
  std::vector<PlacedGroup> placed;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto& state = groups_[g];
    std::string text;
    if (const auto* call = region_call(g))
      text = fmt::format("claimed by {} as {}", regions_[call->region].compiler->id,
                         regions_[call->region].name);
    else if (!state.call)
      text = fmt::format("by {} as {}, kernel {}: {}", instances_[state.instance].compiler->id,
                         instances_[state.instance].candidate_name, g + 1, instances_[state.instance].entry);
    if (const auto& why = placement_[g].why; !why.empty() && !region_call(g))
      text += (text.empty() ? "" : "; ") + why;
    placed.push_back({state.provenance, device_of(g), state.init, std::move(text)});
  }
  return placed;
}

double Builder::State::estimate() const {
  constexpr double bytes_a_second = 16e9;  // of the usual bus between host and device
  double seconds = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].init) continue;
    if (const auto* call = region_call(g))
      seconds += regions_[call->region].cost;
    else if (!groups_[g].call)
      seconds += instances_[groups_[g].instance].cost;  // with that of packing operands
    seconds += static_cast<double>(devices_[device_of(g)]->numbers.values.launch_ns) * 1e-9;
  }
  for (const auto& launch : executable_->steps)
    if (launch.copy != no_copy) seconds += static_cast<double>(launch.arguments[0].bytes) / bytes_a_second;
  return seconds;
}

void Builder::State::set_workspace(Launch& launch, size_t g) const {
  const auto& workspaces = arenas_[device_of(g)].workspaces();
  if (const auto found = workspaces.find(g); found != workspaces.end()) launch.workspace = found->second;
}

BufferSlot Builder::State::reach(Transfers& transfers, uint32_t device, BufferId b, bool written,
                                 std::vector<Launch>& steps) {
  return transfers.reach(device, b, slot_of(b), written, steps);
}

const loop::CallInfo* Builder::State::region_call(size_t g) const {
  if (!groups_[g].call) return nullptr;
  const auto& call = program_.statements[schedule_.groups[g].statements[0]].call;
  return call.region == loop::none ? nullptr : &call;
}

uint32_t Builder::State::region_kernel(size_t g, const loop::CallInfo& call) {
  const auto& region = regions_[call.region];
  auto [found, added] =
      region_kernels_.try_emplace({region.device, region.entry}, executable_->kernels.size());
  if (added) {
    CompiledKernel kernel;
    kernel.entry = region.entry;
    kernel.provenance = groups_[g].provenance;
    kernel.candidate = region.name;
    kernel.device = region.device;
    if (region.compiler->is_library()) kernel.library = region.compiler;
    kernel.tasks = region.tasks;
    kernel.grain = region.grain;
    kernel.workspace_bytes = region.workspace_bytes;
    executable_->kernels.push_back(std::move(kernel));
    blobs_.push_back(region.blob);
  }
  return static_cast<uint32_t>(found->second);
}

void Builder::State::link_region(size_t g, const loop::CallInfo& call, Launch& launch, Transfers& transfers) {
  const auto& region = regions_[call.region];
  launch.kernel = region_kernel(g, call);
  set_workspace(launch, g);
  for (size_t k = 0; k < groups_[g].arguments.size(); ++k)
    launch.arguments.push_back(
        reach(transfers, region.device, groups_[g].arguments[k], k >= call.reads.size(), executable_->steps));
}

void Builder::State::link_call(size_t g, Launch& launch, Transfers& transfers) {
  const auto& state = groups_[g];
  const auto& call = program_.statements[schedule_.groups[g].statements[0]].call;
  launch.call = {call.name, call.function, call.self, call.reads.size()};
  for (size_t k = 0; k < state.arguments.size(); ++k)
    launch.arguments.push_back(
        reach(transfers, default_device(), state.arguments[k], k >= launch.call.reads, executable_->steps));
  for (BufferId b : state.arguments) launch.call_dims.push_back(program_.buffers[b].dims);
  for (size_t k = 0; k < state.arguments.size(); ++k) {
    auto type = abi::sized<fe_tensor_type>();
    type.dtype = static_cast<fe_dtype>(program_.buffers[state.arguments[k]].dtype);
    type.rank = static_cast<uint32_t>(launch.call_dims[k].size());
    type.dims = launch.call_dims[k].data();
    launch.call_types.push_back(type);
  }
}

std::optional<BufferSlot> Builder::State::packed_slot(size_t g, size_t argument, Transfers& transfers) {
  const auto& state = groups_[g];
  const uint32_t device = instances_[state.instance].device;
  for (const auto& pack : instances_.packs(state.instance)) {
    if (pack.argument != argument) continue;
    BufferSlot slot;
    if (const auto own = packed_in_runs_.find({g, pack.argument}); own != packed_in_runs_.end()) {
      slot = transfers.arena_slot(executable_->memory_of(device), own->second.buffer, own->second.bytes);
      link_pack(g, pack, slot, executable_->steps, transfers);
      return slot;
    }
    const auto [found, added] = packed_constants_.try_emplace({state.arguments[argument], pack.instance});
    if (!added) return found->second;
    slot.kind = BufferSlot::Kind::persistent;
    slot.device = device;
    slot.bytes = packed_bytes(pack);
    slot.number = executable_->add_persistent(device, slot.bytes);
    link_pack(g, pack, slot, executable_->init, transfers);
    return found->second = slot;
  }
  return std::nullopt;
}

void Builder::State::link_pack(size_t g, const Pack& pack, const BufferSlot& slot, std::vector<Launch>& steps,
                               Transfers& transfers) {
  const auto& packing = instances_[pack.instance];
  Launch launch;
  launch.kernel = static_cast<uint32_t>(pack.instance);
  launch.provenance = packing.provenance;
  for (const auto& buffer : packing.group.kernel.buffers)
    launch.arguments.push_back(
        buffer.kind == FE_BUFFER_OUTPUT
            ? slot
            : reach(transfers, packing.device, groups_[g].arguments[pack.argument], false, steps));
  steps.push_back(std::move(launch));
}

void Builder::State::describe_ports() {
  executable_->inputs = link::describe_ports(program_, program_.inputs);
  for (size_t k = 0; k < std::min(executable_->inputs.size(), options_.donated.size()); ++k)
    executable_->inputs[k].donated = options_.donated[k];
  executable_->outputs = link::describe_ports(program_, program_.outputs);
  for (BufferId b : program_.outputs) executable_->output_slots.push_back(slot_of(program_.storage(b)));
}

}  // namespace ferrite::core::link
