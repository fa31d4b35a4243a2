// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/CodeGen/MachineFunction.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Metadata.h>

#include <mutex>
#include <unordered_map>

#include "ferrite/emitter/gpu_provider.h"
#include "ferrite/emitter/provide.h"
#include "spell_out.h"
#include "target.h"

namespace ferrite::level_zero {

namespace {

/// By address of a function: how many block numbers have been used there.
using TakenNumbers = std::unordered_map<const llvm::MachineFunction*, unsigned>;

/// LLVM's code generator for SPIR-V keeps static tables that are indexed by a function's address and a
/// block's number, and never clears them. A later function may have the same address, so this pass never
/// reuses a number at an address. A function has slots for all smaller numbers, but no more than were used at
/// its address.
class NewBlockNumbers final : public llvm::MachineFunctionPass {
 public:
  explicit NewBlockNumbers(TakenNumbers& taken) : MachineFunctionPass(id), taken_(taken) {}
  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    auto& taken = taken_[&function];
    while (function.getNumBlockIDs() < taken) function.addToMBBNumbering(nullptr);
    for (auto& block : function) block.setNumber(static_cast<int>(function.addToMBBNumbering(&block)));
    taken = function.getNumBlockIDs();
    return true;
  }

 private:
  static inline char id = 0;  // LLVM identifies a pass by this address
  TakenNumbers& taken_;
};

class Compiler final : public emitter::GpuProvider {
 public:
  std::string id() const override { return "level_zero"; }

 protected:
  emitter::Target machine_of(std::string_view description, emitter::GpuNumbers& numbers) const override {
    initialise_llvm();
    const auto device = parse_device(description);
    numbers.bytes_a_second = device.gigabytes_a_second * 1'000'000'000;
    numbers.operations_a_cycle = device.lanes;
    numbers.line_bytes = 64;
    numbers.launch_ns = 5000;
    return target_of(device);
  }
  void mark_entry(llvm::Function& entry, unsigned threads) const override {
    auto& context = entry.getContext();
    const auto number = [&](unsigned value) -> llvm::Metadata* {
      return llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value));
    };
    entry.setMetadata("reqd_work_group_size",
                      llvm::MDNode::get(context, {number(threads), number(1), number(1)}));
  }
  emitter::GpuCode generate(emitter::Machine& machine, llvm::Module& module,
                            bool want_listing) const override {
    spell_out(module);
    emitter::verify_module(module, "ferrite.level_zero/emit");
    emitter::GpuCode code;
    // SPIR-V words are not readable text: list the module instead.
    if (want_listing) code.listing = "; as the code generator takes it\n" + emitter::listing_of(module);
    static std::mutex one_at_a_time;
    static TakenNumbers taken;
    const std::lock_guard lock(one_at_a_time);
    code.code = machine.object(module, std::make_unique<NewBlockNumbers>(taken));
    return code;
  }
  std::string_view comment_mark() const override { return ";"; }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::level_zero
