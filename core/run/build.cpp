// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/run/build.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "core/loop/keywords.h"
#include "core/loop/print.h"
#include "core/observe/observation.h"
#include "core/run/account.h"
#include "core/run/arena.h"
#include "core/run/codes.h"
#include "core/run/mirrors.h"
#include "core/run/pool.h"
#include "core/run/propose.h"
#include "core/run/units.h"
#include "core/support/abi.h"
#include "core/text/lexer.h"
#include "core/tune/decisions.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::run {
using loop::BufferId;
using schedule::Schedule;

class Builder::Steps {
 public:
  Steps(const Schedule& schedule, const Devices& devices, const place::Placement& placement,
        const std::vector<place::Region>& regions, const BuildOptions& options, place::Refusals& refusals,
        Ledger& ledger)
      : schedule_(schedule),
        program_(schedule.program),
        devices_(devices),
        placement_(placement),
        regions_(regions),
        options_(options),
        refusals_(refusals),
        ledger_(ledger),
        units_(devices_, options_, refusals, ledger),
        codes_(devices_, options_) {
    executable_ = std::make_shared<Executable>();
    executable_->devices = devices_;
    executable_->workers = workers_for(options_.threads, options_.load);
    executable_->constants = program_.constants;
    executable_->ports_on_device = options_.ports_on_device;
    executable_->allocator = options_.allocator;
    executable_->record_runs = options_.record_runs;
  }

  Result<void> select() {
    find_init_groups();
    const schedule::KernelMaker kernels(schedule_);
    for (size_t g = 0; g < schedule_.groups.size(); ++g) FE_CHECK(add_group(kernels, g));
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
    FE_TRY(alone_, units_.add(group, "kernel", home()));
    return choose_candidates();
  }

  /// Before there is a plan: workspaces have their places in it.
  Result<void> load() {
    if (!options_.load) {
      // What is loaded elsewhere is tried here where it can be.
      FE_TRY([[maybe_unused]] const bool changed, compile_unloadable_anew());
      return {};
    }
    for (size_t g = 0; g < groups_.size(); ++g)
      if (const auto* call = region_call(g)) region_kernel(g, *call);
    auto loaded = executable_->load_code(blobs_);
    if (!loaded) {
      FE_TRY(const bool changed, compile_unloadable_anew());
      if (changed) loaded = executable_->load_code(blobs_);
    }
    if (loaded) observe_loaded();
    if (loaded || forgive(loaded.error())) return {};
    return with_makers(std::move(loaded.error()));
  }

  Result<std::shared_ptr<Executable>> link() {
    link_launches();
    describe_ports();
    if (!options_.load) {
      executable_->code = std::move(blobs_);
      return std::move(executable_);
    }
    if (auto prepared = executable_->prepare(); !prepared) {
      if (forgive(prepared.error())) return std::shared_ptr<Executable>();
      return with_makers(std::move(prepared.error()));
    }
    record_recording();
    return std::move(executable_);
  }

  void plan() {
    arenas_.clear();
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      const auto needs = arena_needs(d);
      const int64_t most = options_.memory.bytes(needs.buffers.size());
      const auto& arena = arenas_.emplace_back(needs, static_cast<int64_t>(devices_[d]->alignment), most);
      if (arena.bytes() > most) refuse_workspaces(needs, arena);
      executable_->arena_bytes.push_back(arena.bytes());
    }
    if (auto* seen = options_.observation) {
      main_arena().describe(*seen);
      seen->op_by_op_bytes = options_.memory.op_by_op;
      seen->groups = groups_.size();
    }
  }

  std::string text() const {
    auto text =
        fmt::format("{} {} {}\n", loop::keyword::ferrite, loop::keyword::listing, loop::keyword::version);
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
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      if (d != home() && arenas_[d].bytes() == 0) continue;
      text += fmt::format("plan {} bytes {}{{\n{}}}\n", arenas_[d].bytes(),
                          d == home() ? "" : fmt::format("on {} ", devices_[d]->place()), arenas_[d].text());
    }
    return text;
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
    if (blobs_.size() == units_.size()) record_kernels();
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

  uint32_t home() const { return executable_->home(); }

  /// Whether runs are recorded, and why not; nothing where no device does that.
  void record_recording() {
    const auto& plan = executable_->recording();
    const auto& device = *devices_[plan.device];
    if (!plan.reason.empty())
      ledger_.add({"record", plan.subject, device.place(), "refused", plan.category, plan.reason, 0});
    else if (plan.is_possible)
      ledger_.add({"record",
                   {},
                   device.place(),
                   "recorded",
                   {},
                   "launches and copies, by the second run of a context for those behind it",
                   static_cast<double>(executable_->steps.size())});
  }

  // ---- memory plans

  /// Where a group runs.
  uint32_t device_of(size_t g) const {
    if (!groups_[g].call) return units_[groups_[g].unit].device;
    const auto* call = region_call(g);
    return call ? regions_[call->region].device : home();
  }

  /// What lies in the arena of a device during a run. The arena of the last one is that of all which reach the host's memory; a buffer
  /// that other devices need there, too, lives in it while any needs it.
  ArenaNeeds arena_needs(uint32_t d) const {
    ArenaNeeds needs;
    needs.workers = executable_->workers_of(d);
    needs.workspaces = planned_workspaces(d);
    if (d != home() && devices_[d]->host_memory) return needs;
    std::map<BufferId, std::set<uint32_t>> memories;  // that its groups use
    for (size_t g = 0; g < groups_.size(); ++g)
      for (BufferId b : groups_[g].arguments) memories[b].insert(executable_->memory_of(device_of(g)));
    const std::set<BufferId> leaving = brought_home();
    const uint32_t ports = executable_->memory_of_ports();
    const auto lives_here = [&](BufferId b) {
      const bool port = is_port(b);
      if (program_.buffers[b].role == loop::Role::constant || constants_.count(b) ||
          (port && ports == executable_->memory_of(d)))
        return false;
      if (!devices_[d]->host_memory) return true;
      // What crosses from one memory to another, and what lies here for its own sake.
      const bool crosses = memories[b].size() > 1;
      return port ? crosses || !memories[b].count(ports)
                  : crosses || memories[b].count(Executable::host) || leaving.count(b);
    };
    std::set<BufferId> here;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].init) continue;
      for (BufferId b : groups_[g].arguments) {
        if (d == home() || device_of(g) == d) here.insert(b);
        if (here.count(b) && lives_here(b)) needs.keep(b, program_.buffers[b].bytes(), g);
      }
    }
    for (BufferId b : leaving)
      if (here.count(b) && lives_here(b)) needs.keep(b, program_.buffers[b].bytes(), groups_.size());
    return needs;
  }

  /// What the caller finds in the host's memory behind a run: results, and what the model changes of its inputs.
  std::set<BufferId> brought_home() const {
    std::set<BufferId> result;
    for (BufferId b : program_.outputs) result.insert(program_.storage(b));
    for (const auto& buffer : program_.buffers)
      if (buffer.base != loop::none && program_.buffers[buffer.base].role == loop::Role::input)
        result.insert(buffer.base);
    return result;
  }

  /// The plan that people ask for: the largest one.
  const ArenaPlan& main_arena() const {
    return *std::ranges::max_element(arenas_, {}, [](const ArenaPlan& arena) { return arena.bytes(); });
  }

  /// The workspaces of a run's kernels that lie in the arena, of all workers together. What is loaded elsewhere has them behind
  /// its arena, because how many workers there are is known then.
  std::vector<schedule::Lifetime> planned_workspaces(uint32_t d) const {
    std::vector<schedule::Lifetime> result;
    for (size_t g = 0; g < groups_.size() && options_.load; ++g) {
      const auto& state = groups_[g];
      if (state.init || device_of(g) != d) continue;
      int64_t bytes = 0;
      if (state.call) {
        if (const auto* call = region_call(g)) bytes = regions_[call->region].workspace_bytes;
      } else if (state.unit < executable_->kernels.size()) {
        bytes = executable_->kernels[state.unit].workspace_bytes;
      }
      if (bytes > 0) result.push_back({bytes * executable_->workers_of(d), g, g});
    }
    return result;
  }

  /// Refuses the candidates of those kernels that have too much while they run.
  void refuse_workspaces(const ArenaNeeds& needs, const ArenaPlan& arena) {
    for (const auto& want : needs.workspaces) {
      const size_t g = want.first;
      if (groups_[g].call || options_.memory.allows(want.bytes, needs.bytes_at(g))) continue;
      const auto& unit = units_[groups_[g].unit];
      const bool is_new =
          unit.compiler->is_library()
              ? refusals_.groups
                    .try_emplace({placement_[g].group, placement_[g].device, unit.compiler}, "its workspace")
                    .second
              : refusals_.candidates.insert({unit.compiler, unit.asked, unit.candidate}).second;
      if (!is_new) continue;
      ledger_.add({"candidate", unit.provenance, unit.candidate_name, "refused", "memory",
                   fmt::format("with its workspace of {} bytes for each of {} the plan has {} bytes, "
                               "op by op it is {}",
                               want.bytes / needs.workers, counted(needs.workers, "worker"), arena.bytes(),
                               *options_.memory.op_by_op),
                   static_cast<double>(want.bytes)});
    }
  }

  /// A group that reads constants only, and what such groups make, runs once, at load.
  void find_init_groups() {
    groups_.resize(schedule_.groups.size());
    const auto init = schedule::init_groups(schedule_);
    for (size_t g = 0; g < groups_.size(); ++g) groups_[g].init = init[g];
    constants_ = schedule::init_buffers(schedule_, init);
    for (BufferId b : constants_)
      persistent_of_.emplace(b, executable_->add_persistent(home(), program_.buffers[b].bytes()));
  }

  Result<void> add_group(const schedule::KernelMaker& kernels, size_t g) {
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
    auto group = kernels.make(g);
    schedule::mark_constants(group, constants_);
    const auto& choice = placement_[g];
    FE_TRY(state.unit, units_.add(group, state.provenance, choice.device, choice.compiler, choice.candidate));
    state.arguments = std::move(group.arguments);
    return {};
  }

  /// Where nothing is proposed for a unit, its groups go elsewhere.
  Result<void> choose_candidates() {
    FE_TRY(const auto number,
           units_.choose([&](size_t u, Error failed) { return send_elsewhere(u, std::move(failed)); }));
    for (auto& group : groups_)
      if (!group.call) group.unit = number[group.unit];
    if (alone_) alone_ = number[*alone_];
    return {};
  }

  /// The code of every unit becomes the executable's, where none failed.
  Result<void> compile_units() {
    auto made = codes_.make(units_);
    bool failed = false;
    for (size_t u = 0; u < units_.size(); ++u) {
      if (!made[u].failed) continue;
      failed = true;
      FE_CHECK(refuse(u, std::move(*made[u].failed)));
    }
    if (failed) return {};
    if (options_.observation) options_.observation->kernels.clear();
    for (size_t u = 0; u < units_.size(); ++u) {
      codes_.keep(units_[u], made[u]);
      take(u, std::move(made[u]));
    }
    return {};
  }

  /// The code of a unit becomes the executable's, instead of what it had.
  void take(size_t u, Code code) {
    auto& made = code.kernel;
    const size_t units = std::max(u + 1, blobs_.size());
    executable_->kernels.resize(std::max(units, executable_->kernels.size()));
    blobs_.resize(units);
    code_.resize(units);
    kept_.resize(units);
    kept_[u] = code.found ? std::move(code.key) : std::string();
    auto& kernel = executable_->kernels[u];
    kernel.device = units_[u].device;
    if (units_[u].compiler->is_library()) kernel.library = units_[u].compiler;
    kernel.entry = units_[u].entry;
    kernel.provenance = units_[u].provenance;
    kernel.candidate = units_[u].candidate_name;
    kernel.tasks = made.tasks;
    kernel.grain = made.grain;
    kernel.workspace_bytes = made.workspace_bytes;
    kernel.checks_indices = checks_indices(units_[u].group.kernel);
    kernel.registers = made.registers;
    kernel.spills = made.spills;
    kernel.shared_bytes = made.shared_bytes;
    if (log::enabled("kernels"))
      log::write("kernels", fmt::format("{} from {}\n{}", kernel.entry, kernel.provenance,
                                        loop::print(units_[u].group.kernel)));
    if (!made.listing.empty() && log::enabled("output_code")) log::write("output_code", made.listing);
    if (options_.observation) observe_kernel(u, made);
    code_[u] = std::move(made.listing);
    blobs_[u] = std::move(made.blob);
  }

  /// Compiles those units again whose code is from the cache and cannot be loaded: an entry's hash says that it is what was
  /// written, not that it is code, or that of the numbers beside it. Whether there were any.
  Result<bool> compile_unloadable_anew() {
    bool any = false;
    // Behind the units there may be regions, which are not kept.
    for (size_t u = 0; u < std::min(kept_.size(), units_.size()); ++u) {
      const auto& device = *devices_[units_[u].device];
      if (kept_[u].empty() || (!options_.load && !device.refusal(device.description).empty())) continue;
      Executable alone;
      alone.devices = devices_;
      alone.kernels = {executable_->kernels[u]};
      const auto loaded = alone.load_code(std::span(&blobs_[u], 1));
      if (loaded) continue;
      any = true;
      const char* what = loaded.error().code == "FE-P67" ? "" : "its code cannot be loaded: ";
      FE_TRY(auto made, codes_.make_anew(units_[u], kept_[u], what + loaded.error().message()));
      take(u, std::move(made));
      ledger_.add({"kernel", units_[u].provenance, units_[u].candidate_name, "compiled anew", "damaged",
                   units_[u].entry, static_cast<double>(blobs_[u].size())});
    }
    return any;
  }

  static bool checks_indices(const loop::Kernel& kernel) {
    return std::ranges::any_of(kernel.statements, [](const auto& statement) {
      return std::ranges::any_of(statement.ops, [](const auto& op) {
        return op.code == FE_OP_INDIRECT && (op.flags == FE_INDIRECT_CHECK || op.flags == FE_INDIRECT_WRAP);
      });
    });
  }

  void observe_kernel(size_t u, const cache::CompiledKernel& made) {
    const auto& unit = units_[u];
    observe::Kernel seen{unit.entry,
                         unit.provenance,
                         unit.candidate_name,
                         observe::facts_of(unit.group.kernel),
                         loop::print(unit.group.kernel),
                         made.listing,
                         made.registers,
                         made.spills,
                         made.shared_bytes};
    auto& kernels = options_.observation->kernels;
    kernels.resize(std::max(u + 1, kernels.size()));
    kernels[u] = std::move(seen);
  }

  /// What the runtimes say of code that they loaded.
  void observe_loaded() {
    if (!options_.observation) return;
    auto& seen = options_.observation->kernels;
    for (size_t u = 0; u < seen.size(); ++u) {
      const auto& kernel = executable_->kernels[u];
      seen[u].registers = kernel.registers;
      seen[u].spills = kernel.spills;
      seen[u].shared_bytes = kernel.shared_bytes;
    }
  }

  /// Whether an error of loading is passed over: those who made what was loaded are asked no more.
  bool forgive(const Error& failed) {
    bool dropped = false;
    for (const auto& unit : units_) dropped = refusals_.forgive(*unit.compiler, failed, ledger_) || dropped;
    return dropped;
  }

  /// An error of loading, with those who made what was loaded.
  Error with_makers(Error failed) const {
    std::set<std::string> makers;
    const auto add = [&](const Compiler& compiler) {
      makers.insert(fmt::format("provider '{}' of {}", compiler.id, compiler.plugin->id));
    };
    for (const auto& unit : units_) add(*unit.compiler);
    for (const auto& region : regions_) add(*region.compiler);
    failed.text += fmt::format("; what was loaded is made by {}", fmt::join(makers, ", "));
    return failed;
  }

  /// A unit did not compile: where its provider's failure is passed over there is nothing to do, else its groups go elsewhere.
  Result<void> refuse(size_t u, Error failed) {
    if (refusals_.forgive(*units_[u].compiler, failed, ledger_)) return {};
    return send_elsewhere(u, std::move(failed));
  }

  /// The groups of a unit that nobody compiles go elsewhere, where there is an elsewhere; otherwise that is the error.
  Result<void> send_elsewhere(size_t u, Error failed) {
    const auto* compiler = units_[u].compiler;
    const bool library = compiler && compiler->is_library();
    if (!library && units_[u].device == home()) return failed;
    ledger_.add({"placement",
                 units_[u].provenance,
                 compiler ? compiler->id : devices_[units_[u].device]->kind,
                 "refused",
                 {},
                 failed.message(),
                 0});
    for (size_t g = 0; g < groups_.size(); ++g) {
      bool uses = !groups_[g].call && groups_[g].unit == u;
      for (const auto& pack : units_.packs(groups_[g].unit))
        uses = uses || (!groups_[g].call && pack.unit == u);
      if (uses)
        refusals_.groups.try_emplace(
            {placement_[g].group, placement_[g].device, library ? compiler : nullptr}, failed.message());
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

  bool is_port(BufferId b) const {
    const auto role = program_.buffers[b].role;
    return role == loop::Role::input || role == loop::Role::output;
  }

  Place place_of(BufferId b) const {
    const auto& buffer = program_.buffers[b];
    Place place;
    place.bytes = buffer.bytes();
    place.number = buffer.number;
    if (is_port(b)) place.device = executable_->ports_device();
    switch (buffer.role) {
      case loop::Role::input: place.kind = Place::Kind::input; break;
      case loop::Role::output: place.kind = Place::Kind::output; break;
      case loop::Role::constant: place.kind = Place::Kind::constant; break;
      case loop::Role::temporary:
        if (auto found = persistent_of_.find(b); found != persistent_of_.end()) {
          place.kind = Place::Kind::persistent;
          place.number = found->second;
          place.device = home();
        } else {
          const auto& offsets = arenas_[home()].offsets();
          place.device = home();
          if (auto offset = offsets.find(b); offset != offsets.end()) place.offset = offset->second;
        }
        break;
    }
    return place;
  }

  void link_launches() {
    Mirrors mirrors(*executable_, arenas_);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& state = groups_[g];
      auto& steps = state.init ? executable_->init : executable_->steps;
      Launch launch;
      launch.provenance = state.provenance;
      if (state.call) {
        if (const auto* call = region_call(g))
          link_region(g, *call, launch, mirrors);
        else
          link_call(g, launch, mirrors);
        steps.push_back(std::move(launch));
        continue;
      }
      const auto& unit = units_[state.unit];
      launch.kernel = static_cast<uint32_t>(state.unit);
      set_workspace(launch, g);
      for (size_t k = 0, b = 0; k < state.arguments.size(); ++k, ++b) {
        while (unit.group.kernel.buffers[b].kind == FE_BUFFER_LOCAL) ++b;
        const bool written = unit.group.kernel.buffers[b].kind == FE_BUFFER_OUTPUT;
        const auto packed = packed_place(state, k, unit.device, mirrors);
        launch.arguments.push_back(packed ? *packed
                                          : reach(mirrors, unit.device, state.arguments[k], written, steps));
      }
      steps.push_back(std::move(launch));
    }
    for (BufferId b : brought_home()) mirrors.bring_home(b, place_of(b), executable_->steps);
    executable_->estimate = estimate();
    if (const auto transfers = mirrors.transfers(); !transfers.empty())
      ledger_.add({"placement",
                   {},
                   {},
                   "transfers",
                   {},
                   "copies between memories, at load and in each run",
                   static_cast<double>(transfers.size())});
    if (devices_.size() > 1)
      record_placement(schedule_, placed_groups(), mirrors.transfers(), devices_, ledger_);
  }

  /// Of each group, by whom it was made and why it runs there.
  std::vector<PlacedGroup> placed_groups() const {
    std::vector<PlacedGroup> placed;
    for (size_t g = 0; g < groups_.size(); ++g) {
      const auto& state = groups_[g];
      std::string text;
      if (const auto* call = region_call(g))
        text = fmt::format("claimed by {} as {}", regions_[call->region].compiler->id,
                           regions_[call->region].name);
      else if (!state.call)
        text = fmt::format("by {} as {}", units_[state.unit].compiler->id, units_[state.unit].candidate_name);
      if (const auto& why = placement_[g].why; !why.empty() && !region_call(g))
        text += (text.empty() ? "" : "; ") + why;
      placed.push_back({state.provenance, device_of(g), state.init, std::move(text)});
    }
    return placed;
  }

  /// Seconds of a run: kernels by their candidates, launches by what their devices say that one takes, copies by what they move.
  double estimate() const {
    constexpr double bytes_a_second = 16e9;  // of the usual bus between host and device
    double seconds = 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].init) continue;
      if (const auto* call = region_call(g))
        seconds += regions_[call->region].cost;
      else if (!groups_[g].call)
        seconds += units_[groups_[g].unit].cost;
      seconds += static_cast<double>(devices_[device_of(g)]->numbers.values.launch_ns) * 1e-9;
    }
    for (const auto& launch : executable_->steps)
      if (launch.copy != no_copy) seconds += static_cast<double>(launch.arguments[0].bytes) / bytes_a_second;
    return seconds;
  }

  void set_workspace(Launch& launch, size_t g) const {
    const auto& workspaces = arenas_[device_of(g)].workspaces();
    if (const auto found = workspaces.find(g); found != workspaces.end()) launch.workspace = found->second;
  }

  Place reach(Mirrors& mirrors, uint32_t device, BufferId b, bool written, std::vector<Launch>& steps) {
    return mirrors.reach(device, b, place_of(b), written, steps);
  }

  /// The call of a region that a group is; null where it is none.
  const loop::CallInfo* region_call(size_t g) const {
    if (!groups_[g].call) return nullptr;
    const auto& call = program_.statements[schedule_.groups[g].statements[0]].call;
    return call.region == loop::none ? nullptr : &call;
  }

  /// The kernel of a region; equal regions are one.
  uint32_t region_kernel(size_t g, const loop::CallInfo& call) {
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

  void link_region(size_t g, const loop::CallInfo& call, Launch& launch, Mirrors& mirrors) {
    const auto& region = regions_[call.region];
    launch.kernel = region_kernel(g, call);
    set_workspace(launch, g);
    for (size_t k = 0; k < groups_[g].arguments.size(); ++k)
      launch.arguments.push_back(
          reach(mirrors, region.device, groups_[g].arguments[k], k >= call.reads.size(), executable_->steps));
  }

  void link_call(size_t g, Launch& launch, Mirrors& mirrors) {
    const auto& state = groups_[g];
    launch.call = program_.statements[schedule_.groups[g].statements[0]].call;
    for (size_t k = 0; k < state.arguments.size(); ++k)
      launch.arguments.push_back(
          reach(mirrors, home(), state.arguments[k], k >= launch.call.reads.size(), executable_->steps));
    for (BufferId b : state.arguments) launch.call_dims.push_back(program_.buffers[b].dims);
    for (size_t k = 0; k < state.arguments.size(); ++k) {
      auto type = abi::sized<fe_tensor_type>();
      type.dtype = static_cast<fe_dtype>(program_.buffers[state.arguments[k]].dtype);
      type.rank = static_cast<uint32_t>(launch.call_dims[k].size());
      type.dims = launch.call_dims[k].data();
      launch.call_types.push_back(type);
    }
  }

  /// Where a constant lies in the layout that the unit wants for it, which its packing kernel brings it into at load; none where it
  /// wants none.
  std::optional<Place> packed_place(const GroupState& state, size_t argument, uint32_t device,
                                    Mirrors& mirrors) {
    for (const auto& pack : units_.packs(state.unit)) {
      if (pack.argument != argument) continue;
      auto [found, added] = packed_.try_emplace({state.arguments[argument], pack.unit});
      if (!added) return found->second;
      Launch prepare;
      prepare.kernel = static_cast<uint32_t>(pack.unit);
      prepare.provenance = units_[pack.unit].provenance;
      for (const auto& buffer : units_[pack.unit].group.kernel.buffers) {
        if (buffer.kind != FE_BUFFER_OUTPUT) {
          prepare.arguments.push_back(
              reach(mirrors, device, state.arguments[argument], false, executable_->init));
          continue;
        }
        found->second.kind = Place::Kind::persistent;
        found->second.device = device;
        found->second.number = executable_->add_persistent(device, buffer.bytes());
        found->second.bytes = buffer.bytes();
        prepare.arguments.push_back(found->second);
      }
      executable_->init.push_back(std::move(prepare));
      return found->second;
    }
    return std::nullopt;
  }

  void describe_ports() {
    executable_->inputs = run::describe_ports(program_, program_.inputs);
    executable_->outputs = run::describe_ports(program_, program_.outputs);
    for (BufferId b : program_.outputs) executable_->output_places.push_back(place_of(program_.storage(b)));
  }

  const Schedule& schedule_;
  const loop::LoopProgram& program_;
  const Devices& devices_;
  const place::Placement& placement_;
  const std::vector<place::Region>& regions_;
  const BuildOptions options_;
  place::Refusals& refusals_;
  Ledger& ledger_;
  std::shared_ptr<Executable> executable_;
  std::vector<GroupState> groups_;
  std::set<BufferId> constants_;  ///< what init groups write
  std::map<BufferId, uint32_t> persistent_of_;
  Units units_;
  Codes codes_;
  std::optional<size_t> alone_;  // the unit of a kernel of no group
  std::map<std::pair<uint32_t, std::string>, size_t> region_kernels_;
  std::map<std::pair<BufferId, size_t>, Place> packed_;
  std::vector<ArenaPlan> arenas_;  // by device
  std::vector<std::string> blobs_;
  std::vector<std::string> kept_;  // by unit: its key, where the code is from the cache
  std::vector<std::string> code_;  // as the provider shows it, by unit
};

Builder::Builder(const Schedule& schedule, const Devices& devices, const place::Placement& placement,
                 const std::vector<place::Region>& regions, const BuildOptions& options,
                 place::Refusals& refusals, Ledger& ledger)
    : steps_(std::make_unique<Steps>(schedule, devices, placement, regions, options, refusals, ledger)) {}
Builder::~Builder() = default;
Result<void> Builder::select() { return steps_->select(); }
Result<void> Builder::select(const loop::Kernel& kernel) { return steps_->select(kernel); }
Result<void> Builder::emit() { return steps_->emit(); }
Result<void> Builder::load() { return steps_->load(); }
void Builder::plan() { steps_->plan(); }
Result<std::shared_ptr<Executable>> Builder::link() { return steps_->link(); }
std::string Builder::text() const { return steps_->text(); }
std::string Builder::code() const { return steps_->code(); }

}  // namespace ferrite::core::run
