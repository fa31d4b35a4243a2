// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a statement's body at one point of its loop variables, or at `lanes` adjacent points along one of
// them.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/analysis/moved_values.hpp"
#include "ferrite/emitter/kernel_context.h"

namespace ferrite::emitter {

/// The point of the loop variables at which a body is evaluated.
struct Point {
  static constexpr index::Symbol no_symbol = ~index::Symbol{0};

  std::vector<std::pair<index::Symbol, llvm::Value*>> symbols;  ///< i64 value of each loop variable
  index::Symbol vector = no_symbol;                             ///< lane k has this variable's value plus k
  // Lane 0's value of the vector variable is a multiple of `lanes`.
  unsigned lanes = 1;
  bool aligned = false;
  llvm::Value* mask = nullptr;  ///< <lanes x i1>: the lanes that exist, at least one; null: all

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

/// By lane: the constant difference between an expression at that lane and at lane 0, if it is the same for
/// every value of the vector variable at lane 0 (a multiple of `lanes`) and of the other symbols; else empty.
/// Only `vector` may vary over the lanes.
std::vector<int64_t> lane_offsets(index::Pool& pool, index::Expr expr, index::Symbol vector, unsigned lanes);

/// Whether neighbours along `vector` are adjacent in memory, and start at a multiple of `lanes` elements if
/// the variable does.
bool begins_at_vectors(index::Pool& pool, index::Expr address, index::Symbol vector, unsigned lanes);

/// The number of vectors to load if lanes with these offsets are shuffled from contiguous loads; 0: they are
/// too far apart.
unsigned vectors_of_window(const std::vector<int64_t>& offsets);

/// By operation: whether it varies over the reduction variables other than through a reduction's result.
std::vector<bool> element_part(index::Pool& pool, const loop::Statement& statement);

/// Whether a store happens at every point of the reduction variables; `element` comes from element_part().
bool stores_elements(index::Pool& pool, const loop::Statement& statement, const loop::Store& store,
                     const std::vector<bool>& element);

/// Whether a scatter's points may run in parallel although several may store to one element: each store is an
/// atomic operation, and only the rounding of floats may depend on the order.
bool stores_at_once(const GpuMachine& machine, const loop::Kernel& kernel, const loop::Statement& statement);

/// Values have the `value_type` of their dtype: a scalar if all lanes agree, else a vector of `lanes`. Floats
/// that are computed in a wider type but only moved (ferrite/analysis/moved_values.hpp) are copied in their
/// stored form. An operation is emitted on its first use and remembered until the next start(), so the first
/// block in which a point is emitted must dominate the others. Lanes outside the mask are neither read nor
/// written.
/// block dominates. Nothing outside the mask is read or written.
class BodyEmitter {
 public:
  /// Keeps references. Adds the addresses of the statement's accesses to the kernel's index pool.
  BodyEmitter(KernelContext& context, const loop::Statement& statement);

  /// Begins a point: forgets all values and bindings.
  void start(const Point& point);
  /// Begins a point that differs in the variables `along` alone: keeps values that do not depend on them.
  void move(const Point& point, std::span<const index::Symbol> along);
  const Point& point() const { return point_; }

  /// Sets the value of FE_OP_REDUCED number `number`, a scalar or a vector of `lanes`.
  void bind_reduced(size_t number, llvm::Value* value);
  /// Sets the value of FE_OP_CARRIED number `number`, of the carry's type.
  void bind_carried(size_t number, llvm::Value* value);
  /// The type in which a carried value is kept between points, its initial value, and its value at the next
  /// point: a vector of `lanes`.
  llvm::Type* carried_type(size_t number, unsigned lanes);
  llvm::Constant* first_carried(size_t number);
  llvm::Value* next_carried(size_t number);
  /// Sets the stored form of a load's lanes.
  void bind_stored(loop::OpId load, llvm::Value* stored);

  /// The value of an operation; emits its operands as needed.
  llvm::Value* value(loop::OpId op);
  /// The same as a vector of `lanes` (a scalar if lanes is 1).
  llvm::Value* lanes_of(loop::OpId op) { return spread(value(op)); }
  llvm::Value* spread(llvm::Value* value);
  /// The stored form of an operation, as memory of its dtype holds it: moved unchanged if possible, else its
  /// rounded value.
  llvm::Value* stored(loop::OpId op);
  /// The same as a vector of `lanes`.
  llvm::Value* stored_lanes_of(loop::OpId op);

  /// The value of an index expression: one i64 if all lanes agree, else a vector of i64.
  llvm::Value* index(index::Expr expr);

  /// By number: stores that bypass the caches if they write whole adjacent vectors, which are then aligned to
  /// their size.
  void stream(std::vector<bool> stores) { streams_ = std::move(stores); }

  /// Emits the stores with these numbers: all values, masks and addresses first, then the writes in order.
  void store(const std::vector<size_t>& numbers);

  /// Store numbers of the finish part (once per point of the parallel variables) and of the element part.
  const std::vector<size_t>& finish_stores() const { return finish_stores_; }
  const std::vector<size_t>& element_stores() const { return element_stores_; }

  /// The linear element address (offset included) of a load or of a store.
  index::Expr load_address(loop::OpId op) const { return load_address_[op]; }
  index::Expr store_address(size_t store) const { return store_address_[store]; }

  /// The constant with these bits.
  llvm::Constant* constant(DType dtype, uint64_t bits);

  /// Emits a primitive on operands of one shape; `dtype` is the operands' type (for casts: see cast()).
  llvm::Value* prim(Prim prim, DType dtype, const std::vector<llvm::Value*>& operands);
  llvm::Value* cast(llvm::Value* value, DType from, DType to);

  /// Rounds a value of a dtype's value_type as a store and a reload would.
  llvm::Value* round_to(llvm::Value* value, DType dtype);

 private:
  struct Address {
    llvm::Value* base = nullptr;   // i64 element number, uniform
    llvm::Value* lane = nullptr;   // <lanes x i64> to add to the base, or null
    std::optional<int64_t> step;   // constant number of elements between neighbouring lanes, if there is one
    std::vector<int64_t> offsets;  // `lane` as constants, if it is constant; else empty
    bool whole = false;            // the base is a multiple of the lanes
  };

  /// Whether an operation has a stored form that goes to memory unchanged: a float that is only moved
  /// although its type is computed in a wider one.
  bool is_moved(loop::OpId op) const;
  /// Whether the value of the operation is its widened stored form.
  bool is_widened(loop::OpId op) const;
  /// Emits the value or the stored form with all operands that it needs.
  void emit_with_operands(loop::OpId root, bool as_stored);
  void emit(loop::OpId op);
  llvm::Value* emit_stored(loop::OpId op);
  llvm::Value* emit_load(const loop::BodyOp& op, loop::OpId id, bool as_stored);
  llvm::Constant* stored_constant(DType dtype, uint64_t bits);
  /// Selects one of two stored forms as integers, since some machines cannot select between half values
  /// without a conversion.
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
  /// Reads nothing for lanes outside the mask, and nothing at all if `condition` (a scalar, or null) is
  /// false.
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
  /// Emits one atomic operation of that many bytes, at the scope of the whole grid.
  void atomic(llvm::AtomicRMWInst::BinOp operation, llvm::Value* address, llvm::Value* value, unsigned bytes);
  void add_to_pair(const GpuMachine::PairSum& sum, loop::BufferId buffer, llvm::Value* element,
                   llvm::Value* given);
  void replace_at_once(const loop::Store& store, llvm::Value* element, llvm::Value* given);
  llvm::Value* widen(llvm::Value* stored, DType dtype);
  /// `shuffled`: the loaded lanes are not in memory order.
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
  std::vector<bool> streams_;  // by store; empty: no store bypasses the caches

  loop::MovedValues moved_;
  std::vector<llvm::Value*> values_, stored_;  // by operation
  std::vector<bool> shuffled_;                 // by operation: whether a load's lanes are not in memory order
  std::vector<llvm::Value*> reduced_, carried_;
  std::vector<std::pair<index::Symbol, llvm::Value*>> indirect_;  // bound symbols: scalar or vector of i64
  std::vector<std::pair<index::Expr, llvm::Value*>> scalar_cache_;
};

}  // namespace ferrite::emitter
