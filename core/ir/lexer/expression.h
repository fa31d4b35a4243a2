// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Index expressions as text: `2*$n + 1`, `$n div 4`, `$n mod 4`, `min($n, 8)` (docs/text.md).
#pragma once

#include <functional>
#include <string>

#include "core/ir/lexer/lexer.h"
#include "core/support/error.h"
#include "ferrite/index.hpp"

namespace ferrite::core::text {

/// Prints an expression. `name(symbol)` returns the text of a symbol, including any sigil.
std::string print_expression(const index::Pool& pool, index::Expr expression,
                             const std::function<std::string(index::Symbol)>& name);

/// Parses the longest expression at the cursor. `symbol` returns the expression for a name; it is called with
/// each identifier or sigil token except integers, `min` and `max`. Printed text reads back as the same
/// expression.
Result<index::Expr> parse_expression(Cursor& cursor, index::Pool& pool,
                                     const std::function<Result<index::Expr>(const Token&)>& symbol);

}  // namespace ferrite::core::text
