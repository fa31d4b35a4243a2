// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/schedule/fusion/legality.h"

#include <fmt/format.h>

#include "core/ir/loop/verify.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::schedule {

bool is_kernel_alone(const Statement& statement) {
  return statement.kind != FE_STATEMENT_MAP && statement.kind != FE_STATEMENT_REDUCE &&
         statement.kind != FE_STATEMENT_CONTRACT;
}

bool is_epilogue(const Statement& statement, size_t loops) {
  return statement.kind == FE_STATEMENT_MAP && statement.vars.size() == loops;
}

std::optional<Misfit> misfit(const LoopProgram& program, std::span<const uint32_t> statements,
                             uint32_t shared) {
  for (const uint32_t s : statements)
    if (program.statements[s].parallel_count() < shared)
      return Misfit{s, fmt::format("it lacks the {} that its group shares", counted(shared, "variable"))};
  if (statements.size() == 1) return std::nullopt;
  const auto& first = program.statements[statements[0]];
  const bool is_product = first.kind == FE_STATEMENT_CONTRACT && first.parallel_count() == shared;
  for (size_t k = 0; k < statements.size(); ++k) {
    const uint32_t s = statements[k];
    const auto& statement = program.statements[s];
    // A contraction inside the shared loops has rows and columns of its own there. Any other contraction has
    // to come first in its group.
    const bool is_placed = statement.kind != FE_STATEMENT_CONTRACT || (k == 0 && is_product) ||
                           (shared > 0 && statement.parallel_count() > shared);
    if (is_kernel_alone(statement) || !is_placed) return Misfit{s, "it has to be a group of its own"};
    if (is_product && k > 0 && !is_epilogue(statement, shared))
      return Misfit{s, "a contraction and the statements after it in its group share all their loops"};
    for (size_t j = 0; j < k; ++j)
      if (common_loops(program, statements[j], s, shared) != shared)
        return Misfit{
            s, fmt::format("it does not have the {} that its group shares in common with {}",
                           counted(shared, "loop"), loop::describe_place(list_of(program), statements[j]))};
  }
  return std::nullopt;
}

}  // namespace ferrite::core::schedule
