// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target.h"

#include <llvm/IR/CallingConv.h>
#include <llvm/Support/TargetSelect.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <mutex>

#include "ferrite/error.hpp"

extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace ferrite::cuda {

namespace {

struct Architecture {
  std::string_view name, features;
  int64_t shared_kilobytes;  // maximum shared memory of a block
};
// The PTX version is the first that knows the architecture, but at least that of CUDA 12.0.
constexpr std::array architectures = {
    Architecture{"sm_80", "+ptx80", 163},   Architecture{"sm_86", "+ptx80", 99},
    Architecture{"sm_89", "+ptx80", 99},    Architecture{"sm_90", "+ptx80", 227},
    Architecture{"sm_90a", "+ptx80", 227},  Architecture{"sm_100", "+ptx86", 227},
    Architecture{"sm_100a", "+ptx86", 227}, Architecture{"sm_120", "+ptx87", 99},
};

const Architecture& architecture_of(std::string_view name) {
  std::string known;
  for (const auto& architecture : architectures) {
    if (architecture.name == name) return architecture;
    known += (known.empty() ? "" : ", ") + std::string(architecture.name);
  }
  fail("ferrite.cuda/target", "'", name, "' is no architecture that code can be made for; there are ", known);
}

/// mma.m16n8k16 for f16 and bf16, after the tables of the PTX manual.
emitter::GpuMachine::Matrix matrix_of_16_by_8(DType operand) {
  emitter::GpuMachine::Matrix matrix;
  matrix.operand = operand;
  matrix.sum = f32;
  matrix.rows = 16;
  matrix.columns = 8;
  matrix.depth = 16;
  matrix.products = 1060;  // of nominally 2048: measured with products of 8192 by 8192 on an H200
  constexpr unsigned lanes_of_line = 4;
  matrix.row = {
      lanes_of_line, {1, 0}, {0, 2}, {{0, 0}, {0, 1}, {8, 0}, {8, 1}, {0, 8}, {0, 9}, {8, 8}, {8, 9}}, 2};
  matrix.column = {lanes_of_line, {1, 0}, {0, 2}, {{0, 0}, {0, 1}, {0, 8}, {0, 9}}, 2};
  matrix.sums = {lanes_of_line, {1, 0}, {0, 2}, {{0, 0}, {0, 1}, {8, 0}, {8, 1}}, 1};
  matrix.function.name =
      operand == f16 ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32" : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
  matrix.words = operand == bf16;
  matrix.load = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x#.b16.p3";
  matrix.load_transposed = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x#.trans.b16.p3";
  return matrix;
}

/// A pair addition is one instruction. For a single element, the driver emits a compare-and-swap loop, and so
/// does LLVM for a vector.
emitter::GpuMachine::PairSum pair_sum(DType dtype) {
  const std::string type = dtype == f16 ? "f16x2" : "bf16x2";
  return {dtype, "red.relaxed.gpu.global.add.noftz." + type + " [$0], $1;", "l,r,~{memory}"};
}

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

emitter::GpuDescription parse_device(std::string_view description) {
  const emitter::GpuDescription usual{"sm_90a", 108, 1'400'000, 1500, 40 << 20};
  auto device = emitter::parse_gpu_description(description, usual, "ferrite.cuda/target");
  architecture_of(device.architecture);
  return device;
}

std::string architecture_for(int number) {
  const auto own = "sm_" + std::to_string(number);
  // Code for a name with a letter uses instructions of that architecture only.
  for (const auto& name : {own + "a", own})
    if (std::ranges::find(architectures, name, &Architecture::name) != architectures.end()) return name;
  auto latest = own;
  for (const auto& [name, features, kilobytes] : architectures)
    if (!name.ends_with('a') && number_of(name) < number) latest = name;
  return latest;
}

int64_t shared_bytes_of(std::string_view architecture) {
  return architecture_of(architecture).shared_kilobytes << 10;
}

int number_of(std::string_view architecture) {
  int result = 0;
  const auto digits = architecture.substr(architecture.find('_') + 1);
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

emitter::Target target_of(const emitter::GpuDescription& device) {
  emitter::Target target;
  target.triple = "nvptx64-nvidia-cuda";
  target.cpu = device.architecture;
  target.features = architecture_of(device.architecture).features;
  target.vector_bytes = 16;
  target.vector_registers = 255;
  target.fused_multiply_add = target.rounding = target.half_conversion = true;
  target.bf16_conversion = true;
  target.cycles_per_second = static_cast<double>(device.clock_khz) * 1e3;
  target.l2_bytes = device.l2_bytes;
  target.last_level_bytes = device.l2_bytes;
  emitter::GpuMachine grid;
  grid.thread = {"llvm.nvvm.read.ptx.sreg.tid.x", {}, 32};
  grid.block = {"llvm.nvvm.read.ptx.sreg.ctaid.x", {}, 32};
  grid.barrier = {"llvm.nvvm.barrier.cta.sync.aligned.all", {0}, 0};
  grid.calling_convention = llvm::CallingConv::PTX_Kernel;
  grid.row_threads = 512;
  grid.global_space = 1;
  grid.shared_space = 3;
  grid.multiprocessors = static_cast<unsigned>(device.multiprocessors);
  grid.lanes = {"llvm.nvvm.shfl.sync.bfly.i32", {0xffff'ffff}, {31}};
  grid.shared_bytes = shared_bytes_of(device.architecture);
  grid.matrices = {matrix_of_16_by_8(f16), matrix_of_16_by_8(bf16)};
  grid.pair_sums = {pair_sum(f16)};
  grid.resident_attribute = "nvvm.minctasm";
  // 16-byte copies bypass the first-level cache.
  grid.copies.widths = {{16, "llvm.nvvm.cp.async.cg.shared.global.16.s"},
                        {8, "llvm.nvvm.cp.async.ca.shared.global.8.s"},
                        {4, "llvm.nvvm.cp.async.ca.shared.global.4.s"}};
  grid.copies.close = {"llvm.nvvm.cp.async.commit.group"};
  grid.copies.wait = "llvm.nvvm.cp.async.wait.group";
  grid.exp2 = "llvm.nvvm.ex2.approx.ftz.f32";
  constexpr int hopper = 90;
  if (number_of(device.architecture) >= hopper) {
    grid.pair_sums.push_back(pair_sum(bf16));
    // The next launch begins as blocks end. A launch that begins earlier competes with this one for free
    // resources (docs/cuda.md).
    grid.launches_before = {"llvm.nvvm.griddepcontrol.wait"};
    grid.cluster.most = 8;
    grid.cluster.attribute = "nvvm.cluster_dim";
    grid.cluster.arrive = {"llvm.nvvm.barrier.cluster.arrive.aligned"};
    grid.cluster.wait = {"llvm.nvvm.barrier.cluster.wait.aligned"};
    grid.cluster.map = "llvm.nvvm.mapa.shared.cluster";
    grid.cluster.space = 7;
  }
  target.grid = grid;
  return target;
}

}  // namespace ferrite::cuda
