// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/config/schema.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

namespace ferrite::core::config {
namespace {

using Json = nlohmann::ordered_json;

/// The key's default, where it is written as in TOML; JSON writes scalars in the same way.
Json default_of(const Key& key) {
  const bool literal = key.absent.starts_with('"') || key.type == KeyType::boolean ||
                       (key.type == KeyType::integer && !key.required());
  return literal ? Json::parse(key.absent, nullptr, false) : Json(Json::value_t::discarded);
}

Json list_of_names(std::span<const std::string_view> names) {
  Json list = Json::array();
  for (auto name : names) list.push_back(name);
  return list;
}

Json string_schema(const Key& key) {
  Json schema = {{"type", "string"}};
  if (!key.choices.empty()) schema["enum"] = list_of_names(key.choices);
  if (!key.pattern.empty()) schema["pattern"] = key.pattern;
  return schema;
}

Json list_of(Json items) { return {{"type", "array"}, {"items", std::move(items)}}; }

Json table_schema(const KeyTable& table);

Json by_name(Json value) { return {{"type", "object"}, {"additionalProperties", std::move(value)}}; }

constexpr const char* declaration_place = "#/$defs/setting";

/// A type, a declaration, or a table of further settings. In such a table `type`, if present, is a setting's
/// name and holds a table.
Json declaration_schema(const KeyTable& declaration) {
  Json group = by_name({{"$ref", declaration_place}});
  group["properties"] = {{"type", {{"type", "object"}, {"$ref", declaration_place}}}};
  return {
      {"anyOf", {{{"enum", list_of_names(setting_types())}}, table_schema(declaration), std::move(group)}}};
}

Json value_schema(const Key& key) {
  switch (key.type) {
    case KeyType::integer: {
      Json schema = {{"type", "integer"}};
      if (key.limited())
        schema.update(Json::parse(fmt::format(R"({{"minimum": {}, "maximum": {}}})", key.least, key.most)));
      return schema;
    }
    case KeyType::boolean: return {{"type", "boolean"}};
    case KeyType::string: return string_schema(key);
    case KeyType::strings: return list_of(string_schema(key));
    case KeyType::string_or_strings: return {{"anyOf", {string_schema(key), list_of(string_schema(key))}}};
    case KeyType::values: return {{"type", "array"}};
    case KeyType::value: return Json::object();
    case KeyType::table: return table_schema(*key.inner);
    case KeyType::named_tables: return by_name(table_schema(*key.inner));
    case KeyType::strings_or_tables:
      return {{"anyOf", {list_of(string_schema(key)), by_name(table_schema(*key.inner))}}};
    case KeyType::table_list: return list_of(table_schema(*key.inner));
    case KeyType::settings: return {{"type", "object"}};
    case KeyType::declarations: return by_name({{"$ref", declaration_place}});
  }
  return Json::object();
}

Json table_schema(const KeyTable& table) {
  Json properties = Json::object(), required = Json::array(), together = Json::object();
  for (const auto& key : table.keys) {
    Json schema = value_schema(key);
    schema["description"] = key.doc;
    if (Json value = default_of(key); !value.is_discarded()) schema["default"] = std::move(value);
    if (!key.example.empty() && key.type == KeyType::string)
      schema["examples"] = Json::array({Json::parse(key.example, nullptr, false)});
    properties[std::string(key.name)] = std::move(schema);
    if (key.required()) required.push_back(key.name);
    if (!key.goes_with.empty()) {
      together[std::string(key.name)] = {key.goes_with};
      together[std::string(key.goes_with)] = {key.name};
    }
  }
  Json schema = {{"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (!together.empty()) schema["dependentRequired"] = std::move(together);
  return schema;
}

std::string joined_choices(const Key& key) {
  std::string text;
  for (size_t k = 0; k < key.choices.size(); ++k)
    text += fmt::format("{}`\"{}\"`",
                        k == 0                        ? ""
                        : k + 1 == key.choices.size() ? " or "
                                                      : ", ",
                        key.choices[k]);
  return text;
}

std::string type_text(const Key& key) {
  switch (key.type) {
    case KeyType::integer:
      // The range of `schema` is a single value, which its description gives.
      return key.limited() && key.least < key.most ? fmt::format("integer, {} to {}", key.least, key.most)
                                                   : std::string("integer");
    case KeyType::boolean: return "true or false";
    case KeyType::string: return key.choices.empty() ? "string" : joined_choices(key);
    case KeyType::strings:
      return key.choices.empty() ? "list of strings" : fmt::format("list of {}", joined_choices(key));
    case KeyType::string_or_strings:
      return key.choices.empty() ? "string or list of them"
                                 : fmt::format("{}, or a list of them", joined_choices(key));
    case KeyType::values: return "list";
    case KeyType::value: return "value of the type";
    case KeyType::strings_or_tables: return "list of strings, or tables by name";
    case KeyType::named_tables: return "tables by name";
    case KeyType::table_list: return "list of tables";
    default: return "table";
  }
}

/// Collects the tables of keys that are reachable from this one, outer ones first, each once.
void collect(const KeyTable& table, std::vector<const KeyTable*>& tables) {
  for (const auto* known : tables)
    if (known == &table) return;
  tables.push_back(&table);
  for (const auto& key : table.keys)
    if (key.inner) collect(*key.inner, tables);
}

}  // namespace

std::string json_schema(const FileKeys& file) {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", file.doc}};
  schema.update(table_schema(*file.top));
  for (const auto& key : file.top->keys)
    if (key.type == KeyType::declarations) schema["$defs"] = {{"setting", declaration_schema(*key.inner)}};
  return schema.dump(2) + "\n";
}

std::string key_tables_markdown(const FileKeys& file) {
  std::vector<const KeyTable*> tables;
  collect(*file.top, tables);
  std::string text;
  for (const auto* table : tables) {
    if (table != tables.front()) text += "\n";
    text += table->title.empty()            ? std::string("Keys of the file:\n\n")
            : table->title.starts_with('[') ? fmt::format("Keys of `{}`:\n\n", table->title)
                                            : fmt::format("Keys of {}:\n\n", table->title);
    text += "| key | type | default | example | what it says |\n| --- | --- | --- | --- | --- |\n";
    for (const auto& key : table->keys) {
      const auto code = [](std::string_view value) { return fmt::format("`{}`", value); };
      const bool literal = !default_of(key).is_discarded();
      text += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.name, type_text(key),
                          literal ? code(key.absent) : std::string(key.absent),
                          key.example.empty() ? std::string() : code(key.example), key.doc);
    }
  }
  return text;
}

}  // namespace ferrite::core::config
