// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys of one table of a TOML file, described once: the reader checks files against them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ferrite::core::plugin {

enum class KeyType : uint8_t {
  integer,
  boolean,
  string,
  strings,            ///< a list of strings
  string_or_strings,  ///< one string, or a list of them
  values,             ///< a list whose elements the caller checks
  value,              ///< any value; the caller checks it
  table,              ///< a table with the keys of `inner`
  named_tables,       ///< a table whose keys are names and whose values have the keys of `inner`
  strings_or_tables,  ///< a list of names, or named_tables
  table_list,         ///< [[key]]: a list of tables with the keys of `inner`
  settings,           ///< a table whose keys a plugin declares
  /// the table in which a plugin declares its settings; `inner` has the keys of one declaration
  declarations,
};

struct KeyTable;

/// One key of a table. `choices` or a range limit its values.
struct Key {
  std::string_view name;
  KeyType type = KeyType::string;
  /// the meaning of a missing key: "required", the default as TOML writes it, or words
  std::string_view absent;
  /// a value as TOML writes it; empty for tables that have their own part of the page
  std::string_view example;
  std::string_view doc;  ///< one or two sentences of Markdown
  std::span<const std::string_view> choices = {};
  int64_t least = INT64_MIN, most = INT64_MAX;  ///< range of an integer, both ends inclusive
  std::string_view pattern = {};  ///< pattern of a string, for editors; the reader's error is more precise
  const KeyTable* inner = nullptr;
  std::string_view goes_with = {};  ///< another key of the same table: both must be present, or neither

  bool required() const { return absent == "required"; }
  bool limited() const { return least != INT64_MIN || most != INT64_MAX; }
};

/// The keys of one table of a file.
struct KeyTable {
  std::string_view title;  ///< the table's name in messages and docs: [plugin."id"]; empty: the whole file
  std::span<const Key> keys;
};

/// The newest schema version that this program reads, for all file formats.
inline constexpr int64_t newest_schema = 0;

}  // namespace ferrite::core::plugin
