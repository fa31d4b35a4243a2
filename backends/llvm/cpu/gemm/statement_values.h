// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Statements as expressions: merging several into one, extracting the operations that some values need, and
// replacing variables.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backends/llvm/cpu/gemm/plan.h"

namespace ferrite::emitter {

struct MergedStatement {
  loop::Statement statement;
  std::vector<GemmPlan::Forward> forwards;
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
                                    std::span<const GemmPlan::Forward> forwards);

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
