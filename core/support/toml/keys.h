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
  values,             ///< a list whose elements somebody else checks
  value,              ///< anything; somebody else checks it
  table,              ///< with the keys of `inner`
  named_tables,       ///< a table whose keys are names and whose values have the keys of `inner`
  strings_or_tables,  ///< a list of names, or named_tables
  table_list,         ///< [[key]]: a list of tables with the keys of `inner`
  settings,           ///< a table whose keys a plugin declares
  declarations,       ///< the table in which it declares them; `inner` has the keys of one declaration
};

struct KeyTable;

/// One key. `choices` or a range limit what it takes.
struct Key {
  std::string_view name;
  KeyType type = KeyType::string;
  std::string_view absent;   ///< what holds without it: "required", a value as TOML writes it, or words
  std::string_view example;  ///< a value as TOML writes it; of tables that have their own page part: empty
  std::string_view doc;      ///< one sentence or two, as Markdown
  std::span<const std::string_view> choices = {};
  int64_t least = INT64_MIN, most = INT64_MAX;  ///< of integers, both inclusive
  std::string_view pattern = {};                ///< of strings, for editors; the reader says more
  const KeyTable* inner = nullptr;
  std::string_view goes_with = {};  ///< another key of the table: both stand there, or neither

  bool required() const { return absent == "required"; }
  bool limited() const { return least != INT64_MIN || most != INT64_MAX; }
};

/// The keys of one table of a file.
struct KeyTable {
  std::string_view title;  ///< as messages and docs call it: [plugin."id"]; empty: the whole file
  std::span<const Key> keys;
};

/// The newest version of all forms that this program reads.
inline constexpr int64_t newest_schema = 0;

}  // namespace ferrite::core::plugin
