// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/settings_read.h"

#include <cmath>

#include "core/ir/graph/print.h"
#include "core/support/suggest.h"
#include "driver/config/schema.h"

namespace ferrite::core::config {
namespace {

using graph::AttributeValue;
using Integers = std::vector<int64_t>;
using Numbers = std::vector<double>;
using Strings = std::vector<std::string>;

constexpr size_t deepest_settings = 16;

/// A TOML value as a setting's value; nothing where settings cannot have such values.
std::optional<AttributeValue> value_of(const toml::node& node) {
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* truth = node.as_boolean()) return truth->get();
  if (const auto* text = node.as_string())
    return has_nul(text->get()) ? std::nullopt : std::optional<AttributeValue>(text->get());
  const auto* list = node.as_array();
  if (!list) return std::nullopt;
  if (list->empty() || list->is_homogeneous(toml::node_type::integer)) {
    Integers integers;
    for (const auto& element : *list) integers.push_back(element.as_integer()->get());
    return integers;
  }
  if (list->is_homogeneous(toml::node_type::floating_point)) {
    Numbers numbers;
    for (const auto& element : *list) numbers.push_back(element.as_floating_point()->get());
    return numbers;
  }
  if (!list->is_homogeneous(toml::node_type::string)) return std::nullopt;
  Strings strings;
  for (const auto& element : *list) {
    if (has_nul(element.as_string()->get())) return std::nullopt;
    strings.push_back(element.as_string()->get());
  }
  return strings;
}

/// Whether a value is of a declared type. An integer is also a number, and an empty list is a list of any
/// type.
bool convert(AttributeValue& value, std::string_view type) {
  if (type == "number" && std::holds_alternative<int64_t>(value))
    value = static_cast<double>(std::get<int64_t>(value));
  if (const auto* list = std::get_if<Integers>(&value)) {
    if (type == "numbers")
      value = Numbers(list->begin(), list->end());
    else if (type == "strings" && list->empty())
      value = Strings();
  }
  return (type == "integer" && std::holds_alternative<int64_t>(value)) ||
         (type == "number" && std::holds_alternative<double>(value)) ||
         (type == "boolean" && std::holds_alternative<bool>(value)) ||
         (type == "string" && std::holds_alternative<std::string>(value)) ||
         (type == "integers" && std::holds_alternative<Integers>(value)) ||
         (type == "numbers" && std::holds_alternative<Numbers>(value)) ||
         (type == "strings" && std::holds_alternative<Strings>(value));
}

std::string_view element_type(std::string_view type) {
  return type == "integers" ? "integer" : type == "numbers" ? "number" : type == "strings" ? "string" : type;
}

/// The reason why one element of a setting's value is invalid, or nothing.
template <class T>
std::string element_fault(const T& value, const DeclaredSetting& declared) {
  const auto text = [](const T& one) { return graph::print_attribute_value(AttributeValue(one)); };
  // Written as negations so that NaN is outside of all limits.
  if (declared.least && !(value >= std::get<T>(*declared.least)))
    return fmt::format("{} is less than {}", text(value), text(std::get<T>(*declared.least)));
  if (declared.most && !(value <= std::get<T>(*declared.most)))
    return fmt::format("{} is greater than {}", text(value), text(std::get<T>(*declared.most)));
  if (declared.choices.empty()) return {};
  Strings choices;
  std::vector<std::string_view> known;  // strings without the quotes that they are printed with
  for (const auto& choice : declared.choices) {
    if (std::get<T>(choice) == value) return {};
    choices.push_back(text(std::get<T>(choice)));
    if constexpr (std::is_same_v<T, std::string>) known.push_back(std::get<T>(choice));
  }
  std::string result = fmt::format("{} is none of {}", text(value), fmt::join(choices, ", "));
  if constexpr (std::is_same_v<T, std::string>) result += did_you_mean(value, known);
  return result;
}

/// The same for a whole value of the declared type.
std::string range_fault(const AttributeValue& value, const DeclaredSetting& declared) {
  return std::visit(
      [&]<class T>(const T& one) -> std::string {
        if constexpr (std::is_same_v<T, Integers> || std::is_same_v<T, Numbers> ||
                      std::is_same_v<T, Strings>) {
          for (const auto& element : one)
            if (auto fault = element_fault(element, declared); !fault.empty()) return fault;
          return {};
        } else if constexpr (std::is_same_v<T, DType>) {
          return {};  // no setting has this type
        } else {
          return element_fault(one, declared);
        }
      },
      value);
}

Error contradiction(std::string place, std::string_view name, std::string text) {
  return at(std::move(place),
            error(FE_EINVALID, "FE-M18", "the declaration of '{}' contradicts itself: {}", name, text));
}

/// A limit, choice or default of the declared type.
Result<AttributeValue> declared_value(const TomlTable& table, const toml::node& node, std::string_view name,
                                      std::string_view type, std::string_view what) {
  auto value = value_of(node);
  if (!value || !convert(*value, type))
    return contradiction(table.place(node), name, fmt::format("{} must be of type {}", what, type));
  return std::move(*value);
}

Result<DeclaredSetting> read_declaration(const TomlTable& table, std::string_view name) {
  DeclaredSetting result;
  result.type = *table.string("type");
  result.doc = table.string("doc").value_or("");
  const auto element = element_type(result.type);
  for (auto [key, limit] : {std::pair{"min", &result.least}, std::pair{"max", &result.most}}) {
    if (!table.has(key)) continue;
    if (element != "integer" && element != "number")
      return contradiction(table.place(key), name, fmt::format("a {} has no '{}'", result.type, key));
    FE_TRY(*limit, declared_value(table, *table.raw().get(key), name, element, fmt::format("'{}'", key)));
    if (const auto* number = std::get_if<double>(&**limit); number && std::isnan(*number))
      return contradiction(table.place(key), name, fmt::format("no number is within a '{}' of nan", key));
  }
  if (result.least && result.most && *result.most < *result.least)
    return contradiction(table.place("max"), name, "'max' is less than 'min'");
  if (const auto* choices = table.raw().get("choices")) {
    if (element == "boolean")
      return contradiction(table.place("choices"), name, "a boolean has no 'choices'");
    for (const auto& choice : *choices->as_array()) {
      FE_TRY(auto value, declared_value(table, choice, name, element, "each of 'choices'"));
      result.choices.push_back(std::move(value));
    }
    if (result.choices.empty()) return contradiction(table.place("choices"), name, "'choices' is empty");
  }
  if (const auto* absent = table.raw().get("default")) {
    FE_TRY(result.absent, declared_value(table, *absent, name, result.type, "'default'"));
    if (auto fault = range_fault(*result.absent, result); !fault.empty())
      return contradiction(table.place("default"), name, "the default " + fault);
  }
  return result;
}

Result<void> read_declarations(const TomlTable& table, const std::string& prefix, size_t depth,
                               Declarations& declared) {
  const auto add = [&](const toml::key& key, const std::string& name,
                       DeclaredSetting setting) -> Result<void> {
    if (declared.emplace(name, std::move(setting)).second) return {};
    return at(
        table.key_place(key),
        error(FE_EINVALID, "FE-M08",
              "the setting '{}' is declared twice, here and by tables within tables; drop one of the two",
              name));
  };
  for (const auto& [key, node] : table.raw()) {
    const std::string name = prefix + std::string(key.str());
    if (key.str().empty())
      return at(table.key_place(key), error(FE_EINVALID, "FE-M03", "a setting has no name; give it one"));
    if (node.is_table() && depth < deepest_settings) {
      const auto inner = *table.table(key.str());
      const auto* type = inner.raw().get("type");
      if (!type || type->is_table()) {
        FE_CHECK(read_declarations(inner, name + ".", depth + 1, declared));
        continue;
      }
      FE_CHECK(inner.check(declaration_keys()));
      FE_TRY(auto setting, read_declaration(inner, name));
      FE_CHECK(add(key, name, std::move(setting)));
      continue;
    }
    const auto types = setting_types();
    const auto* type = node.as_string();
    if (!type || std::find(types.begin(), types.end(), type->get()) == types.end())
      return at(table.place(node),
                error(FE_EINVALID, "FE-M03",
                      "'{}' must be declared with a type, one of {}, or a table that has one{}", name,
                      fmt::join(types, ", "), type ? did_you_mean(type->get(), types) : ""));
    DeclaredSetting setting;
    setting.type = type->get();
    FE_CHECK(add(key, name, std::move(setting)));
  }
  return {};
}

Result<void> read_settings(const TomlTable& table, const std::string& prefix, size_t depth,
                           GivenSettings& given) {
  for (const auto& [key, node] : table.raw()) {
    const std::string name = prefix + std::string(key.str());
    if (node.is_table() && depth < deepest_settings) {
      FE_CHECK(read_settings(*table.table(key.str()), name + ".", depth + 1, given));
      continue;
    }
    auto value = value_of(node);
    if (!value && node.is_string())
      return at(table.place(node),
                error(FE_EINVALID, "FE-M03", "config '{}' contains a NUL character", name));
    if (!value)
      return at(table.place(node), error(FE_EINVALID, "FE-M03",
                                         "config '{}' must be an integer, a number, a truth value, a string, "
                                         "a list of one of integers, numbers or strings, or a table of these",
                                         name));
    GivenSetting setting{std::move(*value), table.key_place(key), table.place(node)};
    if (auto [other, added] = given.emplace(name, setting); !added)
      return at(std::move(setting.key_place),
                error(FE_EINVALID, "FE-M08", "the setting '{}' is already given at {}; drop one of the two",
                      name, other->second.key_place));
  }
  return {};
}

}  // namespace

Result<Declarations> read_declarations(const TomlTable& table) {
  Declarations declared;
  FE_CHECK(read_declarations(table, "", 0, declared));
  return declared;
}

Result<void> read_settings(const TomlTable& table, GivenSettings& given) {
  GivenSettings here;
  FE_CHECK(read_settings(table, "", 0, here));
  for (auto& [name, setting] : here) given.insert_or_assign(name, std::move(setting));
  return {};
}

Result<std::vector<graph::Attribute>> settle_settings(std::string_view plugin, const Declarations& declared,
                                                      const GivenSettings& given) {
  std::vector<graph::Attribute> settled;
  std::vector<std::string_view> known;
  for (const auto& [name, declaration] : declared) known.push_back(name);
  for (const auto& [name, setting] : given) {
    auto found = declared.find(name);
    if (found == declared.end())
      return at(
          setting.key_place,
          error(FE_EINVALID, "FE-M02", "plugin '{}' has no setting '{}'; {}{}", plugin, name,
                known.empty() ? std::string("it has none") : fmt::format("it has {}", fmt::join(known, ", ")),
                did_you_mean(name, known)));
    auto value = setting.value;
    if (!convert(value, found->second.type))
      return at(setting.place, error(FE_EINVALID, "FE-M03", "the setting '{}' of plugin '{}' is of type {}",
                                     name, plugin, found->second.type));
    if (auto fault = range_fault(value, found->second); !fault.empty())
      return at(setting.place,
                error(FE_EINVALID, "FE-M17", "the setting '{}' of plugin '{}': {}", name, plugin, fault));
    settled.push_back({name, std::move(value)});
  }
  for (const auto& [name, declaration] : declared)
    if (declaration.absent && !given.contains(name)) settled.push_back({name, *declaration.absent});
  return settled;
}

}  // namespace ferrite::core::config
