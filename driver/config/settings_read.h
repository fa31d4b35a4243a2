// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The settings of plugins: their declarations in descriptors, their values in manifests, and whether the two
// match.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/support/error.h"
#include "core/support/toml/toml_reader.h"

namespace ferrite::core::config {

using namespace ferrite::core::plugin;

/// One setting as its descriptor declares it.
struct DeclaredSetting {
  std::string type;                                          ///< one of setting_types()
  std::optional<graph::AttributeValue> least, most, absent;  ///< `absent`: the value where none is given
  std::vector<graph::AttributeValue> choices;                ///< empty: any value
  std::string doc;
};
using Declarations = std::map<std::string, DeclaredSetting, std::less<>>;

/// A setting as a manifest gives it.
struct GivenSetting {
  graph::AttributeValue value;
  std::string key_place, place;  ///< file:line:col of the key and of the value
};
using GivenSettings = std::map<std::string, GivenSetting, std::less<>>;

/// Reads [config] of a descriptor; names of nested settings are joined by dots. FE-M03 for an invalid
/// declaration; FE-M18 for one that contradicts itself: a limit or default of another type, or a default
/// outside of its limits. FE-M08 for a setting that is declared twice, `a = { b = ... }` and `"a.b" = ...`.
Result<Declarations> read_declarations(const TomlTable& table);

/// Adds the settings of a manifest's `config` table; they override earlier ones. FE-M03 for values that no
/// setting can have, FE-M08 for a setting that the table gives twice.
Result<void> read_settings(const TomlTable& table, GivenSettings& given);

/// The settings for `plugin` by name: those given, checked, and the defaults of the others. FE-M02 for an
/// undeclared setting, FE-M03 for another type, FE-M17 for a value outside of the limits or choices.
Result<std::vector<graph::Attribute>> settle_settings(std::string_view plugin, const Declarations& declared,
                                                      const GivenSettings& given);

}  // namespace ferrite::core::config
