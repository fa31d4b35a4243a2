// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel as a module for a grid of blocks of threads (the entry's signature: KernelContext).
#pragma once

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/emitter/contract.h"
#include "ferrite/emitter/target.h"
#include "ferrite/loop.hpp"

namespace ferrite::emitter {

struct GridResult {
  std::unique_ptr<llvm::Module> module;
  int64_t blocks = 0;        ///< of the grid; 0: there is nothing to do
  unsigned threads = 1;      ///< of a block
  int64_t shared_bytes = 0;  ///< of a block
  int64_t dynamic_bytes =
      0;  ///< of these, that a launch has to ask for; the others are a variable of the module
};

/// How a kernel may be laid out, where there are several ways.
struct GpuOption {
  uint64_t id = 0;
  std::string name;
  double seconds = 0;                    ///< estimated
  std::vector<OperandLayout> layouts{};  ///< that it wants
};

/// The ways that there are, that of the least time first; empty where there is but one, whose id is 0.
std::vector<GpuOption> grid_options(const Target& target, const loop::Kernel& kernel);

/// Emits all statements of `kernel` for target.grid, in the way of an id of grid_options(), 0 being the first of them. Declines (throws Failure, FE_EUNSUPPORTED) what grid_unsupported_reason() names.
/// Thread-safe for different contexts.
GridResult emit_grid_kernel(llvm::LLVMContext& context, const Target& target, loop::Kernel kernel,
                            std::string_view entry, uint64_t option = 0);

/// Whether emit_grid_kernel would decline, and why; empty = it would not.
std::string grid_unsupported_reason(const Target& target, const loop::Kernel& kernel);

}  // namespace ferrite::emitter
