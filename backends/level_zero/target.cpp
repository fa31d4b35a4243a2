// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target.h"

#include <llvm/IR/CallingConv.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "ferrite/error.hpp"
#include "ferrite/target_description.hpp"

extern "C" {
void LLVMInitializeSPIRVTargetInfo();
void LLVMInitializeSPIRVTarget();
void LLVMInitializeSPIRVTargetMC();
void LLVMInitializeSPIRVAsmPrinter();
}

namespace ferrite::level_zero {

namespace {

constexpr std::string_view architecture = "spirv64";

struct Number {
  std::string_view key;
  int64_t Device::* place;
};
constexpr std::array numbers = {
    Number{"units", &Device::units},     Number{"lanes", &Device::lanes},
    Number{"clock", &Device::clock_khz}, Number{"bandwidth", &Device::gigabytes_a_second},
    Number{"l2", &Device::l2_bytes},     Number{"local", &Device::local_bytes},
};

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeSPIRVTargetInfo();
    LLVMInitializeSPIRVTarget();
    LLVMInitializeSPIRVTargetMC();
    LLVMInitializeSPIRVAsmPrinter();
  });
}

std::string describe(const Device& device) {
  std::string text(architecture);
  for (const auto& [key, place] : numbers)
    text += " " + std::string(key) + "=" + std::to_string(device.*place);
  return text + " f64=" + (device.f64 ? "1" : "0");
}

Device parse_device(std::string_view description) {
  Device device;
  bool named = false;
  const TargetDescription words(description, "ferrite.level_zero/target");
  for (const auto& word : words.words()) {
    const auto* number = std::ranges::find(numbers, word.key, &Number::key);
    if (word.key.empty() && word.value == architecture)
      named = true;
    else if (word.key.empty())
      fail("ferrite.level_zero/target", "'", word.value,
           "' is no architecture that code can be made for; there is ", architecture);
    else if (number != numbers.end())
      device.*number->place = words.positive(word);
    else if (word.key == "f64" && (word.value == "0" || word.value == "1"))
      device.f64 = word.value == "1";
    else
      words.refuse(word, "units, lanes, clock, bandwidth, l2, local, f64 (0 or 1), and spirv64 alone");
  }
  if (!named)
    fail("ferrite.level_zero/target", "the target description names no architecture; write '", architecture,
         "', which other words may follow");
  return device;
}

emitter::Target target_of(const Device& device) {
  emitter::Target target;
  // All drivers accept version 1.2.
  target.triple = "spirv64v1.2-unknown-unknown";
  target.vector_bytes = 16;
  target.vector_registers = 128;
  target.fused_multiply_add = target.rounding = target.half_conversion = true;
  target.f64 = device.f64;
  target.uneven_vectors = false;
  target.optimised_later = true;
  target.cycles_per_second = static_cast<double>(device.clock_khz) * 1e3;
  target.l2_bytes = target.last_level_bytes = device.l2_bytes;
  emitter::GpuMachine grid;
  // Names of OpenCL C functions, mangled as in C++, which the code generator knows. The argument 0 selects
  // the first of three dimensions.
  constexpr auto function = llvm::CallingConv::SPIR_FUNC;
  grid.thread = {"_Z12get_local_idj", {0}, 64, function};
  grid.block = {"_Z12get_group_idj", {0}, 64, function};
  constexpr uint32_t local_and_global = 3;  // kinds of memory that the barrier orders
  grid.barrier = {"_Z7barrierj", {local_and_global}, 0, function};
  grid.calling_convention = llvm::CallingConv::SPIR_KERNEL;
  grid.global_space = 1;
  grid.shared_space = 3;
  grid.multiprocessors = static_cast<unsigned>(device.units);
  grid.shared_bytes = grid.static_bytes = device.local_bytes;
  target.grid = grid;
  return target;
}

}  // namespace ferrite::level_zero
