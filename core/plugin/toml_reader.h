// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading TOML with coded errors at file:line:col: manifests and descriptors.
#pragma once

// The parser asserts what some malformed keys ("[[[") break, and goes on to report them as errors: without the assertions, in
// every build, and never as assumptions for the optimiser.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/support/error.h"

namespace ferrite::core::plugin {

/// The text of a small file. FE-M14 where it cannot be read, is no regular file or is larger than 1 MiB.
Result<std::string> read_text_file(const std::string& path);
/// FE-M01 for a syntax error.
Result<toml::table> parse_toml(std::string_view text, const std::string& path);

/// One table of a file, read key by key.
class TomlTable {
 public:
  /// `context` is what messages call the table: "", "[plugin.\"acme\"]".
  TomlTable(const toml::table& table, std::string path, std::string context)
      : table_(table), path_(std::move(path)), context_(std::move(context)) {}

  /// FE-M02 for a key that is none of these, with a suggestion.
  Result<void> only(std::span<const std::string_view> known) const;

  const toml::table& raw() const { return table_; }
  bool has(std::string_view key) const { return table_.contains(key); }
  /// "file:line:col" of the key's value, of the table itself where there is no such key.
  std::string place(std::string_view key) const;
  std::string place(const toml::node& node) const;
  std::string key_place(const toml::key& key) const;

  // FE-M03 where the value is of another type.
  Result<std::optional<std::string>> string(std::string_view key) const;
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  /// A list of strings; the places of the elements go to `places` where it is not null.
  Result<std::vector<std::string>> strings(std::string_view key,
                                           std::vector<std::string>* places = nullptr) const;
  /// A list of strings, or one string.
  Result<std::vector<std::string>> string_or_strings(std::string_view key) const;
  Result<std::optional<TomlTable>> table(std::string_view key) const;
  /// FE-M03 where it is missing, as well.
  Result<std::string> required_string(std::string_view key) const;

  /// `schema` must be there and be one that this build reads: FE-M03, FE-M04.
  Result<void> check_schema() const;

 private:
  Error wrong_type(std::string_view key, std::string_view expected) const;
  std::string name_of(std::string_view key) const;

  const toml::table& table_;
  std::string path_, context_;
};

}  // namespace ferrite::core::plugin
