// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The properties of a machine that the emitter uses. Each backend's target.cpp creates one instance per
// machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::emitter {

/// The LLVM functions and attributes for machines that run a kernel as a grid of thread blocks.
struct GpuMachine {
  /// An intrinsic, or a function known to the code generator; its operands are 32-bit constants.
  struct Function {
    std::string name;
    std::vector<uint32_t> operands = {};
    unsigned bits = 0;  ///< width of the returned integer; 0: returns none
    unsigned calling_convention = 0;
  };
  /// A matrix instruction: adds the product of two small matrices to a third one. Each lane of a warp holds
  /// some elements of each matrix.
  struct Matrix {
    /// For the row and column operands, `line` is the row or column and `depth` the depth; for the sums, they
    /// are row and column.
    struct Position {
      int64_t line = 0, depth = 0;
    };
    /// The positions of a lane's elements. Lane 0 holds those at `elements`; lane q * divisor + r holds those
    /// that are shifted by q times `quotient` and r times `remainder`. Several lanes may hold the same row or
    /// column elements.
    struct Fragment {
      unsigned divisor = 1;
      Position quotient, remainder;
      std::vector<Position> elements;
      unsigned together = 1;  ///< elements per operand of the instruction
    };
    DType operand = DType::none, sum = DType::none;
    unsigned rows = 0, columns = 0, depth = 0;
    unsigned products = 1024;    ///< multiply-adds of a multiprocessor per cycle
    Fragment row, column, sums;  ///< sums.together > 1: the sums are one vector, else one value each
    Function function;           ///< its own operands follow the fragments
    bool words = false;          ///< operands are passed as 32-bit integers, else as elements or vectors
    /// Instructions that load one, two or four 8 x 8 squares of 16-bit elements from shared memory, unchanged
    /// and transposed. '#' in the names stands for the number of squares. Empty: there are none.
    std::string load, load_transposed;
  };
  /// A butterfly shuffle: the lane whose number differs in the bits of a distance provides a 32-bit word. Its
  /// operands are the constants `before`, the word, the distance and the constants `after`. No name: there is
  /// none.
  struct Lanes {
    std::string name;
    std::vector<uint32_t> before = {}, after = {};
    /// Takes four times the number of the source lane, before the word, instead of the distance.
    bool by_place = false;
  };
  /// An asynchronous copy from global to shared memory. Its operands are the destination, the source and, as
  /// a 32-bit integer, the number of bytes to read; the remaining bytes become zeros.
  struct Copy {
    int64_t bytes = 0;  ///< size and alignment, in both memories
    std::string name;
  };
  struct Copies {
    std::vector<Copy> widths;  ///< widest first; empty: there are no asynchronous copies
    Function close;            ///< commits the thread's copies since the last group as one group
    std::string wait;          ///< waits until at most that many groups (a 32-bit constant) are in flight
  };
  /// An instruction that adds a pair of 16-bit floats, one word, to a word of global memory; each sum is
  /// atomic. A single float is added by compare-and-swap on its word.
  struct PairSum {
    DType dtype = DType::none;
    /// Inline assembly with the address and the word, as an integer, as operands. Empty: the code generator
    /// selects the instruction from an atomic operation on vectors.
    std::string assembly = {}, constraints = {};
  };
  /// Thread blocks that run at the same time and can read each other's shared memory.
  struct Cluster {
    unsigned most = 1;      ///< maximum number of blocks; 1: there are no clusters
    std::string attribute;  ///< kernel attribute whose value is the number of consecutive blocks in a cluster
    Function arrive, wait;  ///< a barrier of all threads in a cluster, which then see each other's writes
    /// Maps a pointer into a block's own shared memory to that of a block by its number (32 bits).
    std::string map;
    unsigned space = 0;  ///< address space of the mapped pointer
  };
  /// Kernel attribute: the number of blocks that a multiprocessor must be able to run concurrently; empty:
  /// none.
  std::string resident_attribute;
  Lanes lanes;
  Copies copies;
  Cluster cluster;
  std::vector<Matrix> matrices;  ///< at most one per pair of types; other products use scalar multiply-adds
  /// At most one per type. Other float types of 16 bits or less are accumulated in a fixed order instead.
  std::vector<PairSum> pair_sums;
  /// 2 to the power of an f32, within 2 units in the last place; denormals may be flushed. Empty: there is
  /// none.
  std::string exp2;
  unsigned multiprocessors = 1;  ///< multiprocessors that run blocks
  Function thread, block;        ///< index of the thread in its block, and of the block in the grid
  Function barrier;              ///< all threads of the block wait, then see each other's writes
  /// Waits until earlier launches on the stream have finished and their writes are visible; a launch may
  /// begin before that. No name: launches never overlap.
  Function launches_before;
  /// Sync scope of the fences that a barrier needs so that writes become visible; empty: it needs none.
  std::string block_scope;
  /// For atomic operations on global memory: the sync scope of the grid's threads, and metadata that excludes
  /// other kinds of memory.
  std::string grid_scope;
  std::vector<std::string> memory_marks = {};
  unsigned calling_convention = 0;              ///< calling convention of kernels
  unsigned global_space = 0, shared_space = 0;  ///< address spaces
  unsigned warp = 32;                           ///< threads that execute together
  unsigned threads = 256;                       ///< maximum threads of a block; a power of two
  unsigned row_threads = 256;                   ///< the same for blocks that keep a long row in registers
  int64_t registers = 64 << 10;                 ///< 32-bit registers of a multiprocessor
  unsigned products = 128;                      ///< f32 multiply-adds of a multiprocessor per cycle
  int64_t most_threads = 1LL << 41;             ///< maximum threads of all blocks of a launch
  int64_t shared_bytes = 48 << 10;              ///< maximum shared memory of a block
  int64_t static_bytes = 48 << 10;  ///< part of shared_bytes for variables; a launch has to request more

  const Matrix* matrix_of(DType operand, DType sum) const {
    for (const auto& matrix : matrices)
      if (matrix.operand == operand && matrix.sum == sum) return &matrix;
    return nullptr;
  }
  const PairSum* pair_sum_of(DType dtype) const {
    for (const auto& sum : pair_sums)
      if (sum.dtype == dtype) return &sum;
    return nullptr;
  }
};

/// Bytes of a CPU's cache line.
constexpr int64_t cache_line = 64;
/// Bytes of a CPU's smallest pages. Hardware prefetchers stop at their ends, and lines one page apart map to
/// the same set of the first-level cache.
constexpr int64_t page_bytes = 4096;

struct Target {
  std::string triple;
  std::string cpu;
  std::string features;  ///< LLVM's form: "+avx2,+fma"

  unsigned vector_bytes = 16;      ///< width of a vector register
  unsigned vector_registers = 16;  ///< architectural
  bool masks = false;              ///< predicated loads and stores cost about what plain ones do
  bool gathers = false;            ///< a gather is cheaper than one load a lane
  bool fused_multiply_add = false;
  bool rounding = false;         ///< rounding of vectors to integers of the same type
  bool division = false;         ///< vector division costs no more than a few multiply-adds
  bool memory_operands = false;  ///< vector arithmetic takes one operand from memory
  bool half_conversion = false;  ///< f16 <-> f32 in hardware
  bool bf16_conversion = false;  ///< f32 -> bf16 in hardware
  bool f64 = true;               ///< double precision is supported
  bool uneven_vectors = true;    ///< vectors of any number of lanes; else of powers of two
  bool optimised_later = false;  ///< the consumer of the code optimises it and expects it unoptimised
  bool bf16_dot = false;         ///< pairs of bf16 products summed into f32 lanes
  bool amx = false;              ///< AMX tile registers of 16 rows of 64 bytes, and their bf16 products

  /// Non-temporal stores of whole aligned vectors, ordered by x86's fence.
  bool streaming_stores = false;

  std::optional<GpuMachine> grid;  ///< absent: tasks run on threads of the host

  unsigned unroll = 0;  ///< maximum vectors at a time in element-wise loops; 0: the planner chooses

  double cycles_per_second = 2.5e9;  ///< clock rate for estimates

  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;
  int64_t l3_bytes_per_core = 1 << 20;
  int64_t last_level_bytes = 32 << 20;  ///< whole last-level cache, which the cores share

  /// Lanes of a full vector of elements of that many bytes.
  unsigned lanes(unsigned bytes) const { return vector_bytes / bytes; }
};

}  // namespace ferrite::emitter
