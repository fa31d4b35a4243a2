// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the emitter asks of a machine. One instance per machine, made by the backend's target.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/dtype.hpp"

namespace ferrite::emitter {

/// How LLVM has, on machines that run a kernel as a grid of blocks of threads, what the emitter asks for there.
struct GpuMachine {
  /// An intrinsic, or a function that the code generator knows; its operands are 32-bit constants.
  struct Function {
    std::string name;
    std::vector<uint32_t> operands = {};
    unsigned bits = 0;  ///< of the integer that it gives; 0: it gives none
    unsigned calling_convention = 0;
  };
  /// An instruction that adds the product of two small matrices to a third one: each lane of a warp has some elements of each of them.
  struct Matrix {
    /// Of rows and columns `line` is the row or column and `depth` the depth; of sums, the row and the column.
    struct Position {
      int64_t line = 0, depth = 0;
    };
    /// Where the elements of a lane lie: those of lane 0 at `elements`, those of lane q * divisor + r by q times `quotient` and r times
    /// `remainder` further on. Several lanes may have the same ones of rows and columns.
    struct Fragment {
      unsigned divisor = 1;
      Position quotient, remainder;
      std::vector<Position> elements;
      unsigned together = 1;  ///< elements that are one operand of the instruction
    };
    DType operand = DType::none, sum = DType::none;
    unsigned rows = 0, columns = 0, depth = 0;
    unsigned products = 1024;    ///< multiply-adds of a multiprocessor a cycle
    Fragment row, column, sums;  ///< sums together: they are one vector, else a value each
    Function function;           ///< its operands come behind the fragments
    bool words = false;  ///< the operands are given as 32-bit integers, else as elements or vectors of them
    /// Instructions that load one, two or four squares of 8 by 8 elements of 16 bits from shared memory: as they lie, and transposed;
    /// '#' in the names stands for the number. Empty: there are none.
    std::string load, load_transposed;
  };
  /// An instruction by which the lane whose number differs in the bits of a distance gives a 32-bit word: it takes the constants
  /// `before`, the word, the distance and the constants `after`. No name: there is none.
  struct Lanes {
    std::string name;
    std::vector<uint32_t> before = {}, after = {};
    bool by_place =
        false;  ///< takes, before the word, four times the number of the lane that gives it, in place of the distance
  };
  /// An instruction that copies from global to shared memory beside the thread's work: it takes where to, where from and, as a 32-bit
  /// integer, how many of the bytes are read; the others become zeros.
  struct Copy {
    int64_t bytes = 0;  ///< at multiples of as many in both memories
    std::string name;
  };
  struct Copies {
    std::vector<Copy> widths;  ///< widest first; none: there are no such copies
    Function close;            ///< makes one group of all that the thread asked for since the last one
    std::string wait;          ///< until so many groups (a 32-bit constant) or fewer are under way
  };
  /// An instruction that adds two floats of 16 bits, which are one word, to those in a word of global memory: each sum is an atomic
  /// operation. A lone one is exchanged with its word until nobody came between.
  struct PairSum {
    DType dtype = DType::none;
    /// Inline assembly, whose operands are the address and the word as an integer; empty: the code generator makes it of an atomic
    /// operation of vectors.
    std::string assembly = {}, constraints = {};
  };
  /// Blocks that run at the same time and read each other's shared memory.
  struct Cluster {
    unsigned most = 1;      ///< blocks; 1: there are no clusters
    std::string attribute;  ///< of a kernel, whose value is how many consecutive blocks are one
    Function arrive, wait;  ///< all of a cluster's threads wait for each other, and see what the others wrote
    std::string
        map;  ///< makes a pointer into a block's own shared memory one into that of a block by its number (32 bits)
    unsigned space = 0;  ///< its address space
  };
  std::string
      resident_attribute;  ///< of a kernel, whose value is how many blocks a multiprocessor is to hold; empty: there is none
  Lanes lanes;
  Copies copies;
  Cluster cluster;
  std::vector<Matrix> matrices;  ///< at most one for each types; of others, products are made one by one
  /// At most one for each type; floats of other types of 16 bits and less are summed in order.
  std::vector<PairSum> pair_sums;
  /// Of 2 to the power of an f32, within 2 units in the last place, which need not know denormals; empty: there is none.
  std::string exp2;
  unsigned multiprocessors = 1;  ///< that run blocks
  Function thread, block;        ///< numbers in the block and in the grid
  Function barrier;              ///< all threads of the block wait, and see what the others wrote
  /// Until the launches ahead on the stream are done, and what they wrote is seen: a launch may begin before that. No name: none may.
  Function launches_before;
  /// Sync scope of the fences that a barrier needs around it for the latter; empty: it needs none.
  std::string block_scope;
  /// Of atomic operations on global memory: the sync scope of the grid's threads, and metadata that says what that memory is not.
  std::string grid_scope;
  std::vector<std::string> memory_marks = {};
  unsigned calling_convention = 0;              ///< of kernels
  unsigned global_space = 0, shared_space = 0;  ///< address spaces
  unsigned warp = 32;                           ///< threads that run together
  unsigned threads = 256;                       ///< of a block, at most; a power of two
  unsigned row_threads = 256;                   ///< the same of blocks that keep a long row in registers
  int64_t registers = 64 << 10;                 ///< of 32 bits, of a multiprocessor
  unsigned products = 128;                      ///< f32 multiply-adds of a multiprocessor a cycle
  int64_t most_threads = 1LL << 41;             ///< of all blocks of a launch
  int64_t shared_bytes = 48 << 10;              ///< that a block can have
  int64_t static_bytes = 48 << 10;  ///< of these, that variables can take; more are asked for at the launch

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

/// Bytes that the caches of a CPU move at a time.
constexpr int64_t cache_line = 64;
/// Bytes of its smallest pages: what looks ahead in hardware stops at their ends, and lines that far apart meet in one set of the first-
/// level cache.
constexpr int64_t page_bytes = 4096;

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
  bool division = false;         ///< of vectors costs no more than a few multiply-adds
  bool memory_operands = false;  ///< vector arithmetic takes one operand from memory
  bool half_conversion = false;  ///< f16 <-> f32 in hardware
  bool bf16_conversion = false;  ///< f32 -> bf16 in hardware
  bool f64 = true;               ///< there is double precision
  bool uneven_vectors = true;    ///< of any number of lanes; else of a power of two
  bool optimised_later = false;  ///< who takes the code does it, and wants it as it is
  bool bf16_dot = false;         ///< pairs of bf16 products summed into f32 lanes
  bool matrix_tiles = false;     ///< registers of 16 rows of 64 bytes, and their bf16 products (AMX)

  bool streaming_stores =
      false;  ///< past the caches, of whole aligned vectors; x86's, which its fence orders

  std::optional<GpuMachine> grid;  ///< none: tasks are given to threads of the host

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
