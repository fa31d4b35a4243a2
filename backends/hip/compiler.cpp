// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler.h"

#include <llvm/Transforms/Utils/Cloning.h>

#include <utility>

#include "code_object.h"
#include "ferrite/emitter/gpu_provider.h"
#include "target.h"

namespace ferrite::hip {

namespace {

constexpr uint32_t code_object_version = 500;
// Kernels do not use these inputs; the attributes save their arguments and registers.
constexpr const char* not_read[] = {
    "amdgpu-no-dispatch-id",       "amdgpu-no-dispatch-ptr",  "amdgpu-no-implicitarg-ptr",
    "amdgpu-no-lds-kernel-id",     "amdgpu-no-queue-ptr",     "amdgpu-no-workgroup-id-y",
    "amdgpu-no-workgroup-id-z",    "amdgpu-no-workitem-id-y", "amdgpu-no-workitem-id-z",
    "amdgpu-no-flat-scratch-init",
};

class Compiler final : public emitter::GpuProvider {
 public:
  std::string id() const override { return "hip"; }

 protected:
  emitter::Target machine_of(std::string_view description, emitter::GpuNumbers& numbers) const override {
    initialise_llvm();
    const auto device = parse_device(description);
    numbers.bytes_a_second = device.gigabytes_a_second * 1'000'000'000;
    return target_of(device);
  }
  void mark_entry(llvm::Function& entry, unsigned threads) const override {
    entry.getParent()->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", code_object_version);
    const auto count = std::to_string(threads);
    entry.addFnAttr("amdgpu-flat-work-group-size", count + "," + count);
    entry.addFnAttr("uniform-work-group-size", "true");
    for (const auto* name : not_read) entry.addFnAttr(name);
  }
  emitter::GpuCode generate(emitter::Machine& machine, llvm::Module& module,
                            bool want_listing) const override {
    emitter::GpuCode code;
    if (want_listing) {
      const auto copy = llvm::CloneModule(module);  // the code generator changes the module
      code.listing = machine.assembly(*copy);
    }
    code.code = link_code_object(machine.object(module));
    const auto numbers = numbers_of_code_object(code.code);
    code.registers = numbers.vector_registers;
    code.spills = numbers.spills;
    return code;
  }
  std::string_view comment_mark() const override { return ";"; }
};

}  // namespace

std::unique_ptr<Provider> make_compiler() { return std::make_unique<Compiler>(); }

}  // namespace ferrite::hip
