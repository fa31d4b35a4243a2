// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Building statement bodies out of other bodies: what inlining and merging share.
#pragma once

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/ir/loop/body_builder.h"

namespace ferrite::core::schedule {

using namespace ferrite::core::loop;

using Substitution = std::vector<std::pair<index::Symbol, index::Expr>>;

/// Whether it takes about as long as an addition.
bool is_cheap(Prim prim);

/// A body being put together.
struct BodyWriter {
  explicit BodyWriter(index::Pool& pool_) : pool(pool_), builder(pool_, ops) {}
  BodyWriter(const BodyWriter&) = delete;

  OpId prim(Prim prim, DType dtype, OpId a, OpId b = none, OpId c = none);

  /// Appends `source` with its index symbols substituted, each load's mask joined with `mask` (an operation here, or none).
  /// `replace` may give another operation for a load (its operands and index already translated). Returns the number here of
  /// each source operation. Each INDIRECT binds a symbol of its own.
  using Replace = std::function<std::optional<OpId>(const BodyOp& load)>;
  std::vector<OpId> splice(const std::vector<BodyOp>& source, Substitution substitution, OpId mask,
                           const Replace& replace);

  index::Pool& pool;
  std::vector<BodyOp> ops;
  BodyBuilder builder;
};

/// Whether the statement's first store covers its buffer, each variable being a coordinate of it, in their order.
bool stores_identity(const LoopProgram& program, const Statement& statement);

/// Whether the load has an index from data in a dim of size 1: there is nothing to pick, but the index is to be checked, and is lost where
/// the value that is loaded comes from elsewhere.
bool picks_in_size_one(const LoopProgram& program, const BodyOp& load);

/// Whether splice_into() would make an index that is larger than kernels should have: then what the producer makes is better stored.
bool index_grows_too_large(LoopProgram& program, const ProgramStatement& reader,
                           const ProgramStatement& producer);

/// What a map reads if it runs once.
int64_t loaded_bytes(const LoopProgram& program, const Statement& map);

/// Computes what `producer`, which stores_identity(), makes wherever `reader` loads it. Operations that nobody needs then go.
void splice_into(LoopProgram& program, ProgramStatement& reader, const ProgramStatement& producer);

/// Translates everything of `statement` that names operations after its body was rebuilt.
void renumber(Statement& statement, const std::vector<OpId>& numbers);

}  // namespace ferrite::core::schedule
