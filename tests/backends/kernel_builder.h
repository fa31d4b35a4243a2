// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hand-written kernels for tests and benchmarks of backends.
#pragma once

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::kernel_test {

using index::Expr;
using loop::none;
using loop::OpId;

/// The number stored there.
inline double read(DType dtype, const char* at) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(bits_of(dtype)) / 8);
  return is_float(dtype) ? float_value(dtype, bits) : static_cast<double>(bits);
}

/// Builds the statements of a kernel one after the other.
class Builder {
 public:
  loop::Kernel kernel;

  loop::BufferId buffer(DType dtype, uint32_t kind, std::vector<int64_t> dims,
                        std::vector<int64_t> strides = {}, int64_t offset = 0) {
    loop::Buffer buffer;
    buffer.dtype = dtype;
    buffer.kind = kind;
    buffer.strides = strides.empty() ? loop::contiguous_strides(dims) : strides;
    buffer.dims = std::move(dims);
    buffer.offset = offset;
    kernel.buffers.push_back(buffer);
    return static_cast<loop::BufferId>(kernel.buffers.size() - 1);
  }
  loop::BufferId input(DType dtype, std::vector<int64_t> dims) {
    return buffer(dtype, FE_BUFFER_INPUT, std::move(dims));
  }
  loop::BufferId output(DType dtype, std::vector<int64_t> dims) {
    return buffer(dtype, FE_BUFFER_OUTPUT, std::move(dims));
  }

  /// Begins a statement and returns its variables.
  std::vector<Expr> begin(uint32_t kind, std::vector<int64_t> parallel, std::vector<int64_t> reduction = {},
                          std::vector<int64_t> serial = {}) {
    auto& statement = kernel.statements.emplace_back();
    statement.kind = kind;
    std::vector<Expr> vars;
    auto add = [&](const std::vector<int64_t>& extents, loop::VarKind var_kind) {
      for (int64_t extent : extents) {
        auto symbol = kernel.pool.new_symbol({0, extent - 1});
        statement.vars.push_back({symbol, extent, var_kind});
        vars.push_back(kernel.pool.symbol(symbol));
      }
    };
    add(parallel, loop::VarKind::parallel);
    add(reduction, loop::VarKind::reduction);
    add(serial, loop::VarKind::serial);
    return vars;
  }
  loop::Statement& statement() { return kernel.statements.back(); }
  OpId op(loop::BodyOp op) {
    statement().ops.push_back(std::move(op));
    return static_cast<OpId>(statement().ops.size() - 1);
  }
  OpId load(loop::BufferId buffer, std::vector<Expr> index, OpId mask = none, OpId other = none) {
    loop::BodyOp load;
    load.code = FE_OP_LOAD;
    load.dtype = kernel.buffers[buffer].dtype;
    load.buffer = buffer;
    load.index = std::move(index);
    load.a = mask;
    load.b = other;
    return op(load);
  }
  OpId constant(DType dtype, double value) {
    loop::BodyOp constant;
    constant.code = FE_OP_CONSTANT;
    constant.dtype = dtype;
    constant.bits = bits(dtype, value);
    return op(constant);
  }
  static uint64_t bits(DType dtype, double value) {
    return is_float(dtype) ? float_bits(dtype, value) : static_cast<uint64_t>(static_cast<int64_t>(value));
  }
  OpId index_value(Expr expr, DType dtype = i64) {
    loop::BodyOp value;
    value.code = FE_OP_INDEX;
    value.dtype = dtype;
    value.index = {expr};
    return op(value);
  }
  Expr indirect(OpId given, int64_t extent, uint32_t mode) {
    loop::BodyOp bound;
    bound.code = FE_OP_INDIRECT;
    bound.a = given;
    bound.bits = static_cast<uint64_t>(extent);
    bound.flags = mode;
    bound.symbol = kernel.pool.new_computed_symbol({0, extent - 1});
    op(bound);
    return kernel.pool.symbol(bound.symbol);
  }
  OpId prim(Prim prim, OpId a, OpId b = none, OpId c = none, DType dtype = DType::none) {
    loop::BodyOp value;
    value.code = static_cast<uint16_t>(prim);
    value.a = a;
    value.b = b;
    value.c = c;
    const auto& last = statement().ops[c != none ? c : b != none ? b : a];
    value.dtype = dtype != DType::none ? dtype : info_of(prim).gives_bool ? boolean : last.dtype;
    return op(value);
  }
  OpId cast(OpId value, DType dtype) { return prim(Prim::cast_, value, none, none, dtype); }
  /// The result has the accumulator's type: f32 for smaller floats.
  OpId reduce(uint32_t kind, OpId element, OpId index = none) {
    const bool by_index = kind == FE_REDUCE_ARGMAX || kind == FE_REDUCE_ARGMIN;
    const DType given = statement().ops[element].dtype, accumulator = by_index ? given : compute_type(given);
    const DType dtype = by_index                                         ? i64
                        : kind == FE_REDUCE_ANY || kind == FE_REDUCE_ALL ? boolean
                                                                         : accumulator;
    statement().reductions.push_back({kind, element, index, accumulator});
    loop::BodyOp reduced;
    reduced.code = FE_OP_REDUCED;
    reduced.dtype = dtype;
    reduced.bits = statement().reductions.size() - 1;
    return op(reduced);
  }
  /// The sum of a * b over the reduction variables; a and b are loads, or computed from loads.
  OpId contract(OpId a, OpId b, uint32_t kind = FE_CONTRACT_GEMM) {
    statement().contract_kind = kind;
    statement().contract_a = a;
    statement().contract_b = b;
    return reduce(FE_REDUCE_SUM, prim(Prim::mul_, a, b));
  }
  OpId carry(DType dtype, double init) {
    statement().carries.push_back({dtype, bits(dtype, init), none});
    loop::BodyOp carried;
    carried.code = FE_OP_CARRIED;
    carried.dtype = dtype;
    carried.bits = statement().carries.size() - 1;
    return op(carried);
  }
  /// Stores the value, cast to the buffer's type.
  void store(loop::BufferId buffer, std::vector<Expr> index, OpId value, uint32_t mode = FE_STORE_SET,
             OpId mask = none) {
    if (statement().ops[value].dtype != kernel.buffers[buffer].dtype)
      value = cast(value, kernel.buffers[buffer].dtype);
    statement().stores.push_back({buffer, std::move(index), value, mask, mode});
  }
  Expr add(Expr a, int64_t b) { return kernel.pool.add(a, b); }
  Expr mul(Expr a, int64_t b) { return kernel.pool.mul(a, b); }
};

}  // namespace ferrite::kernel_test
