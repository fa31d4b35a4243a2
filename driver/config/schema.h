// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The keys of manifests, descriptors and lock files, described once: the readers check files against it, editors get a JSON
// schema of it, and docs/manifest.md its tables.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/support/toml/keys.h"

namespace ferrite::core::plugin {

/// A kind of file.
struct FileKeys {
  std::string_view name;  ///< "manifest", "descriptor", "lock"
  std::string_view doc;
  const KeyTable* top;
};

/// manifest, descriptor, lock.
std::span<const FileKeys> file_keys();
const KeyTable& manifest_keys();
const KeyTable& descriptor_keys();
const KeyTable& lock_keys();
/// Of one setting in a descriptor's [config].
const KeyTable& declaration_keys();

/// The types that a declaration of a plugin's setting may name.
std::span<const std::string_view> setting_types();

/// JSON schema (draft 2020-12) of a kind of file, ending in a newline.
std::string json_schema(const FileKeys& file);
/// The tables of docs/manifest.md for a kind of file: one for each table of keys, outer ones first.
std::string key_tables_markdown(const FileKeys& file);

}  // namespace ferrite::core::plugin
