// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building statement bodies from other bodies: used by inlining and by merging.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/ir/loop/body_builder.h"

namespace ferrite::core::schedule {

using namespace ferrite::core::loop;

using Substitution = std::vector<std::pair<index::Symbol, index::Expr>>;

/// Whether the primitive takes about as long as an addition.
bool is_cheap(Prim prim);

/// A body under construction.
struct BodyWriter {
  explicit BodyWriter(index::Pool& pool_) : pool(pool_), builder(pool_, ops) {}
  BodyWriter(const BodyWriter&) = delete;

  OpId prim(Prim prim, DType dtype, OpId a, OpId b = none, OpId c = none);

  /// Appends `source` with its index symbols substituted. The mask of each load is combined with `mask`, an
  /// operation of this body or none. `replace` may give another operation for a load, whose operands and
  /// index are translated already. Returns, for each source operation, its number in this body. Each INDIRECT
  /// binds a new symbol.
  using Replace = std::function<std::optional<OpId>(const BodyOp& load)>;
  std::vector<OpId> splice(const std::vector<BodyOp>& source, Substitution substitution, OpId mask,
                           const Replace& replace);

  index::Pool& pool;
  std::vector<BodyOp> ops;
  BodyBuilder builder;
};

/// Whether the statement's first store covers its whole buffer, with the variables as coordinates in their
/// order.
bool stores_identity(const LoopProgram& program, const Statement& statement);

/// Whether the load has an index from data in a dim of size 1. Such an index selects nothing, but it has to
/// be checked; the check would be lost if the loaded value came from elsewhere.
bool picks_in_size_one(const LoopProgram& program, const BodyOp& load);

/// Whether splice_into() would make an index that is larger than kernels should have. The producer's result
/// is then better stored.
bool index_grows_too_large(LoopProgram& program, const ProgramStatement& reader,
                           const ProgramStatement& producer);

/// The number of executions of the statement's body; loops without any count as one.
int64_t executions(const Statement& statement);

/// The number of products of a contraction in which an element of the operand takes part.
int64_t products_of(const LoopProgram& program, const Statement& contract, const BodyOp& operand);

/// The bytes that one execution of a map reads.
int64_t loaded_bytes(const LoopProgram& program, const Statement& map);

/// Replaces each load of the producer's result in `reader` by the producer's computation. stores_identity()
/// holds for `producer`. Operations that become unused are removed.
void splice_into(LoopProgram& program, ProgramStatement& reader, const ProgramStatement& producer);

/// Makes the loads below widening casts the operands of a contraction: it takes the narrow type and widens it
/// itself, as code for products does.
void take_narrow_operands(Statement& contract);

/// Translates all operation numbers in `statement` after its body was rebuilt. `numbers`: by old operation,
/// the new one.
void renumber(Statement& statement, const std::vector<OpId>& numbers);

}  // namespace ferrite::core::schedule
