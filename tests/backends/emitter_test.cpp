// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The emitter passes what every backend must, vectorises, and compiles for other machines.
#include "emitter_support.h"
#include "kernel_conformance.h"

namespace ferrite::kernel_test {
namespace {

TEST(Map, LoopAndMaskedTail) {
  auto compiled = compile(exp_of_sum(f32, 1000003).kernel, this_machine());
  EXPECT_NE(compiled.text.find("vector.body"), std::string::npos);
  EXPECT_NE(compiled.text.find("vector.tail"), std::string::npos);
  EXPECT_GT(compiled.tasks, 4);
}

// ---- other machines

TEST(CrossCompile, Aarch64) {
  auto target = cpu::parse_target("triple=aarch64-unknown-linux-gnu cpu=cortex-a76");
  emitter::Machine machine(target);
  llvm::LLVMContext context;
  for (const auto& built : {exp_of_sum(f32, 1000), exp_of_sum(bf16, 33), softmax(4, 100, f16),
                            reduction(FE_REDUCE_ARGMAX, f32, {8, 70}, 2)}) {
    auto emitted = emitter::emit_kernel(context, target, built.kernel, "kernel");
    machine.optimise(*emitted.module);
    EXPECT_EQ(machine.object(*emitted.module).substr(1, 3), "ELF");
  }
}

TEST(Target, BadDescriptions) {
  for (const char* text :
       {"cpu=nonsense", "triple=mars-unknown", "colour=red", "l1=big", "triple=nvptx64-x-x"})
    EXPECT_THROW(cpu::parse_target(text), Failure) << text;
}

}  // namespace
}  // namespace ferrite::kernel_test
