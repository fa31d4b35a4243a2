// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the emitter asks of a machine. One instance per machine, made by the backend's target.cpp.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::emitter {

struct Target {
  std::string triple;
  std::string cpu;
  std::string features;  ///< LLVM's form: "+avx2,+fma"

  unsigned vector_bytes = 16;      ///< of one vector register
  unsigned vector_registers = 16;  ///< architectural
  bool masks = false;              ///< predicated loads and stores cost about what plain ones do
  bool gathers = false;            ///< a gather is cheaper than one load a lane
  bool fused_multiply_add = false;
  bool rounding = false;         ///< vectors to integers of the same type
  bool half_conversion = false;  ///< f16 <-> f32 in hardware
  bool bf16_dot = false;         ///< pairs of bf16 products summed into f32 lanes
  bool matrix_tiles = false;     ///< registers of 16 rows of 64 bytes, and their bf16 products (AMX)

  bool streaming_stores =
      false;  ///< past the caches, of whole aligned vectors; x86's, which its fence orders

  unsigned unroll = 0;  ///< vectors at a time in loops over elements, at most; 0: as the planner finds best

  double cycles_per_second = 2.5e9;  ///< of estimates

  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes_per_core = 1 << 20;
  int64_t last_level_bytes = 32 << 20;  ///< of the last cache as a whole, which the cores share

  /// Lanes of a full vector of elements of `bytes`.
  unsigned lanes(unsigned bytes) const { return vector_bytes / bytes; }
};

}  // namespace ferrite::emitter
