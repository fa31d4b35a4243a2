// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a kernel as an LLVM module with one entry function (its signature: KernelContext).
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "ferrite/emitter/gemm.h"
#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct EmitResult {
  std::unique_ptr<llvm::Module> module;
  int64_t tasks = 1;            ///< the entry is called for ranges that cover [0, tasks)
  int64_t grain = 1;            ///< minimum number of tasks for a worker
  int64_t workspace_bytes = 0;  ///< per worker
};

/// Emits all statements of `kernel`. Throws Failure FE_EUNSUPPORTED for kernels that it cannot express:
/// calls, element types below a byte, packed operands outside a contraction. `config` applies to contractions
/// only. Thread-safe for different contexts.
EmitResult emit_kernel(llvm::LLVMContext& context, const Target& target, loop::Kernel kernel,
                       std::string_view entry, const GemmConfig& config = {});

/// The reason for which emit_kernel would decline; empty if it would not.
std::string unsupported_reason(const Target& target, const loop::Kernel& kernel,
                               const GemmConfig& config = {});

/// Estimated seconds of one launch on one core.
double estimate_seconds(const Target& target, loop::Kernel kernel);

}  // namespace ferrite::emitter
