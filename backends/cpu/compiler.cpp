// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <algorithm>

#include "ferrite/emitter/gemm.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/machine.h"
#include "ferrite/emitter/provide.h"
#include "ferrite/emitter/rematerialise.h"
#include "launch_needs.h"
#include "target.h"

namespace ferrite::cpu {

namespace {

constexpr const char* kernel_error = "ferrite.cpu/kernel";

struct CpuTarget : Target {
  emitter::Target machine;
};

/// The configuration of a candidate, apart from its layouts; the candidate's id encodes all of it.
struct Config {
  bool packed = false;
  emitter::GemmConfig contract;
  unsigned unroll = 0;          // unrolling of element-wise loops
  bool half_vectors = false;    // half-width vectors in element-wise loops
  bool rematerialised = false;  // rows are recomputed (rematerialise)

  uint64_t id() const {
    return uint64_t{packed} | static_cast<uint64_t>(contract.rows) << 8 |
           static_cast<uint64_t>(contract.vectors) << 16 |
           static_cast<uint64_t>(contract.tasks == 0 ? 0 : contract.tasks + 2) << 24 |
           uint64_t{unroll} << 32 | uint64_t{half_vectors} << 40 | uint64_t{rematerialised} << 48 |
           uint64_t{contract.winograd} << 56;
  }
  static Config of(uint64_t id) {
    const auto byte = [&](unsigned at) { return static_cast<int>(id >> at & 0xff); };
    Config config;
    config.packed = byte(0) != 0;
    config.contract = {byte(8), byte(16), byte(24) == 0 ? 0 : byte(24) - 2, byte(56) != 0};
    config.unroll = static_cast<unsigned>(byte(32));
    config.half_vectors = byte(40) != 0;
    config.rematerialised = byte(48) != 0;
    return config;
  }
  /// "llvm.packed.6x2": rows and vectors of the register block; "llvm.packed.winograd"; "llvm.unroll4".
  std::string name() const {
    std::string text = packed ? "llvm.packed" : "llvm";
    if (contract.rows > 0)
      text += "." + std::to_string(contract.rows) + "x" + std::to_string(contract.vectors);
    if (contract.winograd) text += ".winograd";
    if (contract.tasks != 0) text += contract.tasks < 0 ? ".few_tasks" : ".many_tasks";
    if (unroll > 0) text += ".unroll" + std::to_string(unroll);
    if (half_vectors) text += ".half_vectors";
    if (rematerialised) text += ".rematerialised";
    return text;
  }
  emitter::Target machine(emitter::Target target) const {
    target.unroll = unroll;
    if (half_vectors) target.vector_bytes /= 2;
    return target;
  }
};

class Compiler final : public Provider {
 public:
  explicit Compiler(const Settings& settings) : settings_(settings) {}

  std::string id() const override { return "cpu"; }
  std::string device_kind() const override { return "cpu"; }
  uint64_t features() const override { return FE_FLAT_PROLOGUES; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    auto target = std::make_unique<CpuTarget>();
    target->machine = parse_target({reinterpret_cast<const char*>(description.data()), description.size()});
    const auto& machine = target->machine;
    target->name = machine.triple + " " + (machine.cpu.empty() ? "generic" : machine.cpu);
    target->vector_bytes = machine.vector_bytes;
    target->buffer_alignment = 64;
    target->local_bytes = machine.l2_bytes / 2;
    // In a channels-last window, vectors run along the channels; other layouts would need gathers.
    target->numbers.activations = FE_ACTIVATIONS_CHANNELS_LAST;
    target->numbers.line_bytes = emitter::cache_line;
    target->numbers.page_bytes = emitter::page_bytes;
    target->row_alignment = settings_.row_alignment;
    target->row_padding_percent = settings_.row_padding_percent;
    target->row_padding_from = settings_.row_padding_from;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    const auto& machine = static_cast<CpuTarget&>(target).machine;
    auto kernel = emitter::read_kernel_bytes(bytes, kernel_error);
    if (auto reason = emitter::unsupported_reason(machine, kernel); !reason.empty()) decline(reason);
    const double seconds = emitter::estimate_seconds(machine, kernel);
    std::vector<Candidate> candidates;
    const auto add = [&](const Config& config, double cost) -> Candidate& {
      auto& candidate = candidates.emplace_back();
      candidate.id = config.id();
      candidate.name = config.name();
      candidate.cost = cost;
      return candidate;
    };
    // The emitter's preferred option comes first and has the lowest cost; the others are there to be
    // measured.
    auto options = emitter::gemm_options(machine, kernel, settings_.winograd);
    const bool packs = !options.empty() && !options[0].layouts.empty();
    for (const auto& option : options) {
      // Packed operands are read in order: prefer them slightly over the same kernel without packing.
      auto& candidate =
          add({.packed = packs, .contract = option.config}, seconds * option.time * (packs ? 0.9 : 1));
      for (const auto& layout : option.layouts)
        candidate.operand_layouts.push_back({layout.buffer, layout.dims, layout.exprs, layout.unpack,
                                             layout.terms, layout.factor_dim, layout.factors});
    }
    if (options.empty() || packs) add({}, seconds);
    if (!options.empty()) return candidates;
    // The cost model cannot rank these variants: put them just after the default.
    constexpr double unknown = 1.02;
    Config other;
    for (other.unroll = 1; other.unroll <= 4; other.unroll *= 4) add(other, seconds * unknown);
    other.unroll = 0;
    other.half_vectors = true;
    if (machine.vector_bytes > 16) add(other, seconds * unknown);
    other = {};
    other.rematerialised = emitter::rematerialise(kernel);
    if (other.rematerialised) add(other, seconds * unknown);
    return candidates;
  }

  CompileResult compile(Target& target, const CompileRequest& request) override {
    const auto config = Config::of(request.candidate);
    const auto description = config.machine(static_cast<CpuTarget&>(target).machine);
    emitter::Machine machine(machines_, description);
    llvm::LLVMContext context;
    auto kernel = emitter::read_kernel_bytes(request.kernel, kernel_error);
    // The loops of contractions need the slow passes of the code generator; others rarely do.
    if (std::ranges::none_of(kernel.statements, [](const loop::Statement& statement) {
          return statement.kind == FE_STATEMENT_CONTRACT;
        }))
      machine.compile_long_code_fast();
    if (config.rematerialised) emitter::rematerialise(kernel);
    const auto arguments = emitter::arguments_of(kernel);
    auto emitted =
        emitter::emit_kernel(context, description, std::move(kernel), request.entry, config.contract);
    auto& module = *emitted.module;
    add_needs(module, request.entry, {emitted.tasks, emitted.grain, emitted.workspace_bytes, arguments});
    emitter::verify_module(module, "ferrite.cpu/emit");
    machine.optimise(module);
    CompileResult result;
    result.tasks = emitted.tasks;
    result.grain = emitted.grain;
    result.workspace_bytes = emitted.workspace_bytes;
    if (request.want_listing) result.listing = list(machine, module, request);
    result.blob = machine.object(module);
    result.spills = machine.spills();
    result.shared_bytes = 0;  // a core has no shared memory, only caches
    return result;
  }

  std::string fingerprint() override {
    initialise_llvm();
    return "llvm " LLVM_VERSION_STRING " emitter 7 " + describe_host();
  }

 private:
  const Settings settings_;
  emitter::Machines machines_;

  /// Provenance, IR and assembly. The code generator changes the module, so the assembly comes from a copy.
  static std::string list(emitter::Machine& machine, const llvm::Module& module,
                          const CompileRequest& request) {
    auto copy = llvm::CloneModule(module);
    return emitter::comment(request.provenance, ";") + emitter::listing_of(module) + "\n" +
           machine.assembly(*copy);
  }
};

}  // namespace

Settings settings_of(const AttrView& config) {
  return {static_cast<uint32_t>(config.integer("row_alignment", 0)),
          static_cast<uint32_t>(config.integer("row_padding_percent", 0)),
          config.integer("row_padding_from", 0), !config.has("winograd") || config.boolean("winograd")};
}

std::unique_ptr<Provider> make_compiler(const Settings& settings) {
  return std::make_unique<Compiler>(settings);
}

}  // namespace ferrite::cpu
