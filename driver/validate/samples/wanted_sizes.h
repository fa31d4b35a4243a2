// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of a result that the conditions of a rule name, for a sample in which it is not made yet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::validate {

/// What is known of a sample that is not whole yet.
struct PartialSample {
  std::function<rewrite::Operand(const rewrite::Operand&)> resolve;  ///< the operand behind a choice
  /// The value of an expression; none where it reads what is not made yet.
  std::function<std::optional<graph::AttributeValue>(const rewrite::Expression&)> evaluate;
};

/// The sizes that conditions name for the value `of`, which is to have so many elements, such as the result of a
/// reshape: `shape(%y) == [dim(%x, 0), dim(%y, 1), 2]`. One size may be left open; it follows from the number of
/// elements. None: the conditions say nothing, or too little.
std::optional<std::vector<int64_t>> wanted_sizes(const rewrite::Rule& rule, const rewrite::Operand& of,
                                                 int64_t elements, const PartialSample& sample);

}  // namespace ferrite::core::validate
