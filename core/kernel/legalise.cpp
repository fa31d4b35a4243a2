// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/kernel/legalise.h"

#include "ferrite/loop_check.hpp"

namespace ferrite::core::kernel {

Result<void> legalise(ferrite::loop::Kernel& kernel, uint64_t supported) {
  for (auto& statement : kernel.statements) {
    if (supported & kind_bit(statement.kind)) continue;
    if (statement.kind == FE_STATEMENT_CONTRACT) {
      // Turn this: contract of a and b, the sum of a*b;  into this: the kind that its sum and its stores make it.
      statement.contract_a = statement.contract_b = ferrite::loop::none;
      statement.contract_kind = FE_CONTRACT_GENERIC;
      statement.kind = ferrite::loop::derived_kind(kernel.pool, statement);
    }
    if (!(supported & kind_bit(statement.kind)))
      return error(FE_EUNSUPPORTED, "FE-K07",
                   "the provider does not take {} statements, and there is no simpler form of them",
                   ferrite::loop::statement_name(statement.kind));
  }
  return {};
}

}  // namespace ferrite::core::kernel
