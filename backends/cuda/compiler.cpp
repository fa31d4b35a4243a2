// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include "ferrite/emitter/grid_provider.h"
#include "target.h"

namespace ferrite::cuda {

namespace {

class Compiler final : public emitter::GridProvider {
 public:
  std::string id() const override { return "cuda"; }

 protected:
  emitter::Target machine_of(std::string_view description, emitter::GridNumbers& numbers) const override {
    initialise_llvm();
    const auto device = parse_device(description);
    numbers.bytes_a_second = device.gigabytes_a_second * 1'000'000'000;
    return target_of(device);
  }
  void mark_entry(llvm::Function& entry, unsigned threads) const override {
    entry.addFnAttr("nvvm.maxntid", std::to_string(threads));
  }
  emitter::GridCode generate(emitter::Machine& machine, llvm::Module& module, bool) const override {
    emitter::GridCode code;
    code.code = machine.assembly(module);
    return code;
  }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::cuda
