// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "core/plugin/toml_reader.h"

#include <filesystem>
#include <fstream>

#include "core/support/suggest.h"

namespace ferrite::core::plugin {
namespace {

constexpr int64_t newest_schema = 0;
constexpr uintmax_t largest_file = 1 << 20;

std::string position(const std::string& path, const toml::source_region& source) {
  if (!source.begin) return path;
  return fmt::format("{}:{}:{}", path, source.begin.line, source.begin.column);
}

std::string_view type_name(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::error_code failed;
  auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return at(path, error(FE_EINVALID, "FE-M14", "there is no such file"));
  if (!std::filesystem::is_regular_file(status))
    return at(path, error(FE_EINVALID, "FE-M14", "this is no regular file"));
  auto bytes = std::filesystem::file_size(path, failed);
  if (failed || bytes > largest_file)
    return at(path, error(FE_EINVALID, "FE-M14", "the file is larger than {} bytes", largest_file));
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!file || !file.read(text.data(), static_cast<std::streamsize>(bytes)))
    return at(path, error(FE_EINVALID, "FE-M14", "the file cannot be read; check its permissions"));
  return text;
}

Result<toml::table> parse_toml(std::string_view text, const std::string& path) {
  auto parsed = toml::parse(text, path);
  if (!parsed) {
    const auto& fault = parsed.error();
    return at(position(path, fault.source()), error(FE_EINVALID, "FE-M01", "{}", fault.description()));
  }
  return std::move(parsed).table();
}

std::string TomlTable::name_of(std::string_view key) const {
  return context_.empty() ? fmt::format("'{}'", key) : fmt::format("'{}' of {}", key, context_);
}

std::string TomlTable::place(const toml::node& node) const { return position(path_, node.source()); }

std::string TomlTable::key_place(const toml::key& key) const { return position(path_, key.source()); }

std::string TomlTable::place(std::string_view key) const {
  const auto* node = table_.get(key);
  return position(path_, node ? node->source() : table_.source());
}

Error TomlTable::wrong_type(std::string_view key, std::string_view expected) const {
  return at(place(key), error(FE_EINVALID, "FE-M03", "{} must be {}, this is {}", name_of(key), expected,
                              type_name(*table_.get(key))));
}

Result<void> TomlTable::only(std::span<const std::string_view> known) const {
  for (const auto& [key, node] : table_) {
    if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
    auto text = fmt::format("unknown key {}{}", name_of(key.str()), did_you_mean(key.str(), known));
    if (!text.ends_with('?')) text += fmt::format("; known are {}", fmt::join(known, ", "));
    return at(position(path_, key.source()), error(FE_EINVALID, "FE-M02", "{}", text));
  }
  return {};
}

Result<std::optional<std::string>> TomlTable::string(std::string_view key) const {
  const auto* node = table_.get(key);
  if (!node) return std::optional<std::string>();
  if (const auto* value = node->as_string()) {
    if (value->get().find('\0') != std::string::npos)
      return at(place(key), error(FE_EINVALID, "FE-M03", "{} contains a NUL character", name_of(key)));
    return std::optional(value->get());
  }
  return wrong_type(key, "a string");
}

Result<std::optional<int64_t>> TomlTable::integer(std::string_view key) const {
  const auto* node = table_.get(key);
  if (!node) return std::optional<int64_t>();
  if (const auto* value = node->as_integer()) return std::optional(value->get());
  return wrong_type(key, "an integer");
}

Result<std::optional<bool>> TomlTable::boolean(std::string_view key) const {
  const auto* node = table_.get(key);
  if (!node) return std::optional<bool>();
  if (const auto* value = node->as_boolean()) return std::optional(value->get());
  return wrong_type(key, "true or false");
}

Result<std::vector<std::string>> TomlTable::strings(std::string_view key,
                                                    std::vector<std::string>* places) const {
  std::vector<std::string> result;
  const auto* node = table_.get(key);
  if (!node) return result;
  const auto* list = node->as_array();
  if (!list) return wrong_type(key, "a list of strings");
  for (const auto& element : *list) {
    const auto* value = element.as_string();
    if (!value || value->get().find('\0') != std::string::npos)
      return at(place(element),
                error(FE_EINVALID, "FE-M03", "{} must be a list of strings, this element is {}", name_of(key),
                      value ? "a string with a NUL character" : type_name(element)));
    result.push_back(value->get());
    if (places) places->push_back(place(element));
  }
  return result;
}

Result<std::vector<std::string>> TomlTable::string_or_strings(std::string_view key) const {
  const auto* node = table_.get(key);
  if (!node || !node->is_string()) return strings(key);
  FE_TRY(auto text, string(key));
  return std::vector<std::string>{std::move(*text)};
}

Result<std::optional<TomlTable>> TomlTable::table(std::string_view key) const {
  const auto* node = table_.get(key);
  if (!node) return std::optional<TomlTable>();
  const auto* value = node->as_table();
  if (!value) return wrong_type(key, "a table");
  return std::optional<TomlTable>(TomlTable(
      *value, path_, context_.empty() ? fmt::format("[{}]", key) : fmt::format("'{}' of {}", key, context_)));
}

Result<std::string> TomlTable::required_string(std::string_view key) const {
  FE_TRY(auto value, string(key));
  if (!value || value->empty())
    return at(place(key), error(FE_EINVALID, "FE-M03", "the key {} is missing or empty", name_of(key)));
  return *value;
}

Result<void> TomlTable::check_schema() const {
  FE_TRY(auto schema, integer("schema"));
  if (!schema)
    return at(path_ + ":1:1",
              error(FE_EINVALID, "FE-M03", "the key 'schema' is missing; write schema = {}", newest_schema));
  if (*schema < 0 || *schema > newest_schema)
    return at(place("schema"), error(FE_EINVALID, "FE-M04",
                                     "schema {} is unknown to this version, which reads up to {}; "
                                     "use a newer Ferrite, or write the file for schema {}",
                                     *schema, newest_schema, newest_schema));
  return {};
}

}  // namespace ferrite::core::plugin
