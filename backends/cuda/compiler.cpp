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
  emitter::GridDevice parse(std::string_view description) const override { return parse_device(description); }
  emitter::Target target_of(const emitter::GridDevice& device) const override {
    initialise_llvm();
    return cuda::target_of(device);
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
