// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The interpreter's form of one statement: flat instructions over registers with many lanes. A lane is one
// point of the domain.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/loop/program.h"
#include "core/support/error.h"

namespace ferrite::core::loop::eval {

inline constexpr size_t lane_count = 128;

/// The value of a lane: int64_t for integers, bools and indices, double for floats. A float that is only
/// moved is an int64_t with its bits, because a double does not preserve every NaN of the smaller types.
union Register {
  int64_t i[lane_count];
  double f[lane_count];
};

enum class Code : uint8_t {
  sum,       ///< constant + terms
  multiply,  ///< of two indices; the next codes likewise
  floor_divide,
  floor_modulo,
  minimum,
  maximum,
  load,  ///< access, mask a, other b
  prim,
  indirect,  ///< value a, extent `constant`, `mode`
};

struct Term {
  uint32_t from;
  int64_t coefficient;
};

struct Instruction {
  Code code = Code::prim;
  Prim prim = Prim::add_;
  DType dtype = DType::none;  ///< of the result
  DType from = DType::none;   ///< of the last operand
  uint32_t to = 0, a = none, b = none, c = none;
  uint32_t first = 0, count = 0;  ///< sum: terms
  uint32_t access = 0;
  uint32_t mode = 0;
  OpId op = none;  ///< indirect: the statement's operation, for error messages
  int64_t constant = 0;
};

/// How an index list addresses memory.
struct Access {
  BufferId buffer = none;
  DType dtype = DType::none;
  bool proved = false;  ///< every coordinate is in range at every point of the statement
  uint32_t offset = 0;  ///< proved: the register with the element offset
  int64_t base = 0;     ///< else the offset is base + the sum of stride * coordinate
  std::vector<uint32_t> coordinates;
  std::vector<int64_t> dims, strides;
};

struct CompiledStore {
  uint32_t access = 0, value = 0, mask = none, mode = 0;
  bool bits = false;  ///< the value consists of the bits of a float
};

struct CompiledBody {
  uint32_t registers = 0;
  std::vector<std::pair<uint32_t, uint64_t>>
      constants;               ///< register, its value in every lane (double bits or int64_t)
  std::vector<uint32_t> vars;  ///< register of each variable
  std::vector<Instruction> once, inner, finish;  ///< before the inner loop, in it, after it
  std::vector<Term> terms;
  std::vector<Access> accesses;
  std::vector<CompiledStore> inner_stores, finish_stores;
  std::vector<uint32_t> elements, indices;     ///< per reduction: registers of the element and its index
  std::vector<std::vector<uint32_t>> reduced;  ///< per reduction: registers that receive its result
  std::vector<std::vector<uint32_t>> carried;  ///< per carry: registers that hold it
  std::vector<uint64_t> initial;               ///< per carry: the initial contents of a lane
  std::vector<uint32_t> next;                  ///< per carry: the register of its next value
};

/// `statement` must already be verified.
Result<CompiledBody> compile(const StatementList& list, const Statement& statement);

}  // namespace ferrite::core::loop::eval
