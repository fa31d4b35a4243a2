// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/build.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <charconv>
#include <chrono>
#include <map>
#include <numeric>

#include "core/kernel/flatten.h"
#include "core/kernel/legalise.h"
#include "core/loop/print.h"
#include "core/plugin/serial.h"
#include "core/run/pack.h"
#include "core/run/pool.h"
#include "core/schedule/plan.h"
#include "core/support/abi.h"
#include "core/support/suggest.h"
#include "core/text/lexer.h"

namespace ferrite::core::run {
namespace {

using loop::BufferId;
using schedule::Schedule;

}  // namespace

class Builder::Steps {
 public:
  Steps(const Schedule& schedule, const Device& device, const BuildOptions& options, Ledger& ledger)
      : schedule_(schedule), program_(schedule.program), device_(device), options_(options), ledger_(ledger) {
    executable_ = std::make_shared<Executable>();
    executable_->runtime = device_.runtime;
    executable_->device = device_.number;
    executable_->alignment = device_.alignment;
    Pool::process().grow(options_.threads);
    executable_->workers = options_.threads > 0 ? options_.threads : Pool::process().workers();
    executable_->constants = program_.constants;
  }

  Result<void> select() {
    find_init_groups();
    for (size_t g = 0; g < schedule_.groups.size(); ++g) FE_CHECK(add_group(g));
    return choose_candidates();
  }

  Result<void> select(const loop::Kernel& kernel) {
    schedule::GroupKernel group{kernel, {}};
    for (BufferId b = 0; b < kernel.buffers.size(); ++b) {
      auto& buffer = group.kernel.buffers[b];
      if (buffer.kind != FE_BUFFER_LOCAL) group.arguments.push_back(b);
      // How a constant is packed is for the provider to say, again where it said so before.
      if (!buffer.packing) continue;
      buffer.packing.reset();
      buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
    }
    FE_TRY(alone_, add_kernel(group, "kernel"));
    return choose_candidates();
  }

  Result<std::shared_ptr<Executable>> link() {
    link_launches();
    describe_ports();
    FE_CHECK(executable_->load(blobs_));
    return std::move(executable_);
  }

  void plan() {
    std::map<BufferId, size_t> number;
    std::vector<schedule::Lifetime> lifetimes;
    std::vector<BufferId> buffers;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (BufferId b : groups_[g].arguments) {
        if (!lives_in_arena(b)) continue;
        auto [found, added] = number.emplace(b, lifetimes.size());
        if (added) {
          lifetimes.push_back({program_.buffers[b].bytes(), g, g});
          buffers.push_back(b);
        }
        lifetimes[found->second].last = g;
      }
    auto memory = schedule::plan_memory(lifetimes, 64);
    for (size_t k = 0; k < buffers.size(); ++k) {
      arena_offset_[buffers[k]] = memory.offsets[k];
      plan_text_ += fmt::format("  @{} offset {} bytes {} groups {} to {}\n", buffers[k], memory.offsets[k],
                                lifetimes[k].bytes, lifetimes[k].first, lifetimes[k].last);
    }
    executable_->arena_bytes = memory.bytes;
    log::print("schedule", "memory plan: {} buffers, {} bytes with reuse, {} without", buffers.size(),
               memory.bytes, memory.sum);
  }

  std::string text() const {
    std::string text = "ferrite listing 0\n";
    for (const auto& unit : units_) {
      text += fmt::format("kernel {} from {} candidate {} {{\n", unit.entry, text::quote(unit.provenance),
                          text::quote(unit.candidate_name));
      text += loop::indented(loop::print(unit.group.kernel));
      text += "}\n";
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& state = groups_[g];
      std::string arguments;
      for (BufferId b : state.arguments) arguments += fmt::format("{}@{}", arguments.empty() ? "" : ", ", b);
      const auto& statement = program_.statements[schedule_.groups[g].statements[0]];
      text +=
          fmt::format("group {} {} {}({})\n", g, state.init ? "init" : "run",
                      state.call ? text::quote(statement.call.name) : units_[state.unit].entry, arguments);
    }
    return text + fmt::format("plan {} bytes {{\n{}}}\n", executable_->arena_bytes, plan_text_);
  }

  std::string code() const {
    std::string text = "ferrite code 0\n";
    for (size_t u = 0; u < units_.size(); ++u) {
      text += fmt::format("kernel {} from {} candidate {} {{\n", units_[u].entry,
                          text::quote(units_[u].provenance), text::quote(units_[u].candidate_name));
      text += loop::indented(code_[u]) + "}\n";
    }
    return text;
  }

  Result<void> emit() {
    FE_CHECK(compile_units());
    record_kernels();
    return {};
  }

 private:
  struct GroupState {
    bool init = false;
    bool call = false;
    std::string provenance;           // model nodes, each once
    std::vector<BufferId> arguments;  // storages
    size_t unit = 0;
  };

  /// A group that reads constants only, and what such groups make, runs once, at load.
  void find_init_groups() {
    groups_.resize(schedule_.groups.size());
    std::map<BufferId, size_t> writers;
    for (const auto& group : schedule_.groups)
      for (uint32_t s : group.statements) {
        const auto& statement = program_.statements[s];
        for (const auto& store : statement.stores) ++writers[program_.storage(store.buffer)];
        for (BufferId b : statement.call.writes) ++writers[program_.storage(b)];
      }
    std::set<BufferId> outputs;
    for (BufferId b : program_.outputs) outputs.insert(program_.storage(b));
    for (size_t g = 0; g < schedule_.groups.size(); ++g) {
      bool constant = true;
      std::map<BufferId, size_t> written;
      for (uint32_t s : schedule_.groups[g].statements) {
        const auto& statement = program_.statements[s];
        constant = constant && statement.kind != FE_STATEMENT_CALL;
        for (const auto& store : statement.stores) {
          ++written[program_.storage(store.buffer)];
          constant = constant && store.mode == FE_STORE_SET;
        }
      }
      for (uint32_t s : schedule_.groups[g].statements)
        for (const auto& op : program_.statements[s].ops)
          if (op.code == FE_OP_LOAD) {
            BufferId b = program_.storage(op.buffer);
            constant = constant && (program_.buffers[b].role == loop::Role::constant ||
                                    persistent_of_.count(b) || written.count(b));
          }
      for (auto [b, count] : written) constant = constant && writers[b] == count && !outputs.count(b);
      groups_[g].init = constant;
      if (!constant) continue;
      for (auto [b, count] : written) persistent_of_.emplace(b, add_persistent(program_.buffers[b].bytes()));
    }
  }

  uint32_t add_persistent(int64_t bytes) {
    executable_->persistent_bytes.push_back(bytes);
    return static_cast<uint32_t>(executable_->persistent_bytes.size() - 1);
  }

  Result<void> add_group(size_t g) {
    auto& state = groups_[g];
    const auto& members = schedule_.groups[g].statements;
    const auto& statement = program_.statements[members[0]];
    std::vector<std::string> names;
    for (uint32_t s : members)
      for (const auto& origin : program_.statements[s].origins) {
        const auto& name = origin.names.empty() ? origin.op : origin.names;
        if (std::ranges::find(names, name) == names.end()) names.push_back(name);
      }
    state.provenance = fmt::format("{}", fmt::join(names, ", "));
    if (statement.kind == FE_STATEMENT_CALL) {
      state.call = true;
      for (BufferId b : statement.call.reads) state.arguments.push_back(program_.storage(b));
      for (BufferId b : statement.call.writes) state.arguments.push_back(program_.storage(b));
      return {};
    }
    auto group = schedule::make_kernel(schedule_, g);
    size_t argument = 0;
    for (auto& buffer : group.kernel.buffers) {
      if (buffer.kind == FE_BUFFER_LOCAL) continue;
      BufferId b = group.arguments[argument++];
      if (buffer.kind == FE_BUFFER_INPUT && persistent_of_.count(b)) buffer.kind = FE_BUFFER_CONSTANT;
    }
    FE_TRY(state.unit, add_kernel(group, state.provenance));
    state.arguments = std::move(group.arguments);
    return {};
  }

  /// The unit of a kernel in the form that the provider takes; `group` is brought into its order.
  Result<size_t> add_kernel(schedule::GroupKernel& group, const std::string& provenance) {
    if (const uint64_t kinds = device_.target.statement_kinds) {
      auto legal = kernel::legalise(group.kernel, kinds);
      if (!legal) return core::at(provenance, std::move(legal.error()));
    }
    make_canonical(group);
    return unit_of(group, provenance);
  }

  /// Numbers buffers in the order of their first use, so that equal groups give equal bytes.
  static void make_canonical(schedule::GroupKernel& group) {
    std::vector<BufferId> old_argument(group.kernel.buffers.size(), loop::none), numbers, arguments;
    size_t argument = 0;
    for (BufferId b = 0; b < group.kernel.buffers.size(); ++b)
      if (group.kernel.buffers[b].kind != FE_BUFFER_LOCAL) old_argument[b] = group.arguments[argument++];
    group.kernel = kernel::canonical(group.kernel, numbers);
    for (BufferId old : numbers)
      if (old_argument[old] != loop::none) arguments.push_back(old_argument[old]);
    group.arguments = std::move(arguments);
  }

  /// The unit of a kernel, one for all groups whose kernels are the same bytes.
  Result<size_t> unit_of(schedule::GroupKernel group, std::string provenance) {
    auto flat = at(provenance, kernel::flatten(group.kernel, provenance));
    if (!flat) return std::move(flat.error());
    auto [found, added] = unit_numbers_.emplace(flat->entry, units_.size());
    if (added) {
      Unit unit;
      unit.group = std::move(group);
      unit.bytes = std::move(flat->bytes);
      unit.entry = flat->entry;
      unit.provenance = std::move(provenance);
      units_.push_back(std::move(unit));
    }
    return found->second;
  }

  template <class T>
  static Result<T> at(const std::string& where, Result<T> result) {
    if (!result) return core::at(where, std::move(result.error()));
    return result;
  }

  /// Asks the provider for candidates and takes the cheapest; the layouts that it wants for constants become packing kernels.
  Result<void> choose_candidates() {
    // Packing kernels are added behind the units they belong to and have no constants worth packing themselves.
    size_t count = units_.size();
    for (size_t u = 0; u < count; ++u) {
      struct Best {
        bool any = false;
        fe_candidate candidate{};
        std::string name;
        std::vector<OperandLayout> layouts;
      } best;
      abi::Call call;
      auto args = abi::sized<fe_propose_args>();
      args.target = device_.target.target;
      args.kernel = {units_[u].bytes.data(), units_[u].bytes.size(), 1};
      auto out = abi::sized<fe_propose_out>();
      out.host = &best;
      out.add = [](void* host, const fe_candidate* candidate) -> int32_t {
        auto& best = *static_cast<Best*>(host);
        if (!candidate) return FE_EINVALID;
        if (best.any && best.candidate.cost <= candidate->cost) return FE_OK;
        best.any = true;
        best.candidate = *candidate;
        best.name = abi::view(candidate->name);
        best.layouts.clear();
        for (size_t k = 0; k < candidate->operand_layouts.count; ++k)
          best.layouts.push_back(copy_layout(abi::element<fe_operand_layout>(candidate->operand_layouts, k)));
        return FE_OK;
      };
      int32_t status = plugin::invoke(*device_.provider, device_.provider->propose, call, &args, &out);
      if (status != FE_OK || !best.any)
        return core::at(units_[u].provenance, call.error(status == FE_OK ? FE_EUNSUPPORTED : status, "FE-K20",
                                                         "the provider proposes nothing for this kernel"));
      units_[u].candidate = best.candidate;
      units_[u].candidate_name = best.name;
      ledger_.add(
          {"candidate", units_[u].provenance, best.name, "chosen", {}, units_[u].entry, best.candidate.cost});
      for (const auto& layout : best.layouts) FE_CHECK(apply_layout(u, layout));
    }
    return {};
  }

  Result<void> apply_layout(size_t u, const OperandLayout& layout) {
    auto& kernel = units_[u].group.kernel;
    if (layout.buffer >= kernel.buffers.size() || kernel.buffers[layout.buffer].kind != FE_BUFFER_CONSTANT ||
        layout.unpack.size() != kernel.buffers[layout.buffer].dims.size())
      return core::at(units_[u].provenance, error(FE_EINTERNAL, "FE-K21",
                                                  "the provider wants a layout for something that is "
                                                  "no constant operand"));
    FE_TRY(auto packing, import_packing(layout, kernel.pool));
    FE_TRY(auto pack, make_pack_kernel(kernel.buffers[layout.buffer], layout));
    uint32_t argument = 0;
    for (uint32_t b = 0; b < layout.buffer; ++b)
      if (kernel.buffers[b].kind != FE_BUFFER_LOCAL) ++argument;
    kernel.buffers[layout.buffer].packing = std::move(packing);
    kernel.buffers[layout.buffer].strides.clear();
    kernel.buffers[layout.buffer].offset = 0;
    schedule::GroupKernel pack_group{std::move(pack), {0, 1}};
    make_canonical(pack_group);
    FE_TRY(size_t pack_unit, unit_of(std::move(pack_group), "packing for " + units_[u].provenance));
    if (units_[pack_unit].candidate_name.empty()) units_[pack_unit].candidate_name = "pack";
    packs_[u].push_back({argument, layout.buffer, pack_unit});
    FE_TRY(auto flat, kernel::flatten(units_[u].group.kernel, units_[u].provenance));
    units_[u].bytes = std::move(flat.bytes);
    units_[u].entry = flat.entry;
    return {};
  }

  /// Compiles every unit, in parallel.
  Result<void> compile_units() {
    struct Slot {
      std::string blob, listing;
      std::optional<Error> failed;
      fe_compile_out out{};
    };
    std::vector<Slot> slots(units_.size());
    struct Context {
      Steps& builder;
      std::vector<Slot>& slots;
      std::vector<size_t> order;
    } context{*this, slots, {}};
    // The largest kernels first, so that the last ones to finish are small.
    context.order.resize(units_.size());
    std::iota(context.order.begin(), context.order.end(), size_t{0});
    std::stable_sort(context.order.begin(), context.order.end(),
                     [&](size_t a, size_t b) { return units_[a].bytes.size() > units_[b].bytes.size(); });
    auto compile = [](void* opaque, int64_t begin, int64_t end, int64_t) {
      auto& c = *static_cast<Context*>(opaque);
      for (int64_t k = begin; k < end; ++k) {
        size_t u = c.order[static_cast<size_t>(k)];
        auto& slot = c.slots[u];
        const auto& unit = c.builder.units_[u];
        const auto& device = c.builder.device_;
        abi::Collector<> blob, listing;
        abi::Call call;
        auto args = abi::sized<fe_compile_args>();
        args.target = device.target.target;
        args.kernel = {unit.bytes.data(), unit.bytes.size(), 1};
        args.candidate = unit.candidate.id;
        args.entry = abi::string(unit.entry);
        args.provenance = abi::string(unit.provenance);
        slot.out = abi::sized<fe_compile_out>();
        slot.out.blob = blob.sink();
        if (c.builder.options_.listings) slot.out.listing = listing.sink();
        int32_t status = plugin::invoke(*device.provider, device.provider->compile, call, &args, &slot.out);
        if (status != FE_OK)
          slot.failed =
              core::at(unit.provenance, call.error(status, "FE-K22", "the kernel could not be compiled"));
        slot.blob = std::move(blob.bytes());
        slot.listing = std::move(listing.bytes());
      }
    };
    Pool::process().parallel_for(static_cast<int64_t>(units_.size()), 1, options_.jobs, &context, compile);
    for (size_t u = 0; u < units_.size(); ++u) {
      auto& slot = slots[u];
      if (slot.failed) return std::move(*slot.failed);
      constexpr int64_t most_workspace = int64_t{1} << 40;  // a worker; their sum must not overflow
      if (slot.out.tasks < 0 || slot.out.grain < 0 || slot.out.workspace_bytes < 0 ||
          slot.out.workspace_bytes > most_workspace)
        return core::at(
            units_[u].provenance,
            error(FE_EINTERNAL, "FE-P67",
                  "provider '{}' says that the kernel has {} tasks, a grain of {} and {} bytes of "
                  "workspace",
                  abi::view(device_.provider->id), slot.out.tasks, slot.out.grain, slot.out.workspace_bytes));
      CompiledKernel kernel;
      kernel.entry = units_[u].entry;
      kernel.provenance = units_[u].provenance;
      kernel.candidate = units_[u].candidate_name;
      kernel.tasks = slot.out.tasks;
      kernel.grain = slot.out.grain;
      kernel.workspace_bytes = slot.out.workspace_bytes;
      kernel.registers = slot.out.registers;
      kernel.spills = slot.out.spills;
      if (log::enabled("kernels"))
        log::write("kernels", fmt::format("{} from {}\n{}", kernel.entry, kernel.provenance,
                                          loop::print(units_[u].group.kernel)));
      if (!slot.listing.empty() && log::enabled("output_code")) log::write("output_code", slot.listing);
      code_.push_back(std::move(slot.listing));
      executable_->kernels.push_back(std::move(kernel));
      blobs_.push_back(std::move(slot.blob));
    }
    return {};
  }

  /// A record a group: which model nodes ended in which kernel.
  void record_kernels() {
    std::vector<bool> seen(units_.size());
    const auto add = [&](const std::string& provenance, std::optional<size_t> unit) {
      LedgerRecord record{"kernel", provenance, {}, "called", {}, {}, 0};
      if (unit) {
        record.object = units_[*unit].candidate_name;
        record.outcome = seen[*unit] ? "reused" : "compiled";
        record.text = units_[*unit].entry;
        record.score = static_cast<double>(blobs_[*unit].size());
        seen[*unit] = true;
      }
      ledger_.add(std::move(record));
    };
    for (const auto& state : groups_)
      add(state.provenance, state.call ? std::nullopt : std::optional(state.unit));
    if (alone_) add(units_[*alone_].provenance, alone_);
    for (size_t u = 0; u < units_.size(); ++u)
      if (!seen[u])
        ledger_.add({"packing",
                     units_[u].provenance,
                     units_[u].candidate_name,
                     "compiled",
                     {},
                     units_[u].entry,
                     static_cast<double>(blobs_[u].size())});
  }

  bool lives_in_arena(BufferId b) const {
    return program_.buffers[b].role == loop::Role::temporary && !persistent_of_.count(b);
  }

  Place place_of(BufferId b) const {
    const auto& buffer = program_.buffers[b];
    Place place;
    place.bytes = buffer.bytes();
    place.number = buffer.number;
    switch (buffer.role) {
      case loop::Role::input: place.kind = Place::Kind::input; break;
      case loop::Role::output: place.kind = Place::Kind::output; break;
      case loop::Role::constant: place.kind = Place::Kind::constant; break;
      case loop::Role::temporary:
        if (auto found = persistent_of_.find(b); found != persistent_of_.end()) {
          place.kind = Place::Kind::persistent;
          place.number = found->second;
        } else if (auto offset = arena_offset_.find(b); offset != arena_offset_.end()) {
          place.offset = offset->second;
        }
        break;
    }
    return place;
  }

  void link_launches() {
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& state = groups_[g];
      Launch launch;
      for (BufferId b : state.arguments) launch.arguments.push_back(place_of(b));
      if (state.call) {
        launch.call = program_.statements[schedule_.groups[g].statements[0]].call;
        for (BufferId b : state.arguments) launch.call_dims.push_back(program_.buffers[b].dims);
        for (size_t k = 0; k < state.arguments.size(); ++k) {
          auto type = abi::sized<fe_tensor_type>();
          type.dtype = static_cast<fe_dtype>(program_.buffers[state.arguments[k]].dtype);
          type.rank = static_cast<uint32_t>(launch.call_dims[k].size());
          type.dims = launch.call_dims[k].data();
          launch.call_types.push_back(type);
        }
      } else {
        launch.kernel = static_cast<uint32_t>(state.unit);
        for (const auto& pack : packs_[state.unit]) {
          auto key = std::pair{state.arguments[pack.argument], pack.unit};
          auto found = packed_.find(key);
          if (found == packed_.end()) {
            Launch prepare;
            prepare.kernel = static_cast<uint32_t>(pack.unit);
            for (const auto& buffer : units_[pack.unit].group.kernel.buffers) {
              if (buffer.kind == FE_BUFFER_OUTPUT) {
                found = packed_.emplace(key, add_persistent(buffer.bytes())).first;
                prepare.arguments.push_back({Place::Kind::persistent, found->second, 0, buffer.bytes()});
              } else {
                prepare.arguments.push_back(launch.arguments[pack.argument]);
              }
            }
            executable_->init.push_back(std::move(prepare));
          }
          launch.arguments[pack.argument] = {Place::Kind::persistent, found->second, 0, 0};
        }
      }
      (state.init ? executable_->init : executable_->steps).push_back(std::move(launch));
    }
  }

  void describe_ports() {
    executable_->inputs = run::describe_ports(program_, program_.inputs);
    executable_->outputs = run::describe_ports(program_, program_.outputs);
    for (BufferId b : program_.outputs) executable_->output_places.push_back(place_of(program_.storage(b)));
  }

  const Schedule& schedule_;
  const loop::LoopProgram& program_;
  const Device& device_;
  const BuildOptions options_;
  Ledger& ledger_;
  std::shared_ptr<Executable> executable_;
  std::vector<GroupState> groups_;
  std::map<BufferId, uint32_t> persistent_of_;
  std::vector<Unit> units_;
  std::optional<size_t> alone_;  // the unit of a kernel of no group
  std::map<std::string, size_t> unit_numbers_;
  struct Pack {
    uint32_t argument;
    BufferId buffer;
    size_t unit;
  };
  std::map<size_t, std::vector<Pack>> packs_;
  std::map<std::pair<BufferId, size_t>, uint32_t> packed_;
  std::map<BufferId, int64_t> arena_offset_;
  std::string plan_text_;
  std::vector<std::string> blobs_;
  std::vector<std::string> code_;  // as the provider shows it, by unit
};

Builder::Builder(const Schedule& schedule, const Device& device, const BuildOptions& options, Ledger& ledger)
    : steps_(std::make_unique<Steps>(schedule, device, options, ledger)) {}
Builder::~Builder() = default;
Result<void> Builder::select() { return steps_->select(); }
Result<void> Builder::select(const loop::Kernel& kernel) { return steps_->select(kernel); }
void Builder::plan() { steps_->plan(); }
Result<void> Builder::emit() { return steps_->emit(); }
Result<std::shared_ptr<Executable>> Builder::link() { return steps_->link(); }
std::string Builder::text() const { return steps_->text(); }
std::string Builder::code() const { return steps_->code(); }

namespace {

/// The tables behind a device's name.
struct FoundDevice {
  std::string kind;
  uint32_t number = 0;
  const fe_runtime* runtime = nullptr;
  const fe_provider* provider = nullptr;
};

Result<uint32_t> count_devices(const fe_runtime& runtime) {
  auto out = abi::sized<fe_device_count_out>();
  out.count = 1;
  if (!runtime.device_count) return out.count;
  abi::Call call;
  auto none = abi::sized<fe_none>();
  int32_t status = plugin::invoke(runtime, runtime.device_count, call, &none, &out);
  if (status != FE_OK) return call.error(status, "FE-D05", "the devices cannot be counted");
  return out.count;
}

Result<FoundDevice> find_device(const std::string& name, const plugin::Registry& registry) {
  FoundDevice found;
  auto colon = name.find(':');
  found.kind = name.substr(0, colon);
  if (colon != std::string::npos) {
    const char *begin = name.data() + colon + 1, *end = name.data() + name.size();
    auto [after, fault] = std::from_chars(begin, end, found.number);
    if (begin == end || after != end || (fault != std::errc() && fault != std::errc::result_out_of_range))
      return error(FE_EINVALID, "FE-D01", "a device is a kind and a number, as in 'cpu:0'");
    if (fault != std::errc()) found.number = UINT32_MAX;  // there are never so many
  }
  if (name.empty())
    return error(FE_EINVALID, "FE-D01", "none is named; give --device or the manifest's 'device'");
  if (found.kind == interpreter_name)
    return error(FE_EINVALID, "FE-D01", "there is one interpreter, and it has no number: write '{}'",
                 interpreter_name);
  std::vector<std::string_view> known;
  for (const auto& runtime : registry.runtimes()) {
    known.push_back(abi::view(runtime.table->id));
    if (known.back() == found.kind) found.runtime = runtime.table;
  }
  known.push_back(interpreter_name);
  if (!found.runtime)
    return error(FE_EINVALID, "FE-D01", "there is no such device; there are {}{}", fmt::join(known, ", "),
                 did_you_mean(found.kind, known));
  for (const auto& provider : registry.providers())
    if (abi::view(provider.table->device_kind) == found.kind) found.provider = provider.table;
  if (!found.provider || !found.provider->propose || !found.provider->compile)
    return error(FE_EINVALID, "FE-D01", "no enabled plugin compiles for '{}'; see 'ferrite targets'",
                 found.kind);
  FE_TRY(auto count, count_devices(*found.runtime));
  if (found.number >= count)
    return error(FE_EINVALID, "FE-D01", "'{}' has {}; see 'ferrite targets'", found.kind,
                 count == 0   ? "no device here"
                 : count == 1 ? "one device, number 0"
                              : fmt::format("{} devices, numbers 0 to {}", count, count - 1));
  return found;
}

}  // namespace

Result<void> Device::check(const std::string& name, const plugin::Registry& registry) {
  if (name == interpreter_name) return {};
  auto found = find_device(name, registry);
  if (!found) return core::at("device " + name, std::move(found.error()));
  return {};
}

Result<std::shared_ptr<Device>> Device::open(const std::string& name, const plugin::Registry& registry) {
  const std::string where = "device " + name;
  auto found = find_device(name, registry);
  if (!found) return core::at(where, std::move(found.error()));
  std::shared_ptr<Device> device(new Device());
  device->runtime = found->runtime;
  device->provider = found->provider;
  device->kind = found->kind;
  device->number = found->number;

  abi::Collector<> description, label;
  abi::Call describe_call;
  auto describe_args = abi::sized<fe_device_args>();
  describe_args.device = device->number;
  auto described = abi::sized<fe_describe_out>();
  described.description = description.sink();
  described.name = label.sink();
  int32_t status =
      plugin::invoke(*device->runtime, device->runtime->describe, describe_call, &describe_args, &described);
  if (status != FE_OK)
    return core::at(where, describe_call.error(status, "FE-D05", "the device cannot be described"));
  device->description = description.bytes();
  device->name = label.bytes();
  device->alignment = std::max<uint64_t>(described.alignment, 1);
  if (!std::has_single_bit(device->alignment))
    return core::at(where, error(FE_EDEVICE, "FE-P66", "it says that its memory is aligned to {} bytes",
                                 described.alignment));

  abi::Call open_call;
  auto open_args = abi::sized<fe_open_target_args>();
  open_args.description = {device->description.data(), device->description.size(), 1};
  device->target = abi::sized<fe_open_target_out>();
  status = plugin::invoke(*device->provider, device->provider->open_target, open_call, &open_args,
                          &device->target);
  if (status != FE_OK)
    return core::at(where, open_call.error(status, "FE-D05", "the provider cannot compile for this device"));
  return device;
}

Device::~Device() {
  if (!provider || !provider->close_target || !target.target) return;
  abi::Call call;
  auto out = abi::sized<fe_none>();
  plugin::invoke(*provider, provider->close_target, call, &target, &out);
}

}  // namespace ferrite::core::run
