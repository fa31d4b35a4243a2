// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ferrite/emitter/machine.h"

#include <llvm/ADT/ScopeExit.h>
#include <llvm/ADT/StringExtras.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/IR/DiagnosticHandler.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/OptBisect.h>
#include <llvm/IR/PassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Mem2Reg.h>

#include <algorithm>

#include "backends/llvm/target/instruction_order.h"
#include "ferrite/error.hpp"

namespace ferrite::emitter {
namespace {

/// Completes the unused lanes of byte shuffles: as part of a reversal if the used lanes are one, else with
/// the lane itself. The x86 code generator of LLVM 22 does not terminate for some combined loads whose
/// shuffles have unused lanes.
void complete_byte_shuffles(llvm::Function& function) {
  for (auto& block : function)
    for (auto& instruction : block) {
      auto* shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&instruction);
      if (!shuffle || !shuffle->getType()->getElementType()->isIntegerTy(8) || shuffle->changesLength())
        continue;
      const auto mask = shuffle->getShuffleMask();
      llvm::SmallVector<int, 64> reversal, complete;
      bool reverses = true;
      for (size_t k = 0; k < mask.size(); ++k) {
        const bool spare = mask[k] == llvm::PoisonMaskElem;
        reversal.push_back(static_cast<int>(mask.size() - 1 - k));
        complete.push_back(spare ? static_cast<int>(k) : mask[k]);
        reverses = reverses && (spare || mask[k] == reversal[k]);
      }
      shuffle->setShuffleMask(reverses ? reversal : complete);
    }
}

/// Replaces masked stores with exactly one known lane by plain stores. The x86 code generator of LLVM 22
/// writes such a lane at its width before the truncation that it merges into the store.
void store_single_lanes(llvm::Function& function) {
  for (auto& block : function)
    for (auto& instruction : llvm::make_early_inc_range(block)) {
      auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      if (!call || call->getIntrinsicID() != llvm::Intrinsic::masked_store) continue;
      const auto* mask = llvm::dyn_cast<llvm::Constant>(call->getArgOperand(2));
      const auto* type = llvm::dyn_cast<llvm::FixedVectorType>(call->getArgOperand(0)->getType());
      if (!mask || !type) continue;
      unsigned stored = 0, lane = 0;
      for (unsigned k = 0; k < type->getNumElements(); ++k) {
        const auto* bit = mask->getAggregateElement(k);
        if (bit && bit->isNullValue()) continue;
        ++stored;
        lane = k;
      }
      if (stored != 1) continue;
      llvm::IRBuilder<> builder(call);
      const uint64_t bytes = type->getScalarSizeInBits() / 8;
      auto* pointer =
          builder.CreateConstInBoundsGEP1_64(type->getElementType(), call->getArgOperand(1), lane);
      auto* store = builder.CreateAlignedStore(
          builder.CreateExtractElement(call->getArgOperand(0), static_cast<uint64_t>(lane)), pointer,
          llvm::Align(std::max<uint64_t>(1, bytes)));
      store->copyMetadata(*call, {llvm::LLVMContext::MD_alias_scope, llvm::LLVMContext::MD_noalias});
      call->eraseFromParent();
    }
}

/// Runs all passes except loop strength reduction, which compares all ways to compute all addresses of a loop
/// together; that takes too long for loops of many operations.
class WithoutStrengthReduction final : public llvm::OptPassGate {
 public:
  bool isEnabled() const override { return true; }
  bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override {
    return pass != "Loop Strength Reduction";
  }
};

/// Sums up the spills that the register allocator reports in its remarks.
class SpillCounter final : public llvm::DiagnosticHandler {
 public:
  explicit SpillCounter(int64_t& spills) : spills_(spills) {}
  bool isMissedOptRemarkEnabled(llvm::StringRef pass) const override { return pass == allocator; }
  bool isAnyRemarkEnabled() const override { return true; }
  bool handleDiagnostics(const llvm::DiagnosticInfo& info) override {
    const auto* remark = llvm::dyn_cast<llvm::DiagnosticInfoOptimizationBase>(&info);
    if (!remark) return false;
    // There are separate remarks for loops, which this remark includes.
    if (remark->getPassName() == allocator && remark->getRemarkName() == "SpillReloadCopies")
      for (const auto& argument : remark->getArgs()) {
        int64_t count = 0;
        if ((argument.Key == "NumSpills" || argument.Key == "NumFoldedSpills") &&
            llvm::to_integer(argument.Val, count))
          spills_ += count;
      }
    return true;
  }

 private:
  static constexpr llvm::StringRef allocator = "regalloc";
  int64_t& spills_;
};

/// The key of a code generator: the properties of the target that it depends on.
std::string code_of(const Target& target) {
  return target.triple + '\n' + target.cpu + '\n' + target.features;
}

}  // namespace

Machines::Taken Machines::take(const Target& target) {
  // Reuse a machine for the same target if one is free.
  {
    const std::lock_guard lock(mutex_);
    const auto kept = std::ranges::find(kept_, code_of(target), &decltype(kept_)::value_type::first);
    if (kept != kept_.end()) {
      auto machine = std::move(kept->second);
      kept_.erase(kept);
      return machine;
    }
  }
  std::string error;
  llvm::Triple triple(target.triple);
  const auto* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) fail("FE-K40", "no code generator for '", target.triple, "': ", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  Taken machine(found->createTargetMachine(triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
                                           std::nullopt, llvm::CodeGenOptLevel::Default, true));
  if (!machine) fail("FE-K40", "no code generator for '", target.triple, "' with cpu '", target.cpu, "'");
  return machine;
}

void Machines::give_back(const Target& target, Taken machine) {
  // LLVM 22's machine for code that is optimised later keeps references to types of the modules it compiled.
  if (target.optimised_later) return;
  machine->setOptLevel(llvm::CodeGenOptLevel::Default);  // like a new machine
  const std::lock_guard lock(mutex_);
  kept_.emplace_back(code_of(target), std::move(machine));
}

Machine::Machine(Machines& machines, const Target& target)
    : machines_(machines), target_(target), machine_(machines.take(target)) {}

Machine::~Machine() {
  if (!failed_) machines_.give_back(target_, std::move(machine_));
}

void Machine::optimise(llvm::Module& module) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder passes(machine_.get());
  passes.registerModuleAnalyses(modules);
  passes.registerCGSCCAnalyses(graphs);
  passes.registerFunctionAnalyses(functions);
  passes.registerLoopAnalyses(loops);
  passes.crossRegisterProxies(loops, functions, graphs, modules);
  llvm::FunctionPassManager pipeline;
  pipeline.addPass(llvm::SROAPass(llvm::SROAOptions::PreserveCFG));
  pipeline.addPass(llvm::EarlyCSEPass());
  pipeline.addPass(llvm::InstCombinePass());
  pipeline.addPass(llvm::createFunctionToLoopPassAdaptor(llvm::LICMPass(llvm::LICMOptions()), true));
  pipeline.addPass(llvm::SimplifyCFGPass());
  for (auto& function : module) {
    if (function.isDeclaration()) continue;
    pipeline.run(function, functions);
    // After all passes that could create such shuffles and stores again.
    complete_byte_shuffles(function);
    store_single_lanes(function);
  }
}

std::string Machine::generate(llvm::Module& module, llvm::CodeGenFileType type,
                              std::unique_ptr<llvm::Pass> last) {
  failed_ = true;  // until code generation has succeeded
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  constexpr unsigned long_code = 300;  // instructions
  unsigned instructions = 0;
  for (const auto& function : module) instructions += function.getInstructionCount();
  const bool fast = fast_ && instructions > long_code;
  WithoutStrengthReduction without;
  auto& context = module.getContext();
  auto& usual = context.getOptPassGate();
  if (fast) context.setOptPassGate(without);
  const auto restore = llvm::make_scope_exit([&] { context.setOptPassGate(usual); });
  machine_->setOptLevel(target_.optimised_later ? llvm::CodeGenOptLevel::None
                        : fast                  ? llvm::CodeGenOptLevel::Less
                                                : llvm::CodeGenOptLevel::Default);
  llvm::legacy::PassManager passes;
  // As addPassesToEmitFile does, but without the scheduler: it would separate interleaved instructions again
  // to save registers. Without a fused multiply-add, registers are scarce, and it stays.
  auto* config = machine_->createPassConfig(passes);
  if (target_.fused_multiply_add && std::ranges::any_of(module, is_side_by_side))
    config->disablePass(&llvm::MachineSchedulerID);
  auto* information = new llvm::MachineModuleInfoWrapperPass(machine_.get());
  passes.add(config);
  passes.add(information);
  bool declined = config->addISelPasses();
  if (!declined) {
    config->addMachinePasses();
    config->setInitialized();
    if (last) passes.add(last.release());
    declined = machine_->addAsmPrinter(passes, stream, nullptr, type, information->getMMI().getContext());
  }
  if (declined) fail("FE-K41", "the code generator cannot write this kind of file");
  passes.add(llvm::createFreeMachineFunctionPass());
  spills_ = 0;
  auto before = context.getDiagnosticHandler();
  context.setDiagnosticHandler(std::make_unique<SpillCounter>(spills_), true);
  passes.run(module);
  context.setDiagnosticHandler(std::move(before));
  failed_ = false;
  return {bytes.begin(), bytes.end()};
}

std::string Machine::object(llvm::Module& module, std::unique_ptr<llvm::Pass> last) {
  return generate(module, llvm::CodeGenFileType::ObjectFile, std::move(last));
}
std::string Machine::assembly(llvm::Module& module) {
  return generate(module, llvm::CodeGenFileType::AssemblyFile, nullptr);
}

std::string listing_of(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

}  // namespace ferrite::emitter
