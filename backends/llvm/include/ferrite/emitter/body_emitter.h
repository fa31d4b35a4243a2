// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a statement's body at one point of its loop variables, or at `lanes` neighbouring points along one of them.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ferrite/emitter/kernel_context.h"
#include "ferrite/analysis/moved_values.hpp"

namespace ferrite::emitter {

/// Where a body is evaluated.
struct Point {
  static constexpr index::Symbol no_symbol = ~index::Symbol{0};

  std::vector<std::pair<index::Symbol, llvm::Value*>> symbols;  ///< i64 value of each loop variable
  index::Symbol vector = no_symbol;                             ///< lane k is at (value of this variable) + k
  unsigned lanes = 1;
  bool aligned = false;  ///< the value of the vector variable, which is lane 0's, is a multiple of `lanes`
  llvm::Value* mask = nullptr;  ///< <lanes x i1>: the lanes that exist; null = all. At least one lane exists.

  void set(index::Symbol symbol, llvm::Value* value) {
    for (auto& [known, old] : symbols)
      if (known == symbol) {
        old = value;
        return;
      }
    symbols.emplace_back(symbol, value);
  }
  /// The value of a variable that has one.
  llvm::Value* at(index::Symbol symbol) const {
    for (const auto& [known, value] : symbols)
      if (known == symbol) return value;
    return nullptr;
  }
};

/// The element number of an access: the buffer's offset + the sum of index * stride.
index::Expr element_address(index::Pool& pool, const loop::Buffer& buffer,
                            const std::vector<index::Expr>& index);

/// By lane, how far an expression is ahead of lane 0, where that is the same for every value of the vector variable at lane 0 (a
/// multiple of `lanes`) and of the other symbols; empty where it is not. No symbol but `vector` may vary over the lanes.
std::vector<int64_t> lane_offsets(index::Pool& pool, index::Expr expr, index::Symbol vector, unsigned lanes);

/// Whether neighbours along `vector` lie side by side, and begin at a multiple of `lanes` elements where that variable is one.
bool begins_at_vectors(index::Pool& pool, index::Expr address, index::Symbol vector, unsigned lanes);

/// Vectors of the lanes' number that such lanes are shuffled from, when they are read as they lie in memory; 0: too far apart for that.
unsigned vectors_of_window(const std::vector<int64_t>& offsets);

/// For each operation, whether it varies over the reduction variables without passing through a reduction's result.
std::vector<bool> element_part(index::Pool& pool, const loop::Statement& statement);

/// Whether a store happens at every point of the reduction variables; `element` as element_part gives it.
bool stores_elements(index::Pool& pool, const loop::Statement& statement, const loop::Store& store,
                     const std::vector<bool>& element);

/// Whether points that run at once, and may store to one element, leave there what they would one after the other, but for how floats are
/// rounded, since each store is an atomic operation: of a scatter.
bool stores_at_once(const GpuMachine& machine, const loop::Kernel& kernel, const loop::Statement& statement);

/// Values are in `value_type` of their dtype: a scalar where all lanes agree, else a vector of `lanes`. Of the floats that are computed
/// in a wider type, what is only moved (ferrite/analysis/moved_values.hpp) goes from memory to memory as it is stored. Operations are emitted when first asked for and remembered until the next start(); so a point is emitted in blocks that its first
/// block dominates. Nothing outside the mask is read or written.
class BodyEmitter {
 public:
  /// Keeps references. Adds the addresses of the statement's accesses to the kernel's index pool.
  BodyEmitter(KernelContext& context, const loop::Statement& statement);

  /// Begins a point: forgets all values and bindings.
  void start(const Point& point);
  const Point& point() const { return point_; }

  /// Gives FE_OP_REDUCED number `number` its value, a scalar or a vector of `lanes`.
  void bind_reduced(size_t number, llvm::Value* value);
  /// The same for FE_OP_CARRIED, of the carry's type.
  void bind_carried(size_t number, llvm::Value* value);
  /// The type that a carry is kept in between points, what it is at first, and what it is at the next point: a vector of `lanes`.
  llvm::Type* carried_type(size_t number, unsigned lanes);
  llvm::Constant* first_carried(size_t number);
  llvm::Value* next_carried(size_t number);
  /// Gives a load what memory holds of its lanes.
  void bind_stored(loop::OpId load, llvm::Value* stored);

  /// The value of an operation, emitting what it needs.
  llvm::Value* value(loop::OpId op);
  /// The same as a vector of `lanes` (a scalar when lanes is 1).
  llvm::Value* lanes_of(loop::OpId op) { return spread(value(op)); }
  llvm::Value* spread(llvm::Value* value);
  /// What memory of its dtype would hold of an operation: its stored form where it has one, else its value, rounded.
  llvm::Value* stored(loop::OpId op);
  /// The same as a vector of `lanes`.
  llvm::Value* stored_lanes_of(loop::OpId op);

  /// An index expression: all lanes' value when it does not vary, else a vector of i64.
  llvm::Value* index(index::Expr expr);

  /// Stores that go past the caches where they write whole neighbouring vectors, which are then at multiples of their size. By number.
  void stream(std::vector<bool> stores) { streams_ = std::move(stores); }

  /// Emits the stores whose numbers are given: all values, masks and addresses first, then the writes in order.
  void store(const std::vector<size_t>& numbers);

  /// Store numbers of the finish part (once for each point of the parallel variables) and of the element part.
  const std::vector<size_t>& finish_stores() const { return finish_stores_; }
  const std::vector<size_t>& element_stores() const { return element_stores_; }

  /// The linear element address (offset included) of a load operation or of a store.
  index::Expr load_address(loop::OpId op) const { return load_address_[op]; }
  index::Expr store_address(size_t store) const { return store_address_[store]; }

  /// The value of a constant's bits.
  llvm::Constant* constant(DType dtype, uint64_t bits);

  /// A primitive on values of one shape; `dtype` is the operands' (for casts: see cast()).
  llvm::Value* prim(Prim prim, DType dtype, const std::vector<llvm::Value*>& operands);
  llvm::Value* cast(llvm::Value* value, DType from, DType to);

  /// A value of a dtype's value_type rounded as a store and a reload would round it.
  llvm::Value* round_to(llvm::Value* value, DType dtype);

 private:
  struct Address {
    llvm::Value* base = nullptr;   // i64 element number, uniform
    llvm::Value* lane = nullptr;   // <lanes x i64> to add, or null
    std::optional<int64_t> step;   // elements between neighbouring lanes, where constant
    std::vector<int64_t> offsets;  // the same as `lane`, where that is constant; else empty
    bool whole = false;            // the base is a multiple of the lanes
  };

  /// Whether an operation has a stored form, which goes to memory as it is: what was only moved of a float that is computed in a wider
  /// type.
  bool is_moved(loop::OpId op) const;
  /// Whether the value is the stored form, widened.
  bool is_widened(loop::OpId op) const;
  /// Emits the value or the stored form, with what it needs.
  void emit_with_operands(loop::OpId root, bool as_stored);
  void emit(loop::OpId op);
  llvm::Value* emit_stored(loop::OpId op);
  llvm::Value* emit_load(const loop::BodyOp& op, loop::OpId id, bool as_stored);
  llvm::Constant* stored_constant(DType dtype, uint64_t bits);
  /// One of two stored forms, by integers: not every machine chooses between halves without a conversion.
  llvm::Value* choose_stored(llvm::Value* condition, llvm::Value* yes, llvm::Value* no);
  llvm::Value* bits_for_bitcast(loop::OpId op);
  llvm::Value* emit_prim(const loop::BodyOp& op);
  llvm::Value* compare_indices(const loop::BodyOp& op);
  std::optional<bool> decide(Prim comparison, index::Expr a, index::Expr b);
  loop::OpId erf_plus_one(const loop::BodyOp& op);
  llvm::Value* bits_of_narrow_nan(llvm::Value* bits, llvm::Value* value, DType dtype);
  llvm::Value* integer_prim(Prim prim, DType dtype, const std::vector<llvm::Value*>& operands);
  llvm::Value* float_prim(Prim prim, const std::vector<llvm::Value*>& operands);
  llvm::Value* integer_power(DType dtype, llvm::Value* base, llvm::Value* exponent);
  llvm::Value* emit_index_op(const loop::BodyOp& op);
  void emit_indirect(const loop::BodyOp& op, loop::OpId id);

  Address address(index::Expr expr);
  llvm::Value* pointer(loop::BufferId buffer, llvm::Value* element);
  llvm::Value* element_mask(llvm::Value* mask);
  /// Of lanes outside the mask, and of all where `condition` (one for all lanes, or null) does not hold, nothing is read.
  llvm::Value* load_lanes(loop::BufferId buffer, const Address& address, llvm::Value* condition,
                          llvm::Value* mask);
  llvm::Value* load_window(loop::BufferId buffer, const Address& address, llvm::Value* condition,
                           llvm::Value* mask);
  llvm::Value* load_vector(loop::BufferId buffer, llvm::Value* from, unsigned lanes, bool certain,
                           llvm::Value* mask, llvm::Align align);
  llvm::Align alignment(loop::BufferId buffer, const Address& address) const;
  llvm::Value* load_scalar(loop::BufferId buffer, llvm::Value* element, llvm::Value* condition);
  void store_lanes(loop::BufferId buffer, const Address& address, llvm::Value* value, llvm::Value* mask,
                   bool streams);
  void store_at_once(const loop::Store& store, llvm::Value* element, llvm::Value* given);
  /// One operation of the machine on that many bytes, for the whole grid.
  void atomic(llvm::AtomicRMWInst::BinOp operation, llvm::Value* place, llvm::Value* value, unsigned bytes);
  void add_to_pair(const GpuMachine::PairSum& sum, loop::BufferId buffer, llvm::Value* element,
                   llvm::Value* given);
  void replace_at_once(const loop::Store& store, llvm::Value* element, llvm::Value* given);
  llvm::Value* widen(llvm::Value* stored, DType dtype);
  /// `shuffled`: of what was read, lanes have changed places.
  llvm::Value* widen_loaded(llvm::Value* loaded, DType dtype, bool shuffled);
  llvm::Value* narrow(llvm::Value* value, DType dtype);
  llvm::Value* combine(uint32_t mode, llvm::Value* old, llvm::Value* value, DType dtype);

  llvm::Value* scalar_index(index::Expr expr);
  llvm::Value* lane_index(index::Expr expr, llvm::Type* integer);
  bool varies(index::Expr expr);

  KernelContext& context_;
  llvm::IRBuilder<>& builder_;
  const loop::Statement& statement_;
  index::Pool& pool_;
  Point point_;

  std::vector<index::Expr> load_address_, store_address_;
  std::vector<std::vector<loop::OpId>> bindings_;  // by operation: the INDIRECT operations its index needs
  std::vector<std::vector<loop::OpId>> store_bindings_;
  std::vector<size_t> finish_stores_, element_stores_;
  std::vector<bool> streams_;  // by store; empty: none

  loop::MovedValues moved_;
  std::vector<llvm::Value*> values_, stored_;  // by operation
  std::vector<bool> shuffled_;                 // by operation: of a load, whose lanes do not lie as in memory
  std::vector<llvm::Value*> reduced_, carried_;
  std::vector<std::pair<index::Symbol, llvm::Value*>> indirect_;  // bound symbols: scalar or vector of i64
  std::vector<std::pair<index::Expr, llvm::Value*>> scalar_cache_;
};

}  // namespace ferrite::emitter
