// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <functional>
#include <numeric>

#include "core/link/builder_state.h"
#include "core/observe/observation.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::link {

void Builder::State::plan() {
  arenas_.clear();
  in_ports_.clear();
  find_packed();
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    auto needs = arena_needs(d);
    if (d == executable_->ports_device()) use_ports(needs);
    int64_t most = options_.memory.bytes(needs.buffers.size());
    if (options_.memory.op_by_op) {
      int64_t more = 0;
      for (size_t g = 0; g < groups_.size(); ++g) more = std::max(more, packed_allowance(g));
      most += more;
    }
    auto& arena = arenas_.emplace_back(needs, static_cast<int64_t>(devices_[d]->alignment), most);
    if (arena.bytes() > most) refuse_workspaces(needs, arena);
    if (options_.red_zones) {
      arena.keep_apart();
      executable_->arena_parts.push_back(named_parts(arena));
    }
    executable_->arena_bytes.push_back(arena.bytes());
  }
  if (auto* seen = options_.observation) {
    main_arena().describe(*seen);
    seen->op_by_op_bytes = options_.memory.op_by_op;
    seen->groups = groups_.size();
  }
}

std::vector<Executable::ArenaPart> Builder::State::named_parts(const ArenaPlan& arena) const {
  const auto name_of = [&](BufferId b) -> std::string {
    if (b == loop::none) return "a workspace";
    if (b >= program_.buffers.size()) return fmt::format("packed operand @{}", b);
    const auto& buffer = program_.buffers[b];
    if (buffer.role == loop::Role::input) return fmt::format("input {}", buffer.number);
    if (buffer.role == loop::Role::output) return fmt::format("output {}", buffer.number);
    return fmt::format("buffer @{}", b);
  };
  std::vector<Executable::ArenaPart> parts;
  for (const auto& part : arena.parts()) parts.push_back({name_of(part.buffer), part.offset, part.bytes});
  return parts;
}

uint32_t Builder::State::device_of(size_t g) const {
  if (!groups_[g].call) return instances_[groups_[g].instance].device;
  const auto* call = region_call(g);
  return call ? regions_[call->region].device : default_device();
}

bool Builder::State::is_port(BufferId b) const {
  const auto role = program_.buffers[b].role;
  return role == loop::Role::input || role == loop::Role::output;
}

void Builder::State::find_packed() {
  packed_in_runs_.clear();
  auto next = static_cast<BufferId>(program_.buffers.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].call) continue;
    for (const auto& pack : instances_.packs(groups_[g].instance))
      if (!pack.constant) packed_in_runs_[{g, pack.argument}] = {next++, packed_bytes(pack)};
  }
}

int64_t Builder::State::packed_allowance(size_t g) const {
  constexpr int64_t copies = 2;
  int64_t allowed = 0;
  if (groups_[g].call) return allowed;
  for (const auto& pack : instances_.packs(groups_[g].instance)) {
    if (pack.constant) continue;
    const auto& buffers = instances_[pack.instance].group.kernel.buffers;
    const auto& operand = *std::ranges::find(buffers, FE_BUFFER_INPUT, &loop::Buffer::kind);
    allowed += std::min(packed_bytes(pack), copies * operand.elements() * bits_of(operand.dtype) / 8);
  }
  return allowed;
}

int64_t Builder::State::packed_bytes(const Pack& pack) const {
  const auto& buffers = instances_[pack.instance].group.kernel.buffers;
  return std::ranges::find(buffers, FE_BUFFER_OUTPUT, &loop::Buffer::kind)->bytes();
}

ArenaNeeds Builder::State::arena_needs(uint32_t d) const {
  ArenaNeeds needs;
  needs.workers = executable_->workers_of(d);
  needs.workspaces = planned_workspaces(d);
  // Devices that can access the host's memory share the arena of the default device.
  if (d != default_device() && devices_[d]->host_memory) return needs;
  std::map<BufferId, std::set<uint32_t>> memories;  // the memories that its groups use
  for (size_t g = 0; g < groups_.size(); ++g)
    for (BufferId b : groups_[g].arguments) memories[b].insert(executable_->memory_of(device_of(g)));
  const std::set<BufferId> leaving = copied_to_primary();
  const uint32_t ports = executable_->memory_of_ports();
  const auto lives_here = [&](BufferId b) {
    const bool port = is_port(b);
    if (program_.buffers[b].role == loop::Role::constant || constants_.count(b) ||
        (port && ports == executable_->memory_of(d)))
      return false;
    if (!devices_[d]->host_memory) return true;
    // Buffers that are used in several memories, and buffers that belong to the host's memory.
    const bool crosses = memories[b].size() > 1;
    return port ? crosses || !memories[b].count(ports)
                : crosses || memories[b].count(Executable::host) || leaving.count(b);
  };
  std::set<BufferId> here;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (groups_[g].init) continue;
    for (BufferId b : groups_[g].arguments) {
      if (d == default_device() || device_of(g) == d) here.insert(b);
      if (here.count(b) && lives_here(b)) needs.keep(b, program_.buffers[b].bytes(), g);
    }
  }
  for (BufferId b : leaving)
    // Results live until after the last group, when they are copied out.
    if (here.count(b) && lives_here(b)) needs.keep(b, program_.buffers[b].bytes(), groups_.size());
  for (const auto& [where, packed] : packed_in_runs_)
    if (executable_->memory_of(device_of(where.first)) == executable_->memory_of(d))
      needs.keep_packed(packed.buffer, packed.bytes, where.first);
  return needs;
}

void Builder::State::use_ports(ArenaNeeds& needs) {
  if (options_.red_zones) return;  // they are between parts of an arena
  struct Use {
    size_t first = SIZE_MAX, last = 0;  // groups; first > last: none
    bool elsewhere = false;             // at load, or in another memory, where it would need a place too
  };
  std::vector<Use> uses(program_.buffers.size());
  for (size_t g = 0; g < groups_.size(); ++g)
    for (BufferId b : groups_[g].arguments) {
      auto& use = uses[program_.storage(b)];
      use.first = std::min(use.first, g);
      use.last = g;
      if (groups_[g].init || executable_->memory_of(device_of(g)) != executable_->memory_of_ports())
        use.elsewhere = true;
    }
  struct Space {
    BufferId port;
    int64_t bytes;
    size_t free_from, free_until;           // groups
    std::vector<runtime::Lifetime> owners;  // what already lives there
  };
  std::vector<Space> spaces;
  for (BufferId b = 0; b < program_.buffers.size(); ++b) {
    const auto& buffer = program_.buffers[b];
    const bool used = uses[b].first <= uses[b].last;
    if (buffer.base != loop::none || uses[b].elsewhere) continue;
    if (buffer.role == loop::Role::output && used)
      spaces.push_back({b, buffer.bytes(), 0, uses[b].first, {}});
    else if (buffer.role == loop::Role::input && buffer.number < options_.donated.size() &&
             options_.donated[buffer.number])
      spaces.push_back({b, buffer.bytes(), used ? uses[b].last + 1 : 0, groups_.size(), {}});
  }
  int64_t most = 0;
  for (size_t g = 0; g < groups_.size(); ++g) most = std::max(most, needs.bytes_at(g));
  // A buffer takes the smallest space that is large enough. Results are for large buffers only: small ones
  // add little to the arena, which is in caches.
  const int64_t large = std::max<int64_t>(most / 16, 1 << 20);
  std::ranges::stable_sort(spaces, {}, &Space::bytes);
  std::vector<size_t> order(needs.buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](size_t k) { return needs.lifetimes[k].bytes; });
  const auto all_buffers = needs.buffers;
  const auto lifetimes = needs.lifetimes;
  for (const size_t k : order) {
    // Packed operands have no other place.
    if (all_buffers[k] >= program_.buffers.size() || uses[program_.storage(all_buffers[k])].elsewhere)
      continue;
    const auto& life = lifetimes[k];
    const auto fits = [&](const Space& space) {
      return life.bytes <= space.bytes && space.free_from <= life.first && life.last < space.free_until &&
             (space.free_until == groups_.size() || life.bytes >= large) &&
             std::ranges::none_of(
                 space.owners,
                 [&](const runtime::Lifetime& other) {
                   return other.first <= life.last && life.first <= other.last;
                 });
    };
    const auto space = std::ranges::find_if(spaces, fits);
    if (space == spaces.end()) continue;
    space->owners.push_back(life);
    in_ports_[all_buffers[k]] = space->port;
    needs.drop(all_buffers[k]);
  }
  if (!in_ports_.empty())
    ledger_.add({"memory",
                 "donated inputs and results",
                 "",
                 "reused",
                 {},
                 fmt::format("{} between kernels live in memory of {}", counted(in_ports_.size(), "buffer"),
                             counted(static_cast<size_t>(std::ranges::count_if(
                                         spaces, [](const Space& space) { return !space.owners.empty(); })),
                                     "donated input or result", "donated inputs and results")),
                 0});
}

std::set<BufferId> Builder::State::copied_to_primary() const {
  std::set<BufferId> result;
  for (BufferId b : program_.outputs) result.insert(program_.storage(b));
  for (const auto& buffer : program_.buffers)
    if (buffer.base != loop::none && program_.buffers[buffer.base].role == loop::Role::input)
      result.insert(buffer.base);
  return result;
}

const ArenaPlan& Builder::State::main_arena() const {
  return *std::ranges::max_element(arenas_, {}, [](const ArenaPlan& arena) { return arena.bytes(); });
}

std::vector<runtime::Lifetime> Builder::State::planned_workspaces(uint32_t d) const {
  std::vector<runtime::Lifetime> result;
  for (size_t g = 0; g < groups_.size() && options_.load; ++g) {
    const auto& state = groups_[g];
    if (state.init || device_of(g) != d) continue;
    int64_t bytes = 0;
    if (state.call) {
      if (const auto* call = region_call(g)) bytes = regions_[call->region].workspace_bytes;
    } else if (state.instance < executable_->kernels.size()) {
      bytes = executable_->kernels[state.instance].workspace_bytes;
    }
    if (bytes > 0) result.push_back({bytes * executable_->workers_of(d), g, g});
  }
  return result;
}

void Builder::State::refuse_workspaces(const ArenaNeeds& needs, const ArenaPlan& arena) {
  std::map<size_t, int64_t> workspaces, packed;  // by group
  for (const auto& want : needs.workspaces) workspaces[want.first] = want.bytes;
  for (const auto& [where, operand] : packed_in_runs_) packed[where.first] += operand.bytes;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const int64_t more = workspaces[g] + packed[g];
    if (more == 0 || groups_[g].call ||
        options_.memory.allows(more - packed_allowance(g), needs.bytes_at(g) - packed[g]))
      continue;
    const auto& instance = instances_[groups_[g].instance];
    const bool is_new =
        instance.compiler->is_library()
            ? blocklist_.groups
                  .try_emplace({placement_[g].group, placement_[g].device, instance.compiler},
                               "its workspace")
                  .second
            : blocklist_.candidates.insert({instance.compiler, instance.asked, instance.candidate}).second;
    if (!is_new) continue;
    ledger_.add({"candidate", instance.provenance, instance.candidate_name, "refused", "memory",
                 fmt::format("with its workspace of {} bytes for each of {}{} the plan has {} bytes, "
                             "op by op it is {}",
                             workspaces[g] / needs.workers, counted(needs.workers, "worker"),
                             packed[g] ? fmt::format(" and packed operands of {} bytes", packed[g]) : "",
                             arena.bytes(), *options_.memory.op_by_op),
                 static_cast<double>(more)});
  }
}

BufferSlot Builder::State::slot_of(BufferId b) const {
  const auto& buffer = program_.buffers[b];
  BufferSlot slot;
  slot.bytes = buffer.bytes();
  slot.number = buffer.number;
  if (is_port(b)) slot.device = executable_->ports_device();
  switch (buffer.role) {
    case loop::Role::input: slot.kind = BufferSlot::Kind::input; break;
    case loop::Role::output: slot.kind = BufferSlot::Kind::output; break;
    case loop::Role::constant: slot.kind = BufferSlot::Kind::constant; break;
    case loop::Role::temporary:
      if (auto found = persistent_of_.find(b); found != persistent_of_.end()) {
        slot.kind = BufferSlot::Kind::persistent;
        slot.number = found->second;
        slot.device = default_device();
      } else if (auto home = in_ports_.find(b); home != in_ports_.end()) {
        const auto& port = program_.buffers[home->second];
        slot.kind = port.role == loop::Role::input ? BufferSlot::Kind::input : BufferSlot::Kind::output;
        slot.number = port.number;
        slot.device = executable_->ports_device();
      } else {
        const auto& offsets = arenas_[default_device()].offsets();
        slot.device = default_device();
        if (auto offset = offsets.find(b); offset != offsets.end()) slot.offset = offset->second;
      }
      break;
  }
  return slot;
}

}  // namespace ferrite::core::link
