// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Metadata.h>

#include "ferrite/emitter/grid_provider.h"
#include "ferrite/emitter/provide.h"
#include "spell_out.h"
#include "target.h"

namespace ferrite::level_zero {

namespace {

class Compiler final : public emitter::GridProvider {
 public:
  std::string id() const override { return "level_zero"; }

 protected:
  emitter::Target machine_of(std::string_view description, emitter::GridNumbers& numbers) const override {
    initialise_llvm();
    const auto device = parse_device(description);
    numbers.multiprocessors = device.units;
    numbers.bytes_a_second = device.gigabytes_a_second * 1'000'000'000;
    numbers.operations_a_cycle = device.lanes;
    numbers.line_bytes = 64;
    numbers.launch_ns = 5000;
    return target_of(device);
  }
  void mark_entry(llvm::Function& entry, unsigned threads) const override {
    auto& context = entry.getContext();
    const auto number = [&](unsigned value) -> llvm::Metadata* {
      return llvm::ConstantAsMetadata::get(
          llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), value));
    };
    entry.setMetadata("reqd_work_group_size",
                      llvm::MDNode::get(context, {number(threads), number(1), number(1)}));
  }
  emitter::GridCode generate(emitter::Machine& machine, llvm::Module& module,
                             const emitter::Target&) const override {
    spell_out(module);
    emitter::verify_module(module, "ferrite.level_zero/emit");
    emitter::GridCode code;
    // The words are no text: what they are made of stands for them.
    code.listing = "; as the code generator takes it\n" + emitter::listing_of(module);
    code.code = machine.object(module);
    return code;
  }
  std::string_view comment_mark() const override { return ";"; }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::level_zero
