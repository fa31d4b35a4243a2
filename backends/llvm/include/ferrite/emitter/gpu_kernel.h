// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a kernel as a module for a grid of thread blocks (the entry's signature: KernelContext).
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/emitter/gemm.h"
#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct GpuEmitResult {
  std::unique_ptr<llvm::Module> module;
  int64_t blocks = 0;        ///< blocks of the grid; 0: there is nothing to do
  unsigned threads = 1;      ///< threads of a block
  int64_t shared_bytes = 0;  ///< shared memory of a block
  /// Part of shared_bytes that a launch has to request; the rest is a variable of the module.
  int64_t dynamic_bytes = 0;
};

/// One way to tile a kernel, if there are several.
struct GpuOption {
  uint64_t id = 0;
  std::string name;
  double seconds = 0;                    ///< estimated time
  std::vector<OperandLayout> layouts{};  ///< layouts that the option requests
};

/// The possible ways, fastest first. Empty if there is only one, whose id is 0.
std::vector<GpuOption> gpu_options(const Target& target, const loop::Kernel& kernel);

/// Emits all statements of `kernel` for target.grid with an option of gpu_options(); id 0 selects the first
/// one. Throws Failure FE_EUNSUPPORTED for every kernel that gpu_unsupported_reason() rejects. Thread-safe
/// for different contexts.
GpuEmitResult emit_gpu_kernel(llvm::LLVMContext& context, const Target& target, loop::Kernel kernel,
                              std::string_view entry, uint64_t option = 0);

/// The reason for which emit_gpu_kernel would decline; empty if it would not.
std::string gpu_unsupported_reason(const Target& target, const loop::Kernel& kernel);

}  // namespace ferrite::emitter
