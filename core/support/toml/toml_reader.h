// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading TOML with coded errors at file:line:col: manifests, descriptors, lock files.
#pragma once

// The parser asserts what some malformed keys ("[[[") break, and goes on to report them as errors: without the assertions, in
// every build, and never as assumptions for the optimiser.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 0  // toml_reader.cpp compiles it
#include <toml++/impl/forward_declarations.h>
#include <toml++/impl/std_string.h>
// Its tests for whitespace and the like run into "unreachable" for some code points outside of strings: those are in no class.
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

/// The text of a small file. FE-M14 where it cannot be read, is no regular file or is larger than 1 MiB.
Result<std::string> read_text_file(const std::string& path);
/// What is wrong, of such an error, without the cure that follows it: whoever names the file has a better one.
inline std::string_view fault_of(const Error& error) {
  return std::string_view(error.text).substr(0, error.text.find(';'));
}
/// FE-M01 for a syntax error, and for keys of more than 64 parts.
Result<toml::table> parse_toml(std::string_view text, const std::string& path);

/// A string as TOML writes it.
std::string toml_string(std::string_view text);

/// One table of a file. check() comes first: what the getters give is then of the type that the key has.
class TomlTable {
 public:
  /// `context` is what messages call the table: "", "[plugin.\"acme\"]".
  TomlTable(const toml::table& table, std::string path, std::string context)
      : table_(table), path_(std::move(path)), context_(std::move(context)) {}

  /// The table and all within it against their description. FE-M02 for a key that is not known, with a suggestion; FE-M03 for
  /// one that is missing, of another type or none of its choices; FE-M17 for an integer out of range; FE-M04 for a newer schema.
  Result<void> check(const KeyTable& keys) const;

  const toml::table& raw() const { return table_; }
  bool has(std::string_view key) const { return table_.contains(key); }
  /// "file:line:col" of the key's value, of the table itself where there is no such key.
  std::string place(std::string_view key) const;
  std::string place(const toml::node& node) const;
  std::string key_place(const toml::key& key) const;

  std::optional<std::string> string(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  /// A list of strings, or one string; the places of the elements go to `places` where it is not null.
  std::vector<std::string> strings(std::string_view key, std::vector<std::string>* places = nullptr) const;
  std::optional<TomlTable> table(std::string_view key) const;
  /// The tables in a table, by name.
  std::vector<std::pair<std::string, TomlTable>> tables(std::string_view key) const;
  /// The tables of a list.
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
