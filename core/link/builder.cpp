// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/link/builder.h"

#include <algorithm>
#include <set>
#include <span>

#include "core/ir/lexer/lexer.h"
#include "core/ir/loop/indexed.h"
#include "core/ir/text/loop_keywords.h"
#include "core/ir/text/print_loops.h"
#include "core/link/builder_state.h"
#include "core/observe/observation.h"
#include "core/schedule/names.h"
#include "core/select/decisions.h"
#include "core/select/propose.h"

namespace ferrite::core::link {
namespace {

bool is_checked(const loop::BodyOp& op) {
  return op.code == FE_OP_INDIRECT && (op.flags == FE_INDIRECT_CHECK || op.flags == FE_INDIRECT_WRAP);
}
bool checks_indices(const loop::Kernel& kernel) {
  return std::ranges::any_of(kernel.statements, [](const auto& statement) {
    return std::ranges::any_of(statement.ops, is_checked);
  });
}

/// The dims of argument buffers that checked indices address.
std::vector<CheckedDim> checked_dims(const loop::Kernel& kernel) {
  const auto list = loop::list_of(kernel);
  std::vector<uint32_t> arguments;
  uint32_t count = 0;
  for (const auto& buffer : kernel.buffers)
    arguments.push_back(buffer.kind == FE_BUFFER_LOCAL ? FE_NONE32 : count++);
  std::vector<CheckedDim> result;
  for (size_t s = 0; s < kernel.statements.size(); ++s)
    for (loop::OpId op = 0; op < kernel.statements[s].ops.size(); ++op) {
      if (!is_checked(kernel.statements[s].ops[op])) continue;
      for (const auto& [buffer, dim] : loop::dims_indexed_by(list, s, op)) {
        if (arguments[buffer] == FE_NONE32) continue;
        result.push_back({arguments[buffer], kernel.buffers[buffer].dims[dim],
                          loop::describe_dim(dim, {}, kernel.buffers[buffer])});
      }
    }
  return result;
}

}  // namespace

Result<void> Builder::State::select() {
  find_init_groups();
  const schedule::KernelMaker kernels(schedule_);
  for (size_t g = 0; g < schedule_.groups.size(); ++g) FE_CHECK(add_group(kernels, g));
  return choose_candidates();
}

Result<void> Builder::State::select(const loop::Kernel& kernel) {
  schedule::GroupKernel group{kernel, {}};
  for (BufferId b = 0; b < kernel.buffers.size(); ++b) {
    auto& buffer = group.kernel.buffers[b];
    if (buffer.kind != FE_BUFFER_LOCAL) group.arguments.push_back(b);
    // The provider decides again how a constant is packed, even where it decided before.
    if (!buffer.packing) continue;
    buffer.packing.reset();
    buffer.strides = ferrite::loop::contiguous_strides(buffer.dims);
  }
  FE_TRY(alone_, instances_.add(group, "kernel", default_device()));
  return choose_candidates();
}

Result<void> Builder::State::load() {
  if (!options_.load) {
    // Code for another machine is test-loaded here where this machine can load it.
    FE_TRY([[maybe_unused]] const bool changed, compile_unloadable_anew());
    return {};
  }
  // Regions get their kernels here, because load_code() needs the code of all kernels.
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

std::string Builder::State::text() const {
  auto text =
      fmt::format("{} {} {}\n", loop::keyword::ferrite, loop::keyword::listing, loop::keyword::version);
  for (const auto& instance : instances_) {
    text += fmt::format("kernel {} from {} candidate {} {{\n", instance.entry,
                        text::quote(instance.provenance), text::quote(instance.candidate_name));
    text += loop::indented(loop::print(instance.group.kernel));
    text += "}\n";
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    const auto& state = groups_[g];
    std::string arguments;
    for (BufferId b : state.arguments) arguments += fmt::format("{}@{}", arguments.empty() ? "" : ", ", b);
    const auto& statement = program_.statements[schedule_.groups[g].statements[0]];
    text += fmt::format("group {} {} {}({})\n", g, state.init ? "init" : "run",
                        state.call ? text::quote(statement.call.name) : instances_[state.instance].entry,
                        arguments);
  }
  for (uint32_t d = 0; d < devices_.size(); ++d) {
    if (d != default_device() && arenas_[d].bytes() == 0) continue;
    text += fmt::format("plan {} bytes {}{{\n{}}}\n", arenas_[d].bytes(),
                        d == default_device() ? "" : fmt::format("on {} ", devices_[d]->place()),
                        arenas_[d].text());
  }
  return text;
}

std::string Builder::State::code() const {
  std::string text = "ferrite code 0\n";
  for (size_t u = 0; u < instances_.size(); ++u) {
    text += fmt::format("kernel {} from {} candidate {} {{\n", instances_[u].entry,
                        text::quote(instances_[u].provenance), text::quote(instances_[u].candidate_name));
    text += loop::indented(code_[u]) + "}\n";
  }
  return text;
}

Result<void> Builder::State::emit() {
  FE_CHECK(compile_instances());
  if (blobs_.size() == instances_.size()) record_kernels();
  return {};
}

void Builder::State::find_init_groups() {
  groups_.resize(schedule_.groups.size());
  const auto init = schedule::init_groups(schedule_);
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].init = init[g];
  constants_ = schedule::init_buffers(schedule_, init);
  for (BufferId b : constants_)
    persistent_of_.emplace(b, executable_->add_persistent(default_device(), program_.buffers[b].bytes()));
}

Result<void> Builder::State::add_group(const schedule::KernelMaker& kernels, size_t g) {
  auto& state = groups_[g];
  const auto& members = schedule_.groups[g].statements;
  const auto& statement = program_.statements[members[0]];
  std::vector<std::string> names;
  for (uint32_t s : members)
    for (auto& name : schedule::node_names(program_.statements[s]))
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
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
  FE_TRY(state.instance,
         instances_.add(group, state.provenance, choice.device, choice.compiler, choice.candidate));
  state.arguments = std::move(group.arguments);
  return {};
}

Result<void> Builder::State::choose_candidates() {
  FE_TRY(const auto number,
         instances_.choose([&](size_t u, Error failed) { return send_elsewhere(u, std::move(failed)); }));
  for (auto& group : groups_)
    if (!group.call) group.instance = number[group.instance];
  if (alone_) alone_ = number[*alone_];
  return {};
}

Result<void> Builder::State::compile_instances() {
  auto made = compiled_.make(instances_);
  bool failed = false;
  for (size_t u = 0; u < instances_.size(); ++u) {
    if (!made[u].failed) continue;
    failed = true;
    FE_CHECK(refuse(u, std::move(*made[u].failed)));
  }
  if (failed) return {};
  if (options_.observation) options_.observation->kernels.clear();
  for (size_t u = 0; u < instances_.size(); ++u) {
    compiled_.keep(instances_[u], made[u]);
    take(u, std::move(made[u]));
  }
  return {};
}

void Builder::State::take(size_t u, Code code) {
  auto& made = code.kernel;
  const size_t count = std::max(u + 1, blobs_.size());
  executable_->kernels.resize(std::max(count, executable_->kernels.size()));
  blobs_.resize(count);
  code_.resize(count);
  kept_.resize(count);
  // Only code from the cache has a key here; compile_unloadable_anew() compiles these again.
  kept_[u] = code.found ? std::move(code.key) : std::string();
  auto& kernel = executable_->kernels[u];
  kernel.device = instances_[u].device;
  if (instances_[u].compiler->is_library()) kernel.library = instances_[u].compiler;
  kernel.entry = instances_[u].entry;
  kernel.provenance = instances_[u].provenance;
  kernel.candidate = instances_[u].candidate_name;
  kernel.tasks = made.tasks;
  kernel.grain = made.grain;
  kernel.workspace_bytes = made.workspace_bytes;
  kernel.checks_indices = checks_indices(instances_[u].group.kernel);
  kernel.checked_dims = checked_dims(instances_[u].group.kernel);
  kernel.registers = made.registers;
  kernel.spills = made.spills;
  kernel.shared_bytes = made.shared_bytes;
  if (log::enabled("kernels"))
    log::write("kernels", fmt::format("{} from {}\n{}", kernel.entry, kernel.provenance,
                                      loop::print(instances_[u].group.kernel)));
  if (!made.listing.empty() && log::enabled("output_code")) log::write("output_code", made.listing);
  if (options_.observation) observe_kernel(u, made);
  code_[u] = std::move(made.listing);
  blobs_[u] = std::move(made.blob);
}

Result<bool> Builder::State::compile_unloadable_anew() {
  bool any = false;
  // After the instances there may be regions, which are not cached.
  for (size_t u = 0; u < std::min(kept_.size(), instances_.size()); ++u) {
    const auto& device = *devices_[instances_[u].device];
    if (kept_[u].empty() || (!options_.load && !device.refusal(device.description).empty())) continue;
    Executable alone;
    alone.devices = devices_;
    alone.kernels = {executable_->kernels[u]};
    const auto loaded = alone.load_code(std::span(&blobs_[u], 1));
    if (loaded) continue;
    any = true;
    // The message of FE-P67 is complete without a prefix.
    const char* what = loaded.error().code == "FE-P67" ? "" : "its code cannot be loaded: ";
    FE_TRY(auto made, compiled_.make_anew(instances_[u], kept_[u], what + loaded.error().message()));
    take(u, std::move(made));
    ledger_.add({"kernel", instances_[u].provenance, instances_[u].candidate_name, "compiled anew", "damaged",
                 instances_[u].entry, static_cast<double>(blobs_[u].size())});
  }
  return any;
}

void Builder::State::observe_kernel(size_t u, const cache::CompiledKernel& made) {
  const auto& instance = instances_[u];
  observe::Kernel seen{instance.entry,
                       instance.provenance,
                       instance.candidate_name,
                       observe::facts_of(instance.group.kernel),
                       loop::print(instance.group.kernel),
                       made.listing,
                       made.registers,
                       made.spills,
                       made.shared_bytes};
  auto& kernels = options_.observation->kernels;
  kernels.resize(std::max(u + 1, kernels.size()));
  kernels[u] = std::move(seen);
}

void Builder::State::observe_loaded() {
  if (!options_.observation) return;
  auto& seen = options_.observation->kernels;
  for (size_t u = 0; u < seen.size(); ++u) {
    const auto& kernel = executable_->kernels[u];
    seen[u].registers = kernel.registers;
    seen[u].spills = kernel.spills;
    seen[u].shared_bytes = kernel.shared_bytes;
  }
}

bool Builder::State::forgive(const Error& failed) {
  bool dropped = false;
  for (const auto& instance : instances_)
    dropped = blocklist_.forgive(*instance.compiler, failed, ledger_) || dropped;
  return dropped;
}

Error Builder::State::with_makers(Error failed) const {
  std::set<std::string> makers;
  const auto add = [&](const Compiler& compiler) {
    makers.insert(fmt::format("provider '{}' of {}", compiler.id, compiler.plugin->id));
  };
  for (const auto& instance : instances_) add(*instance.compiler);
  for (const auto& region : regions_) add(*region.compiler);
  failed.text += fmt::format("; the loaded code was made by {}", fmt::join(makers, ", "));
  return failed;
}

Result<void> Builder::State::refuse(size_t u, Error failed) {
  if (blocklist_.forgive(*instances_[u].compiler, failed, ledger_)) return {};
  return send_elsewhere(u, std::move(failed));
}

Result<void> Builder::State::send_elsewhere(size_t u, Error failed) {
  const auto* compiler = instances_[u].compiler;
  const bool library = compiler && compiler->is_library();
  if (!library && instances_[u].device == default_device()) return failed;
  ledger_.add({"placement",
               instances_[u].provenance,
               compiler ? compiler->id : devices_[instances_[u].device]->kind,
               "refused",
               {},
               failed.message(),
               0});
  for (size_t g = 0; g < groups_.size(); ++g) {
    bool uses = !groups_[g].call && groups_[g].instance == u;
    for (const auto& pack : instances_.packs(groups_[g].instance))
      uses = uses || (!groups_[g].call && pack.instance == u);
    if (uses)
      blocklist_.groups.try_emplace({placement_[g].group, placement_[g].device, library ? compiler : nullptr},
                                    failed.message());
  }
  return {};
}

void Builder::State::record_kernels() {
  std::vector<bool> seen(instances_.size());
  const auto add = [&](const std::string& provenance, std::optional<size_t> instance) {
    LedgerRecord record{"kernel", provenance, {}, "called", {}, {}, 0};
    if (instance) {
      record.object = instances_[*instance].candidate_name;
      record.outcome = seen[*instance] ? "reused" : "compiled";
      record.text = instances_[*instance].entry;
      record.score = static_cast<double>(blobs_[*instance].size());
      seen[*instance] = true;
    }
    ledger_.add(std::move(record));
  };
  for (const auto& state : groups_)
    add(state.provenance, state.call ? std::nullopt : std::optional(state.instance));
  if (alone_) add(instances_[*alone_].provenance, alone_);
  for (size_t u = 0; u < instances_.size(); ++u)
    if (!seen[u])
      ledger_.add({"packing",
                   instances_[u].provenance,
                   instances_[u].candidate_name,
                   "compiled",
                   {},
                   instances_[u].entry,
                   static_cast<double>(blobs_[u].size())});
}

Builder::Builder(const Schedule& schedule, const Devices& devices, const select::Placement& placement,
                 const std::vector<select::Region>& regions, const BuildOptions& options,
                 select::CandidateBlocklist& blocklist, Ledger& ledger)
    : state_(std::make_unique<State>(schedule, devices, placement, regions, options, blocklist, ledger)) {}
Builder::~Builder() = default;
Result<void> Builder::select() { return state_->select(); }
Result<void> Builder::select(const loop::Kernel& kernel) { return state_->select(kernel); }
Result<void> Builder::emit() { return state_->emit(); }
Result<void> Builder::load() { return state_->load(); }
void Builder::plan() { state_->plan(); }
Result<std::shared_ptr<Executable>> Builder::link() { return state_->link(); }
std::string Builder::text() const { return state_->text(); }
std::string Builder::code() const { return state_->code(); }

}  // namespace ferrite::core::link
