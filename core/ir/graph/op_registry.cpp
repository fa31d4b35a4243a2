// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/ir/graph/op_registry.h"

#include <algorithm>

#include "core/support/abi/abi.h"
#include "ferrite/counted.hpp"

namespace ferrite::core::graph {

Result<Attribute> read_attribute(const fe_attr& attr) {
  Attribute result{abi::string(attr.name), int64_t{0}};
  if (result.name.empty()) return error(FE_EINVALID, "FE-G22", "an attribute without a name");
  const auto list = [&](auto sample) -> Result<Attribute> {
    using T = decltype(sample);
    // Lists come from plugins: the size of an element tells whether this build can read them.
    if (!abi::readable<T>(attr.list)) {
      return error(FE_EINVALID, "FE-G22", "the list of attribute '{}' cannot be read", result.name);
    }
    std::vector<std::conditional_t<std::is_same_v<T, fe_string>, std::string, T>> values;
    for (uint64_t k = 0; k < attr.list.count; ++k) {
      if constexpr (std::is_same_v<T, fe_string>) {
        values.push_back(abi::string(abi::element<T>(attr.list, k)));
      } else {
        values.push_back(abi::element<T>(attr.list, k));
      }
    }
    result.value = std::move(values);
    return std::move(result);
  };
  switch (attr.kind) {
    case FE_ATTR_INT: result.value = attr.i; return result;
    case FE_ATTR_FLOAT: result.value = attr.f; return result;
    case FE_ATTR_STRING: result.value = abi::string(attr.s); return result;
    case FE_ATTR_DTYPE: result.value = static_cast<DType>(static_cast<uint16_t>(attr.i)); return result;
    case FE_ATTR_BOOL: result.value = attr.i != 0; return result;
    case FE_ATTR_INTS: return list(int64_t{});
    case FE_ATTR_FLOATS: return list(double{});
    case FE_ATTR_STRINGS: return list(fe_string{});
    default:
      return error(FE_EINVALID, "FE-G22", "attribute '{}' is of the unknown kind {}", result.name, attr.kind);
  }
}

Result<OpInfo> OpInfo::read(const fe_op_def& def, std::string plugin) {
  OpInfo info;
  info.def = abi::read(&def);
  info.name = abi::string(info.def.name);
  info.doc = abi::string(info.def.doc);
  info.plugin = std::move(plugin);
  const auto wrong = [&](std::string_view what) {
    return error(FE_EINVALID, "FE-G20", "plugin '{}' defines op '{}' wrongly: {}", info.plugin, info.name,
                 what);
  };
  if (info.name.empty()) return wrong("it has no name");
  if (!info.def.infer) return wrong("it has no infer callback");
  if (!abi::readable<fe_operand_def>(info.def.operands, offsetof(fe_operand_def, reserved)) ||
      !abi::readable<fe_attr_def>(info.def.attrs, offsetof(fe_attr_def, required))) {
    return wrong("its operand or attribute array cannot be read");
  }
  for (uint64_t k = 0; k < info.def.operands.count; ++k) {
    const auto operand = abi::element<fe_operand_def>(info.def.operands, k);
    // Operands are matched by position: after a variadic one no position would be certain.
    if (info.variadic()) return wrong("a variadic operand is not the last one");
    const bool optional = operand.flags & FE_OPERAND_OPTIONAL, variadic = operand.flags & FE_OPERAND_VARIADIC;
    // Left-out operands are trailing ones, so nothing required may follow them.
    if (!info.operands.empty() && info.operands.back().optional && !optional && !variadic) {
      return wrong("a required operand follows an optional one");
    }
    info.operands.push_back({abi::string(operand.name), optional, variadic});
  }
  for (uint64_t k = 0; k < info.def.attrs.count; ++k) {
    const auto attribute = abi::element<fe_attr_def>(info.def.attrs, k);
    auto value = read_attribute(abi::read(&attribute.value));
    if (!value) return wrong(value.error().text);
    if (info.find(value->name)) return wrong("attribute '" + value->name + "' is there twice");
    const bool axis = attribute.flags & (FE_ATTRIBUTE_AXIS | FE_ATTRIBUTE_AXIS_OF_RESULT);
    if (axis && value->kind() != FE_ATTR_INT && value->kind() != FE_ATTR_INTS)
      return wrong("attribute '" + value->name + "' is an axis, but no integer or list of integers");
    info.attributes.push_back(
        {std::move(*value), attribute.required != 0, abi::string(attribute.doc), attribute.flags});
  }
  return info;
}

size_t OpInfo::least_operands() const {
  return static_cast<size_t>(std::count_if(operands.begin(), operands.end(),
                                           [](const Operand& o) { return !o.optional && !o.variadic; }));
}

std::string OpInfo::operands_text() const {
  const size_t least = least_operands(), most = operands.size();
  if (variadic()) return fmt::format("{} or more operands", least);
  return most > least ? fmt::format("{} to {} operands", least, most) : counted(most, "operand");
}

const OpInfo::AttributeDef* OpInfo::find(std::string_view attribute) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const AttributeDef& def) { return def.value.name == attribute; });
  return found == attributes.end() ? nullptr : &*found;
}

Result<void> OpRegistry::add(const fe_op_def& def, std::string plugin) {
  FE_TRY(OpInfo info, OpInfo::read(def, std::move(plugin)));
  if (const OpInfo* other = find(info.name)) {
    return error(FE_EINVALID, "FE-G21",
                 "op '{}' of plugin '{}' is already defined by plugin '{}'; enable only one of them",
                 info.name, info.plugin, other->plugin);
  }
  std::string name = info.name;
  ops_.emplace(std::move(name), std::make_unique<const OpInfo>(std::move(info)));
  return {};
}

const OpInfo* OpRegistry::find(std::string_view name) const {
  const auto found = ops_.find(name);
  return found == ops_.end() ? nullptr : found->second.get();
}

std::vector<const OpInfo*> OpRegistry::all() const {
  std::vector<const OpInfo*> result;
  for (const auto& [name, info] : ops_) result.push_back(info.get());
  return result;
}

}  // namespace ferrite::core::graph
