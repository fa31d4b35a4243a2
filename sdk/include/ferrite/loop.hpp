// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loop IR in memory: buffers, statements and their bodies. The core's LoopProgram and a backend's Kernel
// (read from its flat form) consist of the same types, so that one interpreter, one printer and one set of
// analyses work on both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferrite/abi/kernel.h"
#include "ferrite/dtype.hpp"
#include "ferrite/index.hpp"

namespace ferrite::inline v0::loop {

inline constexpr uint32_t none = FE_NONE32;
using BufferId = uint32_t;  ///< position in the buffer table
using OpId = uint32_t;      ///< position in Body::ops

/// The layout that a provider requested: the stored dims, and each logical coordinate as an expression of the
/// packed coordinates and, if stored elements are sums, of the number of the term.
struct Packing {
  std::vector<int64_t> dims;
  int64_t terms = 0;                   ///< number of terms per sum; 0: stored elements are no sums
  std::vector<index::Symbol> symbols;  ///< one per packed dim, then the term's, in the program's pool
  std::vector<index::Expr> logical;    ///< one per logical dim
};

struct Buffer {
  DType dtype = DType::none;
  uint32_t kind = FE_BUFFER_LOCAL;  ///< FE_BUFFER_*
  std::vector<int64_t> dims;        ///< logical
  std::vector<int64_t> strides;     ///< in elements; empty if packed
  int64_t offset = 0;               ///< in elements
  uint32_t alignment = 64;          ///< of the base pointer, in bytes
  std::optional<Packing> packing;
  std::string name;  ///< for listings only

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t dim : packing ? packing->dims : dims) count *= dim;
    return count;
  }
  /// The number of elements from the first to the last one that the strides reach; at least 0.
  int64_t extent() const {
    if (packing) return elements();
    int64_t last = 0;
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] == 0) return 0;
      last += (dims[k] - 1) * (strides[k] < 0 ? 0 : strides[k]);
    }
    return offset + last + 1;
  }
  int64_t bytes() const { return bytes_of(dtype, extent()); }
};

/// Row-major strides in elements. Saturates at the maximum of int64_t for dims that no buffer can have.
inline std::vector<int64_t> contiguous_strides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t step = 1;
  for (size_t k = dims.size(); k-- > 0;) {
    strides[k] = step;
    if (dims[k] > 1 && __builtin_mul_overflow(step, dims[k], &step)) step = INT64_MAX;
  }
  return strides;
}

enum class VarKind : uint32_t {
  parallel = FE_VAR_PARALLEL,
  reduction = FE_VAR_REDUCTION,
  serial = FE_VAR_SERIAL
};

struct Var {
  index::Symbol symbol = 0;
  int64_t extent = 1;
  VarKind kind = VarKind::parallel;
};

/// `code` is a Prim, or one of FE_OP_LOAD, FE_OP_CONSTANT, FE_OP_INDEX, FE_OP_INDIRECT, FE_OP_REDUCED,
/// FE_OP_CARRIED.
struct BodyOp {
  uint16_t code = 0;
  DType dtype = DType::none;  ///< of the result; INDIRECT has none
  uint32_t flags = 0;         ///< INDIRECT: FE_INDIRECT_*
  OpId a = none, b = none, c = none;
  BufferId buffer = none;          ///< LOAD
  std::vector<index::Expr> index;  ///< LOAD: one per dim of the buffer; INDEX: one
  index::Symbol symbol = 0;        ///< INDIRECT: the symbol it defines
  uint64_t bits = 0;               ///< CONSTANT: the bits; INDIRECT: the extent; REDUCED, CARRIED: the number

  bool is_prim() const { return code < 0x100; }
  Prim prim() const { return static_cast<Prim>(code); }
};

struct Reduction {
  uint32_t kind = FE_REDUCE_SUM;  ///< FE_REDUCE_*
  OpId element = none;
  OpId index = none;  ///< argmax, argmin: the i64 index of the element
  DType accumulator = DType::none;
};

struct Carry {
  DType dtype = DType::none;
  uint64_t init_bits = 0;
  OpId next = none;
};

struct Store {
  BufferId buffer = none;
  std::vector<index::Expr> index;
  OpId value = none;
  OpId mask = none;
  uint32_t mode = FE_STORE_SET;
};

/// One loop nest: variables (parallel, then reduction, then serial), a body of scalar operations that is
/// evaluated at each point, reductions over the reduction variables, and stores. Operations that depend on
/// FE_OP_REDUCED form the finish part, evaluated once for each point of the parallel variables, after the
/// reduction.
struct Statement {
  uint32_t kind = FE_STATEMENT_MAP;  ///< FE_STATEMENT_*
  std::vector<Var> vars;
  std::vector<BodyOp> ops;
  std::vector<Reduction> reductions;
  std::vector<Carry> carries;
  std::vector<Store> stores;
  uint32_t contract_kind = FE_CONTRACT_GENERIC;  ///< contract: FE_CONTRACT_*
  /// contract: the two operands. reductions[0] sums their product, both cast to its type. They are loads or,
  /// with a prologue, values computed from loads.
  OpId contract_a = none, contract_b = none;

  size_t parallel_count() const {
    size_t count = 0;
    while (count < vars.size() && vars[count].kind == VarKind::parallel) ++count;
    return count;
  }
  bool has(VarKind kind_) const {
    for (const auto& var : vars)
      if (var.kind == kind_) return true;
    return false;
  }
  /// The number of points of all variables of one kind.
  int64_t points(VarKind kind_) const {
    int64_t count = 1;
    for (const auto& var : vars)
      if (var.kind == kind_) count *= var.extent;
    return count;
  }
};

/// A fused group: the contents of one kernel. `pool` owns all of its expressions.
struct Kernel {
  index::Pool pool;
  uint32_t shared = 0;  ///< number of leading variables common to all statements
  uint32_t numerics = 0;
  std::vector<Buffer> buffers;
  std::vector<Statement> statements;
};

}  // namespace ferrite::inline v0::loop
