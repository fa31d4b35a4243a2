// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The settings of plugins: what a descriptor declares, what a manifest gives, and whether the two fit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/graph/types.h"
#include "core/support/error.h"
#include "core/support/toml/toml_reader.h"

namespace ferrite::core::plugin {

/// One setting as its descriptor declares it.
struct DeclaredSetting {
  std::string type;                                          ///< one of setting_types()
  std::optional<graph::AttributeValue> least, most, absent;  ///< `absent`: what holds where nothing is given
  std::vector<graph::AttributeValue> choices;                ///< empty: any
  std::string doc;
};
using Declarations = std::map<std::string, DeclaredSetting, std::less<>>;

/// A setting as a manifest gives it.
struct GivenSetting {
  graph::AttributeValue value;
  std::string key_place, place;  ///< file:line:col of the key and of the value
};
using GivenSettings = std::map<std::string, GivenSetting, std::less<>>;

/// Reads [config] of a descriptor; names of nested settings are joined by points. FE-M03 for what is no declaration,
/// FE-M18 for one that contradicts itself: a limit or default of another type, or a default that it would refuse. FE-M08 for one
/// that is there twice, `a = { b = ... }` and `"a.b" = ...`.
Result<Declarations> read_declarations(const TomlTable& table);

/// Adds what a `config` table of a manifest says; over what was said before. FE-M03 for values that no setting has,
/// FE-M08 for a setting that the table gives twice.
Result<void> read_settings(const TomlTable& table, GivenSettings& given);

/// What `plugin` is handed: the settings given, checked, and the defaults of the others, by name. FE-M02 for a setting that
/// is not declared, FE-M03 for another type, FE-M17 for a value beyond the limits or none of the choices.
Result<std::vector<graph::Attribute>> settle_settings(std::string_view plugin, const Declarations& declared,
                                                      const GivenSettings& given);

}  // namespace ferrite::core::plugin
