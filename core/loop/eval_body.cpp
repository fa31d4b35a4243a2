// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/loop/eval_body.h"

#include <bit>
#include <map>
#include <unordered_map>

#include "core/loop/scalar.h"

namespace ferrite::core::loop::eval {
namespace {

/// When a register's value is known.
struct Place {
  bool inner = false, finish = false;
  Place operator|(Place other) const { return {inner || other.inner, finish || other.finish}; }
};

class Compiler {
 public:
  Compiler(const StatementList& list, const Statement& statement)
      : list_(list), s_(statement), serial_(statement.has(VarKind::serial) || !statement.carries.empty()) {}

  Result<CompiledBody> run() {
    body_.reduced.resize(s_.reductions.size());
    body_.carried.resize(s_.carries.size());
    for (const auto& var : s_.vars) {
      body_.vars.push_back(make_register({serial_ || var.kind != VarKind::parallel, false}));
      symbols_[var.symbol] = body_.vars.back();
    }
    for (const auto& op : s_.ops) FE_CHECK(add(op));
    for (const auto& reduction : s_.reductions) {
      body_.elements.push_back(values_[reduction.element]);
      body_.indices.push_back(reduction.index == none ? none : values_[reduction.index]);
    }
    for (const auto& carry : s_.carries) body_.next.push_back(values_[carry.next]);
    for (const auto& store : s_.stores) {
      CompiledStore result;
      FE_TRY(result.access, add_access(store.buffer, store.index, store.mask != none));
      result.value = values_[store.value];
      result.mask = store.mask == none ? none : values_[store.mask];
      result.mode = store.mode;
      Place place = places_[result.value] | access_place(result.access);
      if (result.mask != none) place = place | places_[result.mask];
      const bool every_point = serial_ || place.inner;
      (every_point ? body_.inner_stores : body_.finish_stores).push_back(result);
    }
    body_.registers = static_cast<uint32_t>(places_.size());
    return std::move(body_);
  }

 private:
  uint32_t make_register(Place place) {
    places_.push_back(place);
    return static_cast<uint32_t>(places_.size() - 1);
  }
  uint32_t make_constant(uint64_t value) {
    const uint32_t to = make_register({});
    body_.constants.emplace_back(to, value);
    return to;
  }
  uint32_t emit(Instruction instruction, Place place) {
    place.inner = place.inner || serial_;
    instruction.to = make_register(place);
    (place.finish ? body_.finish : place.inner ? body_.inner : body_.once).push_back(instruction);
    return instruction.to;
  }

  Result<void> add(const BodyOp& op) {
    auto value = [&](OpId id) { return id == none ? none : values_[id]; };
    Place place;
    for (OpId id : {op.a, op.b, op.c})
      if (id != none) place = place | places_[values_[id]];
    Instruction instruction;
    instruction.dtype = op.dtype;
    instruction.a = value(op.a);
    instruction.b = value(op.b);
    instruction.c = value(op.c);
    switch (op.code) {
      case FE_OP_LOAD: {
        FE_TRY(instruction.access, add_access(op.buffer, op.index, op.a != none));
        instruction.code = Code::load;
        values_.push_back(emit(instruction, place | access_place(instruction.access)));
        return {};
      }
      case FE_OP_CONSTANT:
        values_.push_back(make_constant(is_float(op.dtype)
                                            ? std::bit_cast<uint64_t>(scalar::float_value(op.dtype, op.bits))
                                            : static_cast<uint64_t>(scalar::int_value(op.dtype, op.bits))));
        return {};
      case FE_OP_INDEX: {
        const uint32_t from = add_expr(op.index[0]);
        if (op.dtype == DType::i64_) {
          values_.push_back(from);
          return {};
        }
        instruction.prim = Prim::cast_;
        instruction.from = DType::i64_;
        instruction.a = from;
        values_.push_back(emit(instruction, places_[from]));
        return {};
      }
      case FE_OP_INDIRECT:
        instruction.code = Code::indirect;
        instruction.op = static_cast<OpId>(values_.size());
        instruction.from = s_.ops[op.a].dtype;
        instruction.mode = op.flags;
        instruction.constant = static_cast<int64_t>(op.bits);
        values_.push_back(emit(instruction, place));
        symbols_[op.symbol] = values_.back();
        return {};
      case FE_OP_REDUCED:
        values_.push_back(make_register({false, true}));
        body_.reduced[op.bits].push_back(values_.back());
        return {};
      case FE_OP_CARRIED:
        values_.push_back(make_register({true, false}));
        body_.carried[op.bits].push_back(values_.back());
        return {};
      default:
        instruction.prim = op.prim();
        instruction.from = s_.ops[op.c != none ? op.c : op.b != none ? op.b : op.a].dtype;
        values_.push_back(emit(instruction, place));
        return {};
    }
  }

  /// The register of an index expression.
  uint32_t add_expr(index::Expr root) {
    for (index::Expr e : list_.pool.post_order({&root, 1})) {
      if (exprs_.count(e.id) == 0) exprs_[e.id] = list_.pool.visit(e, *this);
    }
    return exprs_.at(root.id);
  }

 public:  // the visitor of one expression whose operands have registers
  uint32_t constant(int64_t value) { return make_constant(static_cast<uint64_t>(value)); }
  uint32_t symbol(index::Symbol symbol) { return symbols_.at(symbol); }
  uint32_t sum(int64_t constant, std::span<const index::Term> terms) {
    std::map<uint32_t, int64_t> by_register;
    for (const auto& term : terms) add_term(by_register, exprs_.at(term.expr.id), term.coefficient);
    return add_sum(constant, by_register);
  }
  uint32_t mul(index::Expr a, index::Expr b) { return binary(Code::multiply, a, b); }
  uint32_t floordiv(index::Expr a, index::Expr b) { return binary(Code::floor_divide, a, b); }
  uint32_t mod(index::Expr a, index::Expr b) { return binary(Code::floor_modulo, a, b); }
  uint32_t min(index::Expr a, index::Expr b) { return binary(Code::minimum, a, b); }
  uint32_t max(index::Expr a, index::Expr b) { return binary(Code::maximum, a, b); }

 private:
  static void add_term(std::map<uint32_t, int64_t>& terms, uint32_t from, int64_t coefficient) {
    int64_t& sum = terms[from];
    sum = scalar::add(sum, coefficient);
  }
  uint32_t binary(Code code, index::Expr a, index::Expr b) {
    Instruction instruction;
    instruction.code = code;
    instruction.a = exprs_.at(a.id);
    instruction.b = exprs_.at(b.id);
    return emit(instruction, places_[instruction.a] | places_[instruction.b]);
  }
  uint32_t add_sum(int64_t constant, const std::map<uint32_t, int64_t>& terms) {
    Instruction instruction;
    instruction.code = Code::sum;
    instruction.constant = constant;
    instruction.first = static_cast<uint32_t>(body_.terms.size());
    Place place;
    for (const auto& [from, coefficient] : terms) {
      if (coefficient == 0) continue;
      body_.terms.push_back({from, coefficient});
      place = place | places_[from];
      ++instruction.count;
    }
    return emit(instruction, place);
  }

  Result<uint32_t> add_access(BufferId id, std::span<const index::Expr> index, bool masked) {
    const Buffer& buffer = *list_.buffers[id];
    if (buffer.packing)
      return error(FE_EUNSUPPORTED, "FE-X22", "the interpreter does not read packed buffers");
    Access access;
    access.buffer = id;
    access.dtype = buffer.dtype;
    access.base = buffer.offset;
    access.dims = buffer.dims;
    access.strides = buffer.strides;
    access.proved = !masked;
    for (size_t d = 0; d < index.size(); ++d) {
      const auto range = list_.pool.range(index[d]);
      access.proved = access.proved && range.lo >= 0 && range.hi < buffer.dims[d];
      access.coordinates.push_back(add_expr(index[d]));
    }
    if (access.proved) {
      // One sum over symbols and non-linear parts, instead of a sum a coordinate.
      int64_t constant = buffer.offset;
      std::map<uint32_t, int64_t> terms;
      for (size_t d = 0; d < index.size(); ++d) {
        const auto affine = list_.pool.affine(index[d]);
        constant = scalar::add(constant, scalar::mul(affine.constant, buffer.strides[d]));
        for (const auto& [symbol, coefficient] : affine.terms)
          add_term(terms, symbols_.at(symbol), scalar::mul(coefficient, buffer.strides[d]));
        for (const auto& [expr, coefficient] : affine.rest)
          add_term(terms, add_expr(expr), scalar::mul(coefficient, buffer.strides[d]));
      }
      access.offset = add_sum(constant, terms);
    }
    body_.accesses.push_back(std::move(access));
    return static_cast<uint32_t>(body_.accesses.size() - 1);
  }
  Place access_place(uint32_t id) const {
    const auto& access = body_.accesses[id];
    if (access.proved) return places_[access.offset];
    Place place;
    for (uint32_t from : access.coordinates) place = place | places_[from];
    return place;
  }

  const StatementList& list_;
  const Statement& s_;
  const bool serial_;
  CompiledBody body_;
  std::vector<Place> places_;     // by register
  std::vector<uint32_t> values_;  // register of each operation
  std::unordered_map<index::Symbol, uint32_t> symbols_;
  std::unordered_map<uint32_t, uint32_t> exprs_;
};

}  // namespace

Result<CompiledBody> compile(const StatementList& list, const Statement& statement) {
  return Compiler(list, statement).run();
}

}  // namespace ferrite::core::loop::eval
