// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The registry of ops: a table of all ops that plugins contributed.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/support/error.h"
#include "ferrite/abi/contrib.h"

namespace ferrite::core::graph {

/// An op: the plugin's table at the core's size, with its operand and attribute lists parsed once.
struct OpInfo {
  struct Operand {
    std::string name;
    bool optional = false;
    bool variadic = false;  ///< last operand only: it stands for any number of operands, including 0
  };
  struct AttributeDef {
    Attribute value;  ///< the attribute's kind and, unless it is required, its default
    bool required = false;
    std::string doc;
    uint32_t flags = 0;  ///< FE_ATTRIBUTE_*
  };

  /// FE-G20 if the table is inconsistent: no name or no infer, a variadic operand that is not the last, a
  /// required operand after an optional one, an attribute that is listed twice or of unknown kind, or an axis
  /// that is neither an integer nor a list of integers. `def` must outlive the OpInfo.
  static Result<OpInfo> read(const fe_op_def& def, std::string plugin);

  std::string name, doc;
  std::string plugin;  ///< the id of the plugin that defines it
  fe_op_def def{};
  std::vector<Operand> operands;
  std::vector<AttributeDef> attributes;  ///< in the order of the definition

  size_t least_operands() const;
  /// "1 operand", "1 to 3 operands", "2 or more operands"
  std::string operands_text() const;
  bool variadic() const { return !operands.empty() && operands.back().variadic; }
  const AttributeDef* find(std::string_view attribute) const;
};

class OpRegistry {
 public:
  /// FE-G21 if an op of this name is already registered, by any plugin.
  Result<void> add(const fe_op_def& def, std::string plugin);
  const OpInfo* find(std::string_view name) const;  ///< null where no plugin defines it
  std::vector<const OpInfo*> all() const;           ///< sorted by name

 private:
  std::map<std::string, std::unique_ptr<const OpInfo>, std::less<>> ops_;
};

/// Converts an attribute of the ABI to one of the core. FE-G22 for an unknown kind or an unreadable list.
Result<Attribute> read_attribute(const fe_attr& attr);

}  // namespace ferrite::core::graph
