// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements as expressions: merging several into one, extracting the operations that some values need, and
// replacing variables.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "ferrite/loop.hpp"

namespace ferrite::emitter {

/// Several variables of the statement as one flat axis; the last variable varies fastest.
struct Axis {
  std::vector<loop::Var> vars;
  int64_t extent = 1;
  index::Symbol symbol = 0;  ///< the flat coordinate
};

/// A load that gets the value of an earlier operation, rounded as a store to memory of `dtype` would round
/// it.
struct Forward {
  loop::OpId load, source;
};

struct MergedStatement {
  loop::Statement statement;
  std::vector<Forward> forwards;
};

/// Merges the kernel's statements into one. Requires that all others are maps over the parallel variables of
/// the first and read earlier results only at the same point. Stores to LOCAL buffers become forwards, and
/// accesses become addresses.
std::optional<MergedStatement> merge_statements(loop::Kernel& kernel);

/// Makes every access of a strided buffer one-dimensional: its index is the element number without the
/// buffer's offset.
void make_addresses(loop::Kernel& kernel, loop::Statement& statement);

/// Makes the kernel's strided buffers one-dimensional, as the merged statement sees them.
void flatten_buffers(loop::Kernel& kernel);

/// By operation: whether one of `roots` needs it.
std::vector<bool> needed_operations(const loop::Statement& statement, index::Pool& pool,
                                    std::span<const loop::OpId> roots);

/// By operation: whether the stores need it, forwarded values included.
std::vector<bool> stored_operations(const loop::Statement& statement, index::Pool& pool,
                                    std::span<const Forward> forwards);

/// Whether an operation that is set in `needed` depends on the variable through an index.
bool depends_on(const loop::Statement& statement, index::Pool& pool, const std::vector<bool>& needed,
                index::Symbol symbol);

/// Copies the statement with the given stores; operations that are not needed become constants, so operation
/// numbers stay valid.
loop::Statement keep_operations(const loop::Statement& statement, const std::vector<bool>& needed,
                                bool with_stores);

using Replacements = std::vector<std::pair<index::Symbol, index::Expr>>;

/// Replaces symbols in every index of the statement.
void substitute(loop::Statement& statement, index::Pool& pool, const Replacements& replacements);

/// Expresses each variable of the axis by the flat coordinate `flat`: v_i = (flat // stride_i) % extent_i.
void expand_axis(index::Pool& pool, const Axis& axis, index::Expr flat, Replacements& replacements);

/// Makes an axis of the variables.
Axis make_axis(index::Pool& pool, std::vector<loop::Var> vars);

/// Whether the operation, a cast, preserves every value: from a float type to a wider one.
bool widens_float(const loop::Statement& statement, const loop::BodyOp& cast);

}  // namespace ferrite::emitter
