// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/loop/interpret_body.h"

#include <bit>
#include <map>
#include <unordered_map>

#include "core/ir/loop/scalar.h"
#include "ferrite/analysis/moved_values.hpp"

namespace ferrite::core::loop::eval {
namespace {

/// The earliest program section in which a register's value is known.
struct Place {
  bool inner = false, finish = false;
  Place operator|(Place other) const { return {inner || other.inner, finish || other.finish}; }
};

class Compiler {
 public:
  Compiler(const StatementList& list, const Statement& statement)
      : list_(list),
        s_(statement),
        serial_(statement.has(VarKind::serial) || !statement.carries.empty()),
        moved_(ferrite::loop::moved_values(statement)),
        values_(statement.ops.size(), none),
        bits_(statement.ops.size(), none) {}

  Result<CompiledBody> run() {
    body_.reduced.resize(s_.reductions.size());
    body_.carried.resize(s_.carries.size());
    for (const auto& var : s_.vars) {
      body_.vars.push_back(make_register({serial_ || var.kind != VarKind::parallel, false}));
      symbols_[var.symbol] = body_.vars.back();
    }
    find_uses();
    for (OpId id = 0; id < s_.ops.size(); ++id) {
      if (bits_used_[id]) FE_CHECK(add_bits(id));
      if (value_used_[id]) FE_CHECK(add(id));
    }
    for (const auto& reduction : s_.reductions) {
      body_.elements.push_back(values_[reduction.element]);
      body_.indices.push_back(reduction.index == none ? none : values_[reduction.index]);
    }
    for (size_t k = 0; k < s_.carries.size(); ++k) {
      const auto& carry = s_.carries[k];
      body_.initial.push_back(moved_.carries[k] ? carry.init_bits
                                                : register_bits(carry.dtype, carry.init_bits));
      body_.next.push_back((moved_.carries[k] ? bits_ : values_)[carry.next]);
    }
    for (const auto& store : s_.stores) {
      CompiledStore result;
      FE_TRY(result.access, add_access(store.buffer, store.index, store.mask != none));
      result.bits = stores_bits(store);
      result.value = (result.bits ? bits_ : values_)[store.value];
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

  bool stores_bits(const Store& store) const {
    return store.mode == FE_STORE_SET && moved_.part[store.value];
  }
  static bool is_prim(const BodyOp& op, Prim prim) { return op.is_prim() && op.prim() == prim; }

  /// Finds which operations need a register with their value, and which one with their bits as stored in
  /// memory. Moves use bits, because a double does not preserve every NaN of the smaller float types.
  void find_uses() {
    value_used_.resize(s_.ops.size());
    bits_used_.resize(s_.ops.size());
    const auto use = [&](OpId id) {
      if (id != none) value_used_[id] = true;
    };
    const auto use_bits = [&](OpId id) {
      if (id != none) (is_float(s_.ops[id].dtype) ? bits_used_ : value_used_)[id] = true;
    };
    for (const auto& reduction : s_.reductions) use(reduction.element), use(reduction.index);
    for (size_t k = 0; k < s_.carries.size(); ++k)
      moved_.carries[k] ? use_bits(s_.carries[k].next) : use(s_.carries[k].next);
    for (const auto& store : s_.stores) {
      stores_bits(store) ? use_bits(store.value) : use(store.value);
      use(store.mask);
    }
    for (OpId id = static_cast<OpId>(s_.ops.size()); id-- > 0;) {
      const auto& op = s_.ops[id];
      // always evaluated: its range check must happen even if the result is unused
      if (op.code == FE_OP_INDIRECT) value_used_[id] = true;
      if (bits_used_[id] && !moved_.part[id]) value_used_[id] = true;
      if (value_used_[id] && widens(id)) bits_used_[id] = true;
      if (bits_used_[id] && moved_.part[id]) {
        const bool chooses = op.code == FE_OP_LOAD || is_prim(op, Prim::where_);
        chooses ? use(op.a) : use_bits(op.a);
        use_bits(op.b), use_bits(op.c);
      }
      if (!value_used_[id] || widens(id)) continue;
      is_prim(op, Prim::bitcast_) ? use_bits(op.a) : use(op.a);
      use(op.b), use(op.c);
    }
  }
  /// Whether the value of this operation is computed from its bits.
  bool widens(OpId id) const {
    const auto& op = s_.ops[id];
    return is_float(op.dtype) &&
           (is_prim(op, Prim::bitcast_) || (op.code == FE_OP_CARRIED && moved_.carries[op.bits]));
  }

  Place places_of(std::initializer_list<uint32_t> registers) const {
    Place place;
    for (const uint32_t from : registers)
      if (from != none) place = place | places_[from];
    return place;
  }
  /// Converts the bits of `from` to another type of the same width.
  uint32_t emit_bitcast(uint32_t from, DType from_type, DType to) {
    Instruction instruction;
    instruction.prim = Prim::bitcast_;
    instruction.from = from_type;
    instruction.dtype = to;
    instruction.a = from;
    return emit(instruction, places_[from]);
  }
  Result<uint32_t> emit_load(const BodyOp& op, DType as, uint32_t other) {
    Instruction instruction;
    instruction.code = Code::load;
    instruction.dtype = as;
    instruction.a = op.a == none ? none : values_[op.a];
    instruction.b = other;
    FE_TRY(instruction.access, add_access(op.buffer, op.index, op.a != none));
    const auto place = places_of({instruction.a, instruction.b}) | access_place(instruction.access);
    return emit(instruction, place);
  }

  /// A register with the bits of a float.
  Result<void> add_bits(OpId id) {
    const auto& op = s_.ops[id];
    const DType type = ferrite::loop::bits_type(op.dtype);
    if (!moved_.part[id]) {
      FE_CHECK(add(id));
      bits_[id] = emit_bitcast(values_[id], op.dtype, type);
      return {};
    }
    switch (op.code) {
      case FE_OP_LOAD: {
        FE_TRY(bits_[id], emit_load(op, type, op.b == none ? none : bits_[op.b]));
        return {};
      }
      case FE_OP_CONSTANT: bits_[id] = make_constant(op.bits); return {};
      case FE_OP_CARRIED:
        bits_[id] = make_register({true, false});
        body_.carried[op.bits].push_back(bits_[id]);
        return {};
      default: break;
    }
    if (op.prim() == Prim::where_) {
      Instruction instruction;
      instruction.prim = Prim::where_;
      instruction.dtype = instruction.from = type;
      instruction.a = values_[op.a];
      instruction.b = bits_[op.b];
      instruction.c = bits_[op.c];
      bits_[id] = emit(instruction, places_of({instruction.a, instruction.b, instruction.c}));
      return {};
    }
    const DType from = s_.ops[op.a].dtype;
    bits_[id] = is_float(from) ? bits_[op.a] : emit_bitcast(values_[op.a], from, type);
    return {};
  }

  /// The contents of a register lane for a value given as bits.
  static uint64_t register_bits(DType dtype, uint64_t bits) {
    return is_float(dtype) ? std::bit_cast<uint64_t>(scalar::float_value(dtype, bits))
                           : static_cast<uint64_t>(scalar::int_value(dtype, bits));
  }

  Result<void> add(OpId id) {
    const auto& op = s_.ops[id];
    uint32_t& to = values_[id];
    if (to != none) return {};
    if (widens(id)) {
      to = emit_bitcast(bits_[id], ferrite::loop::bits_type(op.dtype), op.dtype);
      return {};
    }
    auto value = [&](OpId operand) { return operand == none ? none : values_[operand]; };
    Instruction instruction;
    instruction.dtype = op.dtype;
    instruction.a = value(op.a);
    instruction.b = value(op.b);
    instruction.c = value(op.c);
    switch (op.code) {
      case FE_OP_LOAD: {
        FE_TRY(to, emit_load(op, op.dtype, value(op.b)));
        return {};
      }
      case FE_OP_CONSTANT: to = make_constant(register_bits(op.dtype, op.bits)); return {};
      case FE_OP_INDEX: {
        const uint32_t from = add_expr(op.index[0]);
        if (op.dtype == DType::i64_) {
          to = from;
          return {};
        }
        instruction.prim = Prim::cast_;
        instruction.from = DType::i64_;
        instruction.a = from;
        to = emit(instruction, places_[from]);
        return {};
      }
      case FE_OP_INDIRECT:
        instruction.code = Code::indirect;
        instruction.op = id;
        instruction.from = s_.ops[op.a].dtype;
        instruction.mode = op.flags;
        instruction.constant = static_cast<int64_t>(op.bits);
        to = emit(instruction, places_of({instruction.a}));
        symbols_[op.symbol] = to;
        return {};
      case FE_OP_REDUCED:
        to = make_register({false, true});
        body_.reduced[op.bits].push_back(to);
        return {};
      case FE_OP_CARRIED:
        to = make_register({true, false});
        body_.carried[op.bits].push_back(to);
        return {};
      default:
        instruction.prim = op.prim();
        instruction.from = s_.ops[op.c != none ? op.c : op.b != none ? op.b : op.a].dtype;
        if (instruction.prim == Prim::bitcast_ && is_float(instruction.from)) {
          instruction.from = ferrite::loop::bits_type(instruction.from);
          instruction.a = bits_[op.a];
        }
        to = emit(instruction, places_of({instruction.a, instruction.b, instruction.c}));
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

 public:  // the visitor: receives one expression whose operands already have registers
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
      // Form one flat sum over symbols and non-linear parts instead of one sum per coordinate: fewer
      // instructions per point.
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
  const ferrite::loop::MovedValues moved_;
  CompiledBody body_;
  std::vector<Place> places_;                 // by register
  std::vector<bool> value_used_, bits_used_;  // by operation
  std::vector<uint32_t> values_, bits_;       // by operation: its registers for value and for bits
  std::unordered_map<index::Symbol, uint32_t> symbols_;
  std::unordered_map<uint32_t, uint32_t> exprs_;
};

}  // namespace

Result<CompiledBody> compile(const StatementList& list, const Statement& statement) {
  return Compiler(list, statement).run();
}

}  // namespace ferrite::core::loop::eval
