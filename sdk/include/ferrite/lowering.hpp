// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowerings in C++: indices, scalar values and statements over fe_lower_api.
#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "ferrite/abi/lower.h"
#include "ferrite/graph.hpp"

namespace ferrite::inline v0 {

class Lowering;

/// An index expression of the statement being recorded.
class Idx {
 public:
  Idx() = default;
  Idx(Lowering* lowering, fe_index_token token) : lowering_(lowering), token_(token) {}
  fe_index_token token() const { return token_; }
  Lowering* lowering() const { return lowering_; }

 private:
  Lowering* lowering_ = nullptr;
  fe_index_token token_ = 0;
};

/// A scalar of the statement's body, with its dtype.
class Val {
 public:
  Val() = default;
  Val(Lowering* lowering, fe_value_token token, DType dtype)
      : lowering_(lowering), token_(token), dtype_(dtype) {}
  fe_value_token token() const { return token_; }
  DType dtype() const { return dtype_; }
  Lowering* lowering() const { return lowering_; }

 private:
  Lowering* lowering_ = nullptr;
  fe_value_token token_ = 0;
  DType dtype_ = DType::none;
};

using Indices = std::vector<Idx>;

/// A buffer of the lowering: an operand, a result or a temporary.
struct BufferRef {
  fe_buffer_token token = 0;
  TensorType type;
};

/// Records the statements of one op. Every operation on an Idx or Val is sent to the host immediately. The
/// host keeps the first error, so a lowering needs no checks. Not thread-safe; lives for one callback.
class Lowering {
 public:
  Lowering(const fe_lower_api* api, const fe_instance& view) : op(view), api_(api) {}
  Lowering(const Lowering&) = delete;

  const Instance op;

  BufferRef operand(size_t k) const { return {static_cast<fe_buffer_token>(1 + k), op.operand(k)}; }
  BufferRef result(size_t k = 0) const {
    return {static_cast<fe_buffer_token>(1 + op.operand_count() + k), op.result(k)};
  }
  BufferRef temp(DType dtype, Dims dims) {
    BufferRef buffer{0, {dtype, std::move(dims)}};
    auto args = sized<fe_temp_args>();
    args.type = buffer.type.abi();
    buffer.token = token(api_->temp, args);
    return buffer;
  }

  /// Begins a statement over these variables and returns their indices in this order. end() closes it.
  Indices begin(std::span<const int64_t> parallel, std::span<const int64_t> reduction = {},
                std::span<const int64_t> serial = {}) {
    std::vector<fe_var> vars;
    auto add = [&](std::span<const int64_t> extents, uint32_t kind) {
      for (int64_t extent : extents) vars.push_back({extent, kind, 0});
    };
    add(parallel, FE_VAR_PARALLEL);
    add(reduction, FE_VAR_REDUCTION);
    add(serial, FE_VAR_SERIAL);
    auto args = sized<fe_begin_args>();
    args.vars = to_array(vars.data(), vars.size());
    fe_index_token first = token(api_->begin, args);
    Indices result;
    for (size_t k = 0; k < vars.size(); ++k)
      result.emplace_back(this, first ? first + static_cast<uint32_t>(k) : 0);
    return result;
  }
  void end() {
    auto args = sized<fe_none>();
    auto out = sized<fe_none>();
    call_host(*api_, api_->end, args, out);
  }

  /// result k [i..] = body(i..), over the result's dims.
  template <class Body>
  void map(size_t k, Body&& body) {
    auto buffer = result(k);
    auto i = begin(buffer.type.dims);
    store(buffer, i, body(std::as_const(i)));
    end();
  }
  /// result 0 [i..] = body(x), where x[k] is operand k at i, broadcast to the result.
  template <class Body>
  void pointwise(Body&& body) {
    map(0, [&](const Indices& i) {
      std::vector<Val> x;
      for (size_t k = 0; k < op.operand_count(); ++k)
        x.push_back(op.has_operand(k) ? load_broadcast(k, i) : Val());
      return body(x);
    });
  }

  Val load(const BufferRef& buffer, const Indices& index) { return load(buffer, index, Val(), Val()); }
  Val load(size_t operand_number, const Indices& index) { return load(operand(operand_number), index); }
  /// Loads if `mask` is true and gives `other` otherwise. The index need only be in range where `mask` is
  /// true.
  Val load(const BufferRef& buffer, const Indices& index, Val mask, Val other) {
    std::vector<fe_index_token> tokens = tokens_of(index);
    auto args = sized<fe_load_args>();
    args.buffer = buffer.token;
    args.index = to_array(tokens.data(), tokens.size());
    args.mask = mask.token();
    args.other = other.token();
    return {this, token(api_->load, args), buffer.type.dtype};
  }
  /// Operand k at `index`, an index into a result of the same or higher rank: dims align on the right, and
  /// dims of size 1 are broadcast.
  Val load_broadcast(size_t k, const Indices& index) {
    auto buffer = operand(k);
    size_t rank = buffer.type.rank();
    if (rank > index.size()) fail("FE-G35", op.op(), " operand ", k, " has a higher rank than the result");
    Indices at(rank);
    for (size_t d = 0; d < rank; ++d)
      at[d] = buffer.type.dims[d] == 1 ? constant_index(0) : index[index.size() - rank + d];
    return load(buffer, at);
  }

  void store(const BufferRef& buffer, const Indices& index, Val value, uint32_t mode = FE_STORE_SET,
             Val mask = {}) {
    std::vector<fe_index_token> tokens = tokens_of(index);
    auto args = sized<fe_store_args>();
    args.buffer = buffer.token;
    args.index = to_array(tokens.data(), tokens.size());
    args.value = value.token();
    args.mask = mask.token();
    args.mode = mode;
    auto out = sized<fe_none>();
    call_host(*api_, api_->store, args, out);
  }

  Idx constant_index(int64_t value) {
    auto args = sized<fe_index_args>();
    args.op = FE_INDEX_CONSTANT;
    args.constant = value;
    return {this, token(api_->index, args)};
  }
  Idx index_op(uint32_t op_code, Idx a, Idx b) {
    auto args = sized<fe_index_args>();
    args.op = op_code;
    args.a = a.token();
    args.b = b.token();
    return {this, token(api_->index, args)};
  }
  /// The value of an index expression: for iota, comparisons and masks.
  Val value(Idx index, DType dtype = DType::i64_) {
    auto args = sized<fe_index_value_args>();
    args.index = index.token();
    args.dtype = static_cast<fe_dtype>(dtype);
    return {this, token(api_->index_value, args), dtype};
  }
  /// An index from a computed integer. `extent` bounds it; `mode` is FE_INDIRECT_*.
  Idx indirect(Val value_, int64_t extent, uint32_t mode = FE_INDIRECT_WRAP) {
    auto args = sized<fe_indirect_args>();
    args.value = value_.token();
    args.extent = extent;
    args.mode = mode;
    return {this, token(api_->indirect, args)};
  }
  Val constant(DType dtype, double value_) { return constant_bits(dtype, Graph::scalar_bits(dtype, value_)); }
  Val constant_bits(DType dtype, uint64_t bits) {
    auto args = sized<fe_constant_args>();
    args.dtype = static_cast<fe_dtype>(dtype);
    args.bits = bits;
    return {this, token(api_->constant, args), dtype};
  }
  Val prim(Prim prim_, Val a, Val b = {}, Val c = {}) { return prim_as(prim_, DType::none, a, b, c); }
  Val cast(Val a, DType dtype) { return a.dtype() == dtype ? a : prim_as(Prim::cast_, dtype, a); }
  Val bitcast(Val a, DType dtype) { return prim_as(Prim::bitcast_, dtype, a); }
  /// Reduces over the statement's reduction variables; kind is FE_REDUCE_*.
  Val reduce(uint32_t kind, Val element_, Val index = {}, DType accumulator = DType::none) {
    auto args = sized<fe_reduce_args>();
    args.kind = kind;
    args.element = element_.token();
    args.index = index.token();
    args.accumulator = static_cast<fe_dtype>(accumulator);
    bool arg = kind == FE_REDUCE_ARGMAX || kind == FE_REDUCE_ARGMIN;
    return {this, token(api_->reduce, args),
            arg                          ? DType::i64_
            : accumulator != DType::none ? accumulator
                                         : element_.dtype()};
  }
  /// The sum of a*b over the reduction variables. a and b are loads or casts of loads. Makes the statement a
  /// contract.
  Val contract(Val a, Val b, uint32_t kind = FE_CONTRACT_GEMM, DType accumulator = DType::none) {
    auto args = sized<fe_contract_args>();
    args.a = a.token();
    args.b = b.token();
    args.kind = kind;
    args.accumulator = static_cast<fe_dtype>(accumulator);
    return {this, token(api_->contract, args), accumulator != DType::none ? accumulator : a.dtype()};
  }
  /// A state carried over the serial variables.
  Val carry(DType dtype, double init) {
    auto args = sized<fe_carry_args>();
    args.dtype = static_cast<fe_dtype>(dtype);
    args.init_bits = Graph::scalar_bits(dtype, init);
    return {this, token(api_->carry, args), dtype};
  }
  void set_carry(Val carried, Val next) {
    auto args = sized<fe_set_carry_args>();
    args.carried = carried.token();
    args.next = next.token();
    auto out = sized<fe_none>();
    call_host(*api_, api_->set_carry, args, out);
  }
  /// An opaque kernel: a C function over the contiguous operands and results.
  void call(fe_kernel_function function, void* self, std::span<const BufferRef> reads,
            std::span<const BufferRef> writes, std::string_view name) {
    std::vector<fe_buffer_token> read_tokens, write_tokens;
    for (const auto& b : reads) read_tokens.push_back(b.token);
    for (const auto& b : writes) write_tokens.push_back(b.token);
    auto args = sized<fe_call_args>();
    args.function = function;
    args.self = self;
    args.reads = to_array(read_tokens.data(), read_tokens.size());
    args.writes = to_array(write_tokens.data(), write_tokens.size());
    args.name = to_abi(name);
    auto out = sized<fe_none>();
    call_host(*api_, api_->call, args, out);
  }

 private:
  static std::vector<fe_index_token> tokens_of(const Indices& index) {
    std::vector<fe_index_token> tokens;
    for (const auto& i : index) tokens.push_back(i.token());
    return tokens;
  }
  template <class Slot, class Args>
  uint32_t token(Slot slot, const Args& args) {
    auto out = sized<fe_token_out>();
    call_host(*api_, slot, args, out);
    return out.token;
  }
  Val prim_as(Prim prim_, DType dtype, Val a, Val b = {}, Val c = {}) {
    const auto& info = info_of(prim_);
    auto args = sized<fe_prim_args>();
    args.prim = static_cast<uint32_t>(prim_);
    args.a = a.token();
    args.b = b.token();
    args.c = c.token();
    args.dtype = static_cast<fe_dtype>(dtype);
    DType last = info.operands == 3 ? c.dtype() : info.operands == 2 ? b.dtype() : a.dtype();
    DType gives = dtype != DType::none ? dtype : info.gives_bool ? DType::bool_ : last;
    return {this, token(api_->prim, args), gives};
  }

  const fe_lower_api* api_;
};

inline Idx operator+(Idx a, Idx b) { return a.lowering()->index_op(FE_INDEX_ADD, a, b); }
inline Idx operator*(Idx a, Idx b) { return a.lowering()->index_op(FE_INDEX_MUL, a, b); }
inline Idx operator+(Idx a, int64_t b) { return a + a.lowering()->constant_index(b); }
inline Idx operator-(Idx a, int64_t b) { return a + (-b); }
inline Idx operator*(Idx a, int64_t b) { return a * a.lowering()->constant_index(b); }
inline Idx operator-(Idx a, Idx b) { return a + b * -1; }
/// Floor division: rounds towards minus infinity.
inline Idx operator/(Idx a, int64_t b) {
  return a.lowering()->index_op(FE_INDEX_FLOORDIV, a, a.lowering()->constant_index(b));
}
/// Non-negative for b > 0.
inline Idx operator%(Idx a, int64_t b) {
  return a.lowering()->index_op(FE_INDEX_MOD, a, a.lowering()->constant_index(b));
}

#define FE_VAL_BINARY(symbol, name)                                                                     \
  inline Val operator symbol(Val a, Val b) { return a.lowering()->prim(Prim::name, a, b); }             \
  inline Val operator symbol(Val a, double b) { return a symbol a.lowering()->constant(a.dtype(), b); } \
  inline Val operator symbol(double a, Val b) { return b.lowering()->constant(b.dtype(), a) symbol b; }
FE_VAL_BINARY(+, add_)
FE_VAL_BINARY(-, sub_)
FE_VAL_BINARY(*, mul_)
FE_VAL_BINARY(/, div_)
FE_VAL_BINARY(<, lt_)
FE_VAL_BINARY(<=, le_)
FE_VAL_BINARY(>, gt_)
FE_VAL_BINARY(>=, ge_)
FE_VAL_BINARY(==, eq_)
FE_VAL_BINARY(!=, ne_)
#undef FE_VAL_BINARY
inline Val operator&(Val a, Val b) { return a.lowering()->prim(Prim::and_, a, b); }
inline Val operator|(Val a, Val b) { return a.lowering()->prim(Prim::or_, a, b); }
inline Val operator^(Val a, Val b) { return a.lowering()->prim(Prim::xor_, a, b); }
inline Val operator!(Val a) { return a.lowering()->prim(Prim::not_, a); }
inline Val operator-(Val a) { return a.lowering()->prim(Prim::neg_, a); }

#define FE_VAL_UNARY(name) \
  inline Val name(Val a) { return a.lowering()->prim(Prim::name##_, a); }
FE_VAL_UNARY(abs)
FE_VAL_UNARY(sign)
FE_VAL_UNARY(exp)
FE_VAL_UNARY(exp2)
FE_VAL_UNARY(expm1)
FE_VAL_UNARY(log)
FE_VAL_UNARY(log2)
FE_VAL_UNARY(log1p)
FE_VAL_UNARY(sqrt)
FE_VAL_UNARY(rsqrt)
FE_VAL_UNARY(reciprocal)
FE_VAL_UNARY(sin)
FE_VAL_UNARY(cos)
FE_VAL_UNARY(tan)
FE_VAL_UNARY(asin)
FE_VAL_UNARY(acos)
FE_VAL_UNARY(atan)
FE_VAL_UNARY(sinh)
FE_VAL_UNARY(cosh)
FE_VAL_UNARY(tanh)
FE_VAL_UNARY(asinh)
FE_VAL_UNARY(acosh)
FE_VAL_UNARY(atanh)
FE_VAL_UNARY(erf)
FE_VAL_UNARY(floor)
FE_VAL_UNARY(ceil)
FE_VAL_UNARY(round)
FE_VAL_UNARY(trunc)
FE_VAL_UNARY(isnan)
FE_VAL_UNARY(isinf)
#undef FE_VAL_UNARY

inline Val min(Val a, Val b) { return a.lowering()->prim(Prim::min_, a, b); }
inline Val max(Val a, Val b) { return a.lowering()->prim(Prim::max_, a, b); }
inline Val pow(Val a, Val b) { return a.lowering()->prim(Prim::pow_, a, b); }
inline Val where(Val condition, Val a, Val b) {
  return condition.lowering()->prim(Prim::where_, condition, a, b);
}
inline Val cast(Val a, DType dtype) { return a.lowering()->cast(a, dtype); }

}  // namespace ferrite::inline v0
