// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#define TOML_IMPLEMENTATION
#include "core/support/toml/toml_reader.h"

#include <filesystem>
#include <fstream>

#include "core/support/suggest.h"

namespace ferrite::core::plugin {
namespace {

constexpr uintmax_t largest_file = 1 << 20;
/// Limits the parts of a key, and so the nesting of tables: toml++ parses, walks and frees nested tables
/// recursively, and a hostile file could overflow the stack.
constexpr size_t longest_key = 64;

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

/// Scans a text and counts the parts of the key at the current position, including the keys of the enclosing
/// tables. The scan ignores syntax errors and goes on: its result counts only if the text parses.
class KeyDepth {
 public:
  explicit KeyDepth(std::string_view text) : text_(text) {}

  /// Moves past the first dot that gives a key more than `most` parts; false if there is none.
  bool find_longer(size_t most) {
    while (next_ < text_.size()) {
      const char c = text_[next_];
      if (c == '"' || c == '\'') {
        skip_string(c);
        continue;
      }
      ++next_;
      if (c == '#')
        next_ = std::min(text_.find('\n', next_), text_.size());
      else if (c == '=')
        in_value_ = true;
      else if (c == '[' || c == '{')
        enter(c == '[' && in_value_);
      else if (c == ']' || c == '}')
        leave();
      else if (c == ',' || c == '\n')
        start_next();
      else if (c == '.' && !in_value_ && ++points_ >= most)  // the point of a number is no part of a key
        return true;
    }
    return false;
  }

  /// "3:17" (line and column, in code points) of the dot that find_longer() moved past.
  std::string place() const {
    const auto before = text_.substr(0, next_ - 1);
    const auto line = before.substr(before.rfind('\n') + 1);
    const auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
    return fmt::format("{}:{}", std::count(before.begin(), before.end(), '\n') + 1,
                       std::count_if(line.begin(), line.end(), begins) + 1);
  }

 private:
  /// A bracket that is open at the current position.
  struct Enclosing {
    size_t points = 0;
    bool is_array = false;  ///< values follow its commas; otherwise keys do
  };

  void enter(bool array) {
    around_.push_back({points_, array});
    in_value_ = array;
  }

  void leave() {
    if (around_.empty()) return;
    points_ = around_.back().points;
    around_.pop_back();
    in_value_ = true;
  }

  void start_next() {
    const Enclosing enclosing = around_.empty() ? Enclosing{} : around_.back();
    points_ = enclosing.points;
    in_value_ = enclosing.is_array;
  }

  void skip_string(char quote) {
    const std::string many(3, quote);
    const bool lines = text_.substr(next_).starts_with(many);
    for (next_ += lines ? 3 : 1; next_ < text_.size(); ++next_) {
      const char c = text_[next_];
      if (c == '\\' && quote == '"') {
        ++next_;
      } else if (lines && text_.substr(next_).starts_with(many)) {
        next_ += 3;
        // A multi-line string may end in up to two quotes of its own before the closing three.
        for (int more = 0; more < 2 && next_ < text_.size() && text_[next_] == quote; ++more) ++next_;
        return;
      } else if (!lines && (c == quote || c == '\n')) {
        next_ += c == quote;
        return;
      }
    }
    next_ = std::min(next_, text_.size());
  }

  std::string_view text_;
  size_t next_ = 0, points_ = 0;
  bool in_value_ = false;
  std::vector<Enclosing> around_;
};

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  std::error_code failed;
  auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status))
    return at(path, error(FE_EINVALID, "FE-M14", "there is no such file; create it, or correct the path"));
  if (!std::filesystem::is_regular_file(status))
    return at(path, error(FE_EINVALID, "FE-M14", "this is no regular file; correct the path"));
  auto bytes = std::filesystem::file_size(path, failed);
  if (failed || bytes > largest_file)
    return at(path, error(FE_EINVALID, "FE-M14", "the file is larger than {} bytes; is it the right one?",
                          largest_file));
  std::ifstream file(path, std::ios::binary);
  std::string text(bytes, '\0');
  if (!file || !file.read(text.data(), static_cast<std::streamsize>(bytes)))
    return at(path, error(FE_EINVALID, "FE-M14", "the file cannot be read; check its permissions"));
  return text;
}

std::string toml_string(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + "\"";
}

Result<toml::table> parse_toml(std::string_view text, const std::string& path) {
  if (KeyDepth depth(text); depth.find_longer(longest_key))
    return at(
        fmt::format("{}:{}", path, depth.place()),
        error(FE_EINVALID, "FE-M01",
              "a key has more than {} parts here, those of the tables around it included; give it fewer",
              longest_key));
  auto parsed = toml::parse(text, path);
  if (!parsed) {
    const auto& fault = parsed.error();
    return at(
        position(path, fault.source()),
        error(FE_EINVALID, "FE-M01", "this is no TOML: {}; correct the syntax here", fault.description()));
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

Error TomlTable::wrong_type(std::string_view key, const toml::node& node, std::string_view expected) const {
  return at(place(node), error(FE_EINVALID, "FE-M03", "{} must be {}, this is {}", name_of(key), expected,
                               type_name(node)));
}

TomlTable TomlTable::inner(std::string_view key, const toml::table& table) const {
  return {table, path_,
          context_.empty() ? fmt::format("[{}]", key) : fmt::format("'{}' of {}", key, context_)};
}

Result<void> TomlTable::check(const KeyTable& keys) const {
  // Check the schema version first: in a file with a newer schema, unknown keys are expected, and the version
  // is the useful error.
  for (const auto& key : keys.keys)
    if (key.name == "schema" && has("schema")) FE_CHECK(check_integer(key, *table_.get("schema")));
  std::vector<std::string_view> known;
  for (const auto& key : keys.keys) known.push_back(key.name);
  for (const auto& [name, node] : table_) {
    auto key = std::find_if(keys.keys.begin(), keys.keys.end(),
                            [&](const Key& one) { return one.name == name.str(); });
    if (key == keys.keys.end()) {
      auto text = fmt::format("unknown key {}{}", name_of(name.str()), did_you_mean(name.str(), known));
      if (!text.ends_with('?')) text += fmt::format("; known are {}", fmt::join(known, ", "));
      return at(key_place(name), error(FE_EINVALID, "FE-M02", "{}", text));
    }
    FE_CHECK(check_value(*key, node));
  }
  for (const auto& key : keys.keys)
    if (key.required() && !has(key.name)) {
      // A table that only has subtables ([a.b] without [a]) has no position of its own.
      auto where = context_.empty() ? path_ + ":1:1" : place(key.name);
      return at(std::move(where),
                error(FE_EINVALID, "FE-M03", "the key {} is missing; write {} = {}", name_of(key.name),
                      key.name, key.example.empty() ? "..." : key.example));
    }
  return {};
}

Result<void> TomlTable::check_value(const Key& key, const toml::node& node) const {
  switch (key.type) {
    case KeyType::integer: return check_integer(key, node);
    case KeyType::boolean:
      if (!node.is_boolean()) return wrong_type(key.name, node, "true or false");
      return {};
    case KeyType::string: return check_string(key, node, "a string");
    case KeyType::strings: return check_strings(key, node);
    case KeyType::string_or_strings:
      return node.is_string() ? check_string(key, node, "a string") : check_strings(key, node);
    case KeyType::value: return {};
    case KeyType::values:
      if (!node.is_array()) return wrong_type(key.name, node, "a list");
      return {};
    case KeyType::table:
      if (!node.is_table()) return wrong_type(key.name, node, "a table");
      return inner(key.name, *node.as_table()).check(*key.inner);
    case KeyType::named_tables:
      if (!node.is_table()) return wrong_type(key.name, node, "a table");
      return check_named(key, node);
    case KeyType::strings_or_tables:
      return node.is_table() ? check_named(key, node) : check_strings(key, node);
    case KeyType::table_list:
      if (!node.is_array()) return wrong_type(key.name, node, "a list of tables");
      for (const auto& element : *node.as_array()) {
        if (!element.is_table()) return wrong_type(key.name, element, "a list of tables");
        FE_CHECK(inner(key.name, *element.as_table()).check(*key.inner));
      }
      return {};
    case KeyType::settings:
    case KeyType::declarations:
      if (!node.is_table()) return wrong_type(key.name, node, "a table");
      return {};
  }
  return {};
}

Result<void> TomlTable::check_string(const Key& key, const toml::node& node,
                                     std::string_view expected) const {
  const auto* value = node.as_string();
  if (!value) return wrong_type(key.name, node, expected);
  const auto& text = value->get();
  if (text.find('\0') != std::string::npos)
    return at(place(node), error(FE_EINVALID, "FE-M03", "{} contains a NUL character", name_of(key.name)));
  if (key.required() && text.empty())
    return at(place(node), error(FE_EINVALID, "FE-M03", "{} is empty", name_of(key.name)));
  if (!key.choices.empty() && std::find(key.choices.begin(), key.choices.end(), text) == key.choices.end())
    return at(place(node), error(FE_EINVALID, "FE-M03", "{} is \"{}\", not \"{}\"{}", name_of(key.name),
                                 fmt::join(key.choices, "\" or \""), text, did_you_mean(text, key.choices)));
  return {};
}

Result<void> TomlTable::check_strings(const Key& key, const toml::node& node) const {
  const auto* list = node.as_array();
  if (!list)
    return wrong_type(key.name, node,
                      key.type == KeyType::strings             ? "a list of strings"
                      : key.type == KeyType::string_or_strings ? "a string or a list of strings"
                                                               : "a list of strings, or a table");
  for (const auto& element : *list) FE_CHECK(check_string(key, element, "a list of strings"));
  return {};
}

Result<void> TomlTable::check_integer(const Key& key, const toml::node& node) const {
  const auto* value = node.as_integer();
  if (!value) return wrong_type(key.name, node, "an integer");
  const int64_t number = value->get();
  if (key.name == "schema" && (number < key.least || number > key.most))
    return at(place(node), error(FE_EINVALID, "FE-M04",
                                 "schema {} is unknown to this version, which reads up to {}; "
                                 "use a newer Ferrite, or write the file for schema {}",
                                 number, key.most, key.most));
  if (number < key.least || number > key.most)
    return at(place(node), error(FE_EINVALID, "FE-M17", "{} is {} to {}, not {}", name_of(key.name),
                                 key.least, key.most, number));
  return {};
}

Result<void> TomlTable::check_named(const Key& key, const toml::node& node) const {
  const TomlTable outer = inner(key.name, *node.as_table());
  for (const auto& [name, element] : outer.raw()) {
    if (!element.is_table()) return outer.wrong_type(name.str(), element, "a table");
    const TomlTable named = outer.inner(name.str(), *element.as_table());
    auto checked = named.check(*key.inner);
    if (checked) continue;
    // [plugin.acme.fuse] is a table 'fuse' in 'acme'.
    const auto unquoted = [&](const auto& inner) {
      return inner.second.is_table() && checked.error().code == "FE-M02" &&
             checked.error().where == named.key_place(inner.first) && !checked.error().text.ends_with('?');
    };
    const auto& tables = named.raw();
    if (auto found = std::find_if(tables.begin(), tables.end(), unquoted); found != tables.end())
      checked.error().text += fmt::format("; write a name that has points in quotes: [{}.\"{}.{}\"]",
                                          key.name, name.str(), found->first.str());
    return checked;
  }
  return {};
}

std::optional<std::string> TomlTable::string(std::string_view key) const {
  const auto* value = table_.get_as<std::string>(key);
  return value ? std::optional(value->get()) : std::nullopt;
}

std::optional<int64_t> TomlTable::integer(std::string_view key) const {
  const auto* value = table_.get_as<int64_t>(key);
  return value ? std::optional(value->get()) : std::nullopt;
}

std::optional<bool> TomlTable::boolean(std::string_view key) const {
  const auto* value = table_.get_as<bool>(key);
  return value ? std::optional(value->get()) : std::nullopt;
}

std::vector<std::string> TomlTable::strings(std::string_view key, std::vector<std::string>* places) const {
  std::vector<std::string> result;
  const auto add = [&](const toml::node& node) {
    result.push_back(node.as_string()->get());
    if (places) places->push_back(place(node));
  };
  const auto* node = table_.get(key);
  if (node && node->is_string()) add(*node);
  if (node && node->is_array())
    for (const auto& element : *node->as_array()) add(element);
  return result;
}

std::optional<TomlTable> TomlTable::table(std::string_view key) const {
  const auto* value = table_.get_as<toml::table>(key);
  return value ? std::optional(inner(key, *value)) : std::nullopt;
}

std::vector<std::pair<std::string, TomlTable>> TomlTable::tables(std::string_view key) const {
  std::vector<std::pair<std::string, TomlTable>> result;
  if (auto outer = table(key))
    for (const auto& [name, node] : outer->raw())
      result.emplace_back(std::string(name.str()), outer->inner(name.str(), *node.as_table()));
  return result;
}

std::vector<TomlTable> TomlTable::table_list(std::string_view key) const {
  std::vector<TomlTable> result;
  if (const auto* list = table_.get_as<toml::array>(key))
    for (const auto& element : *list) result.push_back(inner(key, *element.as_table()));
  return result;
}

}  // namespace ferrite::core::plugin
