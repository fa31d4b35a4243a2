// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading TOML with coded errors at file:line:col: manifests, descriptors, lock files.
#pragma once

// toml++ asserts on some malformed keys ("[[[") that it reports as errors right afterwards. Disable its
// assertions in every build; they must not become assumptions for the optimiser either.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 0  // toml_reader.cpp compiles the implementation
#include <toml++/impl/forward_declarations.h>
#include <toml++/impl/std_string.h>
// The character classes of toml++ reach "unreachable" for some code points outside strings. Such a code point
// is in no class, so return false instead.
#pragma push_macro("TOML_UNREACHABLE")
#undef TOML_UNREACHABLE
#define TOML_UNREACHABLE return false
#include <toml++/impl/unicode.h>
#pragma pop_macro("TOML_UNREACHABLE")
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/support/error.h"
#include "core/support/toml/keys.h"

namespace ferrite::core::plugin {

/// The contents of a small file. FE-M14 if it cannot be read, is no regular file or is larger than 1 MiB.
Result<std::string> read_text_file(const std::string& path);
/// The problem part of such an error, without the advice after it: a caller that names the file has better
/// advice.
inline std::string_view fault_of(const Error& error) {
  return std::string_view(error.text).substr(0, error.text.find(';'));
}
/// FE-M01 for a syntax error, and for keys of more than 64 parts.
Result<toml::table> parse_toml(std::string_view text, const std::string& path);

/// The string in TOML's notation, quoted and escaped.
std::string toml_string(std::string_view text);

/// One table of a file. Call check() first: the getters assume that each key has its declared type.
class TomlTable {
 public:
  /// `context` is the table's name in messages: "", "[plugin.\"acme\"]".
  TomlTable(const toml::table& table, std::string path, std::string context)
      : table_(table), path_(std::move(path)), context_(std::move(context)) {}

  /// Checks the table and its subtables against their description. FE-M02 for an unknown key, with a
  /// suggestion; FE-M03 for a missing key, a value of the wrong type or one that is not among its choices;
  /// FE-M17 for an integer out of range; FE-M04 for a newer schema.
  Result<void> check(const KeyTable& keys) const;

  const toml::table& raw() const { return table_; }
  bool has(std::string_view key) const { return table_.contains(key); }
  /// "file:line:col" of the key's value, or of the table itself if it has no such key.
  std::string place(std::string_view key) const;
  std::string place(const toml::node& node) const;
  std::string key_place(const toml::key& key) const;

  std::optional<std::string> string(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// A list of strings, or one string. If `places` is not null, it receives the position of each element.
  std::vector<std::string> strings(std::string_view key, std::vector<std::string>* places = nullptr) const;
  std::optional<TomlTable> table(std::string_view key) const;
  /// The subtables, by name.
  std::vector<std::pair<std::string, TomlTable>> tables(std::string_view key) const;
  /// The tables of an array of tables.
  std::vector<TomlTable> table_list(std::string_view key) const;

 private:
  Result<void> check_value(const Key& key, const toml::node& node) const;
  Result<void> check_string(const Key& key, const toml::node& node, std::string_view expected) const;
  Result<void> check_strings(const Key& key, const toml::node& node) const;
  Result<void> check_integer(const Key& key, const toml::node& node) const;
  Result<void> check_named(const Key& key, const toml::node& node) const;
  TomlTable inner(std::string_view key, const toml::table& table) const;
  Error wrong_type(std::string_view key, const toml::node& node, std::string_view expected) const;
  std::string name_of(std::string_view key) const;

  const toml::table& table_;
  std::string path_, context_;
};

}  // namespace ferrite::core::plugin
