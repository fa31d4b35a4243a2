// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The sizes that the conditions of a rule prescribe for a result that does not exist in the sample yet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/passes/rewrite/language/rule.h"

namespace ferrite::core::validate {

/// The known part of an incomplete sample.
struct PartialSample {
  /// the operand after choices are applied
  std::function<rewrite::Operand(const rewrite::Operand&)> resolve;
  /// The value of an expression; none where it reads a value that does not exist yet.
  std::function<std::optional<graph::AttributeValue>(const rewrite::Expression&)> evaluate;
};

/// The sizes that conditions prescribe for the value `of`, which must have this many elements, such as the
/// result of a reshape: `shape(%y) == [dim(%x, 0), dim(%y, 1), 2]`. One size may be left open; it follows
/// from the number of elements. None: the conditions prescribe nothing, or too little.
std::optional<std::vector<int64_t>> wanted_sizes(const rewrite::Rule& rule, const rewrite::Operand& of,
                                                 int64_t elements, const PartialSample& sample);

}  // namespace ferrite::core::validate
