// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the core knows of the ops: the table of those that plugins contributed.
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

/// An op: the plugin's table at the core's size, and its operand and attribute lists read once.
struct OpInfo {
  struct Operand {
    std::string name;
    bool optional = false;
    bool variadic = false;  ///< the last one only: any number from 0 on
  };
  struct AttributeDef {
    Attribute value;  ///< its kind and, unless required, its default
    bool required = false;
    std::string doc;
    uint32_t flags = 0;  ///< FE_ATTRIBUTE_*
  };

  /// FE-G20 where the table contradicts itself: no name or infer, a variadic operand that is not the last, a required
  /// operand after an optional one, an attribute that is there twice or of no known kind, or an axis
  /// that is no integer or list of integers. `def` outlives the OpInfo.
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
  /// FE-G21 where another plugin (or the same one) already defines the op.
  Result<void> add(const fe_op_def& def, std::string plugin);
  const OpInfo* find(std::string_view name) const;  ///< null where no plugin defines it
  std::vector<const OpInfo*> all() const;           ///< by name

 private:
  std::map<std::string, std::unique_ptr<const OpInfo>, std::less<>> ops_;
};

/// An attribute of the ABI as one of the core; FE-G22 for an unknown kind or an unreadable list.
Result<Attribute> read_attribute(const fe_attr& attr);

}  // namespace ferrite::core::graph
