// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include "ferrite/emitter/contract.h"
#include "ferrite/emitter/kernel_emitter.h"
#include "ferrite/emitter/machine.h"
#include "ferrite/kernel.hpp"
#include "target.h"

namespace ferrite::cpu {

namespace {

struct CpuTarget : Target {
  emitter::Target machine;
};

constexpr uint64_t plain = 0, packed = 1;  // candidates

loop::Kernel read(Bytes bytes) {
  std::string error;
  auto kernel = read_kernel(bytes, &error);
  if (!kernel) fail("ferrite.cpu/kernel", "the kernel cannot be read: ", error);
  return std::move(*kernel);
}

std::string comment(std::string_view text, std::string_view mark) {
  std::string result;
  while (!text.empty()) {
    auto line = text.substr(0, text.find('\n'));
    result += std::string(mark) + " " + std::string(line) + "\n";
    text.remove_prefix(std::min(text.size(), line.size() + 1));
  }
  return result;
}

class Compiler final : public Provider {
 public:
  std::string id() const override { return "cpu"; }
  std::string device_kind() const override { return "cpu"; }

  std::unique_ptr<Target> open_target(Bytes description) override {
    auto target = std::make_unique<CpuTarget>();
    target->machine = parse_target({reinterpret_cast<const char*>(description.data()), description.size()});
    const auto& machine = target->machine;
    target->name = machine.triple + " " + (machine.cpu.empty() ? "generic" : machine.cpu);
    target->vector_bytes = machine.vector_bytes;
    target->buffer_alignment = 64;
    target->local_bytes = machine.l2_bytes / 2;
    return target;
  }

  std::vector<Candidate> propose(Target& target, Bytes bytes) override {
    const auto& machine = static_cast<CpuTarget&>(target).machine;
    auto kernel = read(bytes);
    if (auto reason = emitter::unsupported_reason(machine, kernel); !reason.empty()) decline(reason);
    std::vector<Candidate> candidates(1);
    candidates[0].id = plain;
    candidates[0].name = "llvm";
    candidates[0].cost = emitter::estimate_seconds(machine, kernel);
    auto layouts = emitter::propose_contract_layouts(machine, kernel);
    if (layouts.empty()) return candidates;
    Candidate better = candidates[0];
    better.id = packed;
    better.name = "llvm.packed";
    better.cost *= 0.9;
    for (auto& layout : layouts)
      better.operand_layouts.push_back(
          {layout.buffer, std::move(layout.dims), std::move(layout.exprs), std::move(layout.unpack)});
    candidates.insert(candidates.begin(), std::move(better));
    return candidates;
  }

  CompileResult compile(Target& target, const CompileRequest& request) override {
    const auto& description = static_cast<CpuTarget&>(target).machine;
    emitter::Machine machine(description);
    llvm::LLVMContext context;
    auto emitted = emitter::emit_kernel(context, description, read(request.kernel), request.entry);
    auto& module = *emitted.module;
    std::string problem;
    llvm::raw_string_ostream stream(problem);
    if (llvm::verifyModule(module, &stream))
      throw Failure(FE_EINTERNAL, "ferrite.cpu/emit", "the emitter made a malformed module: " + problem);
    machine.optimise(module);
    CompileResult result;
    result.tasks = emitted.tasks;
    result.grain = emitted.grain;
    result.workspace_bytes = emitted.workspace_bytes;
    if (request.want_listing) result.listing = list(machine, module, request);
    result.blob = machine.object(module);
    return result;
  }

  std::string fingerprint() override {
    initialise_llvm();
    return "llvm " LLVM_VERSION_STRING " emitter 1 " + describe_host();
  }

 private:
  /// Provenance, IR, assembly. The code generator changes the module, so the assembly is made of a copy.
  static std::string list(emitter::Machine& machine, const llvm::Module& module,
                          const CompileRequest& request) {
    auto copy = llvm::CloneModule(module);
    return comment(request.provenance, ";") + emitter::listing_of(module) + "\n" + machine.assembly(*copy);
  }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::cpu
