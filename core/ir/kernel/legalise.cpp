// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/kernel/legalise.h"

#include <algorithm>

#include "ferrite/loop_check.hpp"

namespace ferrite::core::kernel {
namespace {

/// Whether the statement is a contract one of whose operands is computed by a prologue.
bool has_prologue(const ferrite::loop::Statement& s) {
  return s.contract_a != ferrite::loop::none &&
         (s.ops[s.contract_a].code != FE_OP_LOAD || s.ops[s.contract_b].code != FE_OP_LOAD);
}

}  // namespace

uint64_t features_of(const ferrite::loop::Kernel& kernel) {
  return std::ranges::any_of(kernel.statements, has_prologue) ? FE_FLAT_PROLOGUES : 0;
}

Result<bool> legalise(ferrite::loop::Kernel& kernel, uint64_t supported, uint64_t features) {
  bool changed = false;
  for (auto& statement : kernel.statements) {
    const auto taken = [&] {
      return (supported == 0 || (supported & kind_bit(statement.kind))) &&
             (!has_prologue(statement) || (features & FE_FLAT_PROLOGUES));
    };
    if (taken()) continue;
    if (statement.kind == FE_STATEMENT_CONTRACT) {
      // Turn a contract over a and b into the statement kind that its reduction and stores imply. The body
      // still has the sum of a*b, so dropping the annotation suffices.
      statement.contract_a = statement.contract_b = ferrite::loop::none;
      statement.contract_kind = FE_CONTRACT_GENERIC;
      statement.kind = ferrite::loop::derived_kind(kernel.pool, statement);
      changed = true;
    }
    if (!taken())
      return error(FE_EUNSUPPORTED, "FE-K07",
                   "the provider does not take {} statements, and there is no simpler form of them",
                   ferrite::loop::statement_name(statement.kind));
  }
  return changed;
}

}  // namespace ferrite::core::kernel
