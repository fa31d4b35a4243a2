// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/target/coverage.h"

#include <fmt/format.h>

#include <span>

#include "core/support/abi/abi.h"
#include "ferrite/loop_check.hpp"

namespace ferrite::core::runtime {
namespace {

using ferrite::loop::Kernel;

constexpr uint64_t bit(DType dtype) { return uint64_t{1} << static_cast<unsigned>(dtype); }

}  // namespace

Result<Coverage> Coverage::declared(const fe_array& capabilities) {
  Coverage result;
  if (capabilities.count == 0) return result;
  if (!abi::readable<fe_capability>(capabilities))
    return error(FE_EINVALID, "FE-S20", "its array of capabilities is null, or its stride is {}",
                 capabilities.stride);
  result.statements_.fill({.taken = 0});
  result.primitives_.fill({.taken = 0});
  for (uint64_t k = 0; k < capabilities.count; ++k) {
    const auto given = abi::element<fe_capability>(capabilities, k);
    const bool statement = given.statement >= FE_STATEMENT_MAP && given.statement < FE_STATEMENT_CALL;
    if (statement == (find_prim(given.primitive) != nullptr) || (given.statement != 0) != statement)
      return error(FE_EINVALID, "FE-S20",
                   "capability {} is of statement kind {} and primitive {}; one of them is 0", k,
                   given.statement, given.primitive);
    (statement ? result.statements_[given.statement] : result.primitives_[given.primitive]).taken |=
        given.dtypes;
  }
  return result;
}

void Coverage::exclude(const CapabilityTable& measured) {
  auto cell = [&](std::string_view name, DType dtype, Cells& cells) {
    const auto verdict = measured.find(name, dtype);
    if (!verdict || *verdict == Verdict::passed || !(cells.taken & bit(dtype))) return;
    cells.taken &= ~bit(dtype);
    (*verdict == Verdict::failed ? cells.failed : cells.declined) |= bit(dtype);
  };
  for (const auto& type : dtype_table) {
    for (uint32_t kind = FE_STATEMENT_MAP; kind < FE_STATEMENT_CALL; ++kind)
      cell(ferrite::loop::statement_name(kind), type.dtype, statements_[kind]);
    for (const auto& info : prim_table)
      cell(info.name, type.dtype, primitives_[static_cast<size_t>(info.prim)]);
  }
}

std::string Coverage::missing(const Kernel& kernel, size_t count) const {
  const auto lack = [](const Cells& cells, std::string_view name, DType dtype) -> std::string {
    if (cells.taken & bit(dtype)) return {};
    return fmt::format("{} of {} {}", name, name_of(dtype),
                       cells.failed & bit(dtype)     ? "failed when the target was measured"
                       : cells.declined & bit(dtype) ? "was declined when the target was measured"
                                                     : "is not declared");
  };
  for (const auto& statement : std::span(kernel.statements).first(count)) {
    const auto of_kind = [&](DType dtype) {
      return lack(statements_[statement.kind], ferrite::loop::statement_name(statement.kind), dtype);
    };
    for (const auto& store : statement.stores)
      if (auto what = of_kind(kernel.buffers[store.buffer].dtype); !what.empty()) return what;
    for (const auto& op : statement.ops) {
      if (op.code == FE_OP_LOAD)
        if (auto what = of_kind(op.dtype); !what.empty()) return what;
      if (!op.is_prim()) continue;
      // A primitive counts under the type of its last operand; a cast under both of its types.
      const auto none = ferrite::loop::none, last = op.c != none ? op.c : op.b != none ? op.b : op.a;
      for (DType dtype :
           {statement.ops[last].dtype, info_of(op.prim()).gives_bool ? statement.ops[last].dtype : op.dtype})
        if (auto what = lack(primitives_[op.code], info_of(op.prim()).name, dtype); !what.empty())
          return what;
    }
  }
  return {};
}

}  // namespace ferrite::core::runtime
