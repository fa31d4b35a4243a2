// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target.h"

#include <llvm/IR/CallingConv.h>
#include <llvm/Support/TargetSelect.h>

#include <array>
#include <mutex>

#include "ferrite/error.hpp"
#include "matrix.h"

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTarget();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUAsmPrinter();
}

namespace ferrite::hip {

namespace {

struct Architecture {
  std::string_view name, features;
  unsigned wave;      ///< threads that execute together
  int64_t transfers;  ///< bits per pin and clock cycle of the memory: 2 for HBM2e, 4 for HBM3, 16 for GDDR6
  bool pair_sums = false;  ///< LLVM has single instructions that add pairs of f16 and of bf16
};
// The first three have only waves of 64 threads; on the others, such waves take two cycles instead of one.
constexpr std::array architectures = {
    Architecture{"gfx90a", "+wavefrontsize64", 64, 2},
    Architecture{"gfx942", "+wavefrontsize64", 64, 4, true},
    Architecture{"gfx950", "+wavefrontsize64", 64, 4, true},
    Architecture{"gfx1030", "+wavefrontsize32", 32, 16},
    Architecture{"gfx1100", "+wavefrontsize32", 32, 16},
    Architecture{"gfx1101", "+wavefrontsize32", 32, 16},
    Architecture{"gfx1102", "+wavefrontsize32", 32, 16},
    Architecture{"gfx1200", "+wavefrontsize32", 32, 16, true},
    Architecture{"gfx1201", "+wavefrontsize32", 32, 16, true},
};

const Architecture& architecture_of(std::string_view name) {
  std::string known;
  for (const auto& architecture : architectures) {
    if (architecture.name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  fail("ferrite.hip/target", "'", name, "' is no architecture that code can be made for; there are ", known);
}

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
  });
}

emitter::GpuDescription parse_device(std::string_view description) {
  const emitter::GpuDescription usual{"gfx942", 304, 2'100'000, 5300, 4 << 20};
  auto device = emitter::parse_gpu_description(description, usual, "ferrite.hip/target");
  architecture_of(device.architecture);
  return device;
}

int64_t transfers_a_clock(std::string_view architecture) { return architecture_of(architecture).transfers; }

emitter::Target target_of(const emitter::GpuDescription& device) {
  const auto& architecture = architecture_of(device.architecture);
  emitter::Target target;
  target.triple = "amdgcn-amd-amdhsa";
  target.cpu = device.architecture;
  // Vectors in global memory may start at any element: AMD's kernel driver sets SH_MEM_CONFIG.alignment_mode
  // that way. Neither the notes of a code object nor the descriptor of a kernel have a field for it.
  target.features = std::string(architecture.features) + ",+unaligned-access-mode";
  target.vector_bytes = 16;
  target.vector_registers = 256;
  target.fused_multiply_add = target.rounding = target.half_conversion = true;
  target.cycles_per_second = static_cast<double>(device.clock_khz) * 1e3;
  target.l2_bytes = device.l2_bytes;
  target.last_level_bytes = device.l2_bytes;
  emitter::GpuMachine grid;
  grid.thread = {"llvm.amdgcn.workitem.id.x", {}, 32};
  grid.block = {"llvm.amdgcn.workgroup.id.x", {}, 32};
  grid.barrier = {"llvm.amdgcn.s.barrier", {}, 0};
  grid.block_scope = "workgroup";
  grid.grid_scope = "agent";
  // hipMalloc() returns neither kind of memory. The cache units perform atomic additions only in memory of
  // neither kind.
  grid.memory_marks = {"amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory"};
  grid.calling_convention = llvm::CallingConv::AMDGPU_KERNEL;
  grid.row_threads = 512;
  grid.global_space = 1;
  grid.shared_space = 3;
  grid.warp = architecture.wave;
  grid.lanes.name = "llvm.amdgcn.ds.bpermute";
  grid.lanes.by_place = true;
  grid.matrices = matrices_of(architecture.name);
  if (architecture.pair_sums) grid.pair_sums = {{f16}, {bf16}};
  grid.shared_bytes = grid.static_bytes = 64 << 10;
  grid.most_threads = 0xffff'ffff;  // a dispatch packet counts threads in 32 bits
  grid.multiprocessors = static_cast<unsigned>(device.multiprocessors);
  target.grid = grid;
  return target;
}

}  // namespace ferrite::hip
